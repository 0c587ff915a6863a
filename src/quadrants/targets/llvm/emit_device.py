"""Tasks of a device (targets/device/tasks.py) to one LLVM module: a kernel each, with the functions that they call.

A kernel is `void task(frame)`: every thread takes an iteration of the flattened loop, then the one that lies as many
further as there are threads; where constants say how many there are, each has a thread of its own. The innermost dimension runs fastest, so neighbouring threads reach neighbours in memory. A grid loop's
blocks are blocks of the device (`emit_threads.py`).
What a device's instruction set says is told by `DeviceWords`; all else is the emitter that CPUs have, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.nodes import Module, Op, walk
from quadrants.records import Record, fresh
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, frame_layout
from quadrants.targets.llvm import emit_functions, emit_threads
from quadrants.targets.llvm.emit import call_groups, facts
from quadrants.targets.llvm.emit_control import Handler, write_region
from quadrants.targets.llvm.emit_functions import FrameWriter
from quadrants.targets.llvm.emit_parallel import op_may_fail
from quadrants.targets.llvm.emit_threads import BlockOfThreads, block_of
from quadrants.targets.llvm.writer import Loop, Unit

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
    opening: the first lines of kernels, which make `%frame` of the parameter where it is not that itself. handlers: what writes
    operations that the device alone has.
    The others are the fields of those names of `Program`.
    """

    convention: str
    frame: str
    attributes: str
    support: str
    supported: tuple[str, ...]
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
    """The LLVM text (`text`) of all tasks, their symbols in order, their frames, what message and print ids stand for, and whether
    functions call themselves, directly or through others."""

    text: str
    symbols: tuple[str, ...]
    frames: tuple[Frame, ...]
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
    for number, task in enumerate(tasks):
        location = task.function.location
        symbols.append(f"task{number}" + (f"_line{location.line}" if location is not None else ""))
        frames.append(frame_layout(task.function))
        if module.kernel.attributes.get("may_alias"):
            program.may_alias.add(task.function.name)
        _write_task(unit, task, frames[-1], symbols[-1], words)
    text = header + words.support + QUOTIENT + unit.text()
    return DeviceModule(text, tuple(symbols), tuple(frames), unit.messages, unit.prints, _is_recursive(module, groups))


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


def _write_task(unit: Unit, task: Task, frame: Frame, symbol: str, words: DeviceWords) -> None:
    writer = DeviceTaskWriter(unit, task.function, frame)
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
        emit_threads.write_blocks(writer, loop, words.handlers)
    elif block.iterations:
        _write_one_iteration(writer, task, block)
    else:
        _write_iterations(writer, task)
    writer.line("ret void")
    parameter = words.frame.replace("{size}", str(max(frame.size, 8)))
    sizes = {"threads": str(block.threads), "least": str(block.threads if block.whole or block.iterations else 1)}
    attributes = f"{unit.program.define_attributes} {words.attributes.format(**sizes)}".strip()
    writer.finish(f"define {words.convention} void @{symbol}({parameter}) {attributes}")


def _write_one_iteration(writer: DeviceTaskWriter, task: Task, block: BlockOfThreads) -> None:
    """The iteration that has the thread's number, in 32 bits; extents are constants, so nothing is divided by what is read."""
    lows, extents = _lows_and_extents(writer, task)
    number = writer.assign(f"trunc i64 {writer.call('i64', 'qd_place', '', '')} to i32")
    if block.iterations > block.threads:
        group = writer.assign(f"trunc i64 {writer.call('i64', 'qd_block', '', '')} to i32")
        start = writer.assign(f"mul nuw nsw i32 {group}, {block.threads}")
        number = writer.assign(f"add nuw nsw i32 {start}, {number}")
    done = writer.new_label()
    if block.iterations % block.threads:
        enter = writer.new_label()
        writer.branch(writer.assign(f"icmp ult i32 {number}, {block.iterations}"), enter, done)
        writer.begin(enter)
    narrow: list[str] = []
    for extent in reversed(extents[1:]):
        narrow.insert(0, writer.assign(f"urem i32 {number}, {extent}"))
        number = writer.assign(f"udiv i32 {number}, {extent}")
    digits = [writer.assign(f"zext i32 {digit} to i64") for digit in [number, *narrow]]
    _write_body(writer, task.loop, lows, digits, done)
    writer.jump(done)
    writer.begin(done)


def _write_body(writer: DeviceTaskWriter, loop: Op, lows: Sequence[str], digits: Sequence[str], done: str) -> None:
    """What an iteration does; all its ways lead to the block that is begun last."""
    around = Loop(writer.new_label(), done)
    for low, digit, argument in zip(lows, digits, loop.regions[0].arguments):
        writer.names[argument] = digit if low == "0" else writer.assign(f"add nsw i64 {low}, {digit}")
    writer.loops.append(around)
    values = write_region(writer, loop.regions[0])
    writer.loops.pop()
    if values is not None:
        writer.jump(around.continue_label)
    writer.begin(around.continue_label)


