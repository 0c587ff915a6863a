"""What debug mode checks of arithmetic: integer division by zero, integers that overflow, NaN made of numbers."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import MatrixType, ScalarType, i64, scalar_of, shape_of
from quadrants.passes.fold import number_of

__all__ = ["CHECKED", "check_after", "check_before"]

_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "truncmod"})
_OVERFLOWING = frozenset({"add", "sub", "mul", "pow", "floordiv", "truncdiv", "neg", "abs"})
_UPDATES = frozenset({"add", "sub", "mul"})
# Functions that give NaN for some numbers, or infinities.
_NOT_EVERYWHERE = (
    *("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "acosh", "atanh"),
)
_MAKING_NAN = frozenset({"add", "sub", "mul", "div", "pow", "fma", *_DIVISIONS, *_NOT_EVERYWHERE})
# How messages write an operation.
_SHOWN = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "pow": "{} ** {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "truncdiv": "{} divided by {}",
    "truncmod": "{} modulo {}",
    "fma": "{} * {} + {}",
    "neg": "-({})",
    **{name: name + "({})" for name in ("abs", *_NOT_EVERYWHERE)},
}
CHECKED = _DIVISIONS | _OVERFLOWING | _MAKING_NAN
"""The kinds of arithmetic that debug mode checks."""


def check_before(op: Op, builder: Builder) -> int:
    """Emits the check of a division in front of it; gives how many checks there are."""
    if op.kind not in _DIVISIONS:
        return 0
    dividend, divisor = op.operands
    if scalar_of(divisor.type).is_float or _never_zero(divisor):
        return 0
    is_fine = builder.ne(divisor, builder.zero_like(divisor))
    shown = () if shape_of(divisor.type) else (dividend,)
    text = "integer division of {} by zero" if shown else "integer division by zero"
    return _check(builder, is_fine, text, shown, "zero")


def check_after(op: Op, builder: Builder, wide: ScalarType) -> int:
    """Emits the check of what an operation has computed behind it; gives how many checks there are. `wide`: the widest floats that
    the target has."""
    kind = op.kind
    if kind in CHECKED:
        return _check_result(kind, op.operands, op.results[0], builder, wide)
    if kind == "update" and op.attributes["by"] in _UPDATES and not scalar_of(op.results[0].type).is_float:
        kind, operands = op.attributes["by"], (op.results[0], op.operands[0])
        return _check_result(kind, operands, builder.emit(kind, *operands), builder, wide)
    return 0


def _check_result(kind: str, operands: tuple[Value, ...], result: Value, builder: Builder, wide: ScalarType) -> int:
    scalar = scalar_of(result.type)
    if scalar.is_float:
        if kind not in _MAKING_NAN:
            return 0
        is_fine, what = _is_no_new_nan(operands, result, builder), "is NaN"
    elif scalar.is_signed and kind in _OVERFLOWING and not _is_small(kind, operands):
        is_fine, what = _fits(kind, operands, result, builder, wide), f"overflows {scalar}"
    else:
        return 0
    shown = () if shape_of(result.type) else operands
    text = _SHOWN[kind] if shown else "an element of " + _SHOWN[kind].format(*"abc"[: len(operands)])
    return _check(builder, is_fine, f"{text} {what}", shown, "overflow")


def _check(builder: Builder, condition: Value, text: str, shown: tuple[Value, ...], error: str) -> int:
    whole = builder.reduce_and(condition) if shape_of(condition.type) else condition
    builder.op("check", whole, *shown, message=text, error=error)
    return 1


def _is_no_new_nan(operands: tuple[Value, ...], result: Value, builder: Builder) -> Value:
    """Whether a result is a number, or one of the operands is not."""
    is_fine = builder.eq(result, result)
    for operand in operands:
        if number_of(operand) is None:
            is_fine = builder.bit_or(is_fine, builder.ne(operand, operand))
    return is_fine


def _never_zero(value: Value) -> bool:
    owner = value.owner
    if type(owner) is not Op or owner.kind != "constant" or type(value.type) is MatrixType:
        return False
    return owner.attribute("value") != 0


def _is_small(kind: str, operands: tuple[Value, ...]) -> bool:
    """Whether a division has a divisor other than -1, which alone makes one overflow."""
    divisor = number_of(operands[1]) if kind in ("floordiv", "truncdiv") else None
    return divisor is not None and divisor != -1


def _fits(kind: str, operands: tuple[Value, ...], result: Value, builder: Builder, wide: ScalarType) -> Value:
    """Whether the result is what it would be in integers without bounds."""
    if len(operands) == 1:
        return builder.ne(operands[0], builder.literal_like(operands[0], scalar_of(result.type).minimum))
    left, right = operands
    if kind in ("floordiv", "truncdiv"):
        return _quotient_fits(builder, left, right)
    if kind == "pow":
        return _power_fits(builder, left, right, result, wide)
    if scalar_of(result.type).bits == 64:
        return _FITS[kind](builder, left, right, result)
    # Law: the result is right if it equals the one in 64 bits.
    whole = builder.emit(kind, builder.cast(left, i64), builder.cast(right, i64))
    return builder.eq(builder.cast(result, i64), whole)


def _quotient_fits(builder: Builder, left: Value, right: Value) -> Value:
    """Law: a quotient overflows only if it is that of the smallest number and -1."""
    smallest = builder.literal_like(left, scalar_of(left.type).minimum)
    return builder.bit_or(builder.ne(left, smallest), builder.ne(right, builder.literal_like(right, -1)))


def _power_fits(builder: Builder, base: Value, exponent: Value, result: Value, wide: ScalarType) -> Value:
    """Law: wrapped results of numbers below 2**(bits + 1) are apart from the right ones by more than a millionth, which floats
    tell, f32 too; a power of a whole number by a negative one is never large, nor is one of -1, 0 or 1."""
    right = builder.pow(builder.cast(base, wide), builder.cast(exponent, wide))
    size = builder.abs(right)
    difference = builder.abs(builder.sub(builder.cast(result, wide), right))
    is_close = builder.le(difference, builder.mul(size, builder.literal_like(size, 1e-6)))
    is_small = builder.lt(size, builder.literal_like(size, 2.0 ** (scalar_of(result.type).bits + 1)))
    is_negative = builder.lt(exponent, builder.zero_like(exponent))
    one = builder.one_like(base)
    is_unit = builder.bit_and(builder.le(base, one), builder.ge(base, builder.neg(one)))
    return builder.bit_or(builder.bit_or(is_negative, is_unit), builder.bit_and(is_close, is_small))


def _sum_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a + b overflows exactly if its sign differs from the signs of both."""
    both = builder.bit_and(builder.bit_xor(left, result), builder.bit_xor(right, result))
    return builder.ge(both, builder.zero_like(both))


def _difference_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a - b overflows exactly if the signs of a and b differ, and those of a and the result."""
    both = builder.bit_and(builder.bit_xor(left, right), builder.bit_xor(left, result))
    return builder.ge(both, builder.zero_like(both))


def _product_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a * b is right if b = 0, or if dividing it by b gives a and it is not the smallest number times -1."""
    zero, smallest = builder.zero_like(left), builder.literal_like(left, scalar_of(left.type).minimum)
    none = builder.eq(right, zero)
    back = builder.eq(builder.truncdiv(result, builder.select(none, builder.one_like(right), right)), left)
    flips = builder.bit_and(builder.eq(left, smallest), builder.lt(right, zero))
    return builder.bit_or(none, builder.bit_and(back, builder.bit_not(flips)))


_FITS: dict[str, Callable[[Builder, Value, Value, Value], Value]] = {
    "add": _sum_fits,
    "sub": _difference_fits,
    "mul": _product_fits,
}
