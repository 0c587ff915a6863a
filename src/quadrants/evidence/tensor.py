"""Vectors and matrices of the oracle: values of a static shape whose elements are scalars of one dtype."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from quadrants.evidence.operators import Operators
from quadrants.evidence.scalar import (
    OracleError,
    Scalar,
    apply,
    apply_unary,
    cast,
    compare,
    lift,
    meet,
)
from quadrants.ir.types import ScalarType, u1

__all__ = ["Place", "Tensor", "as_tensor", "elementwise", "is_tensor", "unify"]

_SWIZZLES = ("xyzw", "rgba", "stpq")


class Place:
    """Where a value lives: an element (or a vector of elements) of an array."""

    __slots__ = ("array", "dtype", "index")

    def __init__(self, array: np.ndarray, index: tuple[Any, ...], dtype: ScalarType) -> None:
        self.array = array
        self.index = index
        self.dtype = dtype

    def load(self) -> Scalar | Tensor:
        """The scalar or vector that is there now."""
        found = np.asarray(self.array[self.index])
        items = [Scalar(self.dtype, value) for value in found.reshape(-1)]
        return Tensor(found.shape, items) if found.ndim else items[0]

    def store(self, value: Any, inner: tuple[Any, ...] = ()) -> None:
        """Writes a scalar or vector, converted to the array's dtype, at the element's inner index."""
        target = self.index + inner
        if is_tensor(value):
            flat = [cast(item, self.dtype).value for item in as_tensor(value).items]
            self.array[target] = np.array(flat).reshape(as_tensor(value).shape)
        else:
            self.array[target] = cast(value, self.dtype).value


def unify(items: Iterable[Any]) -> list[Scalar]:
    """Scalars of one dtype: the one that they all meet in."""
    scalars = [lift(item) for item in items]
    if not scalars:
        raise OracleError("a vector needs at least one element")
    total = scalars[0]
    for scalar in scalars[1:]:
        dtype, weak, value, _ = meet(total, scalar)
        total = Scalar(dtype, value, weak)
    result = []
    for scalar in scalars:
        if scalar.dtype is total.dtype and scalar.weak == total.weak:
            result.append(scalar)
        else:
            result.append(Scalar(total.dtype, cast(scalar, total.dtype).value, total.weak))
    return result


class Tensor(Operators):
    """A vector (shape of one size) or matrix (two). `place` is set on an element of a field, so that
    `field[i].x = 1` and `qd.atomic_add(field[i], v)` reach the field; assignment to a name copies and drops it."""

    __slots__ = ("items", "place", "shape")

    items: list[Scalar]
    shape: tuple[int, ...]
    place: Place | None

    def __init__(self, shape: tuple[int, ...], items: Iterable[Any], place: Place | None = None) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "items", unify(items))
        object.__setattr__(self, "place", place)

    @property
    def dtype(self) -> ScalarType:
        return self.items[0].dtype

    @property
    def weak(self) -> bool:
        return self.items[0].weak

    @property
    def n(self) -> int:
        return self.shape[0]

    @property
    def m(self) -> int:
        return self.shape[1] if len(self.shape) > 1 else 1

    def __repr__(self) -> str:
        return f"{'weak ' if self.weak else ''}{self.dtype}({self.to_list()})"

    def __str__(self) -> str:
        return str(self.to_list())

    def copy(self) -> Tensor:
        """The same value, no longer tied to a place."""
        return Tensor(self.shape, self.items)

    def to_list(self) -> list[Any]:
        """Nested lists of Python numbers."""
        flat = [item.item() for item in self.items]
        if len(self.shape) == 1:
            return flat
        return [flat[row * self.shape[1] : (row + 1) * self.shape[1]] for row in range(self.shape[0])]

    def map(self, function: Callable[[Scalar], Any]) -> Tensor:
        """The tensor of `function` of every element."""
        return Tensor(self.shape, [function(item) for item in self.items])

    # Elements.

    def _positions(self, key: Any) -> tuple[tuple[int, ...], list[int]]:
        """The shape that an index selects, and the flat positions of its elements."""
        keys = index_tuple(key)
        if len(keys) > len(self.shape):
            raise OracleError(f"{len(keys)} indices into a value of shape {self.shape}")
        keys += (slice(None),) * (len(self.shape) - len(keys))
        grid = np.arange(len(self.items)).reshape(self.shape)
        picked = grid[keys]
        return picked.shape, picked.reshape(-1).tolist()

    def __getitem__(self, key: Any) -> Any:
        shape, positions = self._positions(key)
        if shape:
            return Tensor(shape, [self.items[position] for position in positions])
        scalar = self.items[positions[0]]
        place = self.place
        if place is not None:
            inner = np.unravel_index(positions[0], self.shape)
            place = Place(place.array, place.index + tuple(int(i) for i in inner), place.dtype)
        return Scalar(scalar.dtype, scalar.value, scalar.weak, place)

    def __setitem__(self, key: Any, value: Any) -> None:
        shape, positions = self._positions(key)
        values = broadcast(value, shape) if shape else [lift(value)]
        items = list(self.items)
        for position, scalar in zip(positions, values, strict=True):
            items[position] = scalar if self.weak else cast(scalar, self.dtype)
        object.__setattr__(self, "items", unify(items))
        if self.place is not None:
            for position in positions:  # components that are not meant may have changed since
                inner = tuple(int(index) for index in np.unravel_index(position, self.shape))
                self.place.store(self.items[position], inner)

    def __getattr__(self, name: str) -> Any:
        components = swizzle(name)
        if components is None:
            raise AttributeError(f"a vector has no attribute {name!r}")
        if len(components) == 1:
            return self[components[0]]
        return Tensor((len(components),), [self[component] for component in components])

    def __setattr__(self, name: str, value: Any) -> None:
        components = swizzle(name)
        if components is None:
            raise AttributeError(f"a vector has no attribute {name!r}")
        if len(components) == 1:
            self[components[0]] = value
            return
        for component, item in zip(components, broadcast(value, (len(components),)), strict=True):
            self[component] = item

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[index] for index in range(self.shape[0]))

    def __bool__(self) -> bool:
        raise OracleError("the truth of a vector: use any() or all()")

    __hash__ = None

    def _operate(self, name: str, left: Any, right: Any) -> Any:
        return elementwise(lambda a, b: apply(name, a, b), left, right)

    def _compare(self, name: str, left: Any, right: Any) -> Any:
        return elementwise(lambda a, b: compare(name, a, b), left, right)

    def __neg__(self) -> Tensor:
        return self.map(lambda item: apply_unary("neg", item))

    def __pos__(self) -> Tensor:
        return self.copy()

    def __abs__(self) -> Tensor:
        return self.map(lambda item: apply_unary("abs", item))

    def __invert__(self) -> Tensor:
        return self.map(lambda item: apply_unary("bit_not", item))

    def __matmul__(self, other: Any) -> Any:
        return matrix_product(self, as_tensor(other))

    def __rmatmul__(self, other: Any) -> Any:
        return matrix_product(as_tensor(other), self)


def swizzle(name: str) -> list[int] | None:
    """The components that an attribute such as `xy` names, or None."""
    for letters in _SWIZZLES:
        if 1 <= len(name) <= 4 and all(letter in letters for letter in name):
            return [letters.index(letter) for letter in name]
    return None


def is_tensor(value: Any) -> bool:
    """Whether a value takes part in elementwise arithmetic: a tensor, a list of numbers, a view of an array."""
    return type(value) is Tensor or isinstance(value, (list, tuple, np.ndarray)) or hasattr(value, "as_tensor")


def as_tensor(value: Any) -> Tensor:
    """The tensor that a vector-like value stands for."""
    if type(value) is Tensor:
        return value
    if hasattr(value, "as_tensor"):
        return value.as_tensor()
    if isinstance(value, np.ndarray):
        return Tensor(value.shape, list(value.reshape(-1)))
    if isinstance(value, (list, tuple)):
        return _from_rows(value)
    raise OracleError(f"not a vector: {value!r}")


def _from_rows(rows: Sequence[Any]) -> Tensor:
    if rows and is_tensor(rows[0]):
        tensors = [as_tensor(row) for row in rows]
        if any(tensor.shape != tensors[0].shape for tensor in tensors):
            raise OracleError("the rows of a matrix differ in length")
        items = itertools.chain.from_iterable(tensor.items for tensor in tensors)
        return Tensor((len(tensors), *tensors[0].shape), items)
    return Tensor((len(rows),), rows)


def broadcast(value: Any, shape: tuple[int, ...]) -> list[Scalar]:
    """The elements of a value as many as `shape` needs: a number everywhere, or a vector of that shape."""
    count = int(np.prod(shape))
    if not is_tensor(value):
        return [lift(value)] * count
    tensor = as_tensor(value)
    if tensor.shape != shape:
        raise OracleError(f"shapes differ: {tensor.shape} and {shape}")
    return tensor.items


def index_tuple(key: Any) -> tuple[Any, ...]:
    """An index as a flat tuple of ints and slices; vectors count as their elements, None as nothing."""
    if key is None:
        return ()
    if isinstance(key, tuple) or is_tensor(key):
        parts = key if isinstance(key, tuple) else as_tensor(key).items
        return tuple(itertools.chain.from_iterable(index_tuple(part) for part in parts))
    if isinstance(key, slice):
        ends = (None if end is None else int(end) for end in (key.start, key.stop, key.step))
        return (slice(*ends),)
    return (lift(key).__index__(),)


def elementwise(function: Callable[..., Any], *operands: Any) -> Any:
    """`function` on numbers, or element by element where an operand is a vector (numbers meet every element)."""
    shaped = [as_tensor(operand) for operand in operands if is_tensor(operand)]
    if not shaped:
        return function(*operands)
    shape = shaped[0].shape
    columns = [broadcast(operand, shape) for operand in operands]
    return Tensor(shape, [function(*column) for column in zip(*columns, strict=True)])


def matrix_product(left: Tensor, right: Tensor) -> Any:
    """left @ right for matrices and vectors; the sum runs in the order of the inner axis. Two vectors give a number."""
    if left.shape[-1] != right.shape[0]:
        raise OracleError(f"no matrix product of shapes {left.shape} and {right.shape}")
    rows = left.shape[0] if len(left.shape) == 2 else 1
    columns = right.shape[1] if len(right.shape) == 2 else 1
    inner = right.shape[0]
    items = []
    for row, column in itertools.product(range(rows), range(columns)):
        products = [left.items[row * inner + k] * right.items[k * columns + column] for k in range(inner)]
        items.append(fold(lambda a, b: a + b, products))
    shape = left.shape[:-1] + right.shape[1:]
    return Tensor(shape, items) if shape else items[0]


def fold(function: Callable[[Any, Any], Any], items: Iterable[Any]) -> Any:
    """The items combined from the left."""
    iterator = iter(items)
    total = next(iterator)
    for item in iterator:
        total = function(total, item)
    return total


def truth(item: Any) -> Scalar:
    """A number as u1."""
    return cast(item, u1)
