"""Functions of C in kernels: objects of ctypes and cffi as they are, and `extern`, which declares what they do."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.frontend import protocol
from quadrants.ir.external import NUMBERS, Declaration, address_of
from quadrants.ir.types import ScalarType, scalar_of_numpy

__all__ = ["ExternalFunction", "extern"]

# The classes of ctypes that functions, numbers and pointers are instances of.
_FUNCTION, _NUMBER, _POINTER = (vars(ctypes)[name] for name in ("_CFuncPtr", "_SimpleCData", "_Pointer"))


class ExternalFunction:
    """A function of C with what is known of it; callable from kernels and from Python."""

    def __init__(self, declaration: Declaration, function: Any) -> None:
        self.declaration = declaration
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __repr__(self) -> str:
        found = self.declaration
        return f"<C function {found.name}({', '.join(found.parameters)}) -> {found.result or 'nothing'}>"


def extern(
    function: Any,
    arguments: Sequence[Any] | None = None,
    result: Any = ...,
    *,
    pure: bool = False,
    reads: Sequence[int] | None = None,
    writes: Sequence[int] | None = None,
    targets: Sequence[str] = (),
) -> ExternalFunction:
    """Declares a function of C for kernels.

    `function` is a function of ctypes or cffi, or a pair (path of a library, symbol); for the latter, `arguments` and
    `result` are the signature: types of ctypes, NumPy or Quadrants, `ctypes.POINTER(…)` for pointers, no result or None for
    functions that give nothing. What is given for a function of ctypes is set in it.

    `pure`: the result follows from the numbers alone, and the function may be called with any numbers at any time, or not
    at all. `reads`, `writes`: the positions of the arguments through which it reads and writes memory, if it does nothing
    else that is seen outside; without them it may do anything. `targets`: names of the targets that may call it. TypeError for
    what is no function of C that kernels can call, and for declarations that do not fit it.
    """
    if isinstance(function, tuple):
        function = _of_library(*function)
        if arguments is None:
            raise TypeError("qd.extern: the arguments of a function of a library are wanted")
        result = None if result is ... else result
    if isinstance(function, _FUNCTION) and arguments is not None:
        function.argtypes = [_c_type(wish) for wish in arguments]
    if isinstance(function, _FUNCTION) and result is not ...:
        function.restype = None if result is None else _c_type(result)
    found = _read(function)
    if not isinstance(found, Declaration):
        raise TypeError(f"qd.extern: {found or f'{function!r} is no function of ctypes or cffi'}")
    pointers = tuple([k for k, parameter in enumerate(found.parameters) if parameter.startswith("*")])
    if pure and (pointers or reads or writes or not found.result):
        raise TypeError("qd.extern: a pure function takes numbers and gives one")
    declared = reads is not None or writes is not None
    for position in (*(reads or ()), *(writes or ())):
        if position not in pointers:
            raise TypeError(f"qd.extern: argument {position} is no pointer")
    declaration = Declaration(
        found.name,
        found.library,
        found.symbol,
        found.parameters,
        found.result,
        pure,
        tuple(reads if reads is not None else pointers) if declared else None,
        tuple(writes or ()) if declared else None,
        tuple(targets),
    )
    return ExternalFunction(declaration, function)


def _of_library(path: str | os.PathLike[str], symbol: str) -> Any:
    return getattr(ctypes.CDLL(os.fspath(path)), symbol)


def _c_type(wish: Any) -> Any:
    if isinstance(wish, ScalarType):
        wish = np.dtype(wish.numpy)
    if isinstance(wish, type) and (issubclass(wish, (_NUMBER, _POINTER)) or hasattr(wish, "_dtype_")):
        return wish
    for kind, own in ((int, ctypes.c_int64), (float, ctypes.c_double), (bool, ctypes.c_bool)):
        if wish is kind:
            return own
    return np.ctypeslib.as_ctypes_type(np.dtype(wish))


# Reading what ctypes and cffi know.


def _read(value: Any) -> Declaration | str | None:
    """What a function of C is to kernels: its declaration, or the reason why it cannot be called; None for other things."""
    if isinstance(value, ExternalFunction):
        return value.declaration
    if isinstance(value, _FUNCTION):
        return _read_ctypes(value)
    kind = type(value)
    if kind.__name__.startswith("_CData") and kind.__module__ == "_cffi_backend":
        return _read_cffi(value)
    return None


def _read_ctypes(function: Any) -> Declaration | str:
    name = getattr(function, "__name__", "function")
    if type(function)._flags_ & 4:  # FUNCFLAG_PYTHONAPI
        return f"{name} belongs to Python's own interface: kernels run without it"
    if _is_callback(function):
        return f"{name} is a Python function behind a C pointer: kernels call Python functions by compiling them"
    if function.errcheck is not None:
        return f"the C function {name} has an errcheck, which is Python: kernels run without it"
    if function.argtypes is None:
        return (
            f"the C function {name} has no argtypes: set {name}.argtypes and {name}.restype, as ctypes needs them, too"
        )
    parameters = [_parameter(kind) for kind in function.argtypes]
    result = "" if function.restype is None else _scalar_name(function.restype)
    for text, kind in zip((*parameters, result), (*function.argtypes, function.restype)):
        if text is None:
            return (
                f"the C function {name} takes or gives a {getattr(kind, '__name__', kind)}, which kernels do not have"
            )
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None and result is not None
    library, symbol = _origin(address, name)
    return Declaration(name, library, symbol, tuple([text for text in parameters if text is not None]), result)


def _is_callback(function: Any) -> bool:
    kept: Any = function._objects
    return isinstance(kept, dict) and any(type(part).__name__ == "CThunkObject" for part in kept.values())


def _parameter(kind: Any) -> str | None:
    """A type of ctypes as a parameter of a declaration, None if there is none."""
    if kind is ctypes.c_void_p:
        return "*"
    if hasattr(kind, "_dtype_"):  # numpy.ctypeslib.ndpointer
        scalar = scalar_of_numpy(kind._dtype_) if kind._dtype_ is not None else None
        return "*" if kind._dtype_ is None else f"*{scalar.name}" if scalar is not None else None
    if isinstance(kind, type) and issubclass(kind, _POINTER):
        inner = _scalar_name(kind._type_)
        return f"*{inner}" if inner is not None else None
    return _scalar_name(kind)


def _scalar_name(kind: Any) -> str | None:
    if not isinstance(kind, type) or not issubclass(kind, _NUMBER):
        return None
    if kind._type_ in ("P", "z", "Z", "O", "c", "u", "g"):
        return None
    scalar = scalar_of_numpy(np.dtype(kind))
    return scalar.name if scalar is not None and scalar.name in NUMBERS else None


def _read_cffi(pointer: Any) -> Declaration | str:
    backend: Any = sys.modules["_cffi_backend"]
    kind = backend.typeof(pointer)
    if kind.kind != "function" or kind.ellipsis:
        return f"{pointer!r} is no function with a fixed signature"
    name = repr(pointer)
    parameters = [_cffi_parameter(backend, part) for part in kind.args]
    result = "" if kind.result.kind == "void" else _cffi_scalar(backend, kind.result)
    if result is None or None in parameters:
        return f"the C function {name} takes or gives a type that kernels do not have"
    address = int(backend.cast(backend.new_primitive_type("uintptr_t"), pointer))
    library, symbol = _origin(address, "")
    label = symbol if library is not None else "function"
    return Declaration(label, library, symbol, tuple([text for text in parameters if text is not None]), result)


def _cffi_parameter(backend: Any, kind: Any) -> str | None:
    if kind.kind != "pointer":
        return _cffi_scalar(backend, kind)
    if kind.item.kind == "void":
        return "*"
    inner = _cffi_scalar(backend, kind.item)
    return f"*{inner}" if inner is not None else None


def _cffi_scalar(backend: Any, kind: Any) -> str | None:
    if kind.kind != "primitive" or kind.cname in ("char", "wchar_t", "long double"):
        return None
    size = backend.sizeof(kind)
    if kind.cname in ("float", "double"):
        return f"f{8 * size}"
    if kind.cname == "_Bool":
        return "u1"
    signed = int(backend.cast(kind, -1)) < 0
    return f"{'i' if signed else 'u'}{8 * size}"


class _Place(ctypes.Structure):
    _fields_ = (
        ("library", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _origin(address: int, name: str) -> tuple[str | None, str]:
    """The library and the symbol by which other processes find a function; (None, its address) if there are none."""
    place = _Place()
    found = getattr(ctypes.CDLL(None), "dladdr", None)
    if found is not None and found(ctypes.c_void_p(address), ctypes.byref(place)) and place.library:
        path = os.fsdecode(place.library)
        own = os.fsdecode(place.symbol) if place.symbol and place.address == address else ""
        for library in (path, ""):
            for symbol in filter(None, (name, own)):
                if _is_at(library, symbol, address):
                    return os.path.abspath(library) if os.sep in library else library, symbol
    return None, hex(address)


def _is_at(library: str, symbol: str, address: int) -> bool:
    from quadrants.errors import QuadrantsRuntimeError

    try:
        return address_of(library, symbol) == address
    except QuadrantsRuntimeError:
        return False


protocol.register_externals(_read)
