"""Lowered modules to code objects, and what AMD's GPUs can do, by the names of their processors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Module
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.callees import callees_first
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.amdgpu import lld
from quadrants.targets.llvm.amdgpu.metadata import Usage, usage
from quadrants.targets.llvm.amdgpu.words import words_of
from quadrants.targets.llvm.compiling import DTYPES
from quadrants.targets.llvm.emit_device import CompiledTasks, DeviceModule, emit_tasks

__all__ = ["FLOAT_ATOMICS", "PROCESSORS", "Compiled", "compile_tasks", "emit", "machine_of", "record_of", "supported"]

VERSION = "1"
PROCESSORS = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1201": 32}
"""The processors that code is made for, and the threads of their waves."""
FLOAT_ATOMICS = {
    "gfx90a": frozenset(["f64"]),
    "gfx942": frozenset(["f32", "f64"]),
    "gfx1100": frozenset(["f32"]),
    "gfx1201": frozenset(["f32"]),
}
"""The floats whose sums are single atomic instructions that keep denormals: those of f32 on gfx90a do not, and are not used."""

_INTRINSICS = re.compile(
    r"llvm\.(?:"
    r"amdgcn\.(?:workitem\.id\.x|workgroup\.id\.x|implicitarg\.ptr|s\.barrier|wave\.barrier|ds\.bpermute|ballot\.i(?:32|64))"
    r"|(?:sqrt|fabs|floor|ceil|trunc|roundeven|copysign|fma)\.(?:f32|f64)"
    r"|(?:min|max)(?:num|imum|imumnum)\.(?:f32|f64)"
    r"|(?:abs|smin|smax|umin|umax|ctpop|ctlz|cttz|bitreverse|bswap|fshl|fshr)\.i(?:8|16|32|64)"
    r"|(?:sadd|ssub|smul|uadd|usub|umul)\.with\.overflow\.i(?:8|16|32|64)"
    r"|fpto[su]i\.sat\.i(?:1|8|16|32|64)\.(?:f32|f64)"
    r"|lifetime\.(?:start|end)\.p5"
    r")$"
)
"""What LLVM is known to make code of for every one of the processors. Of some others it makes none, and ends the process."""


class Compiled(CompiledTasks):
    """Tasks with their code object, and what each takes of a GPU."""

    usage: tuple[Usage, ...]


def supported(processor: str) -> str:
    """The processor that code is made for, of a driver's name for one (`gfx90a:sramecc+:xnack-`). ValueError where there is none."""
    name = processor.partition(":")[0]
    if name not in PROCESSORS:
        raise ValueError(f"no code is made for the GPU {name}: only for {', '.join(PROCESSORS)}")
    return name


@lru_cache(maxsize=16)
def machine_of(processor: str) -> optimise.Machine:
    """A processor in LLVM's words."""
    return optimise.Machine("amdgcn-amd-amdhsa", processor, "", decides_on_vectors=False, has_vectors=False)


@lru_cache(maxsize=16)
def record_of(processor: str) -> CapabilityRecord:
    """The capability record of a processor."""
    return CapabilityRecord(
        name="amdgpu",
        version=f"amdgpu-{VERSION}/{processor}",
        dtypes=DTYPES,
        float_atomics=FLOAT_ATOMICS[processor],
        fused_multiply_add=True,
        threads=False,
        block_threads=1024,
        launches=True,
        subgroup_sizes=(PROCESSORS[processor],),
        shared_memory_bytes=64 * 1024,
        exact_remainder=False,
    )


def emit(module: Module, tasks: Sequence[Task], processor: str) -> DeviceModule:
    """The LLVM text of tasks and the functions that they call. The stack of a thread is as large as its kernel says, and
    nothing tells where it ends: recursion is refused."""
    callees_first(module, tasks, "on AMD's GPUs")
    header, words = optimise.header(machine_of(processor)), words_of(PROCESSORS[processor])
    made = emit_tasks(module, tasks, record_of(processor), header, words)
    for name in sorted(set(re.findall(r"@(llvm\.[\w.]+)\(", made.text))):
        if not _INTRINSICS.match(name):
            raise QuadrantsInternalError(f"the intrinsic {name} is not known to be one of AMD's GPUs")
    return made


def compile_tasks(
    module: Module, tasks: Sequence[Task], processor: str, level: int = 2, verify: bool = False
) -> Compiled:
    """Compiles tasks and the functions that they call to a code object."""
    made = emit(module, tasks, processor)
    code = lld.link(optimise.compile_text(made.text, machine_of(processor), level, verify))
    found = {kernel.symbol: kernel for kernel in usage(code)}
    taken = tuple([found[symbol] for symbol in made.symbols])
    return Compiled(**vars(made), code=code, usage=taken)
