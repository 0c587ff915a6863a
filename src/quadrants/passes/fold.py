"""Constants: what a value is known to be, and the folding of operations on constants.

Folding evaluates a row's own meaning. It is done only where that is bit exact on every target: integer and truth-value
operations, and the correctly rounded operations on f32 and f64. A NaN is never made by folding, since its sign and
payload are the machine's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir import evaluate as ev
from quadrants.ir.nodes import Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, Type

__all__ = ["element_of", "fitting", "fold", "number_of", "python_value"]

_INTEGER_KINDS = frozenset(row.name for row in OPS.values() if row.exact in ("integers", "both"))
_FLOAT_KINDS = frozenset(row.name for row in OPS.values() if row.exact in ("floats", "both"))
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
}
_ZERO_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "truncmod"})
# Operations whose meaning is Python's unless the second number is zero.
_DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}


def number_of(value: Value) -> Any:
    """The number that a value is known to be (a matrix: everywhere), else None."""
    owner = value.owner
    if type(owner) is not Op:
        return None
    kind = owner.kind
    if kind == "splat":
        owner = owner.operands[0].owner
        if type(owner) is not Op or owner.kind != "constant":
            return None
    elif kind != "constant":
        return None
    number: Any = owner.attributes["value"]
    return None if isinstance(number, tuple) else number


def python_value(type_: ScalarType, held: Any) -> Any:
    """A NumPy scalar as the Python number that a constant of that type holds."""
    return float(held) if type_.is_float else bool(held) if type_.bits == 1 else int(held)


def element_of(type_: Type, value: Any, indices: tuple[int, ...]) -> Any:
    """The element of a matrix constant's value (nested tuples)."""
    held = ev.constant(type_.scalar, type=type_, value=value)
    return python_value(type_.scalar, held[indices])


def fold(op: Op, numbers: tuple[Any, ...]) -> Any:
    """The number that an elementwise operation on scalar constants gives, or None where it is not to be folded."""
    result_type: Type = op.results[0].type
    if type(result_type) is not ScalarType:
        return None
    operand_type = op.operands[0].type.scalar
    if operand_type.kind != "f":
        return _fold_integers(op, operand_type, result_type, numbers)
    return _fold_floats(op, operand_type, result_type, numbers)


def _fold_integers(op: Op, operand_type: ScalarType, result_type: ScalarType, numbers: tuple[Any, ...]) -> Any:
    kind = op.kind
    if kind not in _INTEGER_KINDS:
        return None
    if kind in _PYTHON and len(numbers) == 2:
        exact = _PYTHON[kind](*numbers)
        return exact if type(exact) is bool else fitting(result_type, exact)
    if kind in _ZERO_DIVISIONS and not numbers[1]:
        return None  # debug mode finds it
    if kind in _DIVISIONS:
        return fitting(result_type, _DIVISIONS[kind](*numbers))
    if kind == "cast" and result_type.kind == "f" and result_type.bits < 32:
        return float(numbers[0]) if abs(int(numbers[0])) <= 256 else None  # narrow floats are folded where exact
    return _evaluate(op, operand_type, result_type, numbers)


def fitting(type_: ScalarType, exact: int) -> int | None:
    """A whole number in an integer type; None where a signed one overflows: debug mode finds it."""
    wrapped = ev.wrap(type_, exact)
    return wrapped if wrapped == exact or not type_.is_signed else None


def _fold_floats(op: Op, operand_type: ScalarType, result_type: ScalarType, numbers: tuple[Any, ...]) -> Any:
    kind = op.kind
    if kind not in _FLOAT_KINDS or operand_type.bits < 32:
        return None
    if kind in ("min", "max") and numbers[0] == numbers[1] == 0:
        return None  # zeros of either sign: which one is the target's choice
    value = _evaluate(op, operand_type, result_type, numbers)
    if result_type.is_float:
        if value != value:
            return value if kind == "cast" and result_type.bits >= 32 else None
        if result_type.bits < 32:
            return value if value == numbers[0] else None  # narrow floats are folded where exact
    return value


def _evaluate(op: Op, operand_type: ScalarType, result_type: ScalarType, numbers: tuple[Any, ...]) -> Any:
    held_type = ev.held_dtype(operand_type).type
    attributes = {"type": result_type} if op.kind in ("cast", "bitcast") else {}
    scalar = operand_type if result_type.bits == 1 and op.kind != "cast" else result_type
    evaluate = OPS[op.kind].evaluate
    assert evaluate is not None
    with np.errstate(all="ignore"):
        result = evaluate(scalar, *[held_type(number) for number in numbers], **attributes)
        return python_value(result_type, ev.finish(result_type, result))
