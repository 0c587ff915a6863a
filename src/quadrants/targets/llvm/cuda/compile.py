"""Lowered modules to PTX, and what NVIDIA's GPUs can do, by their `sm` number."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import lru_cache

from quadrants.ir.nodes import Module
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.compiling import DTYPES
from quadrants.targets.llvm.cuda.words import WORDS
from quadrants.targets.llvm.emit_device import CompiledTasks, emit_tasks

__all__ = [
    "SM",
    "WARPGROUPS",
    "AskedProducts",
    "compile_tasks",
    "generation",
    "machine_of",
    "record_of",
    "uses_warpgroups",
]

VERSION = "3"
SM = (75, 80, 86, 87, 89, 90, 100, 120)
"""The processors that code is made for; newer ones of a family run the code of older ones."""


def generation(sm: int) -> int:
    """The newest processor of the list whose code runs on another. ValueError where there is none."""
    known = [number for number in SM if number <= sm]
    if not known:
        raise ValueError(f"sm_{sm} is too old: code is made for sm_{SM[0]} and newer")
    return known[-1]


WARPGROUPS = 90
"""The processor whose warpgroups multiply matrices in shared memory. Code that does runs on no other, not on newer ones either."""


_SHARED = frozenset(["f16", "bf16", "tf32"])


class AskedProducts(Container[str]):
    """`shared_products` of a GPU that is asked when a kernel would use one, and not before: the probe may cost the process its GPU."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask

    def __contains__(self, kind: object) -> bool:
        return kind in _SHARED and self._ask()


def uses_warpgroups(ptx: str) -> bool:
    """Whether compiled tasks have warpgroups multiply."""
    return "wgmma." in ptx


@lru_cache(maxsize=16)
def machine_of(sm: int, warpgroups: bool = False) -> optimise.Machine:
    """A processor in LLVM's words. The PTX version is the oldest that knows all of a family, for old drivers' sake: 8.1, of CUDA 12.1, has
    kernels with more than 4 KiB of parameters."""
    version = "+ptx87" if sm >= 100 else "+ptx81"
    name = _processor(sm, warpgroups)
    return optimise.Machine("nvptx64-nvidia-cuda", name, version, decides_on_vectors=False, has_vectors=False)


def _processor(sm: int, warpgroups: bool) -> str:
    return f"sm_{sm}a" if warpgroups else f"sm_{sm}"


SHARED_MEMORY = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 120: 99}
"""KiB that a block shares at most, where a launch asks for them. The driver is asked what it is on the GPU at hand."""


@lru_cache(maxsize=16)
def record_of(sm: int, warpgroups: bool = False, shared_memory: int | None = None) -> CapabilityRecord:
    """The capability record of a processor. `warpgroups`: its warpgroups multiply, and are known to do so rightly (probe.py);
    `shared_memory`: the bytes that a block shares at most, where the GPU says so."""
    shared = SHARED_MEMORY[sm] << 10 if shared_memory is None else shared_memory
    if warpgroups and sm != WARPGROUPS:
        raise ValueError(
            f"warpgroups of sm_{sm} do not multiply matrices in shared memory: those of sm_{WARPGROUPS} do"
        )
    return CapabilityRecord(
        name="cuda",
        version=f"cuda-{VERSION}/{_processor(sm, warpgroups)}/{shared}",
        dtypes=DTYPES,
        float_atomics=frozenset(["f16", "f32", "f64", *(["bf16"] if sm >= 90 else [])]),
        fused_multiply_add=True,
        threads=False,
        block_threads=1024,
        launches=True,
        subgroup_sizes=(32,),
        shared_memory_bytes=shared,
        tensor_products=frozenset(["f16", "bf16", "tf32"] if sm >= 80 else []),
        asynchronous_copies=sm >= 80,
        shared_products=_SHARED if warpgroups else frozenset[str](),
        exact_remainder=False,
    )


def compile_tasks(
    module: Module, tasks: Sequence[Task], sm: int, level: int = 2, verify: bool = False, warpgroups: bool = False
) -> CompiledTasks:
    """Compiles tasks and the functions that they call to PTX."""
    machine = machine_of(sm, warpgroups)
    made = emit_tasks(module, tasks, record_of(sm, warpgroups), optimise.header(machine), WORDS)
    return CompiledTasks(**vars(made), code=optimise.assembly(made.text, machine, level, verify, True))
