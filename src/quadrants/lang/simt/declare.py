"""How the functions of `qd.simt` are made known to the compiler."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from quadrants.errors import QuadrantsSyntaxError
from quadrants.frontend import protocol
from quadrants.ir.threads import COMBINERS

__all__ = ["declared", "family", "older"]

_COMBINING = {
    "reduce": "The values of {members} combined by {by}, in their order; every {one} gets it.",
    "reduce_all": "The values of {members} combined by {by}, in their order; every {one} gets it.",
    "inclusive": "The values of {members} up to and with this one, combined by {by}.",
    "exclusive": "The values of {members} before this one, combined by {by}; what changes nothing in the first.",
}
_MEMBERS = {"block": ("the block's threads", "thread"), "subgroup": ("the subgroup's members", "member")}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def declared(scope: str, on_host: bool = False) -> Callable[[_Function], _Function]:
    """Decorator: `qd.simt.<scope>.<name>`, an operation of the compiler; on the host it is refused, or (`on_host`) itself."""

    def declare(function: _Function) -> _Function:
        name = function.__name__
        if on_host:
            protocol.register_intrinsic(function, f"simt.{scope}.{name}")
            return function

        @functools.wraps(function)
        def refuse(*arguments: Any, **keywords: Any) -> Any:
            raise QuadrantsSyntaxError(f"qd.simt.{scope}.{name} works in the loops of kernels only")

        protocol.register_intrinsic(refuse, f"simt.{scope}.{name}")
        found: Any = refuse
        return found

    return declare


def older(scope: str, name: str, function: Any) -> Any:
    """An older name of an operation; the compiler takes it with a DeprecationWarning (frontend/intrinsics_simt.py)."""

    def named(*arguments: Any, **keywords: Any) -> Any: ...

    functools.update_wrapper(named, function)
    named.__name__ = named.__qualname__ = name
    named.__doc__ = f"Older name of `{function.__name__}`."
    return declared(scope)(named)


def family(scope: str, template: Callable[..., Any], suffix: str = "", whose: str = "") -> dict[str, Any]:
    """The functions that combine what threads give, by name: of the template's signature, a suffix behind the name of each,
    and behind its documentation whose threads they are, where those are not all of the scope."""
    members, one = _MEMBERS[scope]
    made: dict[str, Any] = {}
    for (kind, text), by in itertools.product(_COMBINING.items(), COMBINERS):
        name, doc = f"{kind}_{by}{suffix}", f"{text.format(by=by, members=members, one=one)}{whose}"

        def function(*arguments: Any, **keywords: Any) -> Any: ...

        functools.update_wrapper(function, template)
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
        made[name] = declared(scope)(function)
    return made
