"""Functions of C: how an operation names one, where it is in this process, and calls of it from Python.

A function is named by the path of its library ('' is the process itself) and its symbol; its address is looked up in each
process anew. `library` None: nobody knows where it comes from, and `symbol` is its address in this process alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.types import ScalarType, parse_type, u1
from quadrants.records import Record

__all__ = [
    "PREFIX",
    "PTX_REGISTERS",
    "TALLY",
    "Declaration",
    "Routine",
    "address_of",
    "call",
    "link_name",
    "linked_address",
    "pointee",
]

PTX_REGISTERS = {
    "i16": "h",
    "u16": "h",
    "i32": "r",
    "u32": "r",
    "i64": "l",
    "u64": "l",
    "f32": "f",
    "f64": "d",
}
"""The types that PTX has registers for, with LLVM's letters for those."""
PREFIX = "qd.c:"
"""How the link names of C functions begin."""
TALLY = "qd.tally:"
"""How the link names of the words begin in which a program counts what it does (`tally`)."""


class Declaration(Record):
    """A function of C as kernels call it. `parameters`: names of scalar types; '*f32' is a pointer to those, '*' one to
    anything. `result`: the scalar type's name, '' for none. `is_pure`: the result follows from the numbers alone, and a
    call may be left out, moved and made where the program makes none. `reads`, `writes`: positions of pointers, None where
    nobody has declared them: then all are, and the function may do anything. `targets`: names, () for all that can.
    `assembly`: the text in those targets' assembly that stands in place of a call, '' for functions of C."""

    name: str
    library: str | None
    symbol: str
    parameters: tuple[str, ...]
    result: str
    is_pure: bool = False
    reads: tuple[int, ...] | None = None
    writes: tuple[int, ...] | None = None
    targets: tuple[str, ...] = ()
    assembly: str = ""


class Routine(Record):
    """A function of a library that does a whole task of a kernel. `package`: the library as users know it; `integer`: the
    type of its sizes; `threads`: the function that tells on how many threads it runs, where that has to be one, else '';
    `smallest`: from how much work on (products, of matrices) it is worth its call."""

    package: str
    library: str | None
    symbol: str
    integer: str
    threads: str
    smallest: int


def pointee(parameter: str) -> str | None:
    """What a parameter points to ('' anything); None if it is a number."""
    return parameter[1:] if parameter.startswith("*") else None


def link_name(library: str | None, symbol: str) -> str:
    """The symbol by which machine code refers to a function of C."""
    return f"{PREFIX}{symbol}" if library is None else f"{PREFIX}{symbol}@{library}"


def linked_address(name: str) -> int:
    """The address of a link name. QuadrantsRuntimeError if the library or the symbol is not there."""
    symbol, found, library = name[len(PREFIX) :].partition("@")
    return address_of(library if found else None, symbol)


def address_of(library: str | None, symbol: str) -> int:
    """Where a function is in this process. QuadrantsRuntimeError if the library or the symbol is not there."""
    if library is None:
        return int(symbol, 16)
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(_library(library), symbol))
    except (OSError, ValueError) as error:
        place = library or "this process"
        raise QuadrantsRuntimeError(f"the C function {symbol} of {place} is not there: {error}") from None


@lru_cache(maxsize=64)
def _library(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path or None)


_C_TYPES: dict[str, Any] = {
    "u1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
NUMBERS = frozenset(_C_TYPES)
"""Names of the scalar types that functions of C take and give."""


@lru_cache(maxsize=256)
def _function(library: str | None, symbol: str, parameters: tuple[str, ...], result: str) -> Callable[..., Any]:
    types = [ctypes.c_void_p if pointee(name) is not None else _C_TYPES[name] for name in parameters]
    return ctypes.CFUNCTYPE(_C_TYPES[result] if result else None, *types)(address_of(library, symbol))


def call(library: str | None, symbol: str, parameters: tuple[str, ...], result: str, arguments: Sequence[Any]) -> Any:
    """Calls a function with numbers and addresses; gives its result as a NumPy number, None if it has none."""
    numbers: list[Any] = [argument.item() if isinstance(argument, np.generic) else argument for argument in arguments]
    found = _function(library, symbol, parameters, result)(*numbers)
    if not result:
        return None
    type_ = parse_type(result)
    assert type(type_) is ScalarType
    return np.bool_(found) if type_ is u1 else np.dtype(type_.numpy).type(found)
