"""Arguments of a launch: what each is to the compiler, the key that specialisations are found by, and how its run-time
parts are read from the Python object."""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeTypeError
from quadrants.frontend import protocol
from quadrants.frontend.exact import exact_key, is_exact
from quadrants.frontend.protocol import Annotation
from quadrants.ir.types import ArrayType, ScalarType, Type, array_type, bf16, f64, i64, matrix_type, scalar_of_numpy, u1
from quadrants.records import dataclass_names
from quadrants.targets.device.views import DeviceView, is_foreign, view_of

__all__ = ["Argument", "as_numpy", "describe_argument", "numpy_array_type"]


class Argument:
    """One argument. kind 'value': a number, vector or matrix of `type`; 'array': memory of `type`; 'static': the object
    itself; 'sequence': a tuple of `children`, or an object of the named tuple or dataclass `record`."""

    __slots__ = (
        "array_kind",
        "children",
        "domain",
        "key",
        "kind",
        "names",
        "offset",
        "record",
        "type",
        "value",
        "weak",
    )

    def __init__(self, kind: str, key: Any, type_: Type | None = None, value: Any = None) -> None:
        self.kind = kind
        self.key = key
        self.type: Any = type_
        self.value = value
        self.weak = False
        self.array_kind = ""
        self.domain: int | None = None
        self.offset: tuple[int, ...] = ()
        self.children: list[Argument] = []
        self.names: tuple[str, ...] = ()
        self.record: type | None = None

    def array_type(self, static: int) -> ArrayType:
        """The type with at least `static` trailing sizes static."""
        type_: ArrayType = self.type
        if static <= len(type_.trailing):
            return type_
        return array_type(
            type_.scalar, type_.rank, tuple(as_numpy(self.value).shape[type_.rank - static :]), type_.layout
        )

    def without_memory(self) -> Argument:
        """An argument that specialises a kernel in the same way, and keeps no array alive."""
        other = Argument(self.kind, self.key, self.type, self.value)
        other.weak, other.array_kind, other.domain, other.offset = self.weak, self.array_kind, self.domain, self.offset
        other.names, other.record = self.names, self.record
        other.children = [child.without_memory() for child in self.children]
        if self.kind == "array":
            array = as_numpy(self.value)
            buffer = (bytearray if array.flags.writeable else bytes)(array.itemsize)
            other.value = np.ndarray(array.shape, array.dtype, buffer, strides=[0] * array.ndim)
        elif self.kind != "static":
            other.value = None
        return other

    def leaves(self) -> list[Argument]:
        """The parts that are parameters of the kernel, in order."""
        if self.kind == "sequence":
            return [leaf for child in self.children for leaf in child.leaves()]
        return [] if self.kind == "static" else [self]


class BrainFloats(np.ndarray):
    """A torch tensor of bf16 on the CPU as an array of its bits (u16), for NumPy has no such type."""

    scalar = bf16


def as_numpy(value: Any) -> np.ndarray:
    """An array argument as a NumPy array over the same memory; one that lies on a GPU as a `DeviceView`."""
    if type(value) is np.ndarray:
        return value
    if protocol.is_storage(value):
        value.place()
        return value._view
    if isinstance(value, DeviceView):
        return value
    if is_foreign(value):
        return view_of(value)
    return _of_torch(value.detach()) if hasattr(value, "data_ptr") else np.asarray(value)


def _of_torch(tensor: Any) -> np.ndarray:
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.numpy()
    torch: Any = sys.modules["torch"]
    return tensor.view(torch.int16).numpy().view(np.uint16).view(BrainFloats)


_OF_NO_KIND = "kernels take real numbers and truth values"
_OF_KIND = {
    **dict.fromkeys("fiub", "convert it with .astype(…)"),
    "c": f"{_OF_NO_KIND}: pass z.real and z.imag, which are views, or z.view(z.real.dtype), whose last axis has both by turns",
}


def numpy_array_type(array: np.ndarray, static: int, error: Callable[[str], Exception]) -> ArrayType:
    """The IR type of a NumPy array; `error` makes the exception for an element type that kernels do not have."""
    scalar = array.scalar if isinstance(array, (DeviceView, BrainFloats)) else scalar_of_numpy(array.dtype)
    if scalar is None:
        order = "" if array.dtype.isnative else f" (byte order {array.dtype.byteorder!r})"
        raise error(f"an array of dtype {array.dtype}{order}: {_OF_KIND.get(array.dtype.kind, _OF_NO_KIND)}")
    if not array.flags.aligned:
        raise error("an array whose elements are not aligned in memory: pass a copy")
    layout = "C" if array.flags.c_contiguous else "A"
    return array_type(scalar, array.ndim, tuple(array.shape[array.ndim - static :]) if static else (), layout)


def describe_argument(
    name: str, value: Any, wish: Annotation | None, default_int: ScalarType, default_float: ScalarType
) -> Argument:
    """What `value` is as the argument `name`; a QuadrantsRuntimeTypeError that names it if it is nothing a kernel takes."""
    kind = "none" if wish is None else wish.kind
    reader = _BY_WISH.get(kind)
    if reader is not None:
        return reader(name, value, wish, default_int, default_float)
    return _any(name, value)


