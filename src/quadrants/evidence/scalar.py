"""Scalars of the oracle: numbers that carry their dtype and follow the rules of promotion, wrap and rounding.

A weak scalar is a Python number that has met no typed operand yet. It computes at 64 bits and takes the dtype of the
first typed operand of its kind. Plain Python numbers count as weak wherever a scalar is expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.evidence.operators import Operators
from quadrants.ir.types import ScalarType, f64, i64, promote, scalar_types, u1

__all__ = [
    "Defaults",
    "OracleError",
    "Scalar",
    "apply",
    "apply_unary",
    "as_float",
    "cast",
    "compare",
    "defaults",
    "lift",
    "settle",
]


class OracleError(Exception):
    """The function does something that has no meaning in a kernel, or that the oracle cannot follow."""


@dataclass
class Defaults:
    """What numbers become that are still weak at the end."""

    integer: ScalarType = i64
    floating: ScalarType = f64


defaults = Defaults()

_OF_NUMPY: dict[Any, ScalarType] = {scalar.numpy: scalar for scalar in scalar_types if scalar.numpy is not None}


def scalar_type_of_numpy(dtype: np.dtype) -> ScalarType:
    """The scalar type of a NumPy dtype; OracleError if there is none."""
    found = _OF_NUMPY.get(dtype.newbyteorder("="))
    if found is None:
        raise OracleError(f"no scalar type for NumPy's {dtype}")
    return found


class Scalar(Operators):
    """A number of a fixed width (`dtype`), or a weak one that still computes as i64 or f64.

    `place` is where the value was loaded from, so that `qd.atomic_add(x[i], 1)` finds the element; it is not part of
    the value.
    """

    __slots__ = ("dtype", "place", "value", "weak")

    def __init__(self, dtype: ScalarType, value: Any, weak: bool = False, place: Any = None) -> None:
        self.dtype = dtype
        self.value = value
        self.weak = weak
        self.place = place

    def __repr__(self) -> str:
        return f"{'weak ' if self.weak else ''}{self.dtype}({self.item()!r})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    def __str__(self) -> str:
        return str(self.item())

    def item(self) -> int | float:
        """The number as Python's int or float (bool for u1)."""
        return self.value.item()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        if self.dtype.kind == "f":
            raise TypeError(f"{self.dtype} is no index")
        return int(self.value)

    def __hash__(self) -> int:
        return hash(self.item())

    def _operate(self, name: str, left: Any, right: Any) -> Any:
        return apply(name, left, right) if _are_numbers(left, right) else NotImplemented

    def _compare(self, name: str, left: Any, right: Any) -> Any:
        return compare(name, left, right) if _are_numbers(left, right) else NotImplemented

    def __neg__(self) -> Scalar:
        return apply_unary("neg", self)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return apply_unary("abs", self)

    def __invert__(self) -> Scalar:
        return apply_unary("bit_not", self)


def _are_numbers(left: Any, right: Any) -> bool:
    return isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)


_NUMBERS = (Scalar, int, float, np.generic)


def lift(value: Any) -> Scalar:
    """A scalar for any number: Python's int and float are weak, its bool is u1, NumPy's scalars are typed."""
    kind = type(value)
    if kind is Scalar:
        return value
    if kind is bool:
        return Scalar(u1, np.bool_(value))
    if kind is int:
        return Scalar(i64, np.int64(numerics.wrap(i64, value)), weak=True)
    if kind is float:
        return Scalar(f64, np.float64(value), weak=True)
    if isinstance(value, np.generic):
        return Scalar(scalar_type_of_numpy(value.dtype), value)
    if isinstance(value, int):
        return lift(int(value))
    raise OracleError(f"not a number: {value!r}")


def cast(value: Any, target: ScalarType) -> Scalar:
    """The number as a typed scalar of `target`."""
    if type(value) is int and target.kind != "f" and target.bits > 1:
        # An integer literal beyond i64 still fits u64.
        return Scalar(target, numerics.held(target).type(numerics.wrap(target, value)))
    scalar = lift(value)
    return Scalar(target, numerics.convert(scalar.value, scalar.dtype, target))


