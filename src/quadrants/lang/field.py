"""Fields: `qd.field`, `qd.Vector.field`, `qd.Matrix.field`."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from quadrants.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants.ir.types import ScalarType
from quadrants.lang.storage import Storage
from quadrants.lang.types import MatrixAnnotation, scalar_type

if TYPE_CHECKING:
    from quadrants.lang.builder import SNode

__all__ = ["Field", "Layout", "MatrixField", "ScalarField", "field"]

_AXIS_NAMES = "ijkl"


class Layout(enum.IntEnum):
    """How the components of elements lie in memory: as an array of structures (AOS, best where elements are reached at
    random), or as a structure of arrays, a dense plane for each component (SOA, best for loops over all elements)."""

    AOS = 1
    SOA = 2


class Field(Storage):
    """Elements of one type at every index of a shape; memory is opaque and zeroed. Made by `qd.field` and
    `qd.Vector.field`, `qd.Matrix.field`; usable in kernels as a captured name or as an argument."""

    _kind = "field"
    _snode: SNode | None = None
    _parameters: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        """`grad` and `dual`: the fields of derivatives. They have memory only if asked for by `needs_grad`,
        `needs_dual`, `place` or `lazy_grad`; integer fields have None."""
        if name not in ("grad", "dual"):
            return super().__getattr__(name)
        twin = self._twin(name) if self._scalar.is_float else None
        setattr(self, name, twin)
        return twin

    def _twin(self, role: str) -> Field:
        name = f"{self._name}.{role}".lstrip(".")
        twin = type(self)(self._scalar, self._element_shape, None, name=name, planar=self._planar)
        twin.__dict__.update(grad=None, dual=None)
        return twin

    def _twin_placed(self, role: str) -> bool:
        twin = self.__dict__.get(role)
        return twin is not None and twin._shape is not None

    def _place_twin(self, role: str) -> None:
        """Give the derivative field `role` this field's shape; nothing happens if it has one or the type has none."""
        twin = getattr(self, role)
        if twin is not None and twin._shape is None:
            twin._set_shape(self.shape, self._order, self._offset)

    def has_grad(self) -> bool:
        """Whether there is a field of adjoints."""
        return self._twin_placed("grad")

    def has_dual(self) -> bool:
        """Whether there is a field of tangents."""
        return self._twin_placed("dual")

    @property
    def snode(self) -> SNode:
        """The node of the field's own place in the tree of `qd.root`."""
        from quadrants.lang.builder import leaf_of

        return leaf_of(self)

    def parent(self, n: int = 1) -> SNode:
        """The node `n` levels above the field in the tree of `qd.root`."""
        node = self.snode
        for _ in range(n):
            node = node.parent()
        return node

    def copy_from(self, other: Any) -> None:
        """Copy all elements of another field in, converted; TypeError if it is no field, ValueError if its shape
        differs."""
        if not isinstance(other, Field):
            raise TypeError(f"copy_from takes a field, not {type(other).__name__}")
        if other.shape != self.shape or other._element_shape != self._element_shape:
            raise ValueError(f"shape {other.shape} does not match the shape {self.shape} of this field")
        self._write(self._stored(other._numpy(None, True)))

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """A torch tensor of shape + element shape. `copy` True: independent; None: over the same memory if possible;
        False: over the same memory or ValueError."""
        return self._torch(device, copy)

    def from_torch(self, arr: Any) -> None:
        """Copy a torch tensor of shape + element shape in, converted; ValueError for another shape."""
        self.from_numpy(arr)

    def from_numpy(self, arr: Any) -> None:
        """Copy a NumPy array of shape + element shape in, converted; ValueError for another shape, TypeError for what
        is no array."""
        self._load(arr, self.shape + self._element_shape)

    def __iter__(self) -> NoReturn:
        raise NotImplementedError("fields are iterated over in kernels only; to_numpy() gives an array of the elements")

    def __repr__(self) -> str:
        return "<qd.field>"

    def __str__(self) -> str:
        if self._shape is None or self._freed:
            return "<qd.field without memory>"
        return str(self[None]) if not self._shape else str(self._numpy(None, None))


class ScalarField(Field):
    """A field of numbers of one data type; made by `qd.field`, indexed by as many ints as it has axes."""

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """A NumPy array of the field's shape, converted to `dtype` if given. `copy` True: independent; None: over the
        same memory if possible; False: over the same memory or ValueError."""
        return self._numpy(dtype, copy)


