"""The meaning of numbers, written a second time and apart from the op table so that the two can check one another.

Values are NumPy scalars or arrays: of the dtype of their scalar type, and float32 rounded to bf16 for bf16. Every
function takes operands that are already of the type named and gives values of the type it states. NumPy's floating
point warnings are the caller's to silence (`quiet`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir.types import ScalarType, bf16, f16, u1

__all__ = [
    "BINARY",
    "COMPARISONS",
    "UNARY",
    "binary",
    "bit_cast",
    "compare",
    "convert",
    "held",
    "quiet",
    "unary",
]

Value = Any


def quiet() -> np.errstate:
    """A context in which NumPy is silent about overflow, NaN births and divisions by zero."""
    return np.errstate(all="ignore")


def held(scalar: ScalarType) -> np.dtype:
    """The NumPy dtype that values of a scalar type are held in."""
    return scalar.numpy if scalar.numpy is not None else np.dtype(np.float32)


def round_to_bf16(value: Value) -> Value:
    """Floats (f64 or narrower) rounded once to the nearest bf16, ties to even, as float32."""
    wide = np.asarray(value, np.float64)
    exponent = np.maximum(np.frexp(wide)[1], -125)
    quantum = np.ldexp(1.0, exponent - 8)
    rounded = np.where(np.isfinite(wide), np.rint(wide / quantum) * quantum, wide)
    return np.where(np.abs(rounded) >= 2.0**128, np.copysign(np.inf, wide), rounded).astype(np.float32)[()]


def _sticky_f64(value: Value) -> Value:
    """64-bit integers as f64 that round to narrower floats as the integer itself would (round to odd)."""
    integers = np.asarray(value)
    magnitude = np.where(integers < 0, np.negative(integers), integers).astype(np.uint64)
    lost = (magnitude & np.uint64(0x7FF)) != 0
    kept = np.where(lost, (magnitude & ~np.uint64(0x7FF)) | np.uint64(0x800), magnitude)
    big = magnitude >= np.uint64(1 << 53)
    result = np.where(big, kept, magnitude).astype(np.float64)
    return np.where(integers < 0, -result, result)


def convert(value: Value, source: ScalarType, target: ScalarType) -> Value:
    """`value` of type `source` as `target`: integers wrap, floats to integers truncate and saturate, NaN is 0,
    u1 is `value != 0`, floats round to nearest even."""
    if source is target:
        return value
    array = np.asarray(value)
    if target is u1:
        return (array != 0)[()]
    if target.kind == "f":
        if target is bf16:
            return round_to_bf16(_sticky_f64(array) if source.kind != "f" and source.bits == 64 else array)
        if target is f16 and source.kind != "f" and source.bits > 16:
            return array.astype(np.float64).astype(np.float16)[()]
        return array.astype(held(target))[()]
    if source.kind == "f":
        return _saturate(array, target)
    return array.astype(held(target))[()]


def _saturate(array: Value, target: ScalarType) -> Value:
    whole = np.trunc(array.astype(np.float64))
    below = whole < float(target.minimum)
    above = whole >= math.ldexp(1.0, target.bits - (target.kind == "i"))
    plain = np.where(below | above | np.isnan(whole), 0.0, whole).astype(held(target))
    limited = np.where(below, held(target).type(target.minimum), plain)
    return np.where(above, held(target).type(target.maximum), limited)[()]


def bit_cast(value: Value, source: ScalarType, target: ScalarType) -> Value:
    """The bits of `value` as `target`, which has the same width."""
    if source is bf16:
        value = (np.asarray(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if target is bf16:
        return (np.asarray(value).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    return np.asarray(value).view(held(target))[()]


# Operations of two operands of one type, giving that type.


def _floor_division(scalar: ScalarType, a: Value, b: Value) -> Value:
    # NumPy gives 0 for an integer divided by 0 and wraps the one quotient that overflows.
    return np.floor_divide(a, b)


def _truncated_division(scalar: ScalarType, a: Value, b: Value) -> Value:
    quotient = np.floor_divide(a, b)
    up = (np.remainder(a, b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
    return np.where(up, quotient + held(scalar).type(1), quotient)


def _truncated_remainder(scalar: ScalarType, a: Value, b: Value) -> Value:
    return np.fmod(a, b)


def _power(scalar: ScalarType, a: Value, b: Value) -> Value:
    if scalar.kind == "f":
        # Computed a step wider, so that a single rounding is left.
        return np.power(np.asarray(a, np.float64), np.asarray(b, np.float64))
    return _each(lambda x, y: _integer_power(scalar, int(x), int(y)), scalar, a, b)


def _integer_power(scalar: ScalarType, base: int, exponent: int) -> int:
    if exponent < 0:
        raise ValueError("an integer to the power of a negative integer that is only known at run time")
    return wrap(scalar, pow(base, exponent, 1 << scalar.bits))


def wrap(scalar: ScalarType, value: int) -> int:
    """A Python integer wrapped to the range of an integer type."""
    value &= (1 << scalar.bits) - 1
    return value - (1 << scalar.bits) if value > scalar.maximum else value


def _each(function: Callable[..., int], scalar: ScalarType, *operands: Value) -> Value:
    return np.vectorize(function, otypes=[held(scalar)])(*operands)


def _shift(operation: Callable[[int, int], int]) -> Callable[[ScalarType, Value, Value], Value]:
    def shift(scalar: ScalarType, a: Value, b: Value) -> Value:
        # Python's integers have no width: a count beyond it shifts out every bit (or leaves the sign) by itself.
        count = scalar.bits
        return _each(
            lambda x, y: wrap(scalar, operation(int(x), min(int(y), count) if y >= 0 else count)), scalar, a, b
        )

    return shift


def _logical_right(scalar: ScalarType, a: Value, b: Value) -> Value:
    mask = (1 << scalar.bits) - 1
    return _each(
        lambda x, y: wrap(scalar, (int(x) & mask) >> (int(y) if 0 <= y < scalar.bits else scalar.bits)), scalar, a, b
    )


def _wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """An elementary function computed in f64 whatever the type: narrower results are then rounded once."""
    return lambda scalar, *operands: function(*(np.asarray(x, np.float64) for x in operands))


def _plain(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda scalar, *operands: function(*operands)


BINARY: dict[str, Callable[[ScalarType, Value, Value], Value]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(np.true_divide),
    "floordiv": _floor_division,
    "mod": _plain(np.remainder),
    "truncdiv": _truncated_division,
    "truncmod": _truncated_remainder,
    "pow": _power,
    "min": _plain(np.fmin),
    "max": _plain(np.fmax),
    "bit_and": _plain(np.bitwise_and),
    "bit_or": _plain(np.bitwise_or),
    "bit_xor": _plain(np.bitwise_xor),
    "shl": _shift(lambda x, y: x << y),
    "shr": _shift(lambda x, y: x >> y),
    "ushr": _logical_right,
    "atan2": _wide(np.arctan2),
    "hypot": _wide(np.hypot),
    "copysign": _plain(np.copysign),
}

COMPARISONS: dict[str, Callable[[Value, Value], Value]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _bits(count: Callable[[int, int], int]) -> Callable[[ScalarType, Value], Value]:
    return lambda scalar, a: _each(lambda x: count(int(x) & ((1 << scalar.bits) - 1), scalar.bits), scalar, a)


def _trailing_zeros(bits: int, width: int) -> int:
    return (bits & -bits).bit_length() - 1 if bits else width


UNARY: dict[str, Callable[[ScalarType, Value], Value]] = {
    "neg": lambda scalar, a: np.negative(a) if scalar.kind == "f" else np.subtract(held(scalar).type(0), a),
    "abs": _plain(np.abs),
    "sign": _plain(np.sign),
    "bit_not": _plain(np.invert),
    "popcount": _bits(lambda bits, width: bits.bit_count()),
    "clz": _bits(lambda bits, width: width - bits.bit_length()),
    "ctz": _bits(_trailing_zeros),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "trunc": _plain(np.trunc),
    "round": _plain(np.rint),
    "sqrt": _wide(np.sqrt),
    "rsqrt": _wide(lambda x: 1.0 / np.sqrt(x)),
    "cbrt": _wide(np.cbrt),
    "exp": _wide(np.exp),
    "exp2": _wide(np.exp2),
    "expm1": _wide(np.expm1),
    "log": _wide(np.log),
    "log2": _wide(np.log2),
    "log10": _wide(np.log10),
    "log1p": _wide(np.log1p),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tan": _wide(np.tan),
    "asin": _wide(np.arcsin),
    "acos": _wide(np.arccos),
    "atan": _wide(np.arctan),
    "sinh": _wide(np.sinh),
    "cosh": _wide(np.cosh),
    "tanh": _wide(np.tanh),
    "asinh": _wide(np.arcsinh),
    "acosh": _wide(np.arccosh),
    "atanh": _wide(np.arctanh),
    "erf": _wide(np.vectorize(math.erf, otypes=[np.float64])),
}


def binary(name: str, scalar: ScalarType, a: Value, b: Value) -> Value:
    """The operation of the op table called `name` on two operands of type `scalar`."""
    return _narrow(scalar, BINARY[name](scalar, a, b))


def unary(name: str, scalar: ScalarType, a: Value) -> Value:
    """The operation of the op table called `name` on an operand of type `scalar`."""
    return _narrow(scalar, UNARY[name](scalar, a))


def compare(name: str, a: Value, b: Value) -> Value:
    """The comparison of the op table called `name`, giving truth values."""
    return COMPARISONS[name](a, b)


def _narrow(scalar: ScalarType, value: Value) -> Value:
    if scalar is bf16:
        return round_to_bf16(value)
    return np.asarray(value).astype(held(scalar), copy=False)[()]
