"""The oracle: Python itself runs an undecorated function over values of fixed width.

`run` gives what a kernel of that function must give. Order of parallel iterations is program order here, indices are
always checked, and what stays weak computes at 64 bits.
"""

from __future__ import annotations

import ast
import math
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from quadrants.evidence import functions, namespace, numerics, rewrite
from quadrants.evidence.arrays import ArrayView, FieldView, detached
from quadrants.evidence.functions import Dtype, VectorType
from quadrants.evidence.scalar import OracleError, cast, defaults, lift, scalar_type_of_numpy
from quadrants.evidence.tensor import Tensor, as_tensor, is_tensor
from quadrants.evidence.tensor_methods import settled
from quadrants.ir.types import ScalarType, f64, i64

__all__ = ["ArrayView", "FieldView", "OracleError", "dtype_of", "run", "to_python"]


def run(
    function: Any, *arguments: Any, default_int: ScalarType = i64, default_float: ScalarType = f64, **keywords: Any
) -> Any:
    """Runs a function as a kernel of it would run.

    NumPy arrays, `FieldView`s and fields are changed in place; Python numbers are weak, NumPy's are typed; annotations
    of parameters and of the result convert. Gives None, or scalars, vectors (`dtype_of`, `to_python`) and tuples of
    them. Raises OracleError for what has no meaning in a kernel, IndexError for an index out of range.
    """
    before = defaults.integer, defaults.floating
    defaults.integer, defaults.floating = default_int, default_float
    try:
        with numerics.quiet():
            session = Session()
            original = _plain_function(function)
            result = session.function(original)(
                *(session.argument(argument) for argument in arguments),
                **{name: session.argument(argument) for name, argument in keywords.items()},
            )
            session.write_back()
            if template_positions(original):
                result = result[0]  # the rest are the parameters by reference, which a kernel does not hand back
            return None if result is None else settled(result)
    finally:
        defaults.integer, defaults.floating = before


def dtype_of(value: Any) -> ScalarType:
    """The dtype of a scalar or vector that `run` gave."""
    return value.dtype


def to_python(value: Any) -> Any:
    """A result of `run` as Python numbers, lists and tuples."""
    if isinstance(value, Tensor):
        return value.to_list()
    if isinstance(value, tuple):
        return tuple(to_python(item) for item in value)
    return value if value is None else value.item()


def _plain_function(function: Any) -> types.FunctionType:
    """The Python function inside decorated functions and kernels."""
    while not isinstance(function, types.FunctionType):
        inner = getattr(function, "__wrapped__", None)
        if inner is None:
            raise OracleError(f"not a function: {function!r}")
        function = inner
    return function


def _enter(value: Any, annotation: Any) -> Any:
    """A value bound to an annotated name: converted where the annotation is a dtype, else copied."""
    if isinstance(annotation, (Dtype, VectorType)):
        return functions.convert(value, annotation)
    if annotation is functions.boolean:
        return functions.boolean(value)
    return detached(value)


def _leave(value: Any, annotation: Any) -> Any:
    kinds = typing.get_args(annotation)
    if kinds and isinstance(value, tuple):
        return tuple(_leave(item, kind) for item, kind in zip(value, kinds, strict=True))
    return value if isinstance(value, ArrayView) else _enter(value, annotation)


def _items(values: Any) -> Any:
    return (detached(value) for value in values)


def _atomic(operation: Any, value: Any, *operands: Any) -> tuple[Any, Any]:
    """(old, new) of an atomic operation on a name's value: it runs on a cell of its own."""
    if isinstance(value, ArrayView):
        return operation(value, *operands), value
    settled_value = value if is_tensor(value) else lift(value)
    dtype = settled_value.dtype
    shape = as_tensor(value).shape if is_tensor(value) else ()
    cell = FieldView.zeros(dtype, (), shape)
    cell[None] = settled_value
    old = operation(cell[None], *operands)
    return old, detached(cell[None])


_HELPERS = {
    "__builtins__": namespace.BUILTINS,
    rewrite.COPY: detached,
    rewrite.ENTER: _enter,
    rewrite.LEAVE: _leave,
    rewrite.ITEMS: _items,
    rewrite.ATOMIC: _atomic,
}


