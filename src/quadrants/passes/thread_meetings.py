"""What the threads of a block do where they meet, as code of the block on what each has brought (`thread_stretches.py`).

Where only some threads are there (`mask`), the others are no members of their teams.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.threads import neutral
from quadrants.ir.types import Type, i64, scalar_of, u1, u64
from quadrants.passes.fold import number_of

if TYPE_CHECKING:
    from quadrants.passes.thread_stretches import Scratch, Stretches

__all__ = ["MEET", "fold"]


def _shared(block: Stretches, op: Op) -> None:
    block.memory[op.results[0]] = block.slot(op.attributes["type"], False, op.results[0].name)


def _barrier(block: Stretches, op: Op) -> None:
    block.close()


def _team_barrier(block: Stretches, op: Op) -> None:
    """The threads of a block run in turn: those that are there come up to here before any goes on."""
    block.close()


def _fence(block: Stretches, op: Op) -> None:
    """The threads of a block run in turn: each sees what the others wrote. Other blocks run on other threads."""
    if op.attributes["scope"] == "grid":
        block.add(op)


def _brought(block: Stretches, op: Op) -> Scratch:
    """What each thread brings to a meeting."""
    scratch = block.slot(op.operands[0].type, True)
    block.put(op.operands[0], scratch)
    block.close()
    return scratch


def _shuffle(block: Stretches, op: Op) -> None:
    scratch, width = _brought(block, op), op.attributes["width"]
    stretch = block.open(op.location)
    source = block.use(op.operands[1], stretch)
    builder = Builder(stretch.block, op.location)
    thread, place, zero = stretch.thread, source, builder.index(0)
    there = builder.bit_and(builder.ge(source, zero), builder.lt(source, builder.index(width or block.size)))
    if width:
        place = builder.add(builder.sub(thread, builder.mod(thread, builder.index(width))), source)
    there = builder.bit_and(there, builder.lt(place, block.width))
    place = builder.select(there, place, thread)
    if block.mask is not None:
        place = builder.select(builder.load(block.mask.slot, place), place, thread)
    block.define(op.results[0], builder.load(scratch.slot, place), stretch)


def _ballot(block: Stretches, op: Op) -> None:
    if number_of(op.operands[0]) is True and block.mask is None:
        _first_ones(block, op)
        return
    scratch, mask = _brought(block, op), block.mask

    def votes(builder: Builder, low: Value, high: Value) -> Value:
        def vote(inside: Builder, thread: Value, before: Value) -> Value:
            bit = inside.shl(inside.constant(1, u64), inside.cast(inside.sub(thread, low), u64))
            holds = inside.load(scratch.slot, thread)
            if mask is not None:
                holds = inside.bit_and(holds, inside.load(mask.slot, thread))
            return inside.bit_or(before, inside.select(holds, bit, inside.constant(0, u64)))

        return fold(builder, low, high, builder.constant(0, u64), vote)

    _given(block, op, votes)


def _first_ones(block: Stretches, op: Op) -> None:
    """Who is there, where all threads of the block are: each knows without a meeting."""
    width, stretch = op.attributes["width"], block.open(op.location)
    builder = Builder(stretch.block, op.location)
    first = builder.sub(stretch.thread, builder.mod(stretch.thread, builder.index(width)))
    count = builder.min(builder.sub(block.width, first), builder.index(width))
    one = builder.constant(1, u64)
    block.define(op.results[0], builder.sub(builder.shl(one, builder.cast(count, u64)), one), stretch)


def _reduce(block: Stretches, op: Op) -> None:
    scratch = _brought(block, op)
    combine = _Halves(block, op, scratch)

    def total(builder: Builder, low: Value, high: Value) -> Value:
        combine(builder, low, high)
        return builder.load(scratch.slot, builder.sub(high, builder.index(1)))

    _given(block, op, total)


def _scan(block: Stretches, op: Op) -> None:
    scratch = _brought(block, op)
    combine = _Halves(block, op, scratch)
    if not op.attribute("exclusive"):
        block.keep_in(op.results[0], scratch)
        _teams(block, op, combine)
        return
    result, some = _result(block, op), combine.some
    scalar = scalar_of(op.results[0].type)

    def before(builder: Builder, low: Value, high: Value) -> None:
        combine(builder, low, high)
        nothing = builder.constant(neutral(op.attributes["by"], scalar), op.results[0].type)
        builder.op("store", nothing, result.slot, low)

        def give(inside: Builder, thread: Value) -> None:
            place = inside.sub(thread, inside.index(1))
            found = inside.load(scratch.slot, place)
            if some is not None:
                found = inside.select(inside.load(some.slot, place), found, nothing)
            inside.op("store", found, result.slot, thread)

        _each(builder, builder.add(low, builder.index(1)), high, give)

    _teams(block, op, before)


class _Halves:
    """Combines what a team's members have brought, in halves (the law of teams in `ir/threads.py`): then their scratch has at
    each member what they come to up to it; and `some`, where only some members are there, whether any is up to it."""

    def __init__(self, block: Stretches, op: Op, scratch: Scratch) -> None:
        self.by = op.attributes["by"]
        self.scratch = scratch
        self.levels = ((op.attributes["width"] or block.size) - 1).bit_length()
        self.some: Scratch | None = None
        if block.mask is not None:
            self.some = block.slot(u1, True)
            builder = Builder(block.level, op.location)
            _each(
                builder, builder.index(0), block.width, partial(self._begin, block.mask, self.some, op.operands[0].type)
            )

    def _begin(self, mask: Scratch, some: Scratch, type_: Type, inside: Builder, thread: Value) -> None:
        """Who is not there has brought what changes nothing, so that sums which nobody gets are of numbers, too: debug mode checks
        them."""
        there, slot = inside.load(mask.slot, thread), self.scratch.slot
        nothing = inside.constant(neutral(self.by, scalar_of(type_)), type_)
        inside.op("store", inside.select(there, inside.load(slot, thread), nothing), slot, thread)
        inside.op("store", there, some.slot, thread)

    def __call__(self, builder: Builder, low: Value, high: Value) -> None:
        def level(inside: Builder, number: Value) -> None:
            half = inside.shl(inside.index(1), number)
            whole = inside.add(half, half)
            count = inside.sub(high, low)
            pairs = inside.floordiv(inside.sub(inside.add(count, half), inside.index(1)), whole)
            _each(inside, inside.index(0), pairs, lambda within, pair: self._pair(within, low, high, half, whole, pair))

        _each(builder, builder.index(0), builder.index(self.levels), level)

    def _pair(self, builder: Builder, low: Value, high: Value, half: Value, whole: Value, pair: Value) -> None:
        """Two halves: the upper one takes in what the lower one comes to."""
        scratch, some = self.scratch, self.some
        middle = builder.add(builder.add(low, builder.mul(pair, whole)), half)
        last = builder.sub(middle, builder.index(1))
        total = builder.load(scratch.slot, last)
        any_lower = builder.load(some.slot, last) if some is not None else None

        def take(inside: Builder, thread: Value) -> None:
            own = inside.load(scratch.slot, thread)
            found = inside.emit(self.by, total, own)
            if some is not None and any_lower is not None:
                there = inside.load(some.slot, thread)
                found = inside.select(any_lower, inside.select(there, found, total), own)
                inside.op("store", inside.bit_or(there, any_lower), some.slot, thread)
            inside.op("store", found, scratch.slot, thread)

        _each(builder, middle, builder.min(builder.add(middle, half), high), take)


def _result(block: Stretches, op: Op) -> Scratch:
    """Where a meeting's result lies."""
    value = op.results[0]
    scratch = block.slot(value.type, value in block.uniform.varying)
    block.keep_in(value, scratch)
    return scratch


