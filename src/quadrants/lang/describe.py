"""Tells the front end what the objects of this layer mean in kernels: annotations, vectors, constructors."""

from __future__ import annotations

import ctypes
import types as python_types
import typing
from typing import Any

import numpy as np

from quadrants.frontend import protocol
from quadrants.frontend.guards import MembersGuard
from quadrants.frontend.protocol import Annotation
from quadrants.ir.types import ScalarType
from quadrants.lang.matrix import Matrix, Vector, wrap_value
from quadrants.lang.storage import Storage
from quadrants.lang.types import MatrixAnnotation, NDArray, OptionalAnnotation, Template, matrix, vector
from quadrants.runtime.launch_probe import array_words, members_words, slot_offset

__all__ = ["read_annotation", "read_matrix", "register"]

_PYTHON_KINDS: dict[Any, str] = {int: "int", float: "float", bool: "bool"}


def read_annotation(wish: Any) -> Annotation | None:
    """What a parameter's annotation asks for; None if `wish` is no annotation of this layer."""
    if isinstance(wish, type) and wish in _PYTHON_KINDS:
        return Annotation(_PYTHON_KINDS[wish], annotation=wish)
    if isinstance(wish, ScalarType):
        return Annotation("scalar", wish, annotation=wish)
    if isinstance(wish, MatrixAnnotation):
        return Annotation("matrix", wish.dtype, wish.shape, annotation=wish)
    if isinstance(wish, NDArray):
        return _array(wish)
    if wish is NDArray:
        return _array(NDArray())
    if wish is Template or isinstance(wish, Template):
        return Annotation("template", annotation=wish)
    if isinstance(wish, type) and issubclass(wish, Storage):
        return Annotation("none", annotation=wish)
    if typing.get_origin(wish) is tuple:
        parts = tuple(read_annotation(part) for part in typing.get_args(wish) if part is not Ellipsis)
        return Annotation("tuple", annotation=wish, parts=parts)
    return _optional(wish)


def _array(wish: NDArray) -> Annotation:
    scalar = wish.dtype.dtype if isinstance(wish.dtype, MatrixAnnotation) else wish.dtype
    return Annotation("array", scalar, wish.element_shape or (), wish.ndim, wish)


def _optional(wish: Any) -> Annotation | None:
    """The annotation X of `X | None` or `Optional[X]`."""
    if isinstance(wish, OptionalAnnotation):
        return read_annotation(wish.inner)
    if typing.get_origin(wish) not in (typing.Union, python_types.UnionType):
        return None
    inner = [part for part in typing.get_args(wish) if part is not type(None)]
    return read_annotation(inner[0]) if len(inner) == 1 else None


def read_matrix(value: Any) -> tuple[list[Any], tuple[int, ...], ScalarType | None] | None:
    """(elements row by row, shape, element type or None if weak) of a vector or matrix; None for anything else."""
    if not isinstance(value, Matrix):
        return None
    return value._value.reshape(-1).tolist(), value._value.shape, value._dtype


def content_words(value: Any) -> list[tuple[int, int]] | None:
    """(address, 64-bit word) of the memory that holds a host vector's or a list's content, or what tells where a NumPy
    array's or a field's elements are, or an object's members; None for anything else and for content that is not made of whole words."""
    if isinstance(value, np.ndarray):
        return array_words(value)
    if isinstance(value, Storage):
        return [(id(value) + slot_offset(type(value), "_view"), id(value._view))]
    if isinstance(value, MembersGuard):
        return members_words(value.container)
    if isinstance(value, Matrix):
        array = value._value
        if not array.flags.c_contiguous or array.nbytes % 8:
            return None
        address = array.__array_interface__["data"][0]
        held = np.frombuffer(array.tobytes(), np.uint64).tolist()
        where = (id(value) + slot_offset(type(value), "_value"), id(array))
        return [where, *((address + 8 * position, word) for position, word in enumerate(held))]
    if type(value) is list:
        size, items = (ctypes.c_uint64.from_address(id(value) + offset).value for offset in _LIST_WORDS)
        words = [(id(value) + offset, word) for offset, word in zip(_LIST_WORDS, (size, items))]
        return [*words, *((items + 8 * position, id(item)) for position, item in enumerate(value))]
    return None


# Where a list keeps its length and the address of its items, behind the head that all objects have.
_LIST_WORDS = (object.__basicsize__, object.__basicsize__ + 8)


def register() -> None:
    """Make the front end know this layer's objects; once, at import."""
    protocol.register_annotations(read_annotation)
    protocol.register_matrices(read_matrix)
    protocol.register_matrix_maker(wrap_value)
    protocol.register_content_words(content_words)
    protocol.register_intrinsic(Vector, "Vector")
    protocol.register_intrinsic(Matrix, "Matrix")
    protocol.register_type_maker(vector)
    protocol.register_type_maker(matrix)
    for name in ("zero", "one", "identity", "unit", "diag", "rows", "cols"):
        protocol.register_intrinsic(getattr(Matrix, name), f"Matrix.{name}")
