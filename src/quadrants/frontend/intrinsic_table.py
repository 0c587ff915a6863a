"""Where the language's own functions, and Python's, math's and NumPy's, are kept: handler(walker, arguments, node).

The modules `intrinsics_*` fill the tables when `intrinsics` is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.calls import Arguments
from quadrants.frontend.values import Binding, Static
from quadrants.ir.types import ScalarType, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = [
    "INTRINSICS",
    "KNOWN_HINT",
    "Handler",
    "intrinsic",
    "is_given",
    "named_dtype",
    "python_intrinsic",
    "static_int",
]

KNOWN_HINT = "a number of the code around the kernel is known, and so is a parameter annotated with qd.template()"
Handler = Callable[[Any, Arguments, Any], Binding]
INTRINSICS: dict[str, Handler] = {}
_PYTHON: dict[int, tuple[Any, Handler]] = {}


def intrinsic(*names: str, python: tuple[Any, ...] = ()) -> Callable[[Handler], Handler]:
    """Decorator: the handler of these names of the language, and of these functions of Python, math or NumPy."""

    def register(handler: Handler) -> Handler:
        for name in names:
            INTRINSICS[name] = handler
        for function in python:
            _PYTHON[id(function)] = (function, handler)
        return handler

    return register


def python_intrinsic(function: Any) -> Handler | None:
    """The handler of a builtin or a function of math or NumPy, None if it is none."""
    found = _PYTHON.get(id(function))
    return found[1] if found is not None else None


def is_given(binding: Binding) -> bool:
    """Whether an optional argument is something else than None."""
    return not (type(binding) is Static and binding.value is None)


def named_dtype(walker: Walker, wish: Binding, node: ast.AST) -> ScalarType:
    """The scalar type that a dtype argument names; Python's int, float and bool are the defaults."""
    value = wish.value if type(wish) is Static else None
    if isinstance(value, ScalarType):
        return value
    if value is int or value is float or value is bool:
        return {int: walker.default_int, float: walker.default_float, bool: u1}[value]
    try:
        found = numbers.scalar_of_numpy(np.dtype(value)) if value is not None else None
    except TypeError:
        found = None
    if found is None:
        raise walker.error(
            node, "not a data type", found=numbers.describe(wish), expected="qd.f32, qd.i64, …", kind=QuadrantsTypeError
        )
    return found


def static_int(walker: Walker, binding: Binding, node: ast.AST) -> int:
    """The integer that an argument is at compile time; anything else is an error."""
    if type(binding) is Static and isinstance(binding.value, (int, np.integer)):
        return int(binding.value)
    if type(binding) is Static and isinstance(binding.value, (float, np.floating)):
        raise walker.error(
            node, "sizes are integers", found=str(binding.value), hint="`//` divides integers", kind=QuadrantsTypeError
        )
    text = "this size must be known at compile time"
    raise walker.error(node, text, found=numbers.describe(binding), hint=KNOWN_HINT)