def _refuse(name: str, value: Any, expected: str) -> QuadrantsRuntimeTypeError:
    shown = (
        f"{type(value).__name__} {value!r}"
        if isinstance(value, (int, float, str, bytes, bool)) or value is None
        else f"an object of type {type(value).__name__}"
    )
    if type(value) in _WAYS_OUT:
        shown = f"{shown}: {_WAYS_OUT[type(value)]}"
    if isinstance(value, np.ndarray):
        shown = f"a NumPy array of dtype {value.dtype} and shape {value.shape}"
    return QuadrantsRuntimeTypeError(f"argument '{name}': expected {expected}, got {shown[:160]}")


_WAYS_OUT: dict[type, str] = {
    list: "pass a tuple, or an array made of it by np.array(…)",
    dict: "pass an object of a dataclass or a named tuple",
    complex: "pass its parts, or a vector of them",
}


def _beyond(name: str, value: int, scalar: ScalarType) -> QuadrantsRuntimeTypeError:
    return QuadrantsRuntimeTypeError(
        f"argument '{name}': {value} is beyond the range of {scalar} ({scalar.minimum} to {scalar.maximum})"
    )


def _value(type_: Type, weak: bool = False, value: Any = None) -> Argument:
    argument = Argument("value", ("value", type_, weak), type_, value)
    argument.weak = weak
    return argument


def _scalar(
    name: str, value: Any, wish: Annotation | None, default_int: ScalarType, default_float: ScalarType
) -> Argument:
    assert wish is not None
    scalar = {"int": default_int, "float": default_float, "bool": u1}.get(wish.kind, wish.scalar)
    assert scalar is not None
    checked_number(name, value, scalar)
    return _value(scalar)


def checked_number(name: str, value: Any, scalar: ScalarType) -> Any:
    """`value` if it may be passed as a number of type `scalar`; QuadrantsRuntimeTypeError otherwise."""
    if (isinstance(value, np.ndarray) and value.ndim == 0) or (hasattr(value, "data_ptr") and value.ndim == 0):
        value = value.item()
    if isinstance(value, (bool, int, np.bool_, np.integer)) or (
        hasattr(value, "__index__") and not isinstance(value, np.ndarray)
    ):
        if scalar.is_integer and not scalar.minimum <= int(value) <= scalar.maximum:
            raise _beyond(name, int(value), scalar)
        return value
    if isinstance(value, (float, np.floating)):
        if scalar.is_float:
            return value
        raise QuadrantsRuntimeTypeError(
            f"argument '{name}': {type(value).__name__} {value!r} cannot be converted into required type {scalar}: pass an integer, or convert it with int(…)"
        )
    raise _refuse(name, value, f"a number ({scalar})")


def _matrix(
    name: str, value: Any, wish: Annotation | None, default_int: ScalarType, default_float: ScalarType
) -> Argument:
    assert wish is not None
    scalar = wish.scalar or default_float
    shape = np.shape(protocol_elements(value)) if not isinstance(value, np.ndarray) else value.shape
    if tuple(shape) != tuple(wish.shape):
        raise _refuse(name, value, f"a vector or matrix of shape {wish.shape}")
    return _value(matrix_type(scalar, tuple(wish.shape)))


def protocol_elements(value: Any) -> Any:
    """The elements of a host vector or matrix, nested; other things as they are."""
    found = protocol.matrix_constant(value)
    return value if found is None else np.reshape(np.asarray(found[0]), found[1])


def _array(
    name: str, value: Any, wish: Annotation | None, default_int: ScalarType, default_float: ScalarType
) -> Argument:
    assert wish is not None
    if not protocol.is_array(value):
        if value is None and type(wish.annotation).__name__ == "OptionalAnnotation":
            return Argument("static", ("none",))
        raise _refuse(name, value, "an array (NumPy, torch or qd.ndarray)")
    argument = _any(name, value)
    type_: ArrayType = argument.type
    if wish.scalar is not None and type_.scalar is not wish.scalar:
        kind = TypeError if protocol.is_storage(value) else ValueError
        way = ": pass it converted, or annotate the parameter without a type"
        raise kind(f"argument '{name}': expected an array of {wish.scalar}, got {type_.scalar}{way}")
    if not protocol.is_storage(value):
        argument.array_kind = "external"
        argument.key = ("array", type_, "external", *argument.key[3:])
        if wish.shape:
            _element_axes(name, argument, wish)
    domain = argument.domain if argument.domain is not None else type_.rank
    if wish.ndim is not None and wish.ndim != domain:
        raise ValueError(f"argument '{name}': expected an array of {wish.ndim} axes, got {domain}")
    return argument


