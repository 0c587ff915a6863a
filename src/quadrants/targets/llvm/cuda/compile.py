"""Lowered modules to PTX, and what NVIDIA's GPUs can do, by their `sm` number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from quadrants.ir.nodes import Module
from quadrants.records import Record
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.tasks import Task, parallel_loops, task_of
from quadrants.targets.frame import Frame
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.cuda.words import WORDS
from quadrants.targets.llvm.emit_device import emit_tasks

__all__ = ["SM", "Compiled", "compile_tasks", "generation", "machine_of", "record_of", "tasks_of"]

VERSION = "1"
SM = (75, 80, 86, 87, 89, 90, 100, 120)
"""The processors that code is made for; newer ones of a family run the code of older ones."""
_DTYPES = frozenset(["u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"])


class Compiled(Record):
    """PTX of a kernel's tasks (`code`): their symbols, their frames, what message and print ids stand for."""

    code: str
    symbols: tuple[str, ...]
    frames: tuple[Frame, ...]
    messages: dict[int, Message]
    prints: dict[int, PrintFormat]
    llvm_text: str


def generation(sm: int) -> int:
    """The newest processor of the list whose code runs on another. ValueError where there is none."""
    known = [number for number in SM if number <= sm]
    if not known:
        raise ValueError(f"sm_{sm} is too old: code is made for sm_{SM[0]} and newer")
    return known[-1]


@lru_cache(maxsize=16)
def machine_of(sm: int) -> optimise.Machine:
    """A processor in LLVM's words. The PTX version is the oldest that knows all of a family, for old drivers' sake."""
    version = "+ptx87" if sm >= 100 else "+ptx83"
    return optimise.Machine("nvptx64-nvidia-cuda", f"sm_{sm}", version, decides_on_vectors=False, has_vectors=False)


@lru_cache(maxsize=16)
def record_of(sm: int) -> CapabilityRecord:
    """The capability record of a processor."""
    return CapabilityRecord(
        name="cuda",
        version=f"cuda-{VERSION}/sm_{sm}",
        dtypes=_DTYPES,
        float_atomics=frozenset(["f16", "f32", "f64", *(["bf16"] if sm >= 90 else [])]),
        fused_multiply_add=True,
        threads=False,
        launches=True,
        subgroup_sizes=(32,),
        shared_memory_bytes=48 * 1024,
        exact_remainder=False,
    )


def tasks_of(module: Module) -> list[Task]:
    """The tasks of a lowered module, in program order."""
    return [task_of(loop, f"{module.entry}.task.{k}") for k, loop in enumerate(parallel_loops(module))]


def compile_tasks(module: Module, tasks: Sequence[Task], sm: int, level: int = 2, verify: bool = False) -> Compiled:
    """Compiles tasks and the functions that they call to PTX."""
    machine = machine_of(sm)
    header = f'target datalayout = "{optimise.data_layout(machine)}"\ntarget triple = "{machine.triple}"\n'
    made = emit_tasks(module, tasks, record_of(sm), header, "", WORDS)
    ptx = optimise.assembly(made.text, machine, level, verify)
    return Compiled(ptx, made.symbols, made.frames, made.messages, made.prints, made.text)
