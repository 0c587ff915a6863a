"""The code of a contraction in shared memory; see `stage_tiles`.

A block's threads stand in a grid over its tile. A thread's rows (and columns) come in runs of neighbours, runs of all threads
side by side, so that neighbours in a subgroup read neighbours in shared memory. What lies behind the end of rows or columns is loaded
from the last ones and never stored; what lies behind the end of the depth is zero on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Value
from quadrants.ir.threads import SHARED_ALIGNMENT
from quadrants.ir.types import matrix_type
from quadrants.passes.contraction_code import ContractionCode, rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.grid_code import GridLoop, when
from quadrants.passes.tile_code import loop
from quadrants.records import Record

__all__ = ["MOST_STATEMENTS", "PADDING", "Part", "Side", "StageShape", "StageWriter"]

_RUN = 4
"""Neighbouring rows or columns of a thread: what it reads from shared memory at once."""
PADDING = 4
"""Elements between lines of shared memory, so that those of one column lie in several banks."""
MOST_STATEMENTS = 1024
"""Operations of a thread's statements written one after the other, at most; more are a loop."""


class StageShape(Record):
    """A thread's tile of `own_rows` by `own_columns` sums, a block's of `rows` by `columns`, stretches of `depth`."""

    own_rows: int
    own_columns: int
    rows: int
    columns: int
    depth: int

    @property
    def across(self) -> int:
        """Threads along the columns."""
        return self.columns // self.own_columns

    @property
    def threads(self) -> int:
        return self.rows // self.own_rows * self.across

    @property
    def steps(self) -> int:
        """Steps of a stretch."""
        return self.depth

    @property
    def elements(self) -> int:
        """Numbers in shared memory."""
        return self.depth * (self.rows + self.columns + 2 * PADDING)


