"""Tasks of a device (targets/device/tasks.py) to one LLVM module: a kernel each, with the functions that they call.

A kernel is `void task(frame)`: every thread takes an iteration of the flattened loop, then the one that lies as many
further as there are threads; where constants say how many there are, each has a thread of its own. The innermost dimension runs fastest, so neighbouring threads reach neighbours in memory. A grid loop's
blocks are blocks of the device (`emit_threads.py`).
What a device's instruction set says is told by `DeviceWords`; all else is the emitter that CPUs have, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.nodes import Module, walk
from quadrants.records import Record, fresh
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, frame_layout
from quadrants.targets.llvm import emit_functions, emit_threads
from quadrants.targets.llvm.emit import call_groups, facts
from quadrants.targets.llvm.emit_control import Handler
from quadrants.targets.llvm.emit_functions import FrameWriter
from quadrants.targets.llvm.emit_iterations import write_iterations, write_one_iteration
from quadrants.targets.llvm.emit_parallel import op_may_fail
from quadrants.targets.llvm.emit_threads import asked_memory, block_of
from quadrants.targets.llvm.writer import Unit

__all__ = ["QUOTIENT", "CompiledTasks", "DeviceModule", "DeviceWords", "emit_tasks"]


QUOTIENT = """
define internal i64 @qd_quotient(i64 %a, i64 %b) alwaysinline nounwind memory(none) {
  %both = or i64 %a, %b
  %high = lshr i64 %both, 32
  %small = icmp eq i64 %high, 0
  br i1 %small, label %narrow, label %wide
narrow:
  %an = trunc i64 %a to i32
  %bn = trunc i64 %b to i32
  %qn = udiv i32 %an, %bn
  %qw = zext i32 %qn to i64
  ret i64 %qw
wide:
  %q = udiv i64 %a, %b
  ret i64 %q
}
"""
"""The quotient of numbers that are not negative: GPUs take several times as long for one of 64 bits."""


class DeviceWords(Record):
    """How a device spells what CPUs do not have.

    convention: LLVM's word for kernels; frame: the kernel's parameter `%frame`, with {size} for its bytes; attributes: end
    the `define` line of kernels, with {threads} for those that a block has at most, {least} at least. support: LLVM text of the functions `i64 @qd_thread()` and `i64 @qd_threads()` (the number of
    this thread among all of the launch, and how many they are), `void @qd_fail(i64, ptr, i64)`, `void @qd_print(ptr, i64)`,
    `i1 @qd_failed()` (whether a check of this or an earlier task failed), and those of `emit_threads.SYMBOLS`; `supported`: the
    symbols defined there.
    declared_memory: the bytes that a block shares, at most, where its kernel declares them: of more a launch asks for all. None: all is declared.
    opening: the first lines of kernels, which make `%frame` of the parameter where it is not that itself. handlers: what writes
    operations that the device alone has.
    The others are the fields of those names of `Program`.
    """

    convention: str
    frame: str
    attributes: str
    support: str
    supported: tuple[str, ...]
    declared_memory: int | None = None
    opening: tuple[str, ...] = ()
    stack_space: int = 0
    constant_space: int = 0
    atomic_scope: str = ""
    assembly_registers: dict[str, str] = fresh(dict[str, str])
    sum_annotations: str = ""
    subgroup: int = 1
    fences: dict[str, str] = fresh(dict[str, str])
    handlers: dict[str, Handler] = fresh(dict[str, "Handler"])


class DeviceModule(Record):
    """The LLVM text (`text`) of all tasks, their symbols in order, their frames, the bytes of shared memory that their launches ask
    for, what message and print ids stand for, and whether functions call themselves, directly or through others."""

    text: str
    symbols: tuple[str, ...]
    frames: tuple[Frame, ...]
    asked: tuple[int, ...]
    messages: dict[int, Message]
    prints: dict[int, PrintFormat]
    is_recursive: bool


class CompiledTasks(DeviceModule):
    """Tasks with their `code`, which the driver loads."""

    code: Any


class DeviceTaskWriter(FrameWriter):
    """The kernel of one task."""

    def fail(self) -> None:
        self.line("ret void")

    def leave(self, values: list[str], types: list[object]) -> None:
        self.line("ret void")


def emit_tasks(
    module: Module, tasks: Sequence[Task], record: CapabilityRecord, header: str, words: DeviceWords
) -> DeviceModule:
    """Emits tasks and the functions of the module that they reach; stage 'lowered'."""
    groups = _reached(module, tasks)
    program = facts(module, groups, record, "")
    program.stack_space, program.constant_space = words.stack_space, words.constant_space
    program.assembly_registers = words.assembly_registers
    program.atomic_scope, program.sum_annotations = words.atomic_scope, words.sum_annotations
    program.subgroup, program.fences = words.subgroup, words.fences
    unit = Unit(program)
    unit.defined.update([*words.supported, "qd_quotient"])
    for group in groups:
        for name in group:
            program.symbols[name] = symbol = f"function{len(program.symbols)}"
            unit.defined.add(symbol)
    for group in groups:
        for name in group:
            emit_functions.write_function(unit, module.functions[name], program.symbols[name], "internal ")
    symbols: list[str] = []
    frames: list[Frame] = []
    asked = tuple([asked_memory(task, words.declared_memory) for task in tasks])
    for number, task in enumerate(tasks):
        location = task.function.location
        symbols.append(f"task{number}" + (f"_line{location.line}" if location is not None else ""))
        frames.append(frame_layout(task.function))
        if module.kernel.attributes.get("may_alias"):
            program.may_alias.add(task.function.name)
        _write_task(unit, task, frames[-1], symbols[-1], words, asked[number] > 0)
    text = header + words.support + QUOTIENT + unit.text()
    made = (text, tuple(symbols), tuple(frames), asked, unit.messages, unit.prints)
    return DeviceModule(*made, _is_recursive(module, groups))


def _is_recursive(module: Module, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a group is a circle: of several functions, or of one that calls itself."""
    return any(len(group) > 1 for group in groups) or any(
        op.attributes.get("callee") == name for (name, *_) in groups for op in walk(module.functions[name].body)
    )


