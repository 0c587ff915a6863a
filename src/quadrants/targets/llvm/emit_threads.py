"""Threads of blocks that run at once on a device (`ir/threads.py`): grid loops, memory of the block, meetings.

What a device has for it are functions of its support (`SYMBOLS`); all else is said here.
"""

from __future__ import annotations

import math

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Op, walk
from quadrants.ir.threads import SHARED_ALIGNMENT, block_size, is_threads_loop, shared_places, threads_loop_of
from quadrants.ir.types import ArrayType
from quadrants.passes.fold import number_of
from quadrants.records import Record
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.arrays import ArrayAccess
from quadrants.targets.llvm.emit_control import DISPATCH, Handler, write_region
from quadrants.targets.llvm.emit_control import HANDLERS as CONTROL
from quadrants.targets.llvm.scalars import memory_type, register_type
from quadrants.targets.llvm.writer import Loop, Writer, scalar

__all__ = [
    "BLOCK",
    "MULTIPLE",
    "SYMBOLS",
    "BlockOfThreads",
    "asked_memory",
    "block_of",
    "threads_for",
    "write_blocks",
    "write_fence",
]

BLOCK = 256
"""Threads of a block that is launched for a plain loop, at most, where the user does not say how many."""

MULTIPLE = 32
"""Blocks of plain loops have a multiple of so many threads, where there is more than one iteration."""

_MOST_FIXED = 1 << 22
"""Iterations, at most, of which each has a thread of its own where constants say how many they are."""

_ASKED = "qd_asked"
"""The memory that a launch asks for beside what kernels declare."""

SYMBOLS = ("qd_place", "qd_block", "qd_blocks", "qd_barrier", "qd_shuffle", "qd_ballot", "qd_team_barrier")
"""Functions of a device: `i64 @qd_place()`, the thread's number in its block; `i64 @qd_block()` and `i64 @qd_blocks()`, the block's
number and how many were launched; `void @qd_barrier(i1 whole)`, where all threads of a block that have not ended wait for one
another, and see what they wrote (whole: surely all that were launched are among them); `i32 @qd_shuffle(i64 members, i32 value, i32 lane)`: the value of the subgroup's thread `lane`, one of the
`members`, who all are there; `i64 @qd_ballot(i64 members, i1 vote)`, the bits of those for whom the vote holds; `void @qd_team_barrier(i64 members)`, where they
wait for one another, and see what they wrote."""


class BlockOfThreads(Record):
    """The blocks that a task is launched in: how many threads they have (at most, unless `whole`), and whether each is one iteration
    of the task's loop (`whole`). `iterations`: how many a plain loop has, where each has a thread of its own, in blocks of just
    `threads`; else 0."""

    threads: int
    whole: bool
    iterations: int = 0


def block_of(task: Task) -> BlockOfThreads:
    """The blocks that a task is launched in."""
    threads = threads_loop_of(task.loop)
    if threads is not None:
        return BlockOfThreads(threads.attributes["threads"], True)
    config = task.loop.attribute("config") or {}
    most = block_size(task.loop) if config.get("block_dim") else BLOCK
    count = task.iterations
    if count is None or not 0 < count <= _MOST_FIXED:
        return BlockOfThreads(most, False)
    return BlockOfThreads(threads_for(count, most), False, count)


