"""What the language layer tells the front end of its objects: the front end imports nothing of it.

The language layer calls `register_*` when it is imported. Storage objects (fields, ndarrays) are known by their
attributes `_array_type`, `_descriptor`, `_view` and `place()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from quadrants.ir.types import ScalarType

__all__ = [
    "Annotation",
    "annotation",
    "external",
    "intrinsic_name",
    "is_array",
    "is_storage",
    "library",
    "makes_type",
    "matrix_constant",
    "plain_function",
    "register_annotations",
    "register_externals",
    "register_functions",
    "register_intrinsic",
    "register_library",
    "register_matrices",
    "register_replacement",
    "register_type_maker",
    "replacement",
]


class Annotation(NamedTuple):
    """What a parameter's annotation asks for. kind: 'scalar', 'matrix', 'array', 'template', 'int', 'float', 'bool',
    'tuple' (of `parts`), 'none' (no wish) or 'static' (the object itself is the parameter's value)."""

    kind: str
    scalar: ScalarType | None = None
    shape: tuple[int, ...] = ()
    ndim: int | None = None
    annotation: Any = None
    parts: tuple[Any, ...] = ()


_intrinsics: dict[int, tuple[Any, str]] = {}
_type_makers: dict[int, Any] = {}
_annotation_reader: list[Callable[[Any], Annotation | None]] = []
_matrix_reader: list[Callable[[Any], tuple[list[Any], tuple[int, ...], ScalarType | None] | None]] = []
_function_reader: list[Callable[[Any], Any]] = []
_external_reader: list[Callable[[Any], Any]] = []
_library: dict[str, Any] = {}
_replacements: dict[int, tuple[Any, Any]] = {}
_content_readers: list[Callable[[Any], list[tuple[int, int]] | None]] = []


def register_content_words(reader: Callable[[Any], list[tuple[int, int]] | None]) -> None:
    """`reader` gives (address, 64-bit word) of the memory that holds an object's content, None if it cannot say."""
    _content_readers.append(reader)


def content_words(value: Any) -> list[tuple[int, int]] | None:
    for reader in _content_readers:
        found = reader(value)
        if found is not None:
            return found
    return None


_matrix_maker: list[Callable[[Any, ScalarType], Any]] = []


def register_matrix_maker(maker: Callable[[Any, ScalarType], Any]) -> None:
    """`maker` turns a NumPy array and an element type into a host vector or matrix: a kernel's result."""
    _matrix_maker.append(maker)


def host_matrix(array: Any, scalar: ScalarType) -> Any:
    return _matrix_maker[-1](array, scalar) if _matrix_maker else array


def register_library(name: str, function: Any) -> None:
    """`function`, written in the language, is what the compiler calls for `name` (inverse, determinant, …)."""
    _library[name] = function


def library(name: str) -> Any:
    return _library[name]


def register_replacement(function: Any, own: Any) -> None:
    """`own`, written in the language, is what a kernel calls where it calls `function` of Python or NumPy."""
    _replacements[id(function)] = (function, own)


def replacement(function: Any) -> Any:
    """The function of the language that stands for one of Python or NumPy, None if there is none."""
    found = _replacements.get(id(function))
    return found[1] if found is not None else None


def register_intrinsic(function: Any, name: str) -> None:
    """`function`, met in a kernel, is the intrinsic `name` (frontend/intrinsics.py)."""
    _intrinsics[id(function)] = (function, name)


def intrinsic_name(function: Any) -> str | None:
    found = _intrinsics.get(id(function))
    return found[1] if found is not None else None


def register_type_maker(function: Any) -> None:
    """`function` makes a type, always the same of the same arguments: in a kernel, too, Python runs it."""
    _type_makers[id(function)] = function


def makes_type(function: Any) -> bool:
    return id(function) in _type_makers


def register_annotations(reader: Callable[[Any], Annotation | None]) -> None:
    """`reader` gives the meaning of an annotation object, None if it has none."""
    _annotation_reader.append(reader)


def annotation(wish: Any) -> Annotation | None:
    for reader in _annotation_reader:
        found = reader(wish)
        if found is not None:
            return found
    return None


def register_matrices(reader: Callable[[Any], tuple[list[Any], tuple[int, ...], ScalarType | None] | None]) -> None:
    """`reader` gives (elements row by row, shape, element type or None if weak) of a host vector or matrix, else None."""
    _matrix_reader.append(reader)


def matrix_constant(value: Any) -> tuple[list[Any], tuple[int, ...], ScalarType | None] | None:
    for reader in _matrix_reader:
        found = reader(value)
        if found is not None:
            return found
    return None


def register_functions(reader: Callable[[Any], Any]) -> None:
    """`reader` gives the plain Python function behind a decorated one (a `qd.func`), else None."""
    _function_reader.append(reader)


def plain_function(value: Any) -> Any:
    for reader in _function_reader:
        found = reader(value)
        if found is not None:
            return found
    return None


def register_externals(reader: Callable[[Any], Any]) -> None:
    """`reader` gives the `Declaration` of a function of C, or the reason why kernels cannot call it; None for others."""
    _external_reader.append(reader)


def external(value: Any) -> Any:
    for reader in _external_reader:
        found = reader(value)
        if found is not None:
            return found
    return None


def is_storage(value: Any) -> bool:
    return hasattr(type(value), "_array_type")


def is_array(value: Any) -> bool:
    """Whether a Python object is memory that kernels index in place: storage, a NumPy array, a torch tensor, what other packages
    share by DLPack or as an array of CUDA's."""
    if is_storage(value) or isinstance(value, np.ndarray):
        return True
    kind = type(value)
    if kind.__name__ in ("Tensor", "Parameter") and hasattr(kind, "data_ptr"):
        return True
    return hasattr(kind, "__dlpack_device__") or (hasattr(kind, "__cuda_array_interface__") and kind is not type)