class Part(Record):
    """Which rows (or columns) of its block's tile are a thread's: from `origin` on, `run` neighbours, as many for each of
    `threads` threads, of which this one is number `place`, and so on until it has `own`."""

    own: int
    run: int
    threads: int
    place: Value
    origin: Value

    def at(self, builder: Builder, number: int) -> Value:
        """The thread's row (or column) with a number."""
        offset = builder.index(number // self.run * self.threads * self.run + number % self.run)
        return sum_of(builder, self.origin, times(builder, self.place, self.run), offset)

    def found(self, builder: Builder, number: Value) -> Value:
        """The same for a number that the code does not tell."""
        run = builder.shr(number, builder.index(self.run.bit_length() - 1))
        within = builder.bit_and(number, builder.index(self.run - 1))
        start = sum_of(builder, self.origin, times(builder, self.place, self.run))
        return sum_of(builder, start, times(builder, run, self.threads * self.run), within)


class Side(Record):
    """One factor in a block: from `first` on, `width` of its range lie in shared `memory`. `part`: which sums are a thread's."""

    range: Range
    factor: Value
    width: int
    first: Value
    memory: Value
    part: Part


def _in_grid(builder: Builder, thread: Value, across: int, threads: int) -> tuple[Value, Value]:
    """A thread's place in the grid: those of a subgroup of 32 are 4 rows of 8, its quarters 2 rows of 4, so that what they
    read of either factor is short."""

    def bits(first: int, count: int) -> Value:
        return builder.bit_and(builder.shr(thread, builder.index(first)), builder.index((1 << count) - 1))

    if across < 8 or threads < 4 * across:
        return builder.shr(thread, builder.index(across.bit_length() - 1)), bits(0, across.bit_length() - 1)
    high = (across // 8).bit_length() - 1
    along = sum_of(builder, bits(0, 2), times(builder, bits(3, 1), 4), times(builder, bits(5, high), 8))
    rest = builder.shr(thread, builder.index(5 + high))
    return sum_of(builder, bits(2, 1), times(builder, bits(4, 1), 2), times(builder, rest, 4)), along


class StageWriter(ContractionCode):
    """Writes a contraction as a grid loop."""

    def __init__(self, contraction: Contraction, shape: StageShape) -> None:
        super().__init__(contraction)
        self.shape = shape

    def write(self, builder: Builder) -> None:
        """The grid loop: a block for each tile of each point of the batch."""
        found, shape = self.contraction, self.shape
        columns, rows, extents = self._counts(builder)
        grid = GridLoop(builder, self._product(builder, columns, rows, extents), shape.threads)
        block = grid.block
        rest, column = block.floordiv(grid.number, columns), block.mod(grid.number, columns)
        row = block.mod(rest, rows)
        self.enter_batch(block, block.floordiv(rest, rows), extents)
        left_part, right_part = self.parts(grid)
        left = self._side(grid, found.row, found.left, (shape.rows, row), left_part)
        right = self._side(grid, found.column, found.right, (shape.columns, column), right_part)
        sums = self._sums(grid, left, right)
        self._finish(grid.inside, sums, left, right)
        grid.close(cost=1 << 17, lanes=1, lanes_reason=self.reason(), tile=(shape.rows, shape.columns))

    def count(self, builder: Builder) -> Value:
        """How many blocks there are."""
        return self._product(builder, *self._counts(builder))

    def _counts(self, builder: Builder) -> tuple[Value, Value, list[Value]]:
        """Tiles along columns and rows, and the points of the batch along each of its counters."""
        found = self.contraction
        columns = self._tiles(builder, found.column, self.shape.columns)
        rows = self._tiles(builder, found.row, self.shape.rows)
        return columns, rows, [builder.max(builder.sub(part.high, part.low), builder.index(0)) for part in found.batch]

    def _product(self, builder: Builder, columns: Value, rows: Value, extents: list[Value]) -> Value:
        total = builder.mul(rows, columns)
        for extent in extents:
            total = builder.mul(total, extent)
        return total

    # What tiles of other kinds do in other ways.

    def reason(self) -> str:
        """What users are told."""
        shape = self.shape
        return f"products are summed in tiles of {shape.rows} x {shape.columns} by {shape.threads} threads"

    def parts(self, grid: GridLoop) -> tuple[Part, Part]:
        """Which rows and which columns are a thread's."""
        shape, inside = self.shape, grid.inside
        down, along = _in_grid(inside, grid.thread, shape.across, shape.threads)
        zero = inside.index(0)
        left = Part(shape.own_rows, _RUN, shape.rows // shape.own_rows, down, zero)
        return left, Part(shape.own_columns, _RUN, shape.across, along, zero)

    def memory(self, grid: GridLoop, width: int) -> Value:
        """Shared memory for a stretch of a factor: a line for each depth."""
        return grid.shared(self.contraction.scalar, self.shape.depth, width + PADDING)

    def keep(self, builder: Builder, memory: Value, value: Value, depth: Value, place: Value) -> None:
        """Puts an element of a factor into shared memory."""
        builder.op("store", value, memory, depth, place)

    def step(self, builder: Builder, at: Value, totals: list[Value], left: Side, right: Side) -> list[Value]:
        """Adds what step `at` of a stretch gives to a thread's sums, row by row."""
        columns = self._own(builder, right, at)
        rows = self._own(builder, left, at)
        products = [(row, column) for row in rows for column in columns]
        return [builder.add(total, builder.mul(*pair), reassociate=True) for total, pair in zip(totals, products)]

    def _own(self, builder: Builder, side: Side, line: Value) -> list[Value]:
        """A thread's part of a line of shared memory, run by run."""
        size = min(_RUN * self.contraction.scalar.bytes, SHARED_ALIGNMENT)
        return [
            builder.load(side.memory, line, side.part.at(builder, number), aligned=0 if number % _RUN else size)
            for number in range(side.part.own)
        ]

    def _tiles(self, builder: Builder, part: Range, width: int) -> Value:
        return rounded_up(builder, builder.sub(part.high, part.low), builder.index(width))

    def _side(self, grid: GridLoop, of: Range, factor: Value, tile: tuple[int, Value], part: Part) -> Side:
        width, number = tile
        first = sum_of(grid.block, of.low, times(grid.block, number, width))
        return Side(of, factor, width, first, self.memory(grid, width), part)

    # The depth, stretch by stretch.

    def _sums(self, grid: GridLoop, left: Side, right: Side) -> list[Value]:
        """A thread's sums. What the next stretch needs is on its way while one is added up."""
        shape, inside, depth = self.shape, grid.inside, self.contraction.depth
        sides = (left, right)
        zero = inside.constant(0, self.contraction.scalar)
        stretches = rounded_up(inside, inside.sub(depth.high, depth.low), inside.index(shape.depth))
        first = [value for side in sides for value in self._fetched(inside, grid.thread, side, depth.low)]

        def stretch(inner: Builder, number: Value, carried: list[Value]) -> list[Value]:
            taken = iter(carried[: len(first)])
            for side in sides:
                self._keep(inner, grid.thread, side, taken)
            inner.op("barrier")
            after = sum_of(inner, number, inner.index(1))
            begin = sum_of(inner, depth.low, times(inner, after, shape.depth))
            following = [value for side in sides for value in self._fetched(inner, grid.thread, side, begin)]
            sums = loop(inner, inner.index(0), inner.index(shape.steps), step, carried[len(first) :])
            inner.op("barrier")
            return [*following, *sums]

        def step(inner: Builder, at: Value, totals: list[Value]) -> list[Value]:
            return self.step(inner, at, totals, left, right)

        starts = [*first, *[zero] * (shape.own_rows * shape.own_columns)]
        return loop(inside, inside.index(0), stretches, stretch, starts)[len(first) :]

    # From memory to shared memory.

    def _elements(self, builder: Builder, thread: Value, side: Side, visit: Callable[[Value, Value], None]) -> None:
        """Calls `visit` with the line and the place in it of each element that a thread brings: neighbours in memory are
        brought by neighbours."""
        across = self.runs_across(side.factor, side.range)
        length = side.width if across else self.shape.depth
        shift, mask = builder.index(length.bit_length() - 1), builder.index(length - 1)
        for number in range(side.width * self.shape.depth // self.shape.threads):
            flat = sum_of(builder, thread, builder.index(number * self.shape.threads))
            major, minor = builder.shr(flat, shift), builder.bit_and(flat, mask)
            visit(*((major, minor) if across else (minor, major)))

    def _fetched(self, builder: Builder, thread: Value, side: Side, begin: Value) -> list[Value]:
        """The elements of a stretch of the depth, from `begin` on, that a thread brings."""
        depth, found = self.contraction.depth, list[Value]()
        last, deepest = (builder.sub(part.high, builder.index(1), exact=True) for part in (side.range, depth))
        zero = builder.constant(0, side.factor.type)

        def fetch(line: Value, place: Value) -> None:
            at = sum_of(builder, begin, line)
            own = builder.min(sum_of(builder, side.first, place), last)
            value = self.computed(
                builder, side.factor, {side.range.counter: own, depth.counter: builder.min(at, deepest)}
            )
            found.append(builder.select(builder.le(at, deepest), value, zero))

        self._elements(builder, thread, side, fetch)
        return found

    def _keep(self, builder: Builder, thread: Value, side: Side, values: Iterator[Value]) -> None:
        def keep(line: Value, place: Value) -> None:
            self.keep(builder, side.memory, next(values), line, place)

        self._elements(builder, thread, side, keep)

    # What the nest does with the sums.

    def _finish(self, builder: Builder, sums: list[Value], left: Side, right: Side) -> None:
        if len(sums) * self.statement_size() > MOST_STATEMENTS:
            self._finish_in_loops(builder, sums, left, right)
            return
        rows, columns = (
            [sum_of(builder, side.first, side.part.at(builder, number)) for number in range(side.part.own)]
            for side in (left, right)
        )
        totals = iter(sums)
        for row in rows:
            for column in columns:
                self._point(builder, next(totals), row, column)

    def _point(self, builder: Builder, total: Value, row: Value, column: Value) -> None:
        found = self.contraction
        there = builder.bit_and(builder.lt(row, found.row.high), builder.lt(column, found.column.high))
        when(builder, there, lambda inner: self.statement(inner, total, row, column))

    def _finish_in_loops(self, builder: Builder, sums: list[Value], left: Side, right: Side) -> None:
        """By way of a thread's private memory, where all statements one after the other would be long."""
        shape = self.shape
        slot = builder.emit("slot", type=matrix_type(self.contraction.scalar, (shape.own_rows, shape.own_columns)))
        for number, total in enumerate(sums):
            row, column = divmod(number, shape.own_columns)
            builder.op("store", total, slot, builder.index(row), builder.index(column))

        def line(outer: Builder, i: Value, _: list[Value]) -> tuple[Value, ...]:
            row = sum_of(outer, left.first, left.part.found(outer, i))

            def point(inner: Builder, j: Value, _: list[Value]) -> tuple[Value, ...]:
                column = sum_of(inner, right.first, right.part.found(inner, j))
                self._point(inner, inner.load(slot, i, j), row, column)
                return ()

            loop(outer, outer.index(0), outer.index(shape.own_columns), point)
            return ()

        loop(builder, builder.index(0), builder.index(shape.own_rows), line)