def _lows_and_extents(writer: DeviceTaskWriter, task: Task) -> tuple[list[str], list[str]]:
    """Of the loop's dimensions: numbers, where they are constants."""
    loop, bounds = task.loop, task.bounds
    rank = len(bounds) // 2
    names = [writer.name(value) if number is None else str(number) for value, number in zip(loop.operands, bounds)]
    extents: list[str] = []
    for k, (low, high) in enumerate(zip(bounds[:rank], bounds[rank:])):
        if low is None or high is None:
            extents.append(_extent(writer, names[k], names[rank + k]))
        else:
            extents.append(str(max(high - low, 0)))
    return names[:rank], extents


def _write_iterations(writer: DeviceTaskWriter, task: Task) -> None:
    """A loop over the thread's iterations. The counters of the first one are decoded from its place, the innermost fastest; those of
    the next ones, which lie as many iterations further as there are threads, are carried on, without a division."""
    lows, extents = _lows_and_extents(writer, task)
    total = extents[0]
    for extent in extents[1:]:
        total = writer.assign(f"mul nsw i64 {total}, {extent}")
    first = writer.call("i64", "qd_thread", "", "")
    threads = writer.call("i64", "qd_threads", "", "")
    enter, head, done = writer.new_label(), writer.new_label(), writer.new_label()
    writer.branch(writer.assign(f"icmp slt i64 {first}, {total}"), enter, done)
    writer.begin(enter)
    digits = _digits(writer, first, extents)
    steps = _steps(writer, threads, total, extents)
    start = writer.label
    writer.jump(head)
    writer.begin(head)
    places = [(writer.fresh(), writer.reserve()) for _ in extents]
    _write_body(writer, task.loop, lows, [digit for digit, _ in places], done)
    following = _carried_on(writer, [digit for digit, _ in places], steps, extents)
    more = writer.assign(f"icmp slt i64 {following[0]}, {extents[0]}")
    latch = writer.label
    writer.lines.append(f"  br i1 {more}, label {head}, label {done}{writer.one_by_one()}")
    for (name, at), one, other in zip(places, digits, following):
        writer.fill_phi(at, name, "i64", [(one, start), (other, latch)])
    writer.begin(done)


def _digits(writer: DeviceTaskWriter, place: str, extents: Sequence[str]) -> list[str]:
    """The counters, from 0, of the iteration at a place."""
    found: list[str] = []
    for extent in reversed(extents[1:]):
        quotient = writer.call("i64", "qd_quotient", f"i64 {place}, i64 {extent}", "i64, i64")
        found.insert(0, writer.assign(f"sub nsw i64 {place}, {writer.assign(f'mul nsw i64 {quotient}, {extent}')}"))
        place = quotient
    return [place, *found]


def _steps(writer: DeviceTaskWriter, threads: str, total: str, extents: Sequence[str]) -> list[str]:
    """The counters of as many iterations as there are threads; where no thread takes a second one, such that it ends."""
    if len(extents) == 1:
        return [threads]
    several, after = writer.new_label(), writer.new_label()
    start = writer.label
    writer.branch(writer.assign(f"icmp slt i64 {threads}, {total}"), several, after)
    writer.begin(several)
    steps = _digits(writer, threads, extents)
    end = writer.label
    writer.jump(after)
    writer.begin(after)
    ends = [extents[0], *["0"] * (len(extents) - 1)]
    return [writer.phi("i64", [(last, start), (step, end)]) for last, step in zip(ends, steps)]


def _carried_on(
    writer: DeviceTaskWriter, digits: Sequence[str], steps: Sequence[str], extents: Sequence[str]
) -> list[str]:
    """Digits of a place and of a step added up; the first one is too large where there is no such iteration. Law: a sum of two
    other digits and 1 is less than twice the extent."""
    found: list[str] = []
    over = ""
    for k in range(len(digits) - 1, -1, -1):
        total = writer.assign(f"add nsw i64 {digits[k]}, {steps[k]}")
        if over:
            total = writer.assign(f"add nsw i64 {total}, {writer.assign(f'zext i1 {over} to i64')}")
        if k:
            over = writer.assign(f"icmp sge i64 {total}, {extents[k]}")
            less = writer.assign(f"sub nsw i64 {total}, {extents[k]}")
            total = writer.assign(f"select i1 {over}, i64 {less}, i64 {total}")
        found.insert(0, total)
    return found


def _extent(writer: DeviceTaskWriter, low: str, high: str) -> str:
    extent = high if low == "0" else writer.assign(f"sub nsw i64 {high}, {low}")
    return writer.call("i64", "llvm.smax.i64", f"i64 {extent}, i64 0", "i64, i64")