class Session:
    """One run: the functions it has rewritten, and the fields it is to write back."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[types.FunctionType, Any]] = {}
        self.fields: dict[int, tuple[Any, FieldView]] = {}

    def function(self, original: types.FunctionType) -> Any:
        """The rewritten function, whose names reach stand-ins."""
        found = self.functions.get(id(original))
        if found is not None:
            return found[1]
        names: dict[str, Any] = dict(_HELPERS)
        reached = _Reached(self, original)
        rewritten = self._define(original, names, reached)
        self.functions[id(original)] = (original, rewritten)
        for name in _names_of(rewritten.__code__) - set(_HELPERS):
            value = reached.get(name)
            if value is not _MISSING:
                names[name] = self.stand_in(value)
        rewritten.__defaults__ = self.stand_in(original.__defaults__)
        rewritten.__kwdefaults__ = {k: self.stand_in(v) for k, v in (original.__kwdefaults__ or {}).items()} or None
        return rewritten

    def _define(self, original: types.FunctionType, names: dict[str, Any], reached: _Reached) -> Any:
        if original.__name__ == "<lambda>":
            cells = tuple(types.CellType(self.stand_in(cell.cell_contents)) for cell in original.__closure__ or ())
            return types.FunctionType(original.__code__, names, original.__name__, None, cells or None)
        defined: dict[str, Any] = {}
        exec(_rewritten(original, reached), names, defined)
        return defined[original.__name__]

    def argument(self, value: Any) -> Any:
        """An argument as the function sees it; Python's numbers become weak scalars, so that they wrap and divide."""
        if type(value) in (int, float, bool):
            return lift(value)
        if is_dataclass(value) and not isinstance(value, type):
            members = {member.name: self.argument(getattr(value, member.name)) for member in fields(value)}
            return types.SimpleNamespace(**members)
        return self.stand_in(value)

    def stand_in(self, value: Any) -> Any:
        """What stands for an object that the function reaches."""
        kind = type(value)
        if kind in (int, float, bool, str, type(None)):
            return value
        if kind is types.FunctionType and not _is_ours(value):
            return self.function(value)
        if kind in (tuple, list):
            return kind(self.stand_in(item) for item in value)
        known = _known().get(id(value))
        if known is not None:
            return known
        if kind is np.ndarray:
            return ArrayView(value)
        if isinstance(value, np.generic):
            return lift(value)
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, ScalarType):
            return Dtype(value)
        if isinstance(value, type) and issubclass(value, np.generic):
            return Dtype(scalar_type_of_numpy(np.dtype(value)))
        if isinstance(getattr(value, "__wrapped__", None), types.FunctionType) and not _is_ours(value.__wrapped__):
            return self.function(value.__wrapped__)
        if hasattr(value, "from_numpy") and hasattr(value, "to_numpy"):
            return self._field(value)
        if hasattr(value, "to_numpy") and hasattr(value, "to_list"):
            return _host_matrix(value)
        shape = getattr(value, "shape", None)
        if (
            isinstance(shape, tuple)
            and shape
            and isinstance(getattr(value, "dtype", None), ScalarType)
            and callable(value)
        ):
            return VectorType(shape, value.dtype)
        return value

    def _field(self, field: Any) -> FieldView:
        found = self.fields.get(id(field))
        if found is None:
            array = np.array(field.to_numpy())
            element_shape = array.shape[len(field.shape) :]
            scalar = getattr(field.dtype, "scalar", field.dtype)
            dtype = getattr(scalar, "dtype", scalar)
            wraps = hasattr(field, "element_shape")
            view = FieldView(array, dtype, element_shape, getattr(field, "_offset", None), wraps)
            found = self.fields[id(field)] = (field, view)
        return found[1]

    def write_back(self) -> None:
        """Copies the fields' elements to their owners."""
        for field, view in self.fields.values():
            field.from_numpy(view.array)


def _host_matrix(value: Any) -> Tensor:
    """A vector or matrix of the host: weak where it has no dtype of its own."""
    array = np.asarray(value.to_numpy())
    dtype = getattr(value, "_dtype", None)
    items = array.reshape(-1).tolist() if dtype is None else [cast(lift(item), dtype) for item in array.reshape(-1)]
    return Tensor(array.shape, items)


_MISSING = object()
_codes: dict[Any, tuple[types.FunctionType, types.CodeType]] = {}


def _rewritten(function: types.FunctionType, reached: _Reached) -> types.CodeType:
    """The rewritten code of a function, kept for the next run of the same function that reaches the same."""
    positions = {name: reached.template_positions(ast.Name(id=name)) for name in _names_of(function.__code__)}
    key = (id(function), frozenset(positions.items()))
    known = _codes.get(key)
    if known is None or known[0] is not function:
        if len(_codes) > 200:
            _codes.clear()
        known = _codes[key] = (function, rewrite.compiled(function, reached.template_positions))
    return known[1]


class _Reached:
    """The names that a function reaches outside itself: closure first, then globals."""

    def __init__(self, session: Session, function: types.FunctionType) -> None:
        self.session = session
        self.function = function
        self.closure: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                self.closure[name] = cell.cell_contents
            except ValueError:  # an empty cell: the name is bound later, or never
                continue

    def get(self, name: str) -> Any:
        if name in self.closure:
            return self.closure[name]
        return self.function.__globals__.get(name, _MISSING)

    def template_positions(self, callee: ast.expr) -> frozenset[int]:
        """The positions of template parameters of the function that a call names, if it is one of Python's."""
        target = self.get(callee.id) if isinstance(callee, ast.Name) else _MISSING
        target = getattr(target, "__wrapped__", target)
        if not isinstance(target, types.FunctionType) or _is_ours(target):
            return frozenset()
        return template_positions(target)


def template_positions(function: types.FunctionType) -> frozenset[int]:
    """The positions of the parameters that a function takes by reference."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    return frozenset(i for i, name in enumerate(names) if _is_template(function.__annotations__.get(name)))


def _is_template(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return rewrite.is_template(ast.parse(annotation, mode="eval").body)
    return type(annotation).__name__ == "Template" or getattr(annotation, "__name__", "") in ("template", "Template")


def _is_ours(function: types.FunctionType) -> bool:
    return function.__module__ is not None and function.__module__.split(".")[0] == "quadrants"


def _names_of(code: types.CodeType) -> set[str]:
    """The global and free names of a code object and of those nested in it."""
    names = set(code.co_names) | set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def _known() -> dict[int, Any]:
    """Stand-ins by the identity of what they stand for: modules, and public functions imported by name."""
    if not _KNOWN:
        import quadrants

        pairs = [(quadrants, namespace.QUADRANTS), (math, namespace.MATH_MODULE), (np, namespace.NUMPY_MODULE)]
        pairs += [
            (getattr(quadrants, name), stand)
            for name, stand in (("math", namespace.QD_MATH), ("types", namespace.QD_TYPES))
            if hasattr(quadrants, name)
        ]
        for module, stand in pairs:
            _KNOWN[id(module)] = stand
            for name, value in vars(stand).items():
                original = getattr(module, name, None)
                if callable(original) or isinstance(original, types.ModuleType):
                    _KNOWN.setdefault(id(original), value)
    return _KNOWN


_KNOWN: dict[int, Any] = {}
