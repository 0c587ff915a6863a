"""Writes grid loops (`ir/threads.py`): loops over blocks of threads that run at once, share memory and wait for one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ScalarType, i64, matrix_type, scalar_of
from quadrants.passes.nest import highs, lows

__all__ = [
    "GridLoop",
    "Odometer",
    "combine_in_block",
    "combined_in_teams",
    "either",
    "extents_of",
    "flat_counters",
    "product_of",
    "replace_where",
    "rounded_up",
    "when",
]


class GridLoop:
    """A grid loop being written.

    `number`: the block's; `block`: a builder of what its threads do alike, in front of what each does; `thread` and
    `inside`: a thread's number, and a builder of what each does.
    """

    def __init__(self, builder: Builder, blocks: Value, size: int) -> None:
        self.outside = builder
        self.blocks = blocks
        self.size = size
        self._body, self._region = Block(), Block()
        self.number = self._body.add_argument(i64, "block")
        self.thread = self._region.add_argument(i64, "thread")
        self.block = Builder(self._body, builder.location)
        self.inside = Builder(self._region, builder.location)

    def shared(self, scalar: ScalarType, *sizes: int) -> Value:
        """Memory that the threads of a block share; undefined at first."""
        return self.block.emit("shared", type=matrix_type(scalar, sizes))

    def close(self, width: Value | None = None, **attributes: Any) -> None:
        """Appends the loop; the attributes are the loop's over blocks. `width`: how many threads the block at hand has, if not
        all."""
        self.inside.op("yield")
        zero = self.block.index(0)
        threads = self.block.index(self.size) if width is None else width
        self.block.op("for", zero, threads, regions=(self._region,), rank=1, threads=self.size)
        self.block.op("yield")
        first = self.outside.index(0)
        self.outside.op("for", first, self.blocks, regions=(self._body,), rank=1, parallel=True, **attributes)


class Odometer:
    """The counters of a nest, each from 0 to its extent, for places that lie `step` apart: digits of a step are added to
    digits of a place, so that no iteration divides. What the host computes goes to `builder`, also where there is no place."""

    def __init__(self, builder: Builder, extents: Sequence[Value], step: Value) -> None:
        one = builder.index(1)
        self.extents = tuple([builder.max(extent, one) for extent in extents])
        self._step = self._digits(builder, step)

    def _digits(self, builder: Builder, place: Value) -> list[Value]:
        found: list[Value] = []
        for extent in reversed(self.extents[1:]):
            found.append(builder.truncmod(place, extent))
            place = builder.truncdiv(place, extent)
        return [place, *reversed(found)]

    def start(self, builder: Builder, place: Value) -> list[Value]:
        """The counters at a place."""
        return self._digits(builder, place)

    def following(self, builder: Builder, digits: Sequence[Value]) -> list[Value]:
        """The counters one step on. Law: a digit and a step's digit are less than twice the extent."""
        found: list[Value] = []
        carry: Value | None = None
        for position in range(len(digits) - 1, -1, -1):
            total = builder.add(digits[position], self._step[position], exact=True)
            if carry is not None:
                total = builder.add(total, carry, exact=True)
            if position:
                over = builder.ge(total, self.extents[position])
                less = builder.sub(total, self.extents[position], exact=True)
                total = builder.select(over, less, total)
                carry = builder.cast(over, i64)
            found.append(total)
        return found[::-1]


def extents_of(builder: Builder, loop: Op) -> list[Value]:
    """How many iterations a loop has along each counter, none where it ends before it begins."""
    zero = builder.index(0)
    return [builder.max(builder.sub(high, low, exact=True), zero) for low, high in zip(lows(loop), highs(loop))]


def product_of(builder: Builder, values: Sequence[Value]) -> Value:
    """The product of counts, which does not wrap."""
    total = values[0]
    for value in values[1:]:
        total = builder.mul(total, value, exact=True)
    return total


def replace_where(block: Block, loop: Op, front: Builder, condition: Value, fill: Callable[[Builder], None]) -> None:
    """A loop becomes a branch: what `fill` writes where the condition holds, the loop as it is elsewhere. `front`: wrote what is
    computed before."""
    instead, plain = Builder(Block(), loop.location), Block()
    fill(instead)
    instead.op("yield")
    plain.ops = [loop, Op("yield", location=loop.location)]
    front.op("if", condition, regions=(instead.block, plain), types=())
    at = block.ops.index(loop)
    block.ops[at : at + 1] = front.block.ops


def flat_counters(builder: Builder, place: Value, starts: Sequence[Value], extents: Sequence[Value]) -> list[Value]:
    """The counters of a nest at a place of all, the last one fastest."""
    found: list[Value] = []
    for position in range(len(extents) - 1, -1, -1):
        digit = builder.truncmod(place, extents[position]) if position else place
        place = builder.truncdiv(place, extents[position]) if position else place
        found.append(builder.add(starts[position], digit, exact=True))
    return found[::-1]


