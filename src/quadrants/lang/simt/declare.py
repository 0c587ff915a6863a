"""How the functions of `qd.simt` are made known to the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from quadrants.errors import QuadrantsSyntaxError
from quadrants.frontend import protocol

__all__ = ["declared", "family"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def declared(scope: str) -> Callable[[_Function], _Function]:
    """Decorator: `qd.simt.<scope>.<name>`, an operation of the compiler; on the host it is refused."""

    def declare(function: _Function) -> _Function:
        name = function.__name__

        @functools.wraps(function)
        def refuse(*arguments: Any, **keywords: Any) -> Any:
            raise QuadrantsSyntaxError(f"qd.simt.{scope}.{name} works in the loops of kernels only")

        protocol.register_intrinsic(refuse, f"simt.{scope}.{name}")
        found: Any = refuse
        return found

    return declare


def family(scope: str, template: Callable[..., Any], names: dict[str, str]) -> dict[str, Any]:
    """Functions that differ in what they combine by: of each name, with the documentation given."""
    made: dict[str, Any] = {}
    for name, doc in names.items():

        def function(*arguments: Any, **keywords: Any) -> Any: ...

        functools.update_wrapper(function, template)
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        made[name] = declared(scope)(function)
    return made
