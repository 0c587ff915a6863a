"""The code of a contraction on tensor cores: as in `stage_code`, but teams of 32 threads multiply small matrices, which they hold
together (`ir/fragments.py`).

A team has a part of its block's tile, in small matrices of 16 rows and 8 columns. Elements that are neighbours in the depth are
neighbours in shared memory: a thread holds them together.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.fragments import LEFT, RIGHT, SUMS, THREADS, depth_of
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ScalarType, f32, i32, scalar_of
from quadrants.passes.contraction_code import sum_of, times
from quadrants.passes.contractions import Contraction
from quadrants.passes.grid_code import GridLoop
from quadrants.passes.stage_code import Part, Side, StageShape, StageWriter
from quadrants.records import replace

__all__ = ["TensorShape", "TensorWriter", "factors_of", "rounded"]

_PADDING = 16
"""Bytes between lines of shared memory: what a team reads at once then lies in as many banks as there are threads."""
_ALONG, _DOWN = 8, 4
"""Rows (or columns) and depths of what 32 threads bring at once of factors of 32 bits that lie side by side along rows: a piece of memory
each, and as many banks as there are threads."""
_ROWS, _COLUMNS = 16, 8


class TensorShape(StageShape):
    """Teams have `own_rows` times 8 rows and `own_columns` times 4 columns; factors have `bits`."""

    bits: int

    @property
    def team_rows(self) -> int:
        return 8 * self.own_rows

    @property
    def team_columns(self) -> int:
        return 4 * self.own_columns

    @property
    def across(self) -> int:
        """Teams along the columns."""
        return self.columns // self.team_columns

    @property
    def threads(self) -> int:
        return THREADS * self.across * self.rows // self.team_rows

    @property
    def steps(self) -> int:
        return self.depth // depth_of(self.bits)

    @property
    def line(self) -> int:
        """Elements from one line of shared memory to the next."""
        return self.depth + 8 * _PADDING // self.bits

    @property
    def elements(self) -> int:
        return (self.rows + self.columns) * self.line


def factors_of(contraction: Contraction) -> tuple[Contraction, ScalarType]:
    """The contraction with its factors in the type that they are loaded in, where both are f32 of one narrower type, and that
    type."""
    left, right = _uncast(contraction.left), _uncast(contraction.right)
    scalar = scalar_of(left.type) if left is not None else contraction.scalar
    if contraction.scalar is not f32 or left is None or right is None or right.type is not scalar:
        return contraction, contraction.scalar
    if not scalar.is_float or scalar.bits != 16:
        return contraction, contraction.scalar
    whole = list(contraction.slices.items())
    slices = {left: whole[0][1][:-1], right: whole[1][1][:-1], **dict(whole[2:])}
    return replace(contraction, left=left, right=right, slices=slices), scalar


def _uncast(value: Value) -> Value | None:
    """What a value is cast from."""
    op = value.owner
    return op.operands[0] if type(op) is Op and op.kind == "cast" else None


class TensorWriter(StageWriter):
    """Writes a contraction whose factors `factors_of` has taken."""

    shape: TensorShape

    def __init__(self, contraction: Contraction, shape: TensorShape) -> None:
        super().__init__(contraction, shape)
        self.depth = depth_of(shape.bits)
        self.group: Value
        self.place: Value

    def reason(self) -> str:
        shape = self.shape
        return (
            f"products are summed in tiles of {shape.rows} x {shape.columns} by {shape.threads} threads on tensor cores"
        )

    def parts(self, grid: GridLoop) -> tuple[Part, Part]:
        shape, inside = self.shape, grid.inside
        team = inside.shr(grid.thread, inside.index(THREADS.bit_length() - 1))
        within = inside.bit_and(grid.thread, inside.index(THREADS - 1))
        self.group = inside.shr(within, inside.index(2))
        self.place = inside.bit_and(within, inside.index(3))
        down = inside.shr(team, inside.index(shape.across.bit_length() - 1))
        along = inside.bit_and(team, inside.index(shape.across - 1))
        left = Part(shape.own_rows, 1, 8, self.group, times(inside, down, shape.team_rows))
        return left, Part(shape.own_columns, 2, 4, self.place, times(inside, along, shape.team_columns))

    def memory(self, grid: GridLoop, width: int) -> Value:
        return grid.shared(scalar_of(self.contraction.left.type), width, self.shape.line)

    def _elements(self, builder: Builder, thread: Value, side: Side, visit: Callable[[Value, Value], None]) -> None:
        shape = self.shape
        if shape.bits == 16 or not self.runs_across(side.factor, side.range):
            super()._elements(builder, thread, side, visit)
            return
        for number in range(side.width * shape.depth // shape.threads):
            rest = sum_of(builder, thread, builder.index(number * shape.threads))
            digits: list[Value] = []
            for size in (_ALONG, _DOWN, side.width // _ALONG):
                digits.append(builder.bit_and(rest, builder.index(size - 1)))
                rest = builder.shr(rest, builder.index(size.bit_length() - 1))
            place = sum_of(builder, times(builder, digits[2], _ALONG), digits[0])
            visit(sum_of(builder, times(builder, rest, _DOWN), digits[1]), place)

    def keep(self, builder: Builder, memory: Value, value: Value, depth: Value, place: Value) -> None:
        builder.op("store", rounded(builder, value) if self.depth == 8 else value, memory, place, depth)

    def step(self, builder: Builder, at: Value, totals: list[Value], left: Side, right: Side) -> list[Value]:
        base = times(builder, at, self.depth)
        lefts = [self._left(builder, left, base, down) for down in range(self.shape.own_rows // 2)]
        rights = [self._right(builder, right, base, along) for along in range(self.shape.own_columns // 2)]
        return self.multiplied(builder, lefts, rights, totals)

    def multiplied(
        self, builder: Builder, lefts: list[list[Value]], rights: list[list[Value]], totals: list[Value]
    ) -> list[Value]:
        """A thread's sums with the products of small matrices added: 16 rows each by 8 columns each."""
        found = list(totals)
        for down, one in enumerate(lefts):
            for along, other in enumerate(rights):
                places = [(2 * down + a // 8) * self.shape.own_columns + 2 * along + b for a, b in SUMS]
                sums = [found[place] for place in places]
                results = builder.op("team_multiply", *one, *other, *sums, width=THREADS).results
                for place, result in zip(places, results):
                    found[place] = result
        return found

    def _left(self, builder: Builder, side: Side, base: Value, down: int) -> list[Value]:
        """What a thread holds of the rows of a small matrix."""
        start = sum_of(builder, side.part.origin, self.group)
        return [
            builder.load(
                side.memory,
                sum_of(builder, start, builder.index(_ROWS * down + b)),
                sum_of(builder, base, times(builder, self.place, c), builder.index(d)),
                aligned=_pair(c, d),
            )
            for _, b, c, d in LEFT[self.depth]
        ]

    def _right(self, builder: Builder, side: Side, base: Value, along: int) -> list[Value]:
        """What a thread holds of the columns of one."""
        column = sum_of(builder, side.part.origin, self.group, builder.index(_COLUMNS * along))
        return [
            builder.load(
                side.memory,
                column,
                sum_of(builder, base, times(builder, self.place, a), builder.index(b)),
                aligned=_pair(a, b),
            )
            for a, b in RIGHT[self.depth]
        ]


def _pair(step: int, offset: int) -> int:
    """The alignment of the first of two neighbours of 16 bits; 0 of all others."""
    return 4 if step == 2 and offset % 2 == 0 else 0


def rounded(builder: Builder, value: Value) -> Value:
    """The nearest number with 10 bits of fraction, the larger one of two; NaN stays."""
    bits = builder.emit("bitcast", value, type=i32)
    nearest = builder.bit_and(builder.add(bits, builder.constant(0x1000, i32)), builder.constant(-0x2000, i32))
    return builder.select(builder.eq(value, value), builder.emit("bitcast", nearest, type=f32), value)