def rounded_up(builder: Builder, value: Value, step: int) -> Value:
    """How many steps a value that is not negative makes, a part of one counted as one."""
    if step == 1:
        return value
    return builder.floordiv(builder.add(value, builder.index(step - 1), exact=True), builder.index(step))


def when(builder: Builder, condition: Value, fill: Callable[[Builder], None]) -> None:
    """Appends what `fill` writes under a condition."""
    either(builder, condition, fill, lambda inner: None)


def either(
    builder: Builder, condition: Value, fill: Callable[[Builder], None], otherwise: Callable[[Builder], None]
) -> None:
    """Appends what `fill` writes under a condition, and what `otherwise` does under its contrary."""
    regions = (Block(), Block())
    for region, write in zip(regions, (fill, otherwise)):
        inner = Builder(region, builder.location)
        write(inner)
        inner.op("yield")
    builder.op("if", condition, regions=regions, types=())


def combine_in_block(grid: GridLoop, values: Sequence[Value], combiners: Sequence[str], subgroup: int) -> list[Value]:
    """Values of all threads of a block, combined: what thread 0 gets; other threads get something.

    Law: the tree is fixed by the block's size and `subgroup`, how many neighbours exchange values (1: none do).
    """
    tree = _Tree(grid, combiners)
    found = tree.exchanged(list(values), min(subgroup, grid.size))
    groups = grid.size // min(subgroup, grid.size)
    if groups == 1:
        return found
    memories = [grid.shared(scalar_of(value.type), groups) for value in values]
    tree.keep(memories, found, min(subgroup, grid.size))
    if groups <= subgroup:
        place = grid.inside.bit_and(grid.thread, grid.inside.index(groups - 1))
        return tree.exchanged([grid.inside.load(memory, place) for memory in memories], groups)
    return tree.halved(memories, groups)


def combined_in_teams(
    builder: Builder, lane: Value, values: Sequence[Value], combiners: Sequence[str], width: int
) -> list[Value]:
    """Values of the members of teams of `width`, combined: each member has the result. `lane`: its number in the team."""
    found = list(values)
    distance = width // 2 if values else 0
    while distance:
        source = builder.bit_xor(lane, builder.index(distance))
        others = [builder.emit("shuffle", value, source, width=width) for value in found]
        found = _combined(builder, combiners, found, others)
        distance //= 2
    return found


def _combined(
    builder: Builder, combiners: Sequence[str], ones: Sequence[Value], others: Sequence[Value]
) -> list[Value]:
    return [builder.emit(by, one, other) for by, one, other in zip(combiners, ones, others)]


class _Tree:
    def __init__(self, grid: GridLoop, combiners: Sequence[str]) -> None:
        self.builder = grid.inside
        self.thread = grid.thread
        self.combiners = combiners

    def _combined(self, builder: Builder, ones: Sequence[Value], others: Sequence[Value]) -> list[Value]:
        return _combined(builder, self.combiners, ones, others)

    def exchanged(self, values: list[Value], width: int) -> list[Value]:
        """Combined over teams of `width`: each member has the result."""
        lane = self.builder.bit_and(self.thread, self.builder.index(width - 1))
        return combined_in_teams(self.builder, lane, values, self.combiners, width)

    def keep(self, memories: list[Value], values: list[Value], width: int) -> None:
        """The first of each team of `width` puts its values into shared memory."""
        builder = self.builder
        shift = builder.index(width.bit_length() - 1)

        def store(inner: Builder) -> None:
            place = inner.shr(self.thread, shift)
            for memory, value in zip(memories, values):
                inner.op("store", value, memory, place)

        if width == 1:
            store(builder)
        else:
            lane = builder.bit_and(self.thread, builder.index(width - 1))
            when(builder, builder.eq(lane, builder.index(0)), store)
        builder.op("barrier")

    def halved(self, memories: list[Value], count: int) -> list[Value]:
        """Combined in shared memory, one half with the other."""
        builder = self.builder
        distance = count // 2
        while distance:

            def half(inner: Builder, by: int = distance) -> None:
                other = inner.add(self.thread, inner.index(by), exact=True)
                ones = [inner.load(memory, self.thread) for memory in memories]
                others = [inner.load(memory, other) for memory in memories]
                for memory, value in zip(memories, self._combined(inner, ones, others)):
                    inner.op("store", value, memory, self.thread)

            when(builder, builder.lt(self.thread, builder.index(distance)), half)
            builder.op("barrier")
            distance //= 2
        return [builder.load(memory, builder.index(0)) for memory in memories]
