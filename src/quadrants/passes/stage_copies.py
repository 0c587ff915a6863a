"""The code of a contraction in shared memory on devices that copy into it while threads compute: as in `stage_code`, but several
stretches of the depth are on their way at once, past the threads' registers, and a stretch costs one barrier.

Shared memory holds `stages` stretches, taken in turns. Law: behind the barrier of a stretch all threads see its elements, and nobody
reads the stretch before it any more, whose room the next copies take.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Op, Value, walk
from quadrants.ir.types import ArrayType, ScalarType, scalar_of
from quadrants.passes.clone import clone_ops
from quadrants.passes.contraction_code import rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.fold import number_of
from quadrants.passes.grid_code import GridLoop, either
from quadrants.passes.stage_code import MOST_STATEMENTS, PADDING, Part, Side, StageShape, StageWriter
from quadrants.passes.tile_code import loop
from quadrants.records import Record

__all__ = ["CopyWriter", "Source", "source_of"]

_WIDEST = 16
"""Bytes that a copy brings at most."""
_SECTOR = 32
"""Bytes in a row that memory gives at once, at least."""


class Source(Record):
    """A factor that is an element of an array: the `load`, whose last index is the row's (or column's) counter (`across`), or the
    depth's; no other index follows from that counter."""

    load: Op
    across: bool


def source_of(contraction: Contraction, factor: Value, part: Range) -> Source | None:
    """Where a factor's elements lie, if they may be copied as they are."""
    op = factor.owner
    if type(op) is not Op or op.kind != "load" or contraction.slices[factor][-1:] != [op]:
        return None
    array, *indices = op.operands
    if type(array.type) is not ArrayType or array.type.layout not in ("A", "C") or array.type.scalar.bytes < 2:
        return None
    if not indices or indices[-1] not in (part.counter, contraction.depth.counter):
        return None
    last = indices[-1]
    moving: set[Value] = {last}
    for inner in contraction.slices[factor]:
        if not moving.isdisjoint(inner.operands):
            moving.update(inner.results)
    return Source(op, last is part.counter) if moving.isdisjoint(indices[:-1]) else None


