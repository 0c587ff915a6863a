"""PTX in kernels, for what no other words are for: `qd.ptx` makes a function of its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from quadrants.ir.external import PTX_REGISTERS, Declaration
from quadrants.ir.types import ScalarType
from quadrants.lang.external import ExternalFunction
from quadrants.lang.intrinsic import kernel_only
from quadrants.lang.types import scalar_type

__all__ = ["ptx"]

_OPERAND = re.compile(r"\$(\d*)")


def ptx(
    text: str,
    arguments: Sequence[Any] = (),
    result: Any = None,
    *,
    pure: bool = True,
    reads: Sequence[int] | None = None,
    writes: Sequence[int] | None = None,
    name: str = "ptx",
) -> ExternalFunction:
    """A function for kernels on CUDA whose body is PTX; on other targets a kernel that calls it is refused, with the line.

        popc = qd.ptx("popc.b32 $0, $1;", [qd.u32], qd.u32)

    `$0` is the result, the arguments follow (from `$0` on where there is no result); several instructions and registers of
    their own stand in `{ … }`. `arguments` and `result` are types of 16 to 64 bits; an argument given as a list of one type, as
    `[qd.f32]`, is a pointer into an array: to its first element, or to that of the row that the call names. `pure`: the result follows from the arguments' numbers alone, and the
    call may be left out, moved and made where the program makes none. Otherwise it may do anything, or what `reads` and `writes` say of
    its pointers, as in `qd.extern`. `name` is what errors and reports call it. TypeError for operands that there are not, and for types
    that PTX has no registers for.
    """
    parameters = [_parameter(wish) for wish in arguments]
    given = _register_type(result).name if result is not None else ""
    _check_operands(text, len(parameters) + bool(given))
    pointers = [k for k, parameter in enumerate(parameters) if parameter.startswith("*")]
    pure = pure and not pointers and bool(given)
    for position in (*(reads or ()), *(writes or ())):
        if position not in pointers:
            raise TypeError(f"qd.ptx: argument {position} is no pointer")
    declared = reads is not None or writes is not None
    read = tuple(reads if reads is not None else pointers) if declared else None
    declaration = Declaration(
        name,
        "",
        name,
        tuple(parameters),
        given,
        pure,
        read,
        tuple(writes or ()) if declared else None,
        ("cuda",),
        text,
    )
    return ExternalFunction(declaration, _only_in_kernels)


def _only_in_kernels(*_: Any) -> Any:
    kernel_only("ptx")


def _register_type(wish: Any) -> ScalarType:
    found = scalar_type(wish)
    if found.name not in PTX_REGISTERS:
        raise TypeError(f"qd.ptx: {found} has no registers of its own: {', '.join(PTX_REGISTERS)} have")
    return found


def _parameter(wish: Any) -> str:
    if isinstance(wish, list) and len(wish) == 1:
        return f"*{scalar_type(wish[0]).name}"
    return _register_type(wish).name


def _check_operands(text: str, count: int) -> None:
    """LLVM ends the process for an operand that there is not."""
    for found in _OPERAND.finditer(text):
        if not found[1] or int(found[1]) >= count:
            named = ", ".join(f"${k}" for k in range(count)) or "none"
            raise TypeError(f"qd.ptx: {found[0]} is no operand: there are {named}")