def _reached(module: Module, tasks: Sequence[Task]) -> list[list[str]]:
    """The functions that tasks call, in groups that call one another in circles, callees first."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        whole = Module(task.function.name, module.stage)
        whole.functions = {name: function for name, function in module.functions.items() if name != module.entry}
        whole.add(task.function)
        for group in call_groups(whole):
            if task.function.name not in group:
                found.setdefault(group[0], group)
    return list(found.values())


def _write_task(unit: Unit, task: Task, frame: Frame, symbol: str, words: DeviceWords, asks: bool) -> None:
    writer = DeviceTaskWriter(unit, task.function, frame)
    if not writer.may_alias:  # GPUs have a way of their own to read what nobody writes
        writer.constant_arrays = task.constant_arrays
    writer.prologue.extend(["  " + line for line in words.opening])
    loop = task.loop
    if op_may_fail(unit.program, loop):
        stopped, go = writer.new_label(), writer.new_label()
        writer.branch(writer.call("i1", "qd_failed", "", ""), stopped, go)
        writer.begin(stopped)
        writer.line("ret void")
        writer.begin(go)
    block = block_of(task)
    if block.whole:
        emit_threads.write_blocks(writer, loop, words.handlers, asks)
    elif block.iterations:
        write_one_iteration(writer, task, block)
    else:
        write_iterations(writer, task)
    writer.line("ret void")
    parameter = words.frame.replace("{size}", str(max(frame.size, 8)))
    sizes = {"threads": str(block.threads), "least": str(block.threads if block.whole or block.iterations else 1)}
    attributes = f"{unit.program.define_attributes} {words.attributes.format(**sizes)}".strip()
    writer.finish(f"define {words.convention} void @{symbol}({parameter}) {attributes}")
