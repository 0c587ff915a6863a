"""Arrays of the oracle: NumPy arrays, whose partial index is a view, and fields, whose elements are values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.evidence.operators import InPlace
from quadrants.evidence.scalar import (
    OracleError,
    Scalar,
    apply,
    compare,
    scalar_type_of_numpy,
)
from quadrants.evidence.tensor import Place, Tensor, as_tensor, elementwise, index_tuple
from quadrants.evidence.tensor_methods import METHODS
from quadrants.ir.types import ScalarType

__all__ = ["ArrayView", "FieldView"]


class ArrayView(InPlace):
    """A NumPy array in a kernel: a full index is a typed scalar, a partial one a view of the same memory."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: np.ndarray, dtype: ScalarType | None = None) -> None:
        self.array = array
        self.dtype = dtype if dtype is not None else scalar_type_of_numpy(array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"view({self.array.tolist()!r})"

    def as_tensor(self) -> Tensor:
        """The vector or matrix value of the elements as they are now."""
        return Tensor(self.array.shape, [Scalar(self.dtype, value) for value in self.array.reshape(-1)])

    def __getitem__(self, key: Any) -> Any:
        index = index_tuple(key)
        if len(index) > self.array.ndim:
            raise OracleError(f"{len(index)} indices into an array of {self.array.ndim} axes")
        picked = self.array[index]
        if isinstance(picked, np.ndarray) and picked.ndim:
            return ArrayView(picked, self.dtype)
        value = picked[()] if isinstance(picked, np.ndarray) else picked
        return Scalar(self.dtype, value, place=Place(self.array, index, self.dtype))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, ArrayView) and np.shares_memory(value.array, self.array):
            value = value.as_tensor()
        Place(self.array, index_tuple(key), self.dtype).store(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.array)))

    def __bool__(self) -> bool:
        raise OracleError("the truth of an array")

    __hash__ = None

    def _operate(self, name: str, left: Any, right: Any) -> Any:
        return elementwise(lambda a, b: apply(name, a, b), left, right)

    def _compare(self, name: str, left: Any, right: Any) -> Any:
        return elementwise(lambda a, b: compare(name, a, b), left, right)

    def _update(self, name: str, other: Any) -> ArrayView:
        Place(self.array, (...,), self.dtype).store(self._operate(name, self, other))
        return self

    def __neg__(self) -> Any:
        return -self.as_tensor()

    def __pos__(self) -> Any:
        return self.as_tensor()

    def __abs__(self) -> Any:
        return abs(self.as_tensor())

    def __invert__(self) -> Any:
        return ~self.as_tensor()

    def __matmul__(self, other: Any) -> Any:
        return self.as_tensor() @ as_tensor(other)

    def __rmatmul__(self, other: Any) -> Any:
        return as_tensor(other) @ self.as_tensor()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.as_tensor(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ArrayView.__slots__:
            object.__setattr__(self, name, value)
            return
        changed = self.as_tensor()
        setattr(changed, name, value)
        Place(self.array, (...,), self.dtype).store(changed)

    def fill(self, value: Any) -> None:
        self[:] = value


for _method in METHODS:
    if _method != "fill":
        setattr(ArrayView, _method, lambda self, *a, _name=_method, **k: getattr(self.as_tensor(), _name)(*a, **k))


class FieldView:
    """A field or ndarray in a kernel: its elements (numbers, vectors, matrices) are values.

    `array` holds the elements with their own axes last. Iterating gives the indices: whole numbers for one axis,
    tuples for more. `offset` is the index of the first element; without one, and with `wraparound`, negative indices
    count from the end.
    """

    __slots__ = ("array", "dtype", "element_shape", "grad", "offset", "shape", "wraparound")

    def __init__(
        self,
        array: np.ndarray,
        dtype: ScalarType,
        element_shape: tuple[int, ...] = (),
        offset: tuple[int, ...] | None = None,
        wraparound: bool = False,
    ) -> None:
        self.array = array
        self.dtype = dtype
        self.element_shape = element_shape
        self.shape = array.shape[: array.ndim - len(element_shape)]
        self.offset = offset
        self.wraparound = wraparound

    @staticmethod
    def zeros(dtype: ScalarType, shape: tuple[int, ...], element_shape: tuple[int, ...] = ()) -> FieldView:
        """A new field of zeros."""
        return FieldView(np.zeros(shape + element_shape, numerics.held(dtype)), dtype, element_shape)

    def _place(self, key: Any) -> Place:
        index = index_tuple(key)
        if len(index) != len(self.shape):
            raise OracleError(f"{len(index)} indices into a field of {len(self.shape)} axes")
        if self.offset is not None:
            index = tuple(i - start for i, start in zip(index, self.offset, strict=True))
        if self.wraparound:
            index = tuple(i + size if i < 0 else i for i, size in zip(index, self.shape, strict=True))
        if any(not 0 <= i < size for i, size in zip(index, self.shape, strict=True)):
            raise IndexError(f"index {index} is out of range for shape {self.shape}")
        return Place(self.array, index, self.dtype)

    def __getitem__(self, key: Any) -> Any:
        place = self._place(key)
        element = self.array[place.index]
        if not self.element_shape:
            return Scalar(self.dtype, element, place=place)
        items = [Scalar(self.dtype, value) for value in element.reshape(-1)]
        return Tensor(self.element_shape, items, place)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._place(key).store(value)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        starts = self.offset or (0,) * len(self.shape)
        ranges = [range(start, start + size) for start, size in zip(starts, self.shape, strict=True)]
        indices = itertools.product(*ranges)
        return (index[0] for index in indices) if len(self.shape) == 1 else indices

    def fill(self, value: Any) -> None:
        """Every element becomes `value`."""
        for index in itertools.product(*map(range, self.shape)):
            Place(self.array, index, self.dtype).store(value)


def detached(value: Any) -> Any:
    """What assignment to a name binds: values are copied and lose their place, views stay views."""
    kind = type(value)
    if kind is Tensor:
        return value.copy()
    if kind is Scalar:
        return value if value.place is None else Scalar(value.dtype, value.value, value.weak)
    if kind is list:
        return [detached(item) for item in value]
    if kind is tuple:
        return tuple(detached(item) for item in value)
    return value


def place_of(value: Any) -> Place:
    """The element that an atomic operation is to update; OracleError if `value` was not loaded from one."""
    place = getattr(value, "place", None)
    if isinstance(value, ArrayView):
        return Place(value.array, (...,), value.dtype)
    if place is None:
        raise OracleError("an atomic operation on something that is no element of an array or field")
    return place