class MatrixField(Field):
    """A field of vectors or matrices. `n` and `m` are rows and columns (m = 1 for vectors)."""

    def __getattr__(self, name: str) -> Any:
        if name == "n":
            return self._element_shape[0]
        if name == "m":
            return self._element_shape[1] if len(self._element_shape) == 2 else 1
        return super().__getattr__(name)

    def get_scalar_field(self, *indices: int) -> ScalarField:
        """The field of one component, over the same memory; QuadrantsSyntaxError for a wrong number of indices,
        IndexError for one out of range."""
        if len(indices) == 2 and len(self._element_shape) == 1 and indices[1] == 0:
            indices = indices[:1]
        if len(indices) != len(self._element_shape):
            raise QuadrantsSyntaxError(f"{len(self._element_shape)} indices name a component, {len(indices)} given")
        if not all(0 <= index < size for index, size in zip(indices, self._element_shape)):
            raise IndexError(f"component {indices} of elements of shape {self._element_shape}")
        component = ScalarField(self._scalar, (), None, name=self._name)
        component._source = (self, tuple(indices))
        component._set_shape(self.shape, self._order, self._offset)
        return component

    def to_numpy(self, keep_dims: bool = False, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """A NumPy array of shape + (n,) or (n, m), converted to `dtype` if given; `keep_dims` makes the element shape of
        vectors (n, 1). `copy` as in ScalarField.to_numpy."""
        array = self._numpy(dtype, copy)
        return array[..., None] if keep_dims and len(self._element_shape) == 1 else array

    def from_numpy(self, arr: Any) -> None:
        """Copy a NumPy array of shape + element shape in, converted; vectors may come with a last axis of size 1.
        ValueError for another shape, TypeError for what is no array."""
        wanted = self.shape + self._element_shape
        given = getattr(arr, "shape", None)
        kept = len(self._element_shape) == 1 and given is not None and tuple(given) == (*wanted, 1)
        self._load(arr, (*wanted, 1) if kept else wanted)


def normalised_shape(shape: Any) -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints, as a tuple; TypeError for anything else."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    if not isinstance(shape, Iterable) or isinstance(shape, str):
        raise TypeError(f"a shape is an int or a tuple of ints, not {shape!r}")
    sizes = tuple(shape)
    if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes):
        raise TypeError(f"a shape is an int or a tuple of ints, not {shape!r}")
    return tuple(map(int, sizes))


def _parsed_order(order: str | tuple[int, ...] | None, rank: int) -> tuple[int, ...] | None:
    if order is None or isinstance(order, tuple):
        return order
    if len(order) != rank:
        raise QuadrantsSyntaxError(f"order {order!r} names {len(order)} axes, the shape has {rank}")
    if len(set(order)) != len(order):
        raise QuadrantsSyntaxError(f"order {order!r} names an axis twice")
    wrong = [axis for axis in order if axis not in _AXIS_NAMES[:rank]]
    if wrong:
        raise QuadrantsSyntaxError(f"order {order!r}: {wrong[0]!r} is none of the axes {_AXIS_NAMES[:rank]!r}")
    return tuple(map(_AXIS_NAMES.index, order))


def normalised_offset(offset: Any, rank: int) -> tuple[int, ...] | None:
    """An offset given as an int or a sequence, as a tuple of `rank` ints; QuadrantsSyntaxError for another length."""
    if offset is None:
        return None
    values = normalised_shape(offset)
    if len(values) != rank:
        raise QuadrantsSyntaxError(f"the offset has {len(values)} axes, the shape has {rank}")
    return values


def element_of(dtype: Any) -> tuple[ScalarType, tuple[int, ...]]:
    """Data type and element shape that a `dtype` argument stands for (a data type, vector or matrix type)."""
    if isinstance(dtype, MatrixAnnotation):
        element = dtype.dtype
        return (element if element is not None else scalar_type(float)), dtype.shape
    return scalar_type(dtype), ()


def field(
    dtype: Any,
    shape: int | Sequence[int] | None = None,
    order: str | tuple[int, ...] | None = None,
    name: str = "",
    offset: int | Sequence[int] | None = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
    ndim: int | None = None,
) -> Field:
    """A field of elements of `dtype` (a data type, or a type of `qd.types.vector`, `qd.types.matrix`).

    `shape`: an int or tuple; () is 0-D, indexed by None; without it the field must be placed under `qd.root` before its
    use. `order` is a string of axes from the slowest to the fastest, as 'ji'. `offset` is the smallest index per axis.
    `needs_grad`, `needs_dual` allocate `.grad`, `.dual`. `layout` says how components lie (see Layout); `ndim` is not used.
    QuadrantsSyntaxError for an order or offset that does not fit; QuadrantsRuntimeError for sizes that are not positive
    and for derivatives of integers.
    """
    planar = Layout(layout) is Layout.SOA
    scalar, element_shape = element_of(dtype)
    if (needs_grad or needs_dual) and not scalar.is_float:
        raise QuadrantsRuntimeError(f"a field of {scalar} has no derivatives: needs_grad and needs_dual are for floats")
    made = MatrixField if element_shape else ScalarField
    if shape is None:
        if order is not None or offset is not None:
            raise QuadrantsSyntaxError("order and offset need a shape (or are given to place)")
        result: Field = made(scalar, element_shape, None, name=name, planar=planar)
    else:
        sizes = normalised_shape(shape)
        if any(size <= 0 for size in sizes):
            raise QuadrantsRuntimeError(f"Every dimension of a field's shape should be positive, not {sizes}")
        order, offset = _parsed_order(order, len(sizes)), normalised_offset(offset, len(sizes))
        result = made(scalar, element_shape, sizes, order, offset, name, planar)
    for role, wanted in (("grad", needs_grad), ("dual", needs_dual)):
        if wanted and result._shape is not None:
            result._place_twin(role)
        elif wanted:
            result._parameters = (*result._parameters, role)
    return result
