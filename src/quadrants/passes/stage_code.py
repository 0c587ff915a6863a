"""The code of a contraction in shared memory; see `stage_tiles`.

A block's threads stand in a grid over its tile. A thread's rows (and columns) come in runs of neighbours, runs of all threads
side by side, so that neighbours in a subgroup read neighbours in shared memory. What lies behind the end of rows or columns is loaded
from the last ones and never stored; what lies behind the end of the depth is zero on both sides.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Value
from quadrants.ir.types import matrix_type
from quadrants.passes.contraction_code import ContractionCode, rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.grid_code import GridLoop, when
from quadrants.passes.structure import count_ops
from quadrants.passes.tile_code import loop
from quadrants.records import Record

__all__ = ["StageShape", "StageWriter"]

_RUN = 4
"""Neighbouring rows or columns of a thread: what it reads from shared memory at once."""
_PADDING = 4
"""Elements between lines of shared memory, so that those of one column lie in several banks."""
_MOST_STATEMENTS = 1024
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
    def elements(self) -> int:
        """Numbers in shared memory."""
        return self.depth * (self.rows + self.columns + 2 * _PADDING)


class _Side(Record):
    """One factor in a block: from `first` on, `width` of its range lie in shared `memory`, a line for each depth. `own`: how
    many are a thread's, `threads` threads have others, and `place` is this one's number among them."""

    range: Range
    factor: Value
    width: int
    own: int
    threads: int
    first: Value
    place: Value
    memory: Value


class StageWriter(ContractionCode):
    """Writes a contraction as a grid loop with a builder."""

    def __init__(self, contraction: Contraction, shape: StageShape, builder: Builder) -> None:
        super().__init__(contraction)
        self.shape = shape
        self.builder = builder

    def write(self) -> None:
        """The grid loop: a block for each tile of each point of the batch."""
        found, shape, builder = self.contraction, self.shape, self.builder
        columns = self._tiles(builder, found.column, shape.columns)
        rows = self._tiles(builder, found.row, shape.rows)
        extents = [builder.max(builder.sub(part.high, part.low), builder.index(0)) for part in found.batch]
        total = builder.mul(rows, columns)
        for extent in extents:
            total = builder.mul(total, extent)
        grid = GridLoop(builder, total, shape.threads)
        block = grid.block
        rest, column = block.floordiv(grid.number, columns), block.mod(grid.number, columns)
        row = block.mod(rest, rows)
        self.enter_batch(block, block.floordiv(rest, rows), extents)
        inside = grid.inside
        down = inside.shr(grid.thread, inside.index(shape.across.bit_length() - 1))
        along = inside.bit_and(grid.thread, inside.index(shape.across - 1))
        left = self._side(grid, (found.row, found.left), (shape.rows, shape.own_rows), row, down)
        right = self._side(grid, (found.column, found.right), (shape.columns, shape.own_columns), column, along)
        sums = self._sums(grid, left, right)
        self._finish(inside, sums, left, right)
        reason = f"products are summed in tiles of {shape.rows} x {shape.columns} by {shape.threads} threads"
        grid.close(cost=1 << 17, lanes=1, lanes_reason=reason, tile=(shape.rows, shape.columns))

    def _tiles(self, builder: Builder, part: Range, width: int) -> Value:
        return rounded_up(builder, builder.sub(part.high, part.low), builder.index(width))

    def _side(
        self, grid: GridLoop, part: tuple[Range, Value], widths: tuple[int, int], number: Value, place: Value
    ) -> _Side:
        (of, factor), (width, own) = part, widths
        first = sum_of(grid.block, of.low, times(grid.block, number, width))
        memory = grid.shared(self.contraction.scalar, self.shape.depth, width + _PADDING)
        return _Side(of, factor, width, own, width // own, first, place, memory)

    # The depth, stretch by stretch.

    def _sums(self, grid: GridLoop, left: _Side, right: _Side) -> list[Value]:
        """A thread's sums. What the next stretch needs is on its way while one is added up."""
        shape, inside, depth = self.shape, grid.inside, self.contraction.depth
        zero = inside.constant(0, self.contraction.scalar)
        stretches = rounded_up(inside, inside.sub(depth.high, depth.low), inside.index(shape.depth))
        first = [
            *self._fetched(inside, grid.thread, left, depth.low),
            *self._fetched(inside, grid.thread, right, depth.low),
        ]
        taken = len(first)
        of_left = shape.rows * shape.depth // shape.threads

        def stretch(inner: Builder, number: Value, carried: list[Value]) -> list[Value]:
            self._keep(inner, grid.thread, left, carried[:of_left])
            self._keep(inner, grid.thread, right, carried[of_left:taken])
            inner.op("barrier")
            after = sum_of(inner, number, inner.index(1))
            begin = sum_of(inner, depth.low, times(inner, after, shape.depth))
            following = [
                *self._fetched(inner, grid.thread, left, begin),
                *self._fetched(inner, grid.thread, right, begin),
            ]
            sums = loop(inner, inner.index(0), inner.index(shape.depth), step, carried[taken:])
            inner.op("barrier")
            return [*following, *sums]

        def step(inner: Builder, at: Value, totals: list[Value]) -> list[Value]:
            columns = self._own(inner, right, at)
            rows = self._own(inner, left, at)
            products = [(row, column) for row in rows for column in columns]
            return [inner.add(total, inner.mul(*pair), reassociate=True) for total, pair in zip(totals, products)]

        starts = [*first, *[zero] * (shape.own_rows * shape.own_columns)]
        return loop(inside, inside.index(0), stretches, stretch, starts)[taken:]

    def _own(self, builder: Builder, side: _Side, line: Value) -> list[Value]:
        """A thread's part of a line of shared memory."""
        return [builder.load(side.memory, line, place) for place in self._places(builder, side)]

    def _places(self, builder: Builder, side: _Side) -> list[Value]:
        """Where the rows (or columns) of a thread are in its block's tile."""
        run = times(builder, side.place, _RUN)
        return [
            sum_of(builder, run, builder.index(number // _RUN * side.threads * _RUN + number % _RUN))
            for number in range(side.own)
        ]

    # From memory to shared memory.

    def _elements(self, builder: Builder, thread: Value, side: _Side, visit: Callable[[Value, Value], None]) -> None:
        """Calls `visit` with the line and the place in it of each element that a thread brings: neighbours in memory are
        brought by neighbours."""
        across = self.runs_across(side.factor, side.range)
        length = side.width if across else self.shape.depth
        shift, mask = builder.index(length.bit_length() - 1), builder.index(length - 1)
        for number in range(side.width * self.shape.depth // self.shape.threads):
            flat = sum_of(builder, thread, builder.index(number * self.shape.threads))
            major, minor = builder.shr(flat, shift), builder.bit_and(flat, mask)
            visit(*((major, minor) if across else (minor, major)))

    def _fetched(self, builder: Builder, thread: Value, side: _Side, begin: Value) -> list[Value]:
        """The elements of a stretch of the depth, from `begin` on, that a thread brings."""
        depth, found = self.contraction.depth, list[Value]()
        last, deepest = (builder.sub(part.high, builder.index(1), exact=True) for part in (side.range, depth))
        zero = builder.constant(0, self.contraction.scalar)

        def fetch(line: Value, place: Value) -> None:
            at = sum_of(builder, begin, line)
            own = builder.min(sum_of(builder, side.first, place), last)
            value = self.computed(
                builder, side.factor, {side.range.counter: own, depth.counter: builder.min(at, deepest)}
            )
            found.append(builder.select(builder.le(at, deepest), value, zero))

        self._elements(builder, thread, side, fetch)
        return found

    def _keep(self, builder: Builder, thread: Value, side: _Side, values: list[Value]) -> None:
        left = iter(values)

        def keep(line: Value, place: Value) -> None:
            builder.op("store", next(left), side.memory, line, place)

        self._elements(builder, thread, side, keep)

    # What the nest does with the sums.

    def _finish(self, builder: Builder, sums: list[Value], left: _Side, right: _Side) -> None:
        if len(sums) * count_ops(self.contraction.statement) > _MOST_STATEMENTS:
            self._finish_in_loops(builder, sums, left, right)
            return
        columns = [sum_of(builder, right.first, place) for place in self._places(builder, right)]
        rows = [sum_of(builder, left.first, place) for place in self._places(builder, left)]
        totals = iter(sums)
        for row in rows:
            for column in columns:
                self._point(builder, next(totals), row, column)

    def _point(self, builder: Builder, total: Value, row: Value, column: Value) -> None:
        found = self.contraction
        there = builder.bit_and(builder.lt(row, found.row.high), builder.lt(column, found.column.high))
        when(builder, there, lambda inner: self.statement(inner, total, row, column))

    def _finish_in_loops(self, builder: Builder, sums: list[Value], left: _Side, right: _Side) -> None:
        """By way of a thread's private memory, where all statements one after the other would be long."""
        shape = self.shape
        slot = builder.emit("slot", type=matrix_type(self.contraction.scalar, (shape.own_rows, shape.own_columns)))
        for number, total in enumerate(sums):
            row, column = divmod(number, shape.own_columns)
            builder.op("store", total, slot, builder.index(row), builder.index(column))

        def line(outer: Builder, i: Value, _: list[Value]) -> tuple[Value, ...]:
            row = self._at(outer, left, i)

            def point(inner: Builder, j: Value, _: list[Value]) -> tuple[Value, ...]:
                self._point(inner, inner.load(slot, i, j), row, self._at(inner, right, j))
                return ()

            loop(outer, outer.index(0), outer.index(shape.own_columns), point)
            return ()

        loop(builder, builder.index(0), builder.index(shape.own_rows), line)

    def _at(self, builder: Builder, side: _Side, number: Value) -> Value:
        """The row (or column) of a thread with a number that the code does not tell."""
        run = builder.shr(number, builder.index(_RUN.bit_length() - 1))
        within = builder.bit_and(number, builder.index(_RUN - 1))
        start = times(builder, side.place, _RUN)
        return sum_of(builder, side.first, start, times(builder, run, side.threads * _RUN), within)
