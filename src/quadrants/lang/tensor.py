"""Tensors: `qd.tensor` makes one over a field or an ndarray, with a layout of choice; `qd.wrap` makes one of either."""

from __future__ import annotations

import enum
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.lang.field import Field, field, normalised_shape
from quadrants.lang.ndarray import Ndarray, ndarray
from quadrants.lang.storage import Storage
from quadrants.lang.types import MatrixAnnotation

__all__ = ["Backend", "MatrixTensor", "Tensor", "VectorTensor", "tensor", "wrap"]


class Backend(enum.IntEnum):
    """What holds a tensor's elements: a field or an ndarray. An argument of `qd.tensor`."""

    FIELD = 0
    NDARRAY = 1


class Tensor(Storage):
    """A tensor of numbers over a field or ndarray (`_unwrap` gives it). Indices, shape and arrays on the host are those
    of the tensor's own axes, whatever its layout. TypeError for another object, and for a tensor."""

    _element_ndim = 0
    _kind = "tensor"
    _impl: Any
    _grad: Tensor | None

    def __init__(self, impl: Any) -> None:
        if isinstance(impl, Tensor) or not isinstance(impl, (Field, Ndarray)):
            raise TypeError(f"a tensor is made of a field or an ndarray, not of {type(impl).__name__}")
        if len(impl._element_shape) != self._element_ndim:
            raise TypeError(f"elements of shape {impl._element_shape} are not for {type(self).__name__}: use qd.wrap")
        super().__init__(impl._scalar, impl._element_shape, None, name=impl._name)
        self._impl = impl
        self._grad = None
        self._mirror()

    def _mirror(self) -> None:
        """Take over what the wrapped storage knows of its shape and memory."""
        impl = self._impl
        self._shape, self._order, self._offset = impl._shape, impl._order, impl._offset
        self._array_type, self._freed = impl._array_type, impl._freed
        self._buffer, self._view, self._descriptor = impl._buffer, impl._view, impl._descriptor

    def _place(self) -> None:
        if self._descriptor is None:
            self._impl._place()
            self._mirror()

    @property
    def shape(self) -> tuple[int, ...]:
        """The logical shape, element axes not counted."""
        if self._shape is None:
            self._mirror()
        return super().shape

    def _unwrap(self) -> Field | Ndarray:
        """The field or ndarray that holds the elements."""
        return self._impl

    def _backend(self) -> Backend:
        return Backend.FIELD if isinstance(self._impl, Field) else Backend.NDARRAY

    def _index(self, key: Any) -> tuple[int, ...]:
        return self._impl._index(key)

    @property
    def grad(self) -> Tensor | None:
        """The tensor of adjoints; None if an ndarray has none. That of a field without `needs_grad` has no memory."""
        if self._grad is None and self._impl.grad is not None:
            self._grad = type(self)(self._impl.grad)
        return self._grad

    def has_grad(self) -> bool:
        """Whether there is memory for adjoints."""
        return self._impl.has_grad()

    def has_dual(self) -> bool:
        """Whether there is memory for tangents."""
        return self._impl.has_dual()

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """A NumPy array of shape + element shape, converted to `dtype` if given. `copy` True: independent; None: over
        the same memory if possible; False: over the same memory or ValueError."""
        return self._numpy(dtype, copy)

    def from_numpy(self, arr: Any) -> None:
        """Copy a NumPy array of shape + element shape in, converted; ValueError for another shape, TypeError for what
        is no array."""
        self._impl.from_numpy(arr)

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """A torch tensor of shape + element shape; `copy` as in `to_numpy`."""
        return self._torch(device, copy)

    def from_torch(self, arr: Any) -> None:
        """Copy a torch tensor of shape + element shape in, converted; ValueError for another shape."""
        self._impl.from_numpy(arr)

    def copy_from(self, other: Any) -> None:
        """Copy another tensor of the same backend and shape in, converted; TypeError for another object or backend."""
        source = other._impl if isinstance(other, Tensor) else other
        if not isinstance(source, Field if self._backend() is Backend.FIELD else Ndarray):
            raise TypeError(f"copy_from takes a tensor of backend {self._backend().name}")
        self._impl.copy_from(source)

    def __reduce__(self) -> tuple:
        values = np.ascontiguousarray(self._host(reads_only=True))
        element = MatrixAnnotation(self._element_shape, self._scalar) if self._element_shape else self._scalar
        return (_restore, (element, self.shape, self._backend(), self._order, self.has_grad(), values))

    def __deepcopy__(self, memo: object) -> Tensor:
        build, parameters = self.__reduce__()
        return build(*parameters)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self._shape}, dtype={self._scalar}, backend={self._backend().name}, "
            f"layout={self._order})"
        )

    def __str__(self) -> str:
        return repr(self)


class VectorTensor(Tensor):
    """A tensor of vectors of one length `n` and one data type; made by `qd.tensor`, `qd.wrap` and `qd.Vector.tensor`."""

    _element_ndim = 1

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of an element: (n,)."""
        return self._element_shape


class MatrixTensor(Tensor):
    """A tensor of `n` x `m` matrices of one data type; made by `qd.tensor`, `qd.wrap` and `qd.Matrix.tensor`."""

    _element_ndim = 2

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of an element: (n, m)."""
        return self._element_shape


_CLASSES: tuple[type[Tensor], ...] = (Tensor, VectorTensor, MatrixTensor)


def wrap(impl: Field | Ndarray) -> Tensor:
    """The tensor over a field or ndarray; TypeError for anything else."""
    if isinstance(impl, Tensor) or not isinstance(impl, (Field, Ndarray)):
        raise TypeError(f"qd.wrap takes a field or an ndarray, not {type(impl).__name__}")
    return _CLASSES[len(impl._element_shape)](impl)


def tensor(
    dtype: Any,
    shape: int | Sequence[int],
    *,
    backend: Backend = Backend.NDARRAY,
    layout: Sequence[int] | None = None,
    **options: Any,
) -> Tensor:
    """A zeroed tensor of elements of `dtype` (a data type, vector or matrix type).

    `backend` says whether a field or an ndarray holds it; `layout` lists the axes from the slowest to the fastest in
    memory; `options` are those of `qd.field` or `qd.ndarray` (needs_grad, name, …). ValueError for a backend or layout
    that is none, TypeError for a tensor as dtype (use `qd.wrap`) and for the option `order` (use `layout`).
    """
    if isinstance(dtype, Storage):
        raise TypeError("dtype is a tensor: use qd.wrap to make a tensor of a field or ndarray")
    if "order" in options:
        raise TypeError("a tensor's memory order is given by layout, not by order")
    chosen = Backend(backend)
    sizes = normalised_shape(shape)
    order = None if layout is None else _checked_layout(layout, len(sizes))
    if chosen is Backend.FIELD:
        return wrap(field(dtype, sizes, order, **options))
    options.pop("name", None)
    return wrap(ndarray(dtype, sizes, order=order, **options))


def _checked_layout(layout: Sequence[int], rank: int) -> tuple[int, ...]:
    try:
        order = tuple(map(operator.index, layout))
    except TypeError:
        raise ValueError(f"layout {layout!r} is no sequence of axes") from None
    if sorted(order) != list(range(rank)):
        raise ValueError(f"layout {order} is no permutation of the {rank} axes")
    return order


def _restore(
    dtype: Any,
    shape: tuple[int, ...],
    backend: Backend,
    layout: tuple[int, ...] | None,
    needs_grad: bool,
    values: np.ndarray,
) -> Tensor:
    made = tensor(dtype, shape, backend=backend, layout=layout, needs_grad=needs_grad)
    made._write(values)
    return made
