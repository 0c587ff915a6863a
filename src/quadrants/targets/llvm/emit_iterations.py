"""The iterations that a device's thread takes of a plain parallel loop."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType
from quadrants.records import Record, replace
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.emit_control import write_region
from quadrants.targets.llvm.emit_threads import BlockOfThreads
from quadrants.targets.llvm.writer import Loop, Writer

__all__ = ["write_iterations", "write_one_iteration"]

_TURNS = 4
"""Iterations of a thread whose loads are under way at once: memory that is far away is asked for more before it answers."""
_MOST_LOADS = 10
_MOST_OPERATIONS = 48
"""Loads and operations of an iteration, at most, of which several are written at once: what they load lies in registers."""
_WRITES = frozenset({"store", "update"})


def write_one_iteration(writer: Writer, task: Task, block: BlockOfThreads) -> None:
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


def _write_body(writer: Writer, loop: Op, lows: Sequence[str], digits: Sequence[str], done: str) -> None:
    """What an iteration does; all its ways lead to the block that is begun last."""
    around = Loop(writer.new_label(), done)
    writer.names.update(zip(loop.regions[0].arguments, _counters(writer, lows, digits)))
    writer.loops.append(around)
    values = write_region(writer, loop.regions[0])
    writer.loops.pop()
    if values is not None:
        writer.jump(around.continue_label)
    writer.begin(around.continue_label)


def _is_memory(array: Value) -> bool:
    return type(array.type) is ArrayType and array.type.has_descriptor


def _parts(op: Op) -> list[Op]:
    """An update that is not atomic as a load, a value and a store."""
    by = op.attribute("by")
    if op.kind != "update" or op.attribute("atomic", True) or by == "exchange":
        return [op]
    operand, *place = op.operands
    load = Op("load", tuple(place), (operand.type,), location=op.location)
    load.results = op.results  # an update gives the old value, too
    value = Op(by, (load.results[0], operand), (operand.type,), location=op.location)
    return [load, value, Op("store", (value.results[0], *place), location=op.location)]


def _counters(writer: Writer, lows: Sequence[str], digits: Sequence[str]) -> list[str]:
    """The counters of an iteration that lies so far from the first one."""
    return [digit if low == "0" else writer.assign(f"add nsw i64 {low}, {digit}") for low, digit in zip(lows, digits)]


def _lows_and_extents(writer: Writer, task: Task) -> tuple[list[str], list[str]]:
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


def write_iterations(writer: Writer, task: Task) -> None:
    """A loop over the thread's iterations. The counters of the first one are decoded from its place, the innermost fastest; those of
    the next ones, which lie as many iterations further as there are threads, are carried on, without a division. As long as there
    are several left, what they load is under way at once (`_Abreast`)."""
    lows, extents = _lows_and_extents(writer, task)
    total = extents[0]
    for extent in extents[1:]:
        total = writer.assign(f"mul nsw i64 {total}, {extent}")
    first = writer.call("i64", "qd_thread", "", "")
    threads = writer.call("i64", "qd_threads", "", "")
    enter, done = writer.new_label(), writer.new_label()
    writer.branch(writer.assign(f"icmp slt i64 {first}, {total}"), enter, done)
    writer.begin(enter)
    digits = _digits(writer, first, extents)
    places = _Places(digits, _steps(writer, threads, total, extents), extents, total, threads)
    abreast = _Abreast.of(writer, task.loop)
    if abreast is not None:
        digits = _write_abreast(writer, abreast, lows, places, done)
    head, start = writer.new_label(), writer.label
    writer.jump(head)
    writer.begin(head)
    phis = [(writer.fresh(), writer.reserve()) for _ in extents]
    _write_body(writer, task.loop, lows, [digit for digit, _ in phis], done)
    following = _carried_on(writer, [digit for digit, _ in phis], places, "i64")
    more = writer.assign(f"icmp slt i64 {following[0]}, {extents[0]}")
    latch = writer.label
    writer.lines.append(f"  br i1 {more}, label {head}, label {done}{writer.one_by_one()}")
    for (name, at), one, other in zip(phis, digits, following):
        writer.fill_phi(at, name, "i64", [(one, start), (other, latch)])
    writer.begin(done)


class _Places(Record):
    """Where a thread is in a loop's dimensions: the counters of its first iteration, what leads on to the next, and the extents; `total`
    iterations for all `threads`."""

    digits: Sequence[str]
    steps: Sequence[str]
    extents: Sequence[str]
    total: str
    threads: str

    def narrow(self, writer: Writer) -> _Places:
        """The same in 32 bits."""
        parts = [[_narrow(writer, name) for name in names] for names in (self.digits, self.steps, self.extents)]
        return replace(self, digits=parts[0], steps=parts[1], extents=parts[2])


def _narrow(writer: Writer, name: str) -> str:
    return name if name.isdecimal() else writer.assign(f"trunc i64 {name} to i32")


def _write_abreast(writer: Writer, abreast: _Abreast, lows: Sequence[str], places: _Places, done: str) -> list[str]:
    """The loop over as many iterations at once as there are left; gives the counters of the first that is left over, where there is
    one. Its counters have 32 bits, for loops of fewer than 2 to the 31 iterations: those that a thread has not got come to less than
    2 to the 32."""
    enter, head, inside, single = (writer.new_label() for _ in range(4))
    several = writer.assign(f"icmp slt i64 {places.threads}, {places.total}")
    fits = writer.assign(f"icmp ult i64 {places.total}, {1 << 31}")
    before = writer.label
    writer.branch(writer.assign(f"and i1 {several}, {fits}"), enter, single)
    writer.begin(enter)
    small = places.narrow(writer)
    start = writer.label
    writer.jump(head)
    writer.begin(head)
    phis = [(writer.fresh(), writer.reserve()) for _ in places.extents]
    turns = [[digit for digit, _ in phis]]
    while len(turns) < _TURNS:
        turns.append(_carried_on(writer, turns[-1], small, "i32"))
    there = writer.assign(f"icmp ult i32 {turns[-1][0]}, {small.extents[0]}")
    left = [writer.assign(f"zext i32 {digit} to i64") for digit in turns[0]]
    writer.branch(there, inside, single)
    writer.begin(inside)
    wide = [[writer.assign(f"zext i32 {digit} to i64") for digit in turn] for turn in turns]
    abreast.write([_counters(writer, lows, turn) for turn in wide])
    following = _carried_on(writer, turns[-1], small, "i32")
    more = writer.assign(f"icmp ult i32 {following[0]}, {small.extents[0]}")
    latch = writer.label
    writer.lines.append(f"  br i1 {more}, label {head}, label {done}{writer.one_by_one()}")
    for (name, at), one, other in zip(phis, small.digits, following):
        writer.fill_phi(at, name, "i32", [(one, start), (other, latch)])
    writer.begin(single)
    return [writer.phi("i64", [(digit, before), (one, head)]) for digit, one in zip(places.digits, left)]


class _Abreast:
    """Several iterations of a loop at once: what does not wait for what they write is written first, for all of them. Iterations of
    a parallel loop may do what they do in any order."""

    def __init__(self, writer: Writer, loop: Op, early: Sequence[Op], late: Sequence[Op]) -> None:
        self.writer = writer
        self.arguments = loop.regions[0].arguments
        self._early, self._late = Block(), Block()
        end = loop.regions[0].ops[-1]
        self._early.ops, self._late.ops = [*early, end], [*late, end]

    @classmethod
    def of(cls, writer: Writer, loop: Op) -> _Abreast | None:
        """Of a loop of short straight lines that load something."""
        ops = [part for op in loop.regions[0].ops[:-1] for part in _parts(op)]
        loads = sum(op.kind == "load" for op in ops)
        if not 0 < loads <= _MOST_LOADS or sum(op.kind not in ("constant", "dim") for op in ops) > _MOST_OPERATIONS:
            return None
        early, late = list[Op](), list[Op]()
        waiting = set[Value]()
        for op in ops:
            is_load = op.kind == "load" and _is_memory(op.operands[0])
            if op.regions or not (is_load or op.kind in _WRITES or OPS[op.kind].effects == "pure"):
                return None
            waits = op.kind in _WRITES or not waiting.isdisjoint(op.operands)
            if waits or (is_load and late and op.operands[0] not in writer.constant_arrays):
                late.append(op)
                waiting.update(op.results)
            else:
                early.append(op)
        return cls(writer, loop, early, late)

    def write(self, counters: Sequence[Sequence[str]]) -> None:
        """Iterations with these counters."""
        writer, known = self.writer, list[dict[Value, str]]()
        for own in counters:
            writer.names.update(zip(self.arguments, own))
            write_region(writer, self._early)
            results = [result for op in self._early.ops for result in op.results if result in writer.names]
            known.append({value: writer.names[value] for value in (*self.arguments, *results)})
        for names in known:
            writer.names.update(names)
            write_region(writer, self._late)


def _digits(writer: Writer, place: str, extents: Sequence[str]) -> list[str]:
    """The counters, from 0, of the iteration at a place."""
    found: list[str] = []
    for extent in reversed(extents[1:]):
        quotient = writer.call("i64", "qd_quotient", f"i64 {place}, i64 {extent}", "i64, i64")
        found.insert(0, writer.assign(f"sub nsw i64 {place}, {writer.assign(f'mul nsw i64 {quotient}, {extent}')}"))
        place = quotient
    return [place, *found]


def _steps(writer: Writer, threads: str, total: str, extents: Sequence[str]) -> list[str]:
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


def _carried_on(writer: Writer, digits: Sequence[str], places: _Places, type_: str) -> list[str]:
    """Digits of a place and of a step added up; the first one is too large where there is no such iteration. Law: a sum of two
    other digits and 1 is less than twice the extent."""
    found: list[str] = []
    over = ""
    for k in range(len(digits) - 1, -1, -1):
        total = writer.assign(f"add nuw {type_} {digits[k]}, {places.steps[k]}")
        if over:
            total = writer.assign(f"add nuw {type_} {total}, {writer.assign(f'zext i1 {over} to {type_}')}")
        if k:
            over = writer.assign(f"icmp uge {type_} {total}, {places.extents[k]}")
            less = writer.assign(f"sub {type_} {total}, {places.extents[k]}")
            total = writer.assign(f"select i1 {over}, {type_} {less}, {type_} {total}")
        found.insert(0, total)
    return found


def _extent(writer: Writer, low: str, high: str) -> str:
    extent = high if low == "0" else writer.assign(f"sub nsw i64 {high}, {low}")
    return writer.call("i64", "llvm.smax.i64", f"i64 {extent}, i64 0", "i64, i64")