def threads_for(count: int, most: int) -> int:
    """The threads of a plain loop's blocks, for so many iterations."""
    return min(-(-count // MULTIPLE) * MULTIPLE, most) if count > 1 else 1


def asked_memory(task: Task, declared: int | None) -> int:
    """The bytes of shared memory that a launch of a task asks for; 0 where the kernel declares what its blocks share: that may be as
    many as `declared` says, any number where it is None."""
    size = shared_places([_bytes(op) for op in _shared_ops(task.loop)])[1]
    return size if declared is not None and size > declared else 0


def _shared_ops(loop: Op) -> list[Op]:
    return [op for op in walk(loop.regions[0]) if op.kind == "shared"]


def _bytes(op: Op) -> int:
    type_ = op.results[0].type
    assert type(type_) is ArrayType
    return math.prod(type_.trailing) * type_.scalar.bytes


def write_blocks(writer: Writer, loop: Op, own: dict[str, Handler], asks: bool) -> None:
    """A grid loop: each block that was launched takes a block of the loop, then the one that lies as many further as there are
    blocks. Law: no thread begins with the next one before all are done with the memory of this one; those who are not in
    the last block have none after it, and end. `own`: what writes operations of the device's own; `asks`: whether the launch asks for
    the memory that a block shares (`asked_memory`)."""
    writer.handlers = {**DISPATCH, **_HANDLERS, **own}
    if asks:
        writer.handlers["shared"] = _part_of_asked(writer, _shared_ops(loop))
    _, high = (writer.name(bound) for bound in loop.operands[:2])
    first, step = writer.call("i64", "qd_block", "", ""), writer.call("i64", "qd_blocks", "", "")
    head, inside, latch, more, done = (writer.new_label() for _ in range(5))
    start = writer.label
    writer.branch(writer.assign(f"icmp slt i64 {first}, {high}"), head, done)
    writer.begin(head)
    number, phi = writer.fresh(), writer.reserve()
    writer.jump(inside)
    writer.begin(inside)
    writer.names[loop.regions[0].arguments[0]] = number
    around = Loop(latch, done)
    writer.loops.append(around)
    values = write_region(writer, loop.regions[0])
    writer.loops.pop()
    if values is not None:
        writer.jump(latch)
    writer.begin(latch)
    following = writer.assign(f"add nsw i64 {number}, {step}")
    writer.branch(writer.assign(f"icmp slt i64 {following}, {high}"), more, done)
    writer.begin(more)
    writer.call("void", "qd_barrier", "i1 true", "i1")
    writer.jump(head, writer.one_by_one())
    writer.fill_phi(phi, number, "i64", [(first, start), (following, more)])
    writer.begin(done)


def _for(writer: Writer, op: Op) -> None:
    if not is_threads_loop(op):
        CONTROL["for"](writer, op)
        return
    thread, width = writer.call("i64", "qd_place", "", ""), op.operands[1]
    inside, after = writer.new_label(), writer.new_label()
    whole = number_of(width) == op.attributes["threads"]
    writer.handlers = {**writer.handlers, "barrier": _barrier if whole else _barrier_of_those_there}
    if whole:
        writer.jump(inside)
    else:
        writer.branch(writer.assign(f"icmp slt i64 {thread}, {writer.name(width)}"), inside, after)
    writer.begin(inside)
    writer.names[op.regions[0].arguments[0]] = thread
    writer.loops.append(Loop(after, after))
    values = write_region(writer, op.regions[0])
    writer.loops.pop()
    if values is not None:
        writer.jump(after)
    writer.begin(after)


def _shared(writer: Writer, op: Op) -> None:
    (value,), unit = op.results, writer.unit
    type_ = value.type
    assert type(type_) is ArrayType
    count = math.prod(type_.trailing)
    name = f"qd.shared.{len(unit.constants)}"
    memory = f"[{count} x {memory_type(type_.scalar)}]"
    alignment = max(SHARED_ALIGNMENT, type_.scalar.bytes)
    unit.constants.append(f"@{name} = internal unnamed_addr addrspace(3) global {memory} undef, align {alignment}")
    pointer = f"addrspacecast (ptr addrspace(3) @{name} to ptr)"
    writer.arrays[value] = ArrayAccess(writer, type_, pointer, writer.alias_scope())


def _part_of_asked(writer: Writer, ops: list[Op]) -> Handler:
    """What writes those operations: all arrays lie in the one that a module has for what launches ask for."""
    places = dict(zip(ops, shared_places([_bytes(op) for op in ops])[0]))
    declared = f"@{_ASKED} = external addrspace(3) global [0 x i8], align {SHARED_ALIGNMENT}"
    if declared not in writer.unit.constants:
        writer.unit.constants.append(declared)

    def part(writer: Writer, op: Op) -> None:
        (value,) = op.results
        assert type(value.type) is ArrayType
        where = f"getelementptr (i8, ptr addrspace(3) @{_ASKED}, i64 {places[op]})"
        pointer = f"addrspacecast (ptr addrspace(3) {where} to ptr)"
        writer.arrays[value] = ArrayAccess(writer, value.type, pointer, writer.alias_scope())

    return part


def _barrier(writer: Writer, op: Op) -> None:
    writer.call("void", "qd_barrier", "i1 true", "i1")


def _barrier_of_those_there(writer: Writer, op: Op) -> None:
    writer.call("void", "qd_barrier", "i1 false", "i1")


def write_fence(writer: Writer, op: Op) -> None:
    """`fence`, in LLVM's words."""
    scope = writer.program.fences[op.attributes["scope"]]
    writer.line(f'fence syncscope("{scope}") seq_cst')


def _members(writer: Writer, op: Op, position: int) -> str:
    """Who is there: all, where the operation does not say."""
    return writer.name(op.operands[position]) if len(op.operands) > position else "-1"


def _is_member(writer: Writer, members: str, lane: str, size: int) -> str:
    """Whether a lane, or what is left of it modulo the subgroup's size, is there; in 32 bits where these suffice."""
    within = writer.assign(f"and i32 {lane}, {size - 1}")
    if size > 32:
        moved = writer.assign(f"lshr i64 {members}, {writer.assign(f'zext i32 {within} to i64')}")
        return writer.assign(f"trunc i64 {moved} to i1")
    moved = writer.assign(f"lshr i32 {writer.assign(f'trunc i64 {members} to i32')}, {within}")
    return writer.assign(f"trunc i32 {moved} to i1")


def _shuffle(writer: Writer, op: Op) -> None:
    (value, source), width, size = op.operands[:2], op.attributes["width"], writer.program.subgroup
    if not 1 < width <= size:
        raise QuadrantsInternalError(f"a shuffle of {width} threads on a device with subgroups of {size}")
    own, asked, members = writer.name(value), writer.name(source), _members(writer, op, 2)
    place = writer.assign(f"trunc i64 {writer.call('i64', 'qd_place', '', '')} to i32")
    lane = writer.assign(f"and i32 {place}, {size - 1}")
    first = writer.assign(f"and i32 {lane}, {-width}")
    at = writer.assign(f"add i32 {first}, {writer.assign(f'trunc i64 {asked} to i32')}")
    there = writer.assign(f"icmp ult i64 {asked}, {width}")
    if members != "-1":
        there = writer.assign(f"and i1 {there}, {_is_member(writer, members, at, size)}")
    narrow = writer.assign(f"select i1 {there}, i32 {at}, i32 {lane}")
    register = register_type(scalar(value))
    bits = {"float": 32, "double": 64}.get(register) or int(register[1:])
    word = own if register[0] == "i" else writer.assign(f"bitcast {register} {own} to i{bits}")
    found = _moved(writer, word, bits, narrow, members)
    result = found if register[0] == "i" else writer.assign(f"bitcast i{bits} {found} to {register}")
    writer.names[op.results[0]] = writer.assign(f"select i1 {there}, {register} {result}, {register} {own}")


def _moved(writer: Writer, word: str, bits: int, lane: str, members: str) -> str:
    """Bits of another thread, word by word."""

    def one(value: str) -> str:
        arguments = f"i64 {members}, i32 {value}, i32 {lane}"
        return writer.call("i32", "qd_shuffle", arguments, "i64, i32, i32")

    if bits == 32:
        return one(word)
    if bits < 32:
        return writer.assign(f"trunc i32 {one(writer.assign(f'zext i{bits} {word} to i32'))} to i{bits}")
    low = one(writer.assign(f"trunc i64 {word} to i32"))
    high = one(writer.assign(f"trunc i64 {writer.assign(f'lshr i64 {word}, 32')} to i32"))
    wide = writer.assign(f"shl nuw i64 {writer.assign(f'zext i32 {high} to i64')}, 32")
    return writer.assign(f"or disjoint i64 {wide}, {writer.assign(f'zext i32 {low} to i64')}")


def _ballot(writer: Writer, op: Op) -> None:
    if op.attributes["width"] != writer.program.subgroup:
        raise QuadrantsInternalError(f"a ballot of {op.attributes['width']} threads, not of a subgroup")
    arguments = f"i64 {_members(writer, op, 1)}, i1 {writer.name(op.operands[0])}"
    writer.names[op.results[0]] = writer.call("i64", "qd_ballot", arguments, "i64, i1")


def _team_barrier(writer: Writer, op: Op) -> None:
    if op.attributes["width"] != writer.program.subgroup:
        raise QuadrantsInternalError(f"a barrier of {op.attributes['width']} threads, not of a subgroup")
    writer.call("void", "qd_team_barrier", f"i64 {_members(writer, op, 0)}", "i64")


_HANDLERS: dict[str, Handler] = {
    "for": _for,
    "team_barrier": _team_barrier,
    "shared": _shared,
    "fence": write_fence,
    "shuffle": _shuffle,
    "ballot": _ballot,
}
