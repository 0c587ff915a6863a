"""Code for matrices once they are numbers in registers or a slot in memory: what `lower_matrices` writes with.

A small matrix is the tuple of its elements, row by row; a large one is a slot of its own that is written where the
value is made, and never again while the value is needed. Large ones cost a loop an operation, whatever their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

from quadrants.ir.nodes import Block, Location, Op, Value
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, i64, scalar_of, slot_type, u1

__all__ = ["Held", "MatrixCode", "is_memory", "positions"]

Held = Value | tuple[Value, ...]
Attributes = dict[str, Any] | None

SELECT_LIMIT = 4
"""A run-time index picks by comparison among at most so many elements; among more it goes through memory."""

PRODUCT_LIMIT = 343
"""A matrix product of more multiplications than this is a loop nest."""


@cache
def positions(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The indices of all elements, row by row."""
    return tuple(product(*map(range, shape)))


def is_memory(held: Held) -> bool:
    """Whether a matrix is held in a slot."""
    return type(held) is Value


def _known(index: Value) -> int | None:
    owner = index.owner
    return int(owner.attribute("value")) if type(owner) is Op and owner.kind == "constant" else None


def fits_selects(shape: tuple[int, ...], indices: Sequence[Value]) -> bool:
    """Whether an element at these indices is picked by comparisons rather than through memory."""
    return math.prod([size for size, index in zip(shape, indices) if _known(index) is None]) <= SELECT_LIMIT