class CopyWriter(StageWriter):
    """Writes a contraction of which both factors have a source; `stages`: stretches in shared memory. `in_use`: of how many stretches products
    may still read the factors behind a barrier: of the one that begins there, and of so many others before it, whose room is not to be had."""

    in_use = 0

    def __init__(self, contraction: Contraction, shape: StageShape, stages: int) -> None:
        super().__init__(contraction, shape)
        self.stages = stages
        self._starts: dict[Value, Value] = {}
        self.lines = self._lines()
        self.aligned: dict[Value, Value | None] = {}

    def reason(self) -> str:
        return f"{super().reason()}, {self.stages} stretches of the depth on their way"

    # What tiles of other kinds do in other ways.

    def scalar(self, factor: Value) -> ScalarType:
        """The type of a factor in memory."""
        return scalar_of(factor.type)

    def vector(self, side: Side) -> int:
        """Elements that one copy brings where lines are aligned: they lie side by side in shared memory, too."""
        return _WIDEST // self.scalar(side.factor).bytes if self.source(side).across else 1

    def room(self, width: int) -> int:
        """Elements of a stretch of a factor in shared memory."""
        return self.shape.depth * (width + PADDING)

    def position(self, builder: Builder, side: Side, at: Value, own: Value) -> Value:
        """Where in a stretch the element of a depth and a row (or column) lies; behind it are the rest of its copy's."""
        return sum_of(builder, times(builder, at, side.width + PADDING), own)

    def steps(self, builder: Builder, bases: list[Value], totals: list[Value], sides: tuple[Side, Side]) -> list[Value]:
        """Adds a stretch to a thread's sums; `bases`: where the stretch begins in the memory of either side."""
        left, right = sides
        starts = [self._starts[side.factor] for side in sides]
        for at in range(self.shape.depth):
            rows, columns = (
                self._loaded(builder, side, sum_of(builder, base, start), at)
                for side, base, start in zip((left, right), bases, starts)
            )
            products = [(row, column) for row in rows for column in columns]
            totals = [builder.add(total, builder.mul(*pair), reassociate=True) for total, pair in zip(totals, products)]
        return totals

    def prepare(self, builder: Builder, sides: tuple[Side, Side]) -> None:
        """Computes in front of all stretches what is the same for each."""
        self._starts = {side.factor: times(builder, side.part.place, side.part.run) for side in sides}

    def show(self, builder: Builder) -> None:
        """What it takes besides the barrier behind it that a stretch which is there is seen."""

    def bring_singly(self, builder: Builder, thread: Value, side: Side, begin: Value, base: Value) -> None:
        """Brings a stretch of a side where copies of several elements are not aligned."""
        self._bring(builder, thread, side, begin, base, 1)

    def finished(self, builder: Builder, totals: list[Value]) -> list[Value]:
        """The sums behind the last stretch."""
        return totals

    def _loaded(self, builder: Builder, side: Side, start: Value, at: int) -> list[Value]:
        """A thread's part of a line of shared memory, run by run."""
        part, line = side.part, at * (side.width + PADDING)
        size = min(part.run * self.contraction.scalar.bytes, _WIDEST)
        found: list[Value] = []
        for number in range(part.own):
            run, within = divmod(number, part.run)
            offset = builder.index(line + run * part.threads * part.run + within)
            aligned = 0 if within else size
            found.append(builder.load(side.memory, sum_of(builder, start, offset), aligned=aligned))
        return found

    # The depth, stretch by stretch.

    def source(self, side: Side) -> Source:
        """Where a side's elements come from."""
        found = source_of(self.contraction, side.factor, side.range)
        assert found is not None
        return found

    def memory(self, grid: GridLoop, width: int) -> Value:
        return grid.shared(self.scalar(self.contraction.left), self.stages * self.room(width))

    def _side(self, grid: GridLoop, of: Range, factor: Value, tile: tuple[int, Value], part: Part) -> Side:
        side = super()._side(grid, of, factor, tile, part)
        self.aligned[factor] = self._is_aligned(grid.block, side)
        return side

    def _is_aligned(self, builder: Builder, side: Side) -> Value | None:
        """Whether copies of several elements are; None where one brings one element, which is aligned."""
        source, vector = self.source(side), self.vector(side)
        if vector == 1:
            return None
        low = (side.range if source.across else self.contraction.depth).low
        aligned = builder.emit("lines_aligned", source.load.operands[0], bytes=_WIDEST)
        if number_of(low) is not None and number_of(low) % vector == 0:
            return aligned
        within = builder.bit_and(low, builder.index(vector - 1))
        return builder.bit_and(aligned, builder.eq(within, builder.index(0)))

    def _sums(self, grid: GridLoop, left: Side, right: Side) -> list[Value]:
        shape, inside, depth = self.shape, grid.inside, self.contraction.depth
        sides, stages, in_use = (left, right), self.stages, self.in_use
        ahead = stages - 1 - in_use
        zero = inside.constant(0, self.contraction.scalar)
        stretches = rounded_up(inside, inside.sub(depth.high, depth.low), inside.index(shape.depth))
        self.prepare(inside, sides)

        def bring(inner: Builder, number: Value, stage: Value) -> None:
            begin = sum_of(inner, depth.low, times(inner, number, shape.depth))
            for side in sides:
                base = times(inner, stage, self.room(side.width))
                self._bring_side(inner, grid.thread, side, begin, base)
            inner.op("copy_commit")

        def first(inner: Builder, number: Value, _: list[Value]) -> tuple[Value, ...]:
            bring(inner, number, number)
            return ()

        def stretch(inner: Builder, number: Value, carried: list[Value]) -> list[Value]:
            rooms, totals = carried[: in_use + 2], carried[in_use + 2 :]
            inner.op("copy_wait", groups=ahead - 1)
            self.show(inner)
            inner.op("barrier")
            bring(inner, sum_of(inner, number, inner.index(ahead)), rooms[-1])
            now = rooms[0]
            bases = [times(inner, now, self.room(side.width)) for side in sides]
            totals = self.steps(inner, bases, totals, sides)
            after = sum_of(inner, now, inner.index(1))
            following = inner.select(inner.eq(after, inner.index(stages)), inner.index(0), after)
            return [following, *rooms[:-1], *totals]

        loop(inside, inside.index(0), inside.index(ahead), first)
        rooms = [inside.index(-before % stages) for before in range(in_use + 2)]
        starts = [*rooms, *[zero] * (shape.own_rows * shape.own_columns)]
        found = loop(inside, inside.index(0), stretches, stretch, starts)[len(rooms) :]
        inside.op("copy_wait", groups=0)
        return self.finished(inside, found)

    # What the nest does with the sums.

    def _finish(self, builder: Builder, sums: list[Value], left: Side, right: Side) -> None:
        """In whole tiles without asking which sums there are, several neighbours at a time."""
        if len(sums) * self.statement_size() > MOST_STATEMENTS:
            self._finish_in_loops(builder, sums, left, right)
            return
        whole = self._is_whole(builder, left, right)
        either(
            builder,
            whole,
            lambda inner: self._finish_whole(inner, sums, left, right),
            lambda inner: self._finish_in_loops(inner, sums, left, right),
        )

    def _is_whole(self, builder: Builder, left: Side, right: Side) -> Value:
        """Whether all sums of the block's tile are wanted, and lines of what they go to are aligned."""
        ends = [sum_of(builder, side.first, builder.index(side.width)) for side in (left, right)]
        found = builder.bit_and(builder.le(ends[0], left.range.high), builder.le(ends[1], right.range.high))
        for array in self.lines:
            found = builder.bit_and(found, builder.emit("lines_aligned", array, bytes=_WIDEST))
        if self.lines and number_of(right.range.low) != 0:
            within = builder.bit_and(right.range.low, builder.index(right.part.run - 1))
            found = builder.bit_and(found, builder.eq(within, builder.index(0)))
        return found

    def _lines(self) -> list[Value]:
        """The arrays of which what is done with sums of neighbouring columns reaches neighbours."""
        found = self.contraction
        ops = [op for value in list(found.slices)[2:] for op in found.slices[value]]
        if found.reduction.kind == "for":
            summed = set(walk(found.reduction.regions[0]))
            ops += [op for op in walk(found.statement) if op not in summed]
        else:
            ops.append(found.reduction)
        places = [_place_of(op) for op in ops if op.kind in ("load", "store", "update")]
        return list(dict.fromkeys([array for array, *indices in places if self._is_along(array, indices)]))

    def _is_along(self, array: Value, indices: list[Value]) -> bool:
        type_ = array.type
        is_memory = type(type_) is ArrayType and type_.has_descriptor and type_.layout in ("A", "C")
        return is_memory and bool(indices) and indices[-1] is self.contraction.column.counter

    def _finish_whole(self, builder: Builder, sums: list[Value], left: Side, right: Side) -> None:
        rows, columns = (
            [sum_of(builder, side.first, side.part.at(builder, number)) for number in range(side.part.own)]
            for side in (left, right)
        )
        totals = iter(sums)
        for row in rows:
            for number, column in enumerate(columns):
                before = len(builder.block.ops)
                self.statement(builder, next(totals), row, column)
                if number % right.part.run == 0:
                    self._mark_aligned(builder.block.ops[before:], column, right.part.run)

    def _mark_aligned(self, ops: list[Op], column: Value, run: int) -> None:
        """Says of what reaches the first of a run of columns that its address is aligned for all of them."""
        for op in ops:
            if op.kind in ("load", "store"):
                array, *indices = _place_of(op)
                if array in self.lines and indices[-1] is column:
                    op.attributes["aligned"] = min(run * scalar_of(array.type).bytes, _WIDEST)
            for region in op.regions:
                self._mark_aligned(region.ops, column, run)

    # From memory to shared memory.

    def _bring_side(self, builder: Builder, thread: Value, side: Side, begin: Value, base: Value) -> None:
        aligned = self.aligned[side.factor]
        if aligned is None:
            self._bring(builder, thread, side, begin, base, 1)
        else:
            either(
                builder,
                aligned,
                lambda inner: self._bring(inner, thread, side, begin, base, self.vector(side)),
                lambda inner: self.bring_singly(inner, thread, side, begin, base),
            )

    def _bring(self, builder: Builder, thread: Value, side: Side, begin: Value, base: Value, count: int) -> None:
        """Begins a thread's copies of `count` elements each."""

        def copy(at: Value, own: Value) -> None:
            length, indices = self._reached(builder, side, sum_of(builder, begin, at), own, count)
            place = sum_of(builder, base, self.position(builder, side, at, own))
            array = self.source(side).load.operands[0]
            builder.op("copy_begin", side.memory, place, array, *indices, length, elements=count)

        self.each(builder, thread, side, count, copy)

    def each(
        self, builder: Builder, thread: Value, side: Side, count: int, visit: Callable[[Value, Value], None]
    ) -> None:
        """Calls `visit` with the depth and the row (or column) in the tile of the first of `count` elements that a thread brings at
        once, again and again: neighbours in memory are brought by neighbours."""
        across, shape = self.source(side).across, self.shape
        for number in range(side.width * shape.depth // count // shape.threads):
            turn = _Turn(builder, thread, number, shape.threads)
            if across:
                own = times(builder, turn.digit(side.width // count), count)
                visit(turn.digit(shape.depth), own)
            else:
                visit(*self._down(builder, turn, side, count))

    def _down(self, builder: Builder, turn: _Turn, side: Side, count: int) -> tuple[Value, Value]:
        """Along the depth, single elements only as far as memory gives them at once, then the next row: those of a subgroup then lie in
        several banks."""
        length = self.shape.depth if count > 1 else min(_SECTOR // self.scalar(side.factor).bytes, self.shape.depth)
        low, own, high = (turn.digit(size) for size in (length // count, side.width, self.shape.depth // length))
        return sum_of(builder, times(builder, low, count), times(builder, high, length)), own

    def _reached(self, builder: Builder, side: Side, at: Value, own: Value, count: int) -> tuple[Value, list[Value]]:
        """How many of `count` elements from a depth and a row (or column) of the tile on there are, and the indices of the first
        one. Law: what indices are computed from is read where the nest reads it, also for elements that are not there."""
        depth, source = self.contraction.depth, self.source(side)
        own = sum_of(builder, side.first, own)
        (first, part), other = ((own, side.range), (at, depth)) if source.across else ((at, depth), (own, side.range))
        zero = builder.index(0)
        left = builder.max(builder.min(builder.sub(part.high, first, exact=True), builder.index(count)), zero)
        length = builder.select(builder.lt(other[0], other[1].high), left, zero)
        counters = {part.counter: first, other[1].counter: other[0]}
        if any(op.kind == "load" for op in self.contraction.slices[side.factor][:-1]):  # indices that lie in memory
            last = builder.sub(other[1].high, builder.index(1), exact=True)
            counters[other[1].counter] = builder.min(other[0], last)
        return length, self._indices(builder, source.load, side.factor, counters)

    def _indices(self, builder: Builder, load: Op, factor: Value, counters: dict[Value, Value]) -> list[Value]:
        values = {**self.batch, **counters}
        builder.block.ops += clone_ops(self.contraction.slices[factor][:-1], values)
        return [values.get(index, index) for index in load.operands[1:]]


def _place_of(op: Op) -> tuple[Value, ...]:
    """The array and the indices of a load, a store or an update."""
    return op.operands[0 if op.kind == "load" else 1 :]


class _Turn:
    """The digits, the lowest first, of the number of what a thread brings in one of its turns: `thread + turn * threads`. Law: all
    sizes are powers of two, so that a digit is bits of the thread's number, of the turn's, which is known, or of both."""

    def __init__(self, builder: Builder, thread: Value, turn: int, threads: int) -> None:
        self.builder, self.thread, self.turn = builder, thread, turn
        self.of_thread = threads.bit_length() - 1
        self.bit = 0

    def digit(self, size: int) -> Value:
        """The next digit, below `size`."""
        builder, first, count = self.builder, self.bit, size.bit_length() - 1
        self.bit = last = first + count
        known = (self.turn << self.of_thread >> first) & (size - 1)
        if first >= self.of_thread or not count:
            return builder.index(known)
        own = builder.shr(self.thread, builder.index(first)) if first else self.thread
        if last < self.of_thread:
            own = builder.bit_and(own, builder.index(size - 1))
        return sum_of(builder, own, builder.index(known)) if known else own
