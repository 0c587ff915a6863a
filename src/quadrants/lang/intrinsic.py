"""How the functions of the language are known to the compiler: by the object itself, whatever name it goes by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from quadrants.errors import QuadrantsSyntaxError
from quadrants.frontend import protocol

__all__ = ["intrinsic", "kernel_only"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def intrinsic(function: _Function) -> _Function:
    """Decorate: in kernels the compiler replaces calls of `function` by the operation of its name; on the host its
    body runs."""
    protocol.register_intrinsic(function, function.__name__)
    return function


def kernel_only(name: str) -> NoReturn:
    """Refuse a call of qd.`name` from ordinary Python."""
    raise QuadrantsSyntaxError(f"qd.{name} works in kernels and functions called from them only")
