"""Calls that Python makes while a kernel is compiled, and that give the same again for the same arguments."""

from __future__ import annotations

import builtins
import enum
import math
import operator
import types
from typing import Any

__all__ = ["is_repeatable"]

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


def is_repeatable(function: Any) -> bool:
    """Whether a function called at compile time depends on its arguments only: builtins, functions of math and NumPy,
    methods of plain data, enumerations by value."""
    if isinstance(function, type):
        return (
            function in _TYPES or function in _MORE_TYPES or isinstance(function, enum.EnumMeta) or _of_numpy(function)
        )
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
