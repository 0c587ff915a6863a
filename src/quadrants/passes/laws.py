"""The tables of algebraic laws that `simplify` applies, and what laws are written with.

A law looks at one operation and gives None (it does not apply), a value (it is equal to the result) or a new operation
(to be taken instead; laws are tried on it again). Laws on floats hold for every IEEE value, infinities, NaN and signed
zeros included; only the sign and payload of a NaN may differ. Laws that trade an operation for cheaper bits ask
`may_narrow` first: they wait for the lowered stage, because range and dependence analysis read the arithmetic form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import Type

__all__ = [
    "LEFT",
    "PLAIN",
    "RIGHT",
    "Found",
    "Rewriter",
    "defined_by",
    "instead",
    "is_float",
    "is_negative_zero",
    "left",
    "plain",
    "right",
]

Found = Value | Op | None


class Rewriter(Protocol):
    """What a law may use: the known numbers (scalars and matrices that hold one number), and new operations."""

    numbers: dict[Value, Any]

    def may_narrow(self) -> bool: ...
    def emit(self, like: Op, kind: str, operands: tuple[Value, ...], type_: Type, attributes: Any = None) -> Value: ...
    def constant(self, like: Op, type_: Type, number: Any) -> Value: ...


RightLaw = Callable[[Rewriter, Op, Value, Value, Any], Found]
PlainLaw = Callable[[Rewriter, Op], Found]

RIGHT: dict[str, RightLaw] = {}
"""Laws of operations whose second operand is a known number; commutative operations have it there."""
LEFT: dict[str, RightLaw] = {}
"""Laws of operations whose first operand alone is a known number."""
PLAIN: dict[str, PlainLaw] = {}
"""Laws that ask for no known number."""


def right(*kinds: str) -> Callable[[RightLaw], RightLaw]:
    def register(law: RightLaw) -> RightLaw:
        RIGHT.update(dict.fromkeys(kinds, law))
        return law

    return register


def left(*kinds: str) -> Callable[[RightLaw], RightLaw]:
    def register(law: RightLaw) -> RightLaw:
        LEFT.update(dict.fromkeys(kinds, law))
        return law

    return register


def plain(*kinds: str) -> Callable[[PlainLaw], PlainLaw]:
    def register(law: PlainLaw) -> PlainLaw:
        PLAIN.update(dict.fromkeys(kinds, law))
        return law

    return register


def instead(op: Op, kind: str, *operands: Value, **attributes: Any) -> Op:
    """A new operation for `op`, of its result type and location."""
    return Op(kind, operands, (op.results[0].type,), attributes or None, (), op.location)


def is_float(type_: Type) -> bool:
    return type_.scalar.kind == "f"


def defined_by(value: Value, kind: str) -> Op | None:
    """The operation that defines a value, if it is of that kind."""
    owner = value.owner
    return owner if type(owner) is Op and owner.kind == kind else None


def is_negative_zero(number: Any) -> bool:
    return number == 0 and math.copysign(1.0, number) < 0