def settle(value: Any) -> Scalar:
    """The scalar with weakness resolved: weak integers and floats become the defaults."""
    scalar = lift(value)
    if not scalar.weak:
        return scalar
    return cast(scalar, defaults.floating if scalar.dtype.kind == "f" else defaults.integer)


def _meeting_type(left: Scalar, right: Scalar) -> tuple[ScalarType, bool]:
    """The type that two operands meet in, and whether it is weak."""
    if left.weak and right.weak:
        return (left.dtype if left.dtype.kind == "f" else right.dtype), True
    if left.weak or right.weak:
        weak, typed = (left, right) if left.weak else (right, left)
        if typed.dtype is u1:
            return weak.dtype, True
        if weak.dtype.kind == "f" and typed.dtype.kind != "f":
            return defaults.floating, False
        return typed.dtype, False
    return promote(left.dtype, right.dtype), False


def meet(left: Scalar, right: Scalar) -> tuple[ScalarType, bool, Any, Any]:
    """The common type of two operands, whether it is weak, and both values in it."""
    dtype, weak = _meeting_type(left, right)
    a = numerics.convert(left.value, left.dtype, dtype)
    return dtype, weak, a, numerics.convert(right.value, right.dtype, dtype)


_LOGICAL = frozenset({"bit_and", "bit_or", "bit_xor"})
_INTEGERS_ONLY = frozenset({"bit_and", "bit_or", "bit_xor", "shl", "shr", "ushr", "truncdiv", "truncmod"})


def _as_number(scalar: Scalar) -> Scalar:
    """Truth values count as the weak integers 0 and 1 in arithmetic."""
    return Scalar(i64, np.int64(scalar.value), weak=True) if scalar.dtype is u1 else scalar


def as_float(scalar: Scalar) -> Scalar:
    """Integers become the default float (weak ones a weak float)."""
    if scalar.dtype.kind == "f":
        return scalar
    dtype = f64 if scalar.weak else defaults.floating
    return Scalar(dtype, numerics.convert(scalar.value, scalar.dtype, dtype), weak=scalar.weak)


def apply(name: str, left: Any, right: Any) -> Scalar:
    """A binary operation of the op table on two numbers, with promotion."""
    a, b = lift(left), lift(right)
    if name not in _LOGICAL or not (a.dtype is u1 and b.dtype is u1):
        a, b = _as_number(a), _as_number(b)
    if name in ("div", "atan2", "hypot", "copysign") and a.dtype.kind != "f" and b.dtype.kind != "f":
        a, b = as_float(a), as_float(b)
    if name == "pow":
        return _power(a, b, right)
    dtype, weak, x, y = meet(a, b)
    if name in _INTEGERS_ONLY and dtype.kind == "f":
        raise OracleError(f"{name} takes integers, not {a.dtype} and {b.dtype}")
    return Scalar(dtype, numerics.binary(name, dtype, x, y), weak)


def _power(base: Scalar, exponent: Scalar, written: Any) -> Scalar:
    """An integer to a negative literal power is a float; to a negative power of run time it is an error."""
    if base.dtype.kind != "f" and exponent.dtype.kind != "f":
        if type(written) is int and written < 0:
            base = as_float(base)
        elif exponent.value < 0:
            raise OracleError("an integer to the power of a negative integer that is only known at run time")
    dtype, weak, x, y = meet(base, exponent)
    return Scalar(dtype, numerics.binary("pow", dtype, x, y), weak)


def compare(name: str, left: Any, right: Any) -> Scalar:
    """A comparison, in the type that the operands meet in; gives u1."""
    _, _, x, y = meet(lift(left), lift(right))
    return Scalar(u1, np.bool_(numerics.compare(name, x, y)))


_FLOAT_ONLY = frozenset(numerics.UNARY) - {"neg", "abs", "sign", "bit_not", "popcount", "clz", "ctz"}


def apply_unary(name: str, operand: Any) -> Scalar:
    """A unary operation of the op table; elementary functions of integers give the default float."""
    scalar = lift(operand)
    if name == "bit_not" and scalar.dtype is u1:
        return Scalar(u1, np.logical_not(scalar.value))
    scalar = _as_number(scalar)
    if name in _FLOAT_ONLY:
        scalar = as_float(scalar)
    return Scalar(scalar.dtype, numerics.unary(name, scalar.dtype, scalar.value), scalar.weak)