class MatrixCode:
    """Appends operations to `ops`, at `location`. `top` are those that belong before a function's first operation."""

    __slots__ = ("_constants", "location", "ops", "top")

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.top: list[Op] = []
        self.location: Location | None = None
        self._constants: dict[int, Value] = {}

    def emit(self, kind: str, operands: tuple[Value, ...], type_: Type, attributes: Attributes = None) -> Value:
        """Appends an operation with one result and gives that."""
        op = Op(kind, operands, (type_,), attributes, (), self.location)
        self.ops.append(op)
        return op.results[0]

    def effect(self, kind: str, operands: tuple[Value, ...], attributes: Attributes = None) -> None:
        """Appends an operation without results."""
        self.ops.append(Op(kind, operands, (), attributes, (), self.location))

    def index(self, number: int) -> Value:
        """A constant index."""
        found = self._constants.get(number)
        if found is None:
            op = Op("constant", (), (i64,), {"type": i64, "value": number})
            self.top.append(op)
            found = self._constants[number] = op.results[0]
        return found

    def indices(self, position: tuple[int, ...]) -> tuple[Value, ...]:
        return tuple([self.index(number) for number in position])

    def constant(self, value: Any, type_: ScalarType) -> Value:
        return self.emit("constant", (), type_, {"type": type_, "value": value})

    # Loops over elements.

    def nest(self, shape: tuple[int, ...], body: Callable[[tuple[Value, ...]], None]) -> None:
        """A loop over all elements of a shape, in order: `body` writes the code for one, given its indices."""
        self.fold(shape, None, lambda indices, carried: body(indices))

    def fold(
        self,
        shape: tuple[int, ...],
        start: Value | None,
        body: Callable[[tuple[Value, ...], Value | None], Value | None],
    ) -> Value | None:
        """A loop that carries one value (none where `start` is None); its last one."""
        carried = () if start is None else (start.type,)
        block = Block((i64,) * len(shape) + carried)
        outer, self.ops = self.ops, block.ops
        arguments = block.arguments
        following = body(tuple(arguments[: len(shape)]), arguments[-1] if start is not None else None)
        self.effect("yield", () if following is None else (following,))
        self.ops = outer
        zero = self.index(0)
        bounds = (zero,) * len(shape) + self.indices(shape)
        operands = bounds if start is None else (*bounds, start)
        loop = Op("for", operands, carried, {"rank": len(shape)}, (block,), self.location)
        self.ops.append(loop)
        return loop.results[0] if carried else None

    # Between registers and memory.

    def slot(self, type_: Type) -> Value:
        return self.emit("slot", (), slot_type(type_), {"type": type_})

    def load(self, array: Value, indices: tuple[Value, ...]) -> Value:
        return self.emit("load", (array, *indices), scalar_of(array.type))

    def store(self, value: Value, array: Value, indices: tuple[Value, ...]) -> None:
        self.effect("store", (value, array, *indices))

    def copy(self, source: Value, target: Value) -> None:
        """Copies a slot into another of its type."""
        self.nest(_slot_shape(source), lambda at: self.store(self.load(source, at), target, at))

    def spill(self, elements: tuple[Value, ...], type_: MatrixType) -> Value:
        """A new slot with these elements."""
        target = self.slot(type_)
        for value, position in zip(elements, positions(type_.shape)):
            self.store(value, target, self.indices(position))
        return target

    def elements(self, held: Held) -> tuple[Value, ...]:
        """The elements of a matrix in registers."""
        if isinstance(held, tuple):
            return held
        return tuple([self.load(held, self.indices(position)) for position in positions(_slot_shape(held))])

    def memory(self, held: Held, type_: MatrixType) -> Value:
        """A slot that holds a matrix."""
        return self.spill(held, type_) if isinstance(held, tuple) else held

    # Operations.

    def elementwise(self, op: Op, operands: list[Held]) -> tuple[Value, ...]:
        """The elements of an elementwise operation; an operand that is one number is the same for all."""
        type_ = op.results[0].type
        assert type(type_) is MatrixType
        attributes = self.scalar_attributes(op)
        scalar, kind = type_.scalar, op.kind
        columns = [held if isinstance(held, tuple) else (held,) * type_.count for held in operands]
        emit = self.emit
        return tuple([emit(kind, parts, scalar, dict(attributes) if attributes else None) for parts in zip(*columns)])

    def elementwise_loop(self, op: Op, operands: list[Held], types: list[Type]) -> Value:
        """A slot with the result of an elementwise operation on slots (and numbers)."""
        type_ = op.results[0].type
        assert type(type_) is MatrixType
        target = self.slot(type_)
        values = [held for held in operands if not isinstance(held, tuple)]  # large matrices are in memory

        def one(at: tuple[Value, ...]) -> None:
            parts = [self.load(held, at) if type(of) is MatrixType else held for held, of in zip(values, types)]
            value = self.emit(op.kind, tuple(parts), type_.scalar, self.scalar_attributes(op))
            self.store(value, target, at)

        self.nest(type_.shape, one)
        return target

    @staticmethod
    def scalar_attributes(op: Op) -> Attributes:
        """An operation's attributes as those of its form on one element."""
        attributes = op.attributes
        if not attributes:
            return None
        type_ = attributes.get("type")
        return {**attributes, "type": type_.scalar} if type(type_) is MatrixType else dict(attributes)

    def pick(self, elements: tuple[Value, ...], shape: tuple[int, ...], indices: Sequence[Value]) -> Value:
        """The element at indices of which few are unknown: by comparisons; the last candidate needs none."""
        candidates = _candidates(shape, indices)
        places = positions(shape)
        found = elements[places.index(candidates[-1])]
        for place in reversed(candidates[:-1]):
            element = elements[places.index(place)]
            found = self.emit("select", (self._at(place, indices), element, found), element.type)
        return found

    def place(
        self, elements: tuple[Value, ...], value: Value, shape: tuple[int, ...], indices: Sequence[Value]
    ) -> tuple[Value, ...]:
        """The elements with the one at the indices replaced; few of those are unknown."""
        candidates = set(_candidates(shape, indices))
        found: list[Value] = []
        for element, place in zip(elements, positions(shape)):
            if place not in candidates:
                found.append(element)
            elif len(candidates) == 1:
                found.append(value)
            else:
                found.append(self.emit("select", (self._at(place, indices), value, element), value.type))
        return tuple(found)

    def _at(self, place: tuple[int, ...], indices: Sequence[Value]) -> Value:
        """Whether the unknown ones of the indices are those of a place."""
        found: Value | None = None
        for number, index in zip(place, indices):
            if _known(index) is None:
                same = self.emit("eq", (index, self.index(number)), u1)
                found = same if found is None else self.emit("bit_and", (found, same), u1)
        assert found is not None
        return found

    def matmul(
        self, left: tuple[Value, ...], right: tuple[Value, ...], inner: int, columns: int, attributes: Attributes
    ) -> tuple[Value, ...]:
        """The elements of a product whose operands are taken as matrices of `inner` columns and of `columns`."""
        scalar = left[0].type
        found: list[Value] = []
        for row in range(len(left) // inner):
            for column in range(columns):
                total: Value | None = None
                for k in range(inner):
                    pair = (left[row * inner + k], right[k * columns + column])
                    term = self.emit("mul", pair, scalar, _copied(attributes))
                    total = term if total is None else self.emit("add", (total, term), scalar, _copied(attributes))
                assert total is not None
                found.append(total)
        return tuple(found)

    def matmul_loop(self, left: Value, right: Value, type_: MatrixType, attributes: Attributes) -> Value:
        """A slot with the product of two slots."""
        target = self.slot(type_)
        scalar, rows = type_.scalar, len(_slot_shape(left)) - 1
        inner = _slot_shape(left)[-1]

        def one(at: tuple[Value, ...]) -> None:
            def step(k: tuple[Value, ...], total: Value | None) -> Value:
                assert total is not None
                pair = (self.load(left, (*at[:rows], *k)), self.load(right, (*k, *at[rows:])))
                term = self.emit("mul", pair, scalar, _copied(attributes))
                return self.emit("add", (total, term), scalar, _copied(attributes))

            total = self.fold((inner,), self.constant(_zero(scalar), scalar), step)
            assert total is not None
            self.store(total, target, at)

        self.nest(type_.shape, one)
        return target

    def reduce(self, elements: tuple[Value, ...], combiner: str, attributes: Attributes) -> Value:
        """All elements combined, in order."""
        total = elements[0]
        for element in elements[1:]:
            total = self.emit(combiner, (total, element), element.type, _copied(attributes))
        return total

    def reduce_loop(self, source: Value, combiner: str, attributes: Attributes) -> Value:
        """All elements of a slot combined, in order.

        Sums start with the zero that changes no sign, products with one; for the others combining the first element
        with itself changes nothing.
        """
        shape, scalar = _slot_shape(source), scalar_of(source.type)
        if combiner in ("add", "mul"):
            start = self.constant(_zero(scalar) if combiner == "add" else 1, scalar)
        else:
            start = self.load(source, self.indices((0,) * len(shape)))

        def step(at: tuple[Value, ...], total: Value | None) -> Value:
            assert total is not None
            return self.emit(combiner, (total, self.load(source, at)), scalar, _copied(attributes))

        total = self.fold(shape, start, step)
        assert total is not None
        return total


def _copied(attributes: Attributes) -> Attributes:
    return dict(attributes) if attributes else None


def _zero(scalar: ScalarType) -> float | int:
    """The number that a sum can start with: -0.0 + x is x for every float, 0.0 + x is not."""
    return -0.0 if scalar.is_float else 0


def _slot_shape(slot: Value) -> tuple[int, ...]:
    type_ = slot.type
    assert type(type_) is ArrayType
    return type_.trailing


def _candidates(shape: tuple[int, ...], indices: Sequence[Value]) -> list[tuple[int, ...]]:
    """The places that the indices may mean. A constant out of range stands in code that never runs: it means the
    nearest element."""
    axes: list[Sequence[int]] = []
    for size, index in zip(shape, indices):
        known = _known(index)
        axes.append(range(size) if known is None else (min(max(known, 0), size - 1),))
    return list(product(*axes))
