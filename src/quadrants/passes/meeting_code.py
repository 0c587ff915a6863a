"""Meetings of teams as code of each thread (`meetings.py`).

Laws: what a team combines is combined in halves (`ir/threads.py`), who is not there is left out. Memory of the block that serves
a meeting is read by all before any thread goes on, so that the next meeting may use it again.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.threads import neutral
from quadrants.ir.types import ScalarType, i64, matrix_type, scalar_of, u1, u64
from quadrants.passes.fold import number_of
from quadrants.records import Record

__all__ = ["MEET", "Members", "Team"]

_FEW = 8
"""Subgroups of a team of which each thread combines the values for itself."""


class Members(Record):
    """Which threads of a hardware's subgroup are at a place: `mask` has their bits, None where all are; `count` how many where it is
    the first ones that are (None: any may be)."""

    mask: Value | None
    count: Value | None


class Team:
    """What a thread knows of its place: `thread` in the block, `lane` in the subgroup, `group`: the subgroup's number. `body`: the
    grid loop's, where the block's memory is made; `width`: the threads of the block, at most `size`; `scratch`: how many elements of its memory
    meetings need, by type; `has_barriers`: whether members of a subgroup can wait for one another."""

    def __init__(
        self,
        front: Builder,
        body: Block,
        thread: Value,
        width: Value,
        size: int,
        subgroup: int,
        scratch: dict[ScalarType, int],
        has_barriers: bool,
    ) -> None:
        self.body = body
        self.thread = thread
        self.width = width
        self.size = size
        self.subgroup = subgroup
        self.scratch = scratch
        self.has_barriers = has_barriers
        self.lane = front.bit_and(thread, front.index(subgroup - 1))
        self.group = front.shr(thread, front.index(subgroup.bit_length() - 1))
        self._memory: dict[ScalarType, Value] = {}

    def memory(self, scalar: ScalarType) -> Value:
        """Memory of the block, for the meetings that need it."""
        found = self._memory.get(scalar)
        if found is None:
            builder = Builder(Block())
            type_ = matrix_type(scalar, (self.scratch[scalar],))
            found = self._memory[scalar] = builder.emit("shared", type=type_)
            self.body.ops[:0] = builder.block.ops
        return found

    def width_of(self, op: Op) -> int:
        """How many threads a team has, a power of two: of a block, the next one."""
        return op.attributes["width"] or 1 << (self.size - 1).bit_length()

    def mask(self, builder: Builder, members: Members) -> Value:
        if members.mask is not None:
            return members.mask
        return builder.constant((1 << self.subgroup) - 1, u64)

    def shuffle(self, builder: Builder, value: Value, source: Value, width: int, members: Members) -> Value:
        if width == 1:
            return value
        there = () if members.mask is None else (members.mask,)
        return builder.emit("shuffle", value, source, *there, width=width, subgroup=self.subgroup)

    def ballot(self, builder: Builder, vote: Value, members: Members) -> Value:
        """The bits of the members of the hardware's subgroup for which a vote holds."""
        there = () if members.mask is None else (members.mask,)
        return builder.emit("ballot", vote, *there, width=self.subgroup, subgroup=self.subgroup)

    # Within a subgroup.

    def place(self, builder: Builder, width: int) -> Value:
        """The thread's place in its team."""
        return self.lane if width == self.subgroup else builder.bit_and(self.lane, builder.index(width - 1))

    def _bits(self, builder: Builder, members: Value, first: Value, count: int) -> Value:
        """The bits of `count` members from a lane on."""
        moved = builder.shr(members, builder.cast(first, u64))
        return builder.bit_and(moved, builder.constant((1 << count) - 1, u64))

    def total(self, builder: Builder, by: str, value: Value, width: int, members: Members) -> Value:
        """What the members of a team come to, given to each."""
        place = self.place(builder, width)
        first = builder.sub(self.lane, place)
        half = 1
        while half < width:
            upper = builder.ne(builder.bit_and(place, builder.index(half)), builder.index(0))
            other_half = builder.bit_and(builder.bit_xor(place, builder.index(half)), builder.index(-half))
            source, there = other_half, None
            if members.count is not None:
                there = builder.lt(builder.add(first, other_half), members.count)
            elif members.mask is not None:
                bits = self._bits(builder, members.mask, builder.add(first, other_half), half)
                there = builder.ne(bits, builder.constant(0, u64))
                source = builder.add(other_half, builder.cast(builder.ctz(bits), i64))
            other = self.shuffle(builder, value, source, width, members)
            joined = _joined(builder, by, upper, other, value)
            value = joined if there is None else builder.select(there, joined, value)
            half *= 2
        return value

    def prefix(self, builder: Builder, by: str, value: Value, width: int, members: Members) -> Value:
        """What the members of a team come to up to each."""
        place = self.place(builder, width)
        first = builder.sub(self.lane, place)
        half = 1
        while half < width:
            there = builder.ne(builder.bit_and(place, builder.index(half)), builder.index(0))
            source = builder.sub(builder.bit_and(place, builder.index(-half)), builder.index(1))
            if members.mask is not None and members.count is None:
                start = builder.sub(source, builder.index(half - 1))
                bits = self._bits(builder, members.mask, builder.add(first, start), half)
                there = builder.bit_and(there, builder.ne(bits, builder.constant(0, u64)))
                source = builder.add(start, _highest(builder, bits))
            other = self.shuffle(builder, value, source, width, members)
            value = builder.select(there, builder.emit(by, other, value), value)
            half *= 2
        return value

    def before(self, builder: Builder, found: Value, nothing: Value, width: int, members: Members) -> Value:
        """The value of the member in front of each."""
        place = self.place(builder, width)
        source = builder.sub(place, builder.index(1))
        there = builder.gt(place, builder.index(0))
        if members.mask is not None and members.count is None:
            team = builder.shr(members.mask, builder.cast(builder.sub(self.lane, place), u64))
            one = builder.constant(1, u64)
            lower = builder.bit_and(team, builder.sub(builder.shl(one, builder.cast(place, u64)), one))
            there = builder.ne(lower, builder.constant(0, u64))
            source = _highest(builder, lower)
        return builder.select(there, self.shuffle(builder, found, source, width, members), nothing)

    # Across subgroups.  All threads of the block are there.

    def groups(self, builder: Builder) -> Value:
        """How many subgroups the block has."""
        if self.subgroup == 1:
            return self.width
        more = builder.add(self.width, builder.index(self.subgroup - 1))
        return builder.shr(more, builder.index(self.subgroup.bit_length() - 1))

    def keep(self, builder: Builder, memory: Value, value: Value) -> None:
        """The first thread of each subgroup puts its value into memory of the block; all wait for that."""
        if self.subgroup == 1:
            builder.op("store", value, memory, self.thread)
        else:
            yes, no = Block(), Block()
            inner = Builder(yes, builder.location)
            inner.op("store", value, memory, self.group)
            inner.op("yield")
            Builder(no, builder.location).op("yield")
            builder.op("if", builder.eq(self.lane, builder.index(0)), regions=(yes, no), types=())
        builder.op("barrier")

    def in_memory(
        self, builder: Builder, by: str, memory: Value, at: Value, team: Value, halves: range, on: Value
    ) -> None:
        """Combines what lies in memory of the block, in halves: place `at` of a team that begins at `team`, by threads that are
        `on`."""
        for level in halves:
            half = builder.index(1 << level)
            upper = builder.bit_and(on, builder.ne(builder.bit_and(at, half), builder.index(0)))
            yes, no = Block(), Block()
            inner = Builder(yes, builder.location)
            last = inner.sub(inner.bit_and(at, inner.index(-(1 << level))), inner.index(1))
            lower = inner.load(memory, inner.add(team, last))
            own = inner.add(team, at)
            inner.op("store", inner.emit(by, lower, inner.load(memory, own)), memory, own)
            inner.op("yield")
            Builder(no, builder.location).op("yield")
            builder.op("if", upper, regions=(yes, no), types=())
            builder.op("barrier")


