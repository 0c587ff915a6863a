"""Calls that Python makes while a kernel is compiled, and that give the same again for the same arguments."""

from __future__ import annotations

import builtins
import enum
import math
import opcode
import operator
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from quadrants.frontend import protocol
from quadrants.frontend.guards import ABSENT, Observation
from quadrants.ir.types import ScalarType
from quadrants.warm_start.descriptions import PLAIN, Unstable

__all__ = ["is_literal", "is_repeatable", "read_by"]

_TYPES = frozenset(
    {bool, bytes, complex, dict, enumerate, float, frozenset, int, list, map, range, reversed, set, slice}
)
_MORE_TYPES = frozenset({str, tuple, zip})
_FUNCTIONS = frozenset(
    getattr(builtins, name)
    for name in ("abs", "all", "any", "bin", "chr", "divmod", "format", "hex", "len", "max", "min", "oct", "ord", "pow")
) | frozenset({round, sorted, sum})
_MODULES = (math.__name__, operator.add.__module__)
_CONTAINERS = (bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
_CHANCE = "numpy.random"
_OWN = "quadrants.lang."
_BY_CHANCE = ("random", "randn", "field", "ndarray")
_IMPORT = opcode.opmap["IMPORT_NAME"]
_FIXED_PACKAGES = ("quadrants", "numpy", "math", "operator")


def is_repeatable(function: Any) -> bool:
    """Whether a function called at compile time depends on its arguments only: builtins, functions of math, NumPy and
    this package, methods of plain data, enumerations by value."""
    if isinstance(function, types.MethodType):
        return is_literal(function.__self__) and is_repeatable(function.__func__)
    if str(getattr(function, "__module__", "")).startswith(_OWN):
        return getattr(function, "__name__", "") not in _BY_CHANCE
    if isinstance(function, type):
        known = function in _TYPES or function in _MORE_TYPES
        return known or isinstance(function, enum.EnumMeta) or _of_numpy(function)
    if isinstance(function, types.BuiltinFunctionType):
        owner = function.__self__
        if function in _FUNCTIONS or function.__module__ in _MODULES:
            return True
        return type(owner) in _CONTAINERS or (isinstance(owner, type) and owner in _CONTAINERS)
    if isinstance(function, (types.MethodDescriptorType, types.MethodWrapperType, types.WrapperDescriptorType)):
        return True
    return _of_numpy(function)


def _of_numpy(function: Any) -> bool:
    module = str(getattr(function, "__module__", None) or getattr(type(function), "__module__", ""))
    return module.partition(".")[0] == "numpy" and not module.startswith(_CHANCE)


def read_by(function: Any, passed: tuple[Any, ...]) -> list[Observation]:
    """What a Python function called at compile time may have read: all that its names stand for, and those of the
    functions it calls. Raises Unstable unless these and what it was passed are plain data."""
    plain = protocol.plain_function(function) or function
    if not isinstance(plain, types.FunctionType) or not all(map(_is_data, passed)):
        raise _unknown(function)
    found: list[Observation] = []
    reached = [plain]
    for known in reached:
        for observation in _names_of(known):
            value = observation.value
            found.append(observation)
            if isinstance(value, types.FunctionType) and not _of_numpy(value):
                if value not in reached:
                    reached.append(value)
            elif value is not ABSENT and not _is_fixed(value) and not _is_data(value):
                raise _unknown(function)
    return found


def _unknown(function: Any) -> Unstable:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return Unstable(f"{name} is called while compiling: what it returns next time is not known")


def _names_of(function: types.FunctionType) -> Iterator[Observation]:
    code, namespace = function.__code__, function.__globals__
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        yield Observation("cell", function, name, cell.cell_contents)
    for name in dict.fromkeys(_globals_of(code)):
        if name in namespace:
            yield Observation("global", function, name, namespace[name])
        elif hasattr(builtins, name):
            if not is_repeatable(getattr(builtins, name)) and not isinstance(getattr(builtins, name), type):
                raise _unknown(function)
            yield Observation("global", function, name, ABSENT)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names that code may look up among its globals, members' names included. Raises Unstable for code that imports."""
    if _IMPORT in code.co_code[::2]:
        raise Unstable(f"{code.co_name}, called while compiling, imports")
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _is_fixed(value: Any) -> bool:
    """Things that are the same in every process: modules of known packages, builtins, data types."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _FIXED_PACKAGES
    return isinstance(value, (ScalarType, np.dtype)) or is_repeatable(value)


def is_literal(value: Any) -> bool:
    """Whether a value is plain data that code may have made itself: it needs no place to be found at."""
    return _is_data(value) or protocol.matrix_constant(value) is not None


def _is_data(value: Any) -> bool:
    """Numbers, text, enumerations' members, and containers of these."""
    kind = type(value)
    if kind in PLAIN or isinstance(value, (np.generic, ScalarType, enum.Enum)):
        return True
    if kind is dict:
        return all(_is_data(key) and _is_data(item) for key, item in value.items())
    return kind in (tuple, list, set, frozenset) and all(map(_is_data, value))
