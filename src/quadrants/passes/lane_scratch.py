"""The private copies of arrays for lanes: whether they fit, how they are filled and written back, where elements lie."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ArrayType, i64, matrix_type
from quadrants.passes.lane_copies import CAPACITY, Copy
from quadrants.passes.lane_values import LaneValues

__all__ = ["Scratch", "fits", "measure"]

Number = Value | int
"""A number that the run tells, or one that is known."""

# Runs of elements up to which they are copied without a loop.
_MOST_RUNS = 8
# Rows of half a matrix are copied in multiples of so many elements.
_PIECE = 4


class Scratch:
    """One copy while lanes are written: `sizes` are its extents, numbers or values; `slot` its memory once reserved."""

    def __init__(self, copy: Copy, sizes: list[Number]) -> None:
        self.copy = copy
        self.sizes = sizes
        self.slot: Value | None = None

    def reserve(self, builder: Builder, lanes: int) -> None:
        """Reserves memory: a row is an element of each lane."""
        type_ = self.copy.array.type
        assert type(type_) is ArrayType
        self.slot = builder.emit("slot", type=matrix_type(type_.scalar, (self.copy.rows, lanes)))

    @property
    def axes(self) -> list[int]:
        """The axes by which elements of one lane differ."""
        return [axis for axis, size in enumerate(self.sizes) if axis != self.copy.axis and size != 1]

    def row(self, builder: Builder, indices: Sequence[Value]) -> Value | None:
        """The row of the elements at these indices of `axes`, all scalars or all lanes; None: the only one."""
        total: Value | None = None
        for axis, index in zip(self.axes, indices):
            low, size = self.copy.lows[axis], self.sizes[axis]
            own = index if low == 0 else builder.sub(index, _like(builder, low, index), exact=True)
            if total is not None:
                total = builder.mul(total, _like(builder, size, index), exact=True)
                own = builder.add(total, own, exact=True)
            total = own
        return total

    def transfer(self, kind: str, builder: Builder, values: LaneValues, base: Value) -> None:
        """Copies all elements in (`interleave`) or out (`deinterleave`), for the lanes from `base` on."""
        if self.copy.is_one_run:
            self._run(kind, builder, values, base, {})
            return
        axes = [axis for axis in self.axes if axis != len(self.sizes) - 1]
        counts = [self.sizes[axis] for axis in axes]
        known = [count for count in counts if isinstance(count, int)]
        if len(known) == len(counts) and prod(known) <= _MOST_RUNS:
            for at in product(*map(range, known)):
                self._run(kind, builder, values, base, dict(zip(axes, at)))
            return
        body = Block()
        counters = [body.add_argument(i64, "row") for _ in axes]
        inner = Builder(body, builder.location)
        self._run(kind, inner, values, base, dict(zip(axes, counters)))
        inner.op("yield")
        lows = [builder.index(0) for _ in axes]
        highs = [_value(builder, count) for count in counts]
        builder.op("for", *lows, *highs, regions=(body,), rank=len(axes))

    def _run(self, kind: str, builder: Builder, values: LaneValues, base: Value, at: Mapping[int, Number]) -> None:
        """The elements along the last axis; `at` says how far along the others."""
        numbers = _Numbers(builder)
        indices: list[Number] = []
        place: Number = 0
        for axis, low in enumerate(self.copy.lows):
            if axis == self.copy.axis:
                indices.append(base)
                continue
            offset = at.get(axis, 0)
            indices.append(numbers.add(low if isinstance(low, int) else values.scalar(low), offset))
            place = numbers.add(numbers.mul(place, self.sizes[axis]), offset)
        count = self.copy.rows if self.copy.is_one_run else self.sizes[-1]
        if self.copy.triangle:
            first, count = self._half(numbers, at[self.copy.triangle_axis], count)
            place, indices[-1] = numbers.add(place, first), numbers.add(indices[-1], first)
        own = [_value(builder, number) for number in (*indices, count)]
        assert self.slot is not None
        builder.op(kind, self.slot, _value(builder, place), self.copy.array, *own, axis=self.copy.axis)

    def _half(self, numbers: _Numbers, row: Number, size: Number) -> tuple[Number, Number]:
        """Where a row of half a matrix begins, and its length. Law: a few more elements are copied back unchanged."""
        aligned = numbers.bit_and(row, -_PIECE)
        if self.copy.triangle == "upper":
            return aligned, numbers.sub(size, numbers.min(aligned, size))
        return 0, numbers.min(numbers.add(aligned, _PIECE), size)


class _Numbers:
    """Arithmetic on values and on numbers that are known."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def add(self, left: Number, right: Number) -> Number:
        return left if right == 0 else right if left == 0 else self._made("add", left, right)

    def sub(self, left: Number, right: Number) -> Number:
        return left if right == 0 else self._made("sub", left, right)

    def mul(self, left: Number, right: Number) -> Number:
        if left == 0 or right == 0:
            return 0
        return left if right == 1 else right if left == 1 else self._made("mul", left, right)

    def min(self, left: Number, right: Number) -> Number:
        return self._made("min", left, right)

    def bit_and(self, left: Number, right: Number) -> Number:
        return self._made("bit_and", left, right)

    def _made(self, kind: str, left: Number, right: Number) -> Number:
        if isinstance(left, int) and isinstance(right, int):
            return _KNOWN[kind](left, right)
        facts = {"exact": True} if kind in ("add", "sub", "mul") else {}
        return self._builder.emit(kind, _value(self._builder, left), _value(self._builder, right), **facts)