def _highest(builder: Builder, bits: Value) -> Value:
    """The number of the highest bit that is set."""
    return builder.sub(builder.index(63), builder.cast(builder.clz(bits), i64))


def _joined(builder: Builder, by: str, upper: Value, other: Value, own: Value) -> Value:
    """Two halves combined, the lower one on the left; law: only the smallest and the largest of zeros tell the sides apart."""
    if by in ("min", "max") and scalar_of(own.type).is_float:
        return builder.emit(by, builder.select(upper, other, own), builder.select(upper, own, other))
    return builder.emit(by, own, other)


def _reduce(team: Team, builder: Builder, op: Op, members: Members) -> Value:
    by, value, width = op.attributes["by"], op.operands[0], team.width_of(op)
    if width <= team.subgroup:
        return team.total(builder, by, value, width, members)
    own = team.total(builder, by, value, team.subgroup, members)
    memory = team.memory(scalar_of(value.type))
    team.keep(builder, memory, own)
    groups = width // team.subgroup
    first = builder.bit_and(team.group, builder.index(-groups))
    there = builder.min(builder.sub(team.groups(builder), first), builder.index(groups))
    if groups <= _FEW:
        found = _few(builder, by, memory, first, there, 0, groups)
    else:
        on = builder.lt(team.thread, team.groups(builder))
        at = builder.bit_and(team.thread, builder.index(groups - 1))
        start = builder.sub(team.thread, at)
        team.in_memory(builder, by, memory, at, start, range((groups - 1).bit_length()), on)
        found = builder.load(memory, builder.sub(builder.add(first, there), builder.index(1)))
    builder.op("barrier")
    return found


