"""The code of a contraction in tiles; see `tile`.

Within a block: the left panels hold `rows` rows each, the right ones `columns` columns, depth after depth; rows and columns
past the end are zeros, so that every tile of sums is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import i64, lane_type, matrix_type, u1
from quadrants.passes.clone import clone_ops
from quadrants.passes.contraction_code import ContractionCode, rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.fold import number_of
from quadrants.records import Record

__all__ = ["TileShape", "TileWriter", "loop"]

Fill = Callable[[Builder, Value, list[Value]], Sequence[Value]]

# Blocks that large contractions are cut into at least, so that many threads share them evenly.
_LEAST_BLOCKS = 16
# Tiles of rows that a panel of columns is packed for at least.
_LEAST_TILES = 8


class TileShape(Record):
    """A tile of sums: `rows` by `vectors` vectors of `lanes`; blocks: at most so many rows, columns and depths."""

    rows: int
    vectors: int
    lanes: int
    block_rows: int
    block_columns: int
    block_depth: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def loop(
    builder: Builder, low: Value, high: Value, fill: Fill, starts: Sequence[Value] = (), **attributes: Any
) -> list[Value]:
    """Appends a `for`; `fill` writes its body from the counter and the carried values, and gives the values to carry."""
    body = Block()
    counter = body.add_argument(i64)
    carried = [body.add_argument(start.type) for start in starts]
    inner = Builder(body, builder.location)
    inner.op("yield", *fill(inner, counter, carried))
    return builder.op("for", low, high, *starts, regions=(body,), rank=1, **attributes).results


class _Side(Record):
    """One factor: its range, where the block begins and ends in it, how many panels that makes, and their memory: rows
    of `piece` elements, depth after depth, for one piece of a panel after the other."""

    range: Range
    factor: Value
    width: int
    piece: int
    first: Value
    end: Value
    panels: Value
    memory: Value


class TileWriter(ContractionCode):
    """Writes a contraction in tiles with a builder."""

    def __init__(self, contraction: Contraction, shape: TileShape, builder: Builder) -> None:
        super().__init__(contraction)
        self.shape = shape
        self.builder = builder

    def write(self) -> None:
        """The loop over blocks, parallel if the nest was."""
        found, shape, builder = self.contraction, self.shape, self.builder
        columns = self._cut(builder, found.column, shape.columns, shape.block_columns, builder.index(1))
        least = rounded_up(builder, builder.index(_LEAST_BLOCKS), columns[0])
        rows = self._cut(builder, found.row, shape.rows, shape.block_rows, least)
        extents = [builder.max(builder.sub(part.high, part.low), builder.index(0)) for part in found.batch]
        total = builder.mul(rows[0], columns[0])
        for extent in extents:
            total = builder.mul(total, extent)
        attributes: dict[str, Any] = {"tile": (shape.rows, shape.columns)}
        if found.parallel:
            attributes |= {"parallel": True, "cost": 1 << 17, "lanes": shape.lanes}
            attributes["lanes_reason"] = f"products are summed in tiles of {shape.rows} x {shape.columns}"

        def block(inner: Builder, number: Value, _: list[Value]) -> tuple[Value, ...]:
            self._block(inner, number, rows, columns, extents)
            return ()

        loop(builder, builder.index(0), total, block, **attributes)

    def _cut(self, builder: Builder, part: Range, unit: int, most: int, least: Value) -> tuple[Value, Value]:
        """How many blocks a range is cut into, and the length of each: as even as whole tiles allow."""
        extent = builder.sub(part.high, part.low)
        worth = builder.floordiv(extent, builder.index(unit * _LEAST_TILES))
        blocks = builder.max(rounded_up(builder, extent, builder.index(most)), builder.min(least, worth))
        tiles = rounded_up(builder, rounded_up(builder, extent, blocks), builder.index(unit))
        length = times(builder, tiles, unit)
        return rounded_up(builder, extent, length), length

    def _block(
        self,
        builder: Builder,
        number: Value,
        rows: tuple[Value, Value],
        columns: tuple[Value, Value],
        extents: list[Value],
    ) -> None:
        found, shape = self.contraction, self.shape
        rest, column = self._split(builder, number, columns[0])
        rest, row = self._split(builder, rest, rows[0])
        self.enter_batch(builder, rest, extents)
        left = self._side(builder, found.row, found.left, shape.rows, shape.block_rows, row, rows[1])
        right = self._side(builder, found.column, found.right, shape.columns, shape.block_columns, column, columns[1])
        sums = self._memory(builder, shape.block_rows * shape.block_columns)
        self._clear(builder, sums, left, right)
        low, high = found.depth.low, found.depth.high
        stretches = rounded_up(builder, builder.sub(high, low), builder.index(shape.block_depth))

        def stretch(inner: Builder, index: Value, _: list[Value]) -> tuple[Value, ...]:
            first = sum_of(inner, low, times(inner, index, shape.block_depth))
            depth = inner.min(inner.sub(high, first), inner.index(shape.block_depth))
            self._pack(inner, left, first, depth)
            self._pack(inner, right, first, depth)
            self._tiles(inner, left, right, sums, depth)
            return ()

        loop(builder, builder.index(0), stretches, stretch)
        self._finish(builder, left, right, sums)

    def _split(self, builder: Builder, number: Value, extent: Value) -> tuple[Value, Value]:
        return builder.floordiv(number, extent), builder.mod(number, extent)

    def _side(
        self, builder: Builder, part: Range, factor: Value, width: int, most: int, index: Value, length: Value
    ) -> _Side:
        first = sum_of(builder, part.low, builder.mul(index, length, exact=True))
        end = builder.min(sum_of(builder, first, length), part.high)
        panels = rounded_up(builder, builder.sub(end, first), builder.index(width))
        piece = width & -width  # vectors of such lengths have no gaps between them in memory
        memory = self._memory(builder, most // piece * self.shape.block_depth, piece)
        return _Side(part, factor, width, piece, first, end, panels, memory)

    def _memory(self, builder: Builder, *sizes: int) -> Value:
        return builder.emit("slot", type=matrix_type(self.contraction.scalar, sizes))

    def _clear(self, builder: Builder, sums: Value, left: _Side, right: _Side) -> None:
        zero, start = builder.constant(0, self.contraction.scalar), builder.index(0)
        length = times(builder, right.panels, right.width)

        def row(outer: Builder, index: Value, _: list[Value]) -> tuple[Value, ...]:
            line = times(outer, index, self.shape.block_columns)

            def clear(inner: Builder, offset: Value, _: list[Value]) -> tuple[Value, ...]:
                inner.op("store", zero, sums, sum_of(inner, line, offset))
                return ()

            loop(outer, start, length, clear)
            return ()

        loop(builder, start, times(builder, left.panels, left.width), row)

    # Panels.

    def _pack(self, builder: Builder, side: _Side, first: Value, depth: Value) -> None:
        """Copies a factor into its panels: depth after depth where its elements are neighbours across them."""
        zero = builder.index(0)
        if self.runs_across(side.factor, side.range):

            def line(outer: Builder, at: Value, _: list[Value]) -> tuple[Value, ...]:
                def part(inner: Builder, index: Value, _: list[Value]) -> tuple[Value, ...]:
                    self._part(inner, side, index, first, (at, sum_of(inner, at, inner.index(1))))
                    return ()

                loop(outer, zero, side.panels, part)
                return ()

            loop(builder, zero, depth, line)
        else:

            def panel(inner: Builder, index: Value, _: list[Value]) -> tuple[Value, ...]:
                self._part(inner, side, index, first, (zero, depth))
                return ()

            loop(builder, zero, side.panels, panel)

    def _part(self, builder: Builder, side: _Side, index: Value, first: Value, depths: tuple[Value, Value]) -> None:
        """Some depths of one panel."""
        width = side.width
        start = sum_of(builder, side.first, times(builder, index, width))
        base = times(builder, index, width // side.piece * self.shape.block_depth)
        there, whole = builder.sub(side.end, start), builder.index(width)
        branches: list[Block] = []
        for valid in (whole, there):
            branch = Builder(Block(), builder.location)
            source = self._plain_load(side) if valid is whole else None
            if source is not None:
                self._interleave(branch, side, source, (start, base), first, depths[1])
            else:
                self._lines(branch, side, (start, base, valid), first, depths)
            branch.op("yield")
            branches.append(branch.block)
        builder.op("if", builder.ge(there, whole), regions=tuple(branches), types=())

    def _plain_load(self, side: _Side) -> Op | None:
        """The load that a factor is, where a panel is a transposed piece of an array: neighbours are in the depth."""
        op = side.factor.owner
        if type(op) is not Op or op.kind != "load":
            return None
        *others, last = op.operands[1:]
        if last is not self.contraction.depth.counter or others.count(side.range.counter) != 1:
            return None
        moving = {side.range.counter, self.contraction.depth.counter}
        index = self.contraction.slices[side.factor][:-1]
        return op if all(moving.isdisjoint(part.operands) for part in index) else None

    def _interleave(
        self, builder: Builder, side: _Side, source: Op, place: tuple[Value, Value], first: Value, depth: Value
    ) -> None:
        """A whole panel of an array's elements."""
        start, base = place
        counter = side.range.counter
        axis = source.operands[1:].index(counter)

        def piece(inner: Builder, number: Value, _: list[Value]) -> tuple[Value, ...]:
            begin = sum_of(inner, start, times(inner, number, side.piece))
            values = {**self.batch, counter: begin, self.contraction.depth.counter: first}
            inner.block.ops += clone_ops(self.contraction.slices[side.factor][:-1], values)
            array, *indices = [values.get(operand, operand) for operand in source.operands]
            row = sum_of(inner, base, times(inner, number, self.shape.block_depth))
            inner.op("interleave", side.memory, row, array, *indices, depth, axis=axis)
            return ()

        loop(builder, builder.index(0), builder.index(side.width // side.piece), piece, short=True)

    def _lines(
        self,
        builder: Builder,
        side: _Side,
        place: tuple[Value, Value, Value],
        first: Value,
        depths: tuple[Value, Value],
    ) -> None:
        """Some depths of a panel of which `valid` rows (or columns) are there; the others are zeros."""
        start, base, valid = place
        zero, whole = builder.index(0), builder.index(side.width)

        def line(inner: Builder, at: Value, _: list[Value]) -> tuple[Value, ...]:
            k = sum_of(inner, first, at)
            to = sum_of(inner, base, at)

            def element(part: Builder, offset: Value, _: list[Value]) -> tuple[Value, ...]:
                values = {side.range.counter: sum_of(part, start, offset), self.contraction.depth.counter: k}
                found = self.computed(part, side.factor, values)
                part.op("store", found, side.memory, *self._place(part, side, to, offset))
                return ()

            def nothing(part: Builder, offset: Value, _: list[Value]) -> tuple[Value, ...]:
                none = part.constant(0, self.contraction.scalar)
                part.op("store", none, side.memory, *self._place(part, side, to, offset))
                return ()

            # At the edge, and where elements are apart, vectors of the code generator's would only cost time to compile.
            edge = number_of(valid) is None
            loop(inner, zero, valid, element, short=edge or not self.runs_across(side.factor, side.range))
            if edge:
                loop(inner, valid, whole, nothing, short=True)
            return ()

        loop(builder, *depths, line)

    def _place(self, builder: Builder, side: _Side, line: Value, offset: Value) -> tuple[Value, Value]:
        """Where an element of a panel is, of which piece 0 has its depth in a line."""
        if side.piece == side.width:
            return line, offset
        number = builder.shr(offset, builder.index(side.piece.bit_length() - 1))
        row = sum_of(builder, line, times(builder, number, self.shape.block_depth))
        return row, builder.bit_and(offset, builder.index(side.piece - 1))

    # Tiles of sums.

    def _tiles(self, builder: Builder, left: _Side, right: _Side, sums: Value, depth: Value) -> None:
        shape, zero = self.shape, builder.index(0)

        def column(outer: Builder, across: Value, _: list[Value]) -> tuple[Value, ...]:
            right_base = times(outer, across, shape.columns // right.piece * shape.block_depth)
            first_column = times(outer, across, shape.columns)

            def row(inner: Builder, down: Value, _: list[Value]) -> tuple[Value, ...]:
                left_base = times(inner, down, shape.rows // left.piece * shape.block_depth)
                found = self._tile(inner, left, right, (left_base, right_base), depth)
                corner = sum_of(inner, times(inner, down, shape.rows * shape.block_columns), first_column)
                self._add(inner, found, sums, corner)
                return ()

            loop(outer, zero, left.panels, row)
            return ()

        loop(builder, zero, right.panels, column)

    def _tile(
        self, builder: Builder, left: _Side, right: _Side, bases: tuple[Value, Value], depth: Value
    ) -> list[Value]:
        """The sums of one tile over one stretch of the depth, row by row."""
        shape = self.shape
        wide = lane_type(self.contraction.scalar, shape.lanes)
        none = builder.constant(0, wide)

        def step(inner: Builder, at: Value, totals: list[Value]) -> list[Value]:
            left_at, right_at = sum_of(inner, bases[0], at), sum_of(inner, bases[1], at)
            on = inner.constant(True, lane_type(u1, shape.lanes))
            vectors = [self._vector(inner, right, right_at, n * shape.lanes, on) for n in range(shape.vectors)]
            out: list[Value] = []
            for r in range(shape.rows):
                row = _moved(inner, left_at, r // left.piece * shape.block_depth)
                element = inner.emit("load", left.memory, row, inner.index(r % left.piece))
                own = inner.emit("broadcast", element, type=wide)
                out += [inner.add(totals[len(out) + n], inner.mul(own, v)) for n, v in enumerate(vectors)]
            return out

        return loop(builder, builder.index(0), depth, step, [none] * (shape.rows * shape.vectors))

    def _vector(self, builder: Builder, side: _Side, line: Value, offset: int, on: Value) -> Value:
        row = _moved(builder, line, offset // side.piece * self.shape.block_depth)
        place = builder.index(offset % side.piece)
        return builder.emit("lane_load", side.memory, row, place, on, steps=(0, 1))

    def _add(self, builder: Builder, found: list[Value], sums: Value, corner: Value) -> None:
        shape = self.shape
        on = builder.constant(True, lane_type(u1, shape.lanes))
        for r in range(shape.rows):
            for n in range(shape.vectors):
                place = _moved(builder, corner, r * shape.block_columns + n * shape.lanes)
                old = builder.emit("lane_load", sums, place, on, steps=(1,))
                total = builder.add(old, found[r * shape.vectors + n])
                builder.op("lane_store", total, sums, place, on, steps=(1,))

    # What the nest does with the sums.

    def _finish(self, builder: Builder, left: _Side, right: _Side, sums: Value) -> None:
        def row(outer: Builder, i: Value, _: list[Value]) -> tuple[Value, ...]:
            line = times(outer, outer.sub(i, left.first, exact=True), self.shape.block_columns)
            line = outer.sub(line, right.first, exact=True)

            def column(inner: Builder, j: Value, _: list[Value]) -> tuple[Value, ...]:
                total = inner.emit("load", sums, sum_of(inner, line, j))
                self.statement(inner, total, i, j)
                return ()

            loop(outer, right.first, right.end, column)
            return ()

        loop(builder, left.first, left.end, row)


def _moved(builder: Builder, place: Value, by: int) -> Value:
    return place if by == 0 else sum_of(builder, place, builder.index(by))