_KNOWN: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "bit_and": lambda left, right: left & right,
}


def _value(builder: Builder, number: Number) -> Value:
    return builder.index(number) if isinstance(number, int) else number


def _like(builder: Builder, number: Number, other: Value) -> Value:
    """A number in the form that another value has."""
    if isinstance(number, int):
        return builder.constant(number, other.type)
    return number if number.type is other.type else builder.emit("broadcast", number, type=other.type)


def measure(copies: Sequence[Copy], builder: Builder) -> list[Scratch]:
    """The extents of copies, in front of the loop."""
    return [
        Scratch(
            copy,
            [builder.emit("dim", copy.array, axis=k) if size is None else size for k, size in enumerate(copy.sizes)],
        )
        for copy in copies
    ]


def fits(scratches: list[Scratch], loop: Op, builder: Builder) -> Value | None:
    """Whether all that is copied exists, and there is room for it, whatever the loop goes on to reach; None: for sure."""
    tests: list[Value] = []
    for scratch in scratches:
        tests += _within(scratch, loop, builder)
        if not scratch.copy.known:
            numbers = _Numbers(builder)
            total = reduce(numbers.mul, scratch.sizes, 1)
            tests.append(builder.le(_value(builder, total), builder.index(CAPACITY)))
    if not tests:
        return None
    result = tests[0]
    for test in tests[1:]:
        result = builder.bit_and(result, test)
    return result


def _within(scratch: Scratch, loop: Op, builder: Builder) -> list[Value]:
    copy = scratch.copy
    rank: int = loop.attribute("rank")
    counters = loop.regions[0].arguments[:rank]
    type_ = copy.array.type
    assert type(type_) is ArrayType
    tests: list[Value] = []
    for axis, (low, size) in enumerate(zip(copy.lows, copy.sizes)):
        if size is None:
            continue
        first: Number = low
        end: Number = low + size if isinstance(low, int) else 0
        counter = counters[-1] if axis == copy.axis else low
        if counter in counters:
            position = counters.index(counter)
            first, end = loop.operands[position], loop.operands[rank + position]
        elif isinstance(low, Value):
            end = builder.add(low, builder.index(1), exact=True)
        tests += _inside(builder, copy.array, type_, axis, first, end)
    return tests


def _inside(builder: Builder, array: Value, type_: ArrayType, axis: int, first: Number, end: Number) -> list[Value]:
    """What shows that an axis has the elements from `first` up to `end`."""
    static = axis - (type_.rank - len(type_.trailing))
    tests: list[Value] = []
    if not isinstance(first, int):
        tests.append(builder.ge(first, builder.index(0)))
    if static < 0 or not isinstance(end, int):
        tests.append(builder.le(_value(builder, end), builder.emit("dim", array, axis=axis)))
    return tests