def _few(builder: Builder, by: str, memory: Value, first: Value, there: Value, start: int, count: int) -> Value:
    """What `count` subgroups come to, from `start` on, of which those before `there` are there."""
    if count == 1:
        last = builder.sub(there, builder.index(1))  # what is not there is not read: it is undefined
        return builder.load(memory, builder.add(first, builder.min(builder.index(start), last)))
    half = count // 2
    lower = _few(builder, by, memory, first, there, start, half)
    upper = _few(builder, by, memory, first, there, start + half, half)
    both = builder.lt(builder.index(start + half), there)
    return builder.select(both, builder.emit(by, lower, upper), lower)


def _scan(team: Team, builder: Builder, op: Op, members: Members) -> Value:
    by, value, width = op.attributes["by"], op.operands[0], team.width_of(op)
    exclusive = bool(op.attribute("exclusive"))
    scalar = scalar_of(value.type)
    own = team.prefix(builder, by, value, min(width, team.subgroup), members)
    if width <= team.subgroup:
        if not exclusive:
            return own
        return team.before(builder, own, builder.constant(neutral(by, scalar), value.type), width, members)
    memory = team.memory(scalar)
    builder.op("store", own, memory, team.thread)
    builder.op("barrier")
    at = builder.bit_and(team.thread, builder.index(width - 1))
    start = builder.sub(team.thread, at)
    halves = range(team.subgroup.bit_length() - 1, (width - 1).bit_length())
    team.in_memory(builder, by, memory, at, start, halves, builder.constant(True, u1))
    if exclusive:
        place = builder.max(builder.sub(team.thread, builder.index(1)), builder.index(0))
        nothing = builder.constant(neutral(by, scalar), value.type)
        found = builder.select(builder.gt(at, builder.index(0)), builder.load(memory, place), nothing)
    else:
        found = builder.load(memory, team.thread)
    builder.op("barrier")
    return found


def _shuffle(team: Team, builder: Builder, op: Op, members: Members) -> Value:
    value, source = op.operands
    width, whole = team.width_of(op), not op.attributes["width"]
    if width <= team.subgroup:
        return team.shuffle(builder, value, source, width, members)
    memory = team.memory(scalar_of(value.type))
    builder.op("store", value, memory, team.thread)
    builder.op("barrier")
    there = builder.bit_and(builder.ge(source, builder.index(0)), builder.lt(source, builder.index(width)))
    place = source if whole else builder.add(builder.bit_and(team.thread, builder.index(-width)), source)
    there = builder.bit_and(there, builder.lt(place, team.width))
    found = builder.load(memory, builder.select(there, place, team.thread))
    builder.op("barrier")
    return found


def _ballot(team: Team, builder: Builder, op: Op, members: Members) -> Value:
    (vote,), width = op.operands, op.attributes["width"]
    if number_of(vote) is True and (width > team.subgroup or members.mask is None or members.count is not None):
        return _first_ones(team, builder, width)
    if number_of(vote) is True:
        bits = team.mask(builder, members)
    elif team.subgroup == 1:
        bits = builder.select(vote, builder.constant(1, u64), builder.constant(0, u64))
    else:
        bits = team.ballot(builder, vote, members)
    if width == team.subgroup:
        return bits
    if width < team.subgroup:
        first = builder.bit_and(team.lane, builder.index(-width))
        moved = builder.shr(bits, builder.cast(first, u64))
        return builder.bit_and(moved, builder.constant((1 << width) - 1, u64))
    memory, groups = team.memory(u64), width // team.subgroup
    team.keep(builder, memory, bits)
    first, last = (
        builder.bit_and(team.group, builder.index(-groups)),
        builder.sub(team.groups(builder), builder.index(1)),
    )
    found = builder.constant(0, u64)
    for number in range(groups):
        place = builder.add(first, builder.index(number))
        part = builder.load(memory, builder.min(place, last))
        part = builder.shl(part, builder.constant(number * team.subgroup, u64))
        found = builder.bit_or(found, builder.select(builder.le(place, last), part, builder.constant(0, u64)))
    builder.op("barrier")
    return found


def _team_barrier(team: Team, builder: Builder, op: Op, members: Members) -> None:
    if team.width_of(op) > team.subgroup or not team.has_barriers:
        builder.op("barrier")
    elif team.subgroup > 1:
        there = () if members.mask is None else (members.mask,)
        builder.op("team_barrier", *there, width=team.subgroup, subgroup=team.subgroup)


def _first_ones(team: Team, builder: Builder, width: int) -> Value:
    """The bits of a team's members, where the threads that the block lacks are all that are not there."""
    first = builder.bit_and(team.thread, builder.index(-width))
    count = builder.min(builder.sub(team.width, first), builder.index(width))
    one = builder.constant(1, u64)
    return builder.sub(builder.shl(one, builder.cast(count, u64)), one)


MEET: dict[str, Callable[[Team, Builder, Op, Members], Value | None]] = {
    "team_barrier": _team_barrier,
    "shuffle": _shuffle,
    "ballot": _ballot,
    "team_reduce": _reduce,
    "team_scan": _scan,
}
"""What threads do at a meeting, and what it gives."""
