"""Ndarrays: `qd.ndarray`, `qd.Vector.ndarray`, `qd.Matrix.ndarray`. Arrays like NumPy's whose memory is ours."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsIndexError, QuadrantsRuntimeError
from quadrants.ir.types import ScalarType
from quadrants.lang.field import element_of, normalised_shape
from quadrants.lang.storage import Storage
from quadrants.lang.types import MatrixAnnotation, NDArray

__all__ = ["MatrixNdarray", "Ndarray", "ScalarNdarray", "VectorNdarray", "ndarray"]

_LARGEST_SIZE = 2**31 - 1


class Ndarray(Storage):
    """Elements of one type at every index of a shape, zeroed. Made by `qd.ndarray`; an argument of kernels.

    `grad` is the ndarray of adjoints, None unless `needs_grad`. Pickles with its values.
    """

    _kind = "ndarray"
    grad: Ndarray | None

    def __init__(
        self,
        scalar: ScalarType,
        element_shape: tuple[int, ...],
        shape: tuple[int, ...],
        order: tuple[int, ...] | None = None,
        needs_grad: bool = False,
    ) -> None:
        super().__init__(scalar, element_shape, shape, order)
        self.grad = type(self)(scalar, element_shape, shape, order) if needs_grad else None

    @property
    def element_shape(self) -> tuple[int, ...]:
        """() of numbers, (n,) of vectors, (n, m) of matrices."""
        return self._element_shape

    def get_type(self) -> NDArray:
        """The annotation that accepts this ndarray."""
        element = MatrixAnnotation(self._element_shape, self._scalar) if self._element_shape else self._scalar
        return NDArray(element, len(self.shape), needs_grad=self.has_grad())

    def has_grad(self) -> bool:
        """Whether there is an ndarray of adjoints."""
        return self.grad is not None

    def has_dual(self) -> bool:
        """False: ndarrays have no tangents."""
        return False

    def copy_from(self, other: Any) -> None:
        """Copy all elements of another ndarray in, converted; AssertionError if it is none or its shape differs."""
        if not isinstance(other, Ndarray):
            raise AssertionError(f"copy_from takes an ndarray, not {type(other).__name__}")
        if other.shape != self.shape or other._element_shape != self._element_shape:
            raise AssertionError(f"shape {other.shape} does not match the shape {self.shape} of this ndarray")
        self._write(self._stored(other._numpy(None, True)))

    def _rank_error(self, count: int) -> Exception:
        return QuadrantsIndexError(f"{count} indices into an ndarray of {len(self.shape)} axes")

    def _in_range(self, indices: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        wrapped = tuple(index + size if index < 0 else index for index, size in zip(indices, shape))
        return super()._in_range(wrapped, shape)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        view = self._given_away()
        if self._scalar.numpy is None:
            raise AttributeError(f"NumPy has no dtype for {self._scalar}")
        return view.__array_interface__

    def __reduce__(self) -> tuple:
        values = np.ascontiguousarray(self._host(reads_only=True))
        return (_restore, (self._scalar, self._element_shape, self.shape, self._order, self.has_grad(), values))

    def __deepcopy__(self, memo: object) -> Ndarray:
        build, parameters = self.__reduce__()
        return build(*parameters)

    def __repr__(self) -> str:
        return f"<qd.ndarray shape={self.shape} dtype={self._scalar} element_shape={self._element_shape}>"

    def __str__(self) -> str:
        return repr(self) if self._freed else str(self._numpy(None, None))


class _Transfers(Ndarray):
    """Copies in and out, shared by the three kinds of elements."""

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """A NumPy array of shape + element shape, converted to `dtype` if given. `copy` True: independent; None: over
        the same memory if possible; False: over the same memory or ValueError."""
        return self._numpy(dtype, copy)

    def from_numpy(self, arr: Any) -> None:
        """Copy a NumPy array of shape + element shape in, converted; ValueError for another shape, TypeError for what
        is no array."""
        self._load(arr, self.shape + self._element_shape)

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """A torch tensor of shape + element shape; `copy` as in `to_numpy`."""
        return self._torch(device, copy)

    def from_torch(self, arr: Any) -> None:
        """Copy a torch tensor of shape + element shape in, converted; ValueError for another shape."""
        self.from_numpy(arr)


class ScalarNdarray(_Transfers):
    """An ndarray of numbers of one data type; made by `qd.ndarray`, indexed like NumPy's by ints and slices."""


class VectorNdarray(_Transfers):
    """An ndarray of vectors of length `n` and one data type; made by `qd.ndarray` and `qd.Vector.ndarray`."""

    n = property(lambda self: self._element_shape[0], doc="The length of the vectors.")


class MatrixNdarray(_Transfers):
    """An ndarray of `n` x `m` matrices of one data type; made by `qd.ndarray` and `qd.Matrix.ndarray`."""

    n = property(lambda self: self._element_shape[0], doc="The rows of the matrices.")
    m = property(lambda self: self._element_shape[1], doc="The columns of the matrices.")


_CLASSES: tuple[type[_Transfers], ...] = (ScalarNdarray, VectorNdarray, MatrixNdarray)


def _restore(
    scalar: ScalarType,
    element_shape: tuple[int, ...],
    shape: tuple[int, ...],
    order: tuple[int, ...] | None,
    needs_grad: bool,
    values: np.ndarray,
) -> Ndarray:
    array = _CLASSES[len(element_shape)](scalar, element_shape, shape, order, needs_grad)
    array._write(values)
    return array


def ndarray(
    dtype: Any,
    shape: int | Sequence[int],
    needs_grad: bool = False,
    *,
    order: tuple[int, ...] | None = None,
) -> Ndarray:
    """A zeroed ndarray of elements of `dtype` (a data type, or a type of `qd.types.vector`, `qd.types.matrix`).

    `shape`: an int or a tuple of positive ints, () for 0-D. `needs_grad` allocates `.grad`. `order` lists the axes from
    the slowest to the fastest in memory. QuadrantsRuntimeError for a shape or dtype that is none; ValueError for an
    order that is no permutation of the axes.
    """
    sizes = _checked_shape(shape)
    try:
        scalar, element_shape = element_of(dtype)
    except TypeError:
        raise QuadrantsRuntimeError(f"{dtype!r} is not a valid dtype for ndarray") from None
    if needs_grad and not scalar.is_float:
        raise QuadrantsRuntimeError(f"an ndarray of {scalar} has no derivatives: needs_grad is for floats")
    if order is not None:
        order = tuple(map(operator.index, order))
        if sorted(order) != list(range(len(sizes))):
            raise ValueError(f"order {order} is no permutation of the {len(sizes)} axes")
    return _CLASSES[len(element_shape)](scalar, element_shape, sizes, order, needs_grad)


def _checked_shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = normalised_shape(shape)
    except TypeError:
        raise QuadrantsRuntimeError(f"{shape!r} is not a valid shape for ndarray") from None
    if not all(0 < size <= _LARGEST_SIZE for size in sizes):
        raise QuadrantsRuntimeError(f"{sizes} is not a valid shape for ndarray: sizes are 1 to {_LARGEST_SIZE}")
    return sizes
