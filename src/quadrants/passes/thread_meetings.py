"""What the threads of a block do where they meet, as code of the block on what each has brought (`thread_stretches.py`).

Where only some threads are there (`mask`), the others are no members of their teams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.threads import neutral
from quadrants.ir.types import i64, u1, u64
from quadrants.passes.places import shown

if TYPE_CHECKING:
    from quadrants.passes.thread_stretches import Scratch, Stretches

__all__ = ["MEET", "fold"]


def _shared(block: Stretches, op: Op) -> None:
    block.memory[op.results[0]] = block.slot(op.attributes["type"], False)


def _barrier(block: Stretches, op: Op) -> None:
    block.close()


def _fence(block: Stretches, op: Op) -> None:
    """The threads of a block run in turn: each sees what the others wrote."""
    if op.attributes["scope"] == "grid":
        raise QuadrantsUnsupportedError.at(
            shown(op.location),
            "blocks do not wait for one another's memory here",
            hint="put the parts into loops of their own: what one loop wrote is seen in the next",
        )


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


def _reduce(block: Stretches, op: Op) -> None:
    scratch = _brought(block, op)

    def total(builder: Builder, low: Value, high: Value) -> Value:
        return _prefixes(block, op, scratch, builder, low, high, lambda inside, thread, found: None)

    _given(block, op, total)


def _scan(block: Stretches, op: Op) -> None:
    scratch = _brought(block, op)
    result = _result(block, op)

    def sums(builder: Builder, low: Value, high: Value) -> None:
        def give(inside: Builder, thread: Value, found: Value) -> None:
            inside.op("store", found, result.slot, thread)

        _prefixes(block, op, scratch, builder, low, high, give)

    def before(builder: Builder, low: Value, high: Value) -> None:
        def step(inside: Builder, thread: Value, total: Value) -> Value:
            inside.op("store", total, result.slot, thread)
            found = inside.emit(by, total, inside.load(scratch.slot, thread))
            return found if mask is None else inside.select(inside.load(mask.slot, thread), found, total)

        fold(builder, low, high, builder.constant(neutral(by, value.type.scalar), value.type), step)

    by, value, mask = op.attributes["by"], op.results[0], block.mask
    _teams(block, op, before if op.attribute("exclusive") else sums)


def _prefixes(
    block: Stretches,
    op: Op,
    scratch: Scratch,
    builder: Builder,
    low: Value,
    high: Value,
    give: Callable[[Builder, Value, Value], None],
) -> Value:
    """Combines what a team's members have brought, in order; `give` gets what it comes to with each."""
    by, mask = op.attributes["by"], block.mask
    start = builder.load(scratch.slot, low)
    following = builder.add(low, builder.index(1))
    if mask is None:
        give(builder, low, start)

        def step(inside: Builder, thread: Value, before: Value) -> Value:
            found = inside.emit(by, before, inside.load(scratch.slot, thread))
            give(inside, thread, found)
            return found

        return fold(builder, following, high, start, step)
    region = Block()
    thread, before, some = [region.add_argument(type_) for type_ in (i64, start.type, u1)]
    inside = Builder(region, op.location)
    value, there = inside.load(scratch.slot, thread), inside.load(mask.slot, thread)
    combined = inside.select(some, inside.emit(by, before, value), value)
    found = inside.select(there, combined, before)
    give(inside, thread, found)
    inside.op("yield", found, inside.bit_or(some, there))
    nobody = builder.constant(False, u1)
    return builder.op("for", low, high, start, nobody, regions=(region,), rank=1).results[0]


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
    "fence": _fence,
    "shuffle": _shuffle,
    "ballot": _ballot,
    "team_reduce": _reduce,
    "team_scan": _scan,
}
