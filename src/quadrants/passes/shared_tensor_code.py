"""The code of a contraction whose products 128 threads make of what lies in shared memory (`ir/shared_fragments.py`).

A block's teams have 64 rows of its tile each, and all of its columns. Lines of 16 bytes are along the depth or along rows (columns), as neighbours
in memory are; those of f32 always along the depth. Eight threads side by side bring the lines of one core matrix, so that they write to
all banks, and the next ones those of its neighbours in memory.

Factors that have a source are copied past the registers (`SharedCopyWriter`, see `stage_copies`). Others, and f32, which is rounded, come by way of
registers (`SharedTensorWriter`): shared memory has room for two stretches, and while the teams multiply one, the next is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Value
from quadrants.ir.shared_fragments import CORE, LINE_BYTES, ROWS, TEAM
from quadrants.ir.types import ScalarType, f32, scalar_of
from quadrants.passes.contraction_code import rounded_up, sum_of, times
from quadrants.passes.contractions import Contraction
from quadrants.passes.grid_code import GridLoop
from quadrants.passes.stage_code import Part, Side, StageWriter
from quadrants.passes.tensor_code import TensorShape, rounded
from quadrants.passes.tensor_copies import TensorCopyWriter
from quadrants.passes.tile_code import loop

__all__ = ["SharedCopyWriter", "SharedTensorShape", "SharedTensorWriter"]

_STAGES = 2
_WARP = 32
_OF_WARP = 16
"""Rows of a team that one of its warps has sums of."""


class SharedTensorShape(TensorShape):
    """Tiles of `rows` by `columns`; a thread has sums of two rows and of a quarter of the columns."""

    @classmethod
    def of(cls, rows: int, columns: int, depth: int, scalar: ScalarType) -> SharedTensorShape:
        """The tile for factors of a type."""
        return cls(2, columns // 4, rows, columns, depth, scalar.bits)

    @property
    def threads(self) -> int:
        return TEAM * self.rows // ROWS

    @property
    def elements(self) -> int:
        return _STAGES * self.depth * (self.rows + self.columns)


class _InTeams(StageWriter):
    """What both writers have."""

    shape: TensorShape
    pending = 0
    """How many operations' products may go on behind one (`ir/shared_fragments.py`)."""
    unit: Value
    """The first of a team's rows, in the tile."""

    @property
    def factors(self) -> ScalarType:
        """The type of the factors."""
        return scalar_of(self.contraction.left.type)

    @property
    def line(self) -> int:
        """Elements of a line."""
        return LINE_BYTES // self.factors.bytes

    def along_width(self, side: Side) -> bool:
        """Whether lines are along rows or columns."""
        return self.factors is not f32 and self.runs_across(side.factor, side.range)

    def parts(self, grid: GridLoop) -> tuple[Part, Part]:
        inside, shape = grid.inside, self.shape
        team = inside.shr(grid.thread, inside.index(TEAM.bit_length() - 1))
        warp = inside.shr(grid.thread, inside.index(_WARP.bit_length() - 1))
        lane = inside.bit_and(grid.thread, inside.index(_WARP - 1))
        group, place = inside.shr(lane, inside.index(2)), inside.bit_and(lane, inside.index(3))
        self.unit = times(inside, team, ROWS)
        left = Part(shape.own_rows, 1, CORE, group, times(inside, warp, _OF_WARP))
        return left, Part(shape.own_columns, 2, 4, place, inside.index(0))

    def room(self, width: int) -> int:
        """Elements of a stretch of a factor in shared memory."""
        return self.shape.depth * width

    def position(self, builder: Builder, side: Side, at: Value, own: Value) -> Value:
        """Where in a stretch the first element of a line lies: that of a depth and a row (or column)."""
        across = self.along_width(side)
        (line, core), size = ((at, own) if across else (own, at)), CORE * self.line
        number, first = builder.shr(core, _bits(builder, self.line)), builder.shr(line, _bits(builder, CORE))
        deep, wide = (first, number) if across else (number, first)
        count = side.width // (self.line if across else CORE)
        within = times(builder, builder.bit_and(line, builder.index(CORE - 1)), self.line)
        found = sum_of(builder, times(builder, sum_of(builder, times(builder, deep, count), wide), size), within)
        return sum_of(builder, found, builder.bit_and(core, builder.index(self.line - 1)))

    def multiplied_in_teams(
        self, builder: Builder, sides: tuple[Side, Side], bases: list[Value], totals: list[Value]
    ) -> list[Value]:
        """The sums with the products of a stretch, row by row. The operation has those of two rows, by two neighbours."""
        left, right = sides
        across = self.shape.own_columns
        places = [k // 2 % 2 * across + 2 * (k // 4) + k % 2 for k in range(len(totals))]
        along = ["width" if self.along_width(side) else "depth" for side in sides]
        # A team's 64 rows are eight core matrices, or 64 / n, side by side: 64 lines of n elements for each row or each n of them.
        first = sum_of(builder, bases[0], times(builder, self.unit, CORE if along[0] == "width" else self.line))
        found = builder.op(
            "team_multiply_shared",
            *(left.memory, first, right.memory, bases[1]),
            *[totals[place] for place in places],
            width=TEAM,
            left=along[0],
            right=along[1],
            rows=left.width,
            columns=right.width,
            depth=self.shape.depth,
            pending=self.pending,
        ).results
        result = list(totals)
        for place, value in zip(places, found):
            result[place] = value
        return result

    def each_line(self, builder: Builder, thread: Value, side: Side, visit: Callable[[Value, Value], None]) -> None:
        """Calls `visit` with the depth and the row (or column) of the first element of each line that a thread brings."""
        across, shape = self.along_width(side), self.shape
        cores = (side.width if across else shape.depth) // self.line
        for number in range(side.width * shape.depth // self.line // shape.threads):
            flat = sum_of(builder, thread, builder.index(number * shape.threads))
            line, rest = _parted(builder, flat, CORE)
            core, group = _parted(builder, rest, cores)
            along, beside = times(builder, core, self.line), sum_of(builder, times(builder, group, CORE), line)
            visit(*((beside, along) if across else (along, beside)))


class SharedCopyWriter(_InTeams, TensorCopyWriter):
    """Writes a contraction of 16-bit factors that `factors_of` has taken, and have a source. Products of a stretch go on while those of the next
    one begin, so that the multiplier never stands still: the team waits for them behind these."""

    in_use = pending = 1

    def prepare(self, builder: Builder, sides: tuple[Side, Side]) -> None:
        """There is nothing to compute."""

    def each(
        self, builder: Builder, thread: Value, side: Side, count: int, visit: Callable[[Value, Value], None]
    ) -> None:
        self.each_line(builder, thread, side, visit)

    def show(self, builder: Builder) -> None:
        builder.op("fence", scope="products")

    def steps(self, builder: Builder, bases: list[Value], totals: list[Value], sides: tuple[Side, Side]) -> list[Value]:
        return self.multiplied_in_teams(builder, sides, bases, totals)

    def finished(self, builder: Builder, totals: list[Value]) -> list[Value]:
        return list(builder.op("team_multiplied", *totals, width=TEAM).results)

    def reason(self) -> str:
        return f"{super().reason()}, which read shared memory"


class SharedTensorWriter(_InTeams):
    """Writes a contraction whose factors `factors_of` has taken."""

    def __init__(self, contraction: Contraction, shape: SharedTensorShape) -> None:
        super().__init__(contraction, shape)

    def reason(self) -> str:
        return f"{super().reason()} on tensor cores, which read shared memory"

    def memory(self, grid: GridLoop, width: int) -> Value:
        return grid.shared(self.factors, _STAGES * self.room(width))

    # The depth, stretch by stretch.

    def _sums(self, grid: GridLoop, left: Side, right: Side) -> list[Value]:
        inside, depth = grid.inside, self.contraction.depth
        sides, one = (left, right), inside.index(1)
        stretches = rounded_up(inside, inside.sub(depth.high, depth.low), inside.index(self.shape.depth))
        self._put(inside, grid.thread, sides, self._taken(inside, grid.thread, sides, depth.low), inside.index(0))

        def stretch(inner: Builder, number: Value, totals: list[Value]) -> list[Value]:
            stage = inner.bit_and(number, one)
            begin = sum_of(inner, depth.low, times(inner, sum_of(inner, number, one), self.shape.depth))
            following = self._taken(inner, grid.thread, sides, begin)
            bases = [times(inner, stage, self.room(side.width)) for side in sides]
            found = self.multiplied_in_teams(inner, sides, bases, totals)
            self._put(inner, grid.thread, sides, following, inner.bit_xor(stage, one))
            return found

        zero = inside.constant(0, f32)
        starts = [zero] * (self.shape.own_rows * self.shape.own_columns)
        return loop(inside, inside.index(0), stretches, stretch, starts)

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
            found = [value for side in sides for value in self._elements_of(inner, thread, side, begin, is_whole)]
            inner.op("yield", *found)
            regions.append(inner.block)
        types = tuple([self.factors] * len(regions[0].ops[-1].operands))
        return builder.op("if", whole, regions=tuple(regions), types=types).results

    def _elements_of(self, builder: Builder, thread: Value, side: Side, begin: Value, whole: bool) -> list[Value]:
        depth, found = self.contraction.depth, list[Value]()
        last, deepest = (builder.sub(part.high, builder.index(1), exact=True) for part in (side.range, depth))
        zero = builder.constant(0, self.factors)

        def take(at: Value, own: Value) -> None:
            at, own = sum_of(builder, begin, at), sum_of(builder, side.first, own)
            if whole:
                found.append(self.computed(builder, side.factor, {side.range.counter: own, depth.counter: at}))
                return
            counters = {side.range.counter: builder.min(own, last), depth.counter: builder.min(at, deepest)}
            value = self.computed(builder, side.factor, counters)
            found.append(builder.select(builder.le(at, deepest), value, zero))

        def line(at: Value, own: Value) -> None:
            for k in range(self.line):
                offset = builder.index(k)
                take(
                    *(
                        (at, sum_of(builder, own, offset))
                        if self.along_width(side)
                        else (sum_of(builder, at, offset), own)
                    )
                )

        self.each_line(builder, thread, side, line)
        return found

    def _put(self, builder: Builder, thread: Value, sides: tuple[Side, ...], values: list[Value], stage: Value) -> None:
        """Puts a stretch into shared memory; behind it all threads see it, and so do products."""
        left = iter(values)
        for side in sides:
            base = times(builder, stage, self.room(side.width))
            self._put_lines(builder, thread, side, left, base)
        builder.op("fence", scope="products")
        builder.op("barrier")

    def _put_lines(self, builder: Builder, thread: Value, side: Side, values: Iterator[Value], base: Value) -> None:
        def put(at: Value, own: Value) -> None:
            start = sum_of(builder, base, self.position(builder, side, at, own))
            for k in range(self.line):
                value = next(values)
                held = rounded(builder, value) if self.factors is f32 else value
                place = sum_of(builder, start, builder.index(k))
                builder.op("store", held, side.memory, place, aligned=0 if k else LINE_BYTES)

        self.each_line(builder, thread, side, put)


def _bits(builder: Builder, size: int) -> Value:
    return builder.index(size.bit_length() - 1)


def _parted(builder: Builder, number: Value, size: int) -> tuple[Value, Value]:
    """A number's remainder and quotient by a power of two."""
    return builder.bit_and(number, builder.index(size - 1)), builder.shr(number, _bits(builder, size))
