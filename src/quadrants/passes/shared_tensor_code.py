"""The code of a contraction whose products 128 threads make of what lies in shared memory (`ir/shared_fragments.py`).

A block's teams have 64 rows of its tile each, and all of its columns. Both factors lie in shared memory twice: while the teams multiply one
stretch of the depth, what the next one needs is on its way to registers, from where it goes to the other place. A thread brings lines of
16 bytes. Eight threads side by side bring a core matrix, so their stores reach all banks; the next ones bring its neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Value
from quadrants.ir.shared_fragments import CORE, LINE_BYTES, ROWS, TEAM
from quadrants.ir.types import ScalarType, f32, scalar_of
from quadrants.passes.contraction_code import rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.grid_code import GridLoop
from quadrants.passes.stage_code import Part, Side, StageShape, StageWriter
from quadrants.passes.tensor_code import rounded
from quadrants.passes.tile_code import loop

__all__ = ["SharedTensorShape", "SharedTensorWriter"]

_STAGES = 2
_WARP = 32
_OF_WARP = 16
"""Rows of a team that one of its warps has sums of."""


class SharedTensorShape(StageShape):
    """Tiles of `rows` by `columns`; a thread has sums of two rows and of a quarter of the columns."""

    @classmethod
    def of(cls, rows: int, columns: int, scalar: ScalarType) -> SharedTensorShape:
        """The tile for factors of a type, stretches of 64 bytes deep."""
        return cls(2, columns // 4, rows, columns, 64 // scalar.bytes)

    @property
    def threads(self) -> int:
        return TEAM * self.rows // ROWS

    @property
    def elements(self) -> int:
        return _STAGES * self.depth * (self.rows + self.columns)


class SharedTensorWriter(StageWriter):
    """Writes a contraction whose factors `factors_of` has taken."""

    shape: SharedTensorShape

    def __init__(self, contraction: Contraction, shape: SharedTensorShape) -> None:
        super().__init__(contraction, shape)
        self.scalar = scalar_of(contraction.left.type)
        self.line = LINE_BYTES // self.scalar.bytes
        self.unit: Value

    def reason(self) -> str:
        shape = self.shape
        return (
            f"products are summed in tiles of {shape.rows} x {shape.columns} by {shape.threads} threads "
            "on tensor cores, which read shared memory"
        )

    def along_width(self, factor: Value, of: Range) -> bool:
        """Whether lines of 16 bytes are along rows or columns, as neighbours in memory are; factors of f32 lie along the depth."""
        return self.scalar is not f32 and self.runs_across(factor, of)

    def parts(self, grid: GridLoop) -> tuple[Part, Part]:
        inside = grid.inside
        team = inside.shr(grid.thread, inside.index(TEAM.bit_length() - 1))
        warp = inside.shr(grid.thread, inside.index(_WARP.bit_length() - 1))
        lane = inside.bit_and(grid.thread, inside.index(_WARP - 1))
        group, place = inside.shr(lane, inside.index(2)), inside.bit_and(lane, inside.index(3))
        self.unit = times(inside, team, ROWS // CORE)
        left = Part(self.shape.own_rows, 1, CORE, group, times(inside, warp, _OF_WARP))
        return left, Part(self.shape.own_columns, 2, 4, place, inside.index(0))

    def _side(self, grid: GridLoop, of: Range, factor: Value, tile: tuple[int, Value], part: Part) -> Side:
        width, number = tile
        first = sum_of(grid.block, of.low, times(grid.block, number, width))
        across, deep = (self.line, CORE) if self.along_width(factor, of) else (CORE, self.line)
        memory = grid.shared(self.scalar, _STAGES, self.shape.depth // deep, width // across, CORE, self.line)
        return Side(of, factor, width, first, memory, part)

    # The depth, stretch by stretch.

    def _sums(self, grid: GridLoop, left: Side, right: Side) -> list[Value]:
        inside, depth = grid.inside, self.contraction.depth
        sides, one = (left, right), inside.index(1)
        stretches = rounded_up(inside, inside.sub(depth.high, depth.low), inside.index(self.shape.depth))
        self._bring(inside, grid.thread, sides, self._taken(inside, grid.thread, sides, depth.low), inside.index(0))

        def stretch(inner: Builder, number: Value, totals: list[Value]) -> list[Value]:
            stage = inner.bit_and(number, one)
            begin = sum_of(inner, depth.low, times(inner, sum_of(inner, number, one), self.shape.depth))
            following = self._taken(inner, grid.thread, sides, begin)
            found = self._multiplied(inner, left, right, stage, totals)
            self._bring(inner, grid.thread, sides, following, inner.bit_xor(stage, one))
            return found

        zero = inside.constant(0, f32)
        starts = [zero] * (self.shape.own_rows * self.shape.own_columns)
        return loop(inside, inside.index(0), stretches, stretch, starts)

    def _multiplied(self, builder: Builder, left: Side, right: Side, stage: Value, totals: list[Value]) -> list[Value]:
        """The sums with the products of a stretch. Eight columns' sums are those of two rows, by two neighbours."""
        across = self.shape.own_columns
        places = [
            k // 2 % 2 * across + 2 * (k // 4) + k % 2  # row by row, as `StageWriter` has them
            for k in range(len(totals))
        ]
        along = ["width" if self.along_width(side.factor, side.range) else "depth" for side in (left, right)]
        sums = [totals[place] for place in places]
        operands = (left.memory, right.memory, stage, self.unit, *sums)
        op = builder.op("team_multiply_shared", *operands, width=TEAM, left=along[0], right=along[1])
        found = list(totals)
        for place, result in zip(places, op.results):
            found[place] = result
        return found

    # From memory to shared memory.

    def _taken(self, builder: Builder, thread: Value, sides: tuple[Side, ...], begin: Value) -> list[Value]:
        """What a thread brings of a stretch from `begin` on. Where all of it is inside of both factors, no index is looked at."""
        whole = builder.le(sum_of(builder, begin, builder.index(self.shape.depth)), self.contraction.depth.high)
        for side in sides:
            end = sum_of(builder, side.first, builder.index(side.width))
            whole = builder.bit_and(whole, builder.le(end, side.range.high))
        regions: list[Block] = []
        for is_whole in (True, False):
            inner = Builder(Block(), builder.location)
            found = [value for side in sides for value in self._line_by_line(inner, thread, side, begin, is_whole)]
            inner.op("yield", *found)
            regions.append(inner.block)
        types = tuple([self.scalar] * len(regions[0].ops[-1].operands))
        return builder.op("if", whole, regions=tuple(regions), types=types).results

    def _line_by_line(self, builder: Builder, thread: Value, side: Side, begin: Value, whole: bool) -> list[Value]:
        depth, found = self.contraction.depth, list[Value]()
        last, deepest = (builder.sub(part.high, builder.index(1), exact=True) for part in (side.range, depth))
        zero = builder.constant(0, self.scalar)

        def take(_: list[Value], at: Value, place: Value) -> None:
            at, own = sum_of(builder, begin, at), sum_of(builder, side.first, place)
            if whole:
                found.append(self.computed(builder, side.factor, {side.range.counter: own, depth.counter: at}))
                return
            counters = {side.range.counter: builder.min(own, last), depth.counter: builder.min(at, deepest)}
            value = self.computed(builder, side.factor, counters)
            found.append(builder.select(builder.le(at, deepest), value, zero))

        self._visit(builder, thread, side, take)
        return found

    def _bring(
        self, builder: Builder, thread: Value, sides: tuple[Side, ...], values: list[Value], stage: Value
    ) -> None:
        """Puts a stretch into shared memory; behind it all threads see it, and so do products."""
        left = iter(values)
        for side in sides:
            self._put(builder, thread, side, left, stage)
        builder.op("fence", scope="products")
        builder.op("barrier")

    def _put(self, builder: Builder, thread: Value, side: Side, values: Iterator[Value], stage: Value) -> None:
        def put(indices: list[Value], at: Value, place: Value) -> None:
            value = next(values)
            builder.op("store", rounded(builder, value) if self.scalar is f32 else value, side.memory, stage, *indices)

        self._visit(builder, thread, side, put)

    def _visit(
        self, builder: Builder, thread: Value, side: Side, visit: Callable[[list[Value], Value, Value], None]
    ) -> None:
        """Calls `visit` for each element that a thread brings, line by line: its indices in a stage, its depth and its place."""
        lines = side.width * self.shape.depth // self.line
        for number in range(lines // self.shape.threads):
            flat = sum_of(builder, thread, builder.index(number * self.shape.threads))
            self._visit_line(builder, flat, side, visit)

    def _visit_line(
        self, builder: Builder, flat: Value, side: Side, visit: Callable[[list[Value], Value, Value], None]
    ) -> None:
        if self.along_width(side.factor, side.range):
            line, rest = _parted(builder, flat, CORE)
            core, deep = _parted(builder, rest, side.width // self.line)
            at = sum_of(builder, times(builder, deep, CORE), line)
            for k in range(self.line):
                element = builder.index(k)
                place = sum_of(builder, times(builder, core, self.line), element)
                visit([deep, core, line, element], at, place)
            return
        if self.runs_across(side.factor, side.range):
            place, deep = _parted(builder, flat, side.width)
            line, core = _parted(builder, place, CORE)
        else:
            line, rest = _parted(builder, flat, CORE)
            deep, core = _parted(builder, rest, self.shape.depth // self.line)
            place = sum_of(builder, times(builder, core, CORE), line)
        for k in range(self.line):
            element = builder.index(k)
            visit([deep, core, line, element], sum_of(builder, times(builder, deep, self.line), element), place)


def _parted(builder: Builder, number: Value, size: int) -> tuple[Value, Value]:
    """A number's remainder and quotient by a power of two."""
    return builder.bit_and(number, builder.index(size - 1)), builder.shr(number, builder.index(size.bit_length() - 1))