def _element_axes(name: str, argument: Argument, wish: Annotation) -> None:
    """Trailing axes that the annotation makes the element's."""
    shape = as_numpy(argument.value).shape
    if shape[len(shape) - len(wish.shape) :] != tuple(wish.shape):
        raise ValueError(f"argument '{name}': expected elements of shape {wish.shape}, got an array of shape {shape}")
    type_ = argument.type
    argument.type = array_type(type_.scalar, type_.rank, tuple(wish.shape), type_.layout)
    argument.domain = type_.rank - len(wish.shape)
    argument.array_kind = "ndarray"
    argument.key = ("array", argument.type, argument.array_kind, argument.domain, (), None)


def _template(
    name: str, value: Any, wish: Annotation | None, default_int: ScalarType, default_float: ScalarType
) -> Argument:
    if isinstance(value, (tuple, list)) and any(protocol.is_array(item) for item in value):
        return _sequence(value, [_template(name, item, wish, default_int, default_float) for item in value])
    if protocol.is_array(value) or protocol.matrix_constant(value) is not None:
        return _any(name, value)
    if isinstance(value, float) and knobs.current.raise_on_templated_floats:
        raise ValueError(f"argument '{name}': code would be made for {value!r} alone: annotate it with float")
    return _static(value)


def _static(value: Any) -> Argument:
    key = exact_key(value) if is_exact(value) else (type(value), id(value))
    return Argument("static", ("static", key), None, value)


def _sequence(value: Any, children: list[Argument], names: tuple[str, ...] = ()) -> Argument:
    record = type(value) if names else None
    key = ("sequence", names, record, tuple(child.key for child in children))
    argument = Argument("sequence", key, None, value)
    argument.children = children
    argument.names = names
    argument.record = record
    return argument


def _any(name: str, value: Any) -> Argument:
    """An argument without a wish: types come from the value."""
    kind = type(value)
    if kind is bool or kind is np.bool_:
        return _value(u1)
    if kind is int:
        if not i64.minimum <= value <= i64.maximum:
            raise _beyond(name, value, i64)
        return _value(i64, weak=True)
    if kind is float:
        return _value(f64, weak=True)
    if isinstance(value, np.generic):
        scalar = scalar_of_numpy(value.dtype)
        if scalar is None:
            raise _refuse(name, value, "a number")
        return _value(scalar)
    if protocol.is_storage(value):
        return _storage(value)
    if protocol.is_array(value):
        _check_unmasked(name, value)
        array = as_numpy(value)
        if isinstance(array, DeviceView):
            value = array  # its owner is asked once a launch
        type_ = numpy_array_type(array, 0, lambda text: QuadrantsRuntimeTypeError(f"argument '{name}': {text}"))
        argument = Argument("array", ("array", type_, "numpy", None, (), array.flags.writeable), type_, value)
        argument.array_kind = "numpy"
        return argument
    return _object(name, value)


def _check_unmasked(name: str, value: Any) -> None:
    if isinstance(value, np.ndarray) and type(value).__name__ == "MaskedArray":
        raise QuadrantsRuntimeTypeError(
            f"argument '{name}': a masked array, whose mask a kernel would not see: pass its .data, or .filled(…)"
        )


def _member(name: str, value: Any) -> Argument:
    """A member of a dataclass: text is known at compile time."""
    return _static(value) if type(value) is str else _any(name, value)


def _storage(value: Any) -> Argument:
    value.place()
    type_: ArrayType = value._array_type
    offset = tuple(value._offset or ())
    argument = Argument("array", ("array", type_, value._kind, None, offset, True), type_, value)
    argument.array_kind = value._kind
    argument.domain = type_.rank - len(type_.trailing)
    argument.offset = offset
    return argument


def _object(name: str, value: Any) -> Argument:
    matrix = protocol.matrix_constant(value)
    if matrix is not None:
        _, shape, scalar = matrix
        is_float = np.asarray(protocol_elements(value)).dtype.kind == "f"
        return _value(matrix_type(scalar or (f64 if is_float else i64), shape), weak=scalar is None)
    if isinstance(value, tuple):
        return _sequence(value, [_any(name, item) for item in value], getattr(value, "_fields", ()))
    names = dataclass_names(type(value))
    if names is not None:
        return _sequence(value, [_member(f"{name}.{part}", getattr(value, part)) for part in names], names)
    if isinstance(value, (list, bytes, bytearray, dict, set, complex)):
        raise _refuse(name, value, "a number, an array (NumPy, torch, qd.field, qd.ndarray), a vector or a tuple")
    if (
        value is None
        or name == "self"
        or isinstance(value, _STATIC_KINDS)
        or getattr(type(value), "_data_oriented", False)
    ):
        return _static(value)
    if protocol.plain_function(value) is not None or protocol.annotation(value) is not None:
        return _static(value)
    raise _refuse(
        name,
        value,
        "a number, an array (NumPy, torch, qd.field, qd.ndarray), a vector, a tuple or (annotated with qd.template()) any object known at compile time",
    )


# Objects that are compile-time values without being asked for.
_STATIC_KINDS = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    enum.Enum,
    ScalarType,
    np.ufunc,
)
_BY_WISH: dict[str, Callable[..., Argument]] = {
    "scalar": _scalar,
    "int": _scalar,
    "float": _scalar,
    "bool": _scalar,
    "matrix": _matrix,
    "array": _array,
    "template": _template,
}