def _given(block: Stretches, op: Op, compute: Callable[[Builder, Value, Value], Value]) -> None:
    """Each member of a team gets what is computed for the team."""
    result = _result(block, op)

    def team(builder: Builder, low: Value, high: Value) -> None:
        found = compute(builder, low, high)
        if result.each:
            _each(builder, low, high, lambda inside, thread: inside.op("store", found, result.slot, thread))
        else:
            builder.op("store", found, result.slot)

    _teams(block, op, team)


def _teams(block: Stretches, op: Op, code: Callable[[Builder, Value, Value], None]) -> None:
    """Code of the block for each team: from its first thread to behind its last."""
    builder, width = Builder(block.level, op.location), op.attributes["width"]
    if not width:
        code(builder, builder.index(0), block.width)
        return
    count = builder.floordiv(builder.add(block.width, builder.index(width - 1)), builder.index(width))

    def one(inside: Builder, team: Value) -> None:
        low = inside.mul(team, inside.index(width))
        code(inside, low, inside.min(inside.add(low, inside.index(width)), block.width))

    _each(builder, builder.index(0), count, one)


def _each(builder: Builder, low: Value, high: Value, code: Callable[[Builder, Value], object]) -> None:
    """A loop in order."""
    region = Block()
    counter = region.add_argument(i64)
    inside = Builder(region, builder.location)
    code(inside, counter)
    inside.op("yield")
    builder.op("for", low, high, regions=(region,), rank=1)


def fold(
    builder: Builder, low: Value, high: Value, start: Value, step: Callable[[Builder, Value, Value], Value]
) -> Value:
    """A loop in order that carries a value."""
    region = Block()
    counter, before = region.add_argument(i64), region.add_argument(start.type)
    inside = Builder(region, builder.location)
    inside.op("yield", step(inside, counter, before))
    return builder.op("for", low, high, start, regions=(region,), rank=1).result


MEET: dict[str, Callable[[Stretches, Op], None]] = {
    "shared": _shared,
    "barrier": _barrier,
    "team_barrier": _team_barrier,
    "fence": _fence,
    "shuffle": _shuffle,
    "ballot": _ballot,
    "team_reduce": _reduce,
    "team_scan": _scan,
}
