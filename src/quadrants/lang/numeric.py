"""Numbers on the host as kernels see them: promotion, wrap, saturating casts, NaN rules, over NumPy arrays.

An operand is a NumPy array and its data type; data type None marks a weak number (a Python number, or a vector of
such), which takes the type of what it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsTypeError
from quadrants.ir import types as ir_types
from quadrants.ir.types import ScalarType, bf16, f64, u1
from quadrants.lang.types import scalar_of_numpy

__all__ = ["bfloat16_bits", "bfloat16_values", "binary", "convert", "host_dtype", "operand", "quiet", "unary_float"]

Operand = tuple[np.ndarray, "ScalarType | None"]


def quiet() -> Any:
    """A context without NumPy's warnings: wrap, infinities and NaN are ordinary results here."""
    return np.errstate(all="ignore")


def host_dtype(scalar: ScalarType) -> np.dtype:
    """The NumPy dtype that holds values of `scalar` in computations (float32 for bf16)."""
    return scalar.numpy if scalar.numpy is not None else np.dtype(np.float32)


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The bf16 bit patterns (uint16) nearest to `values`, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16).reshape(np.shape(values))


def bfloat16_values(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bf16 bit patterns."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def convert(values: np.ndarray, scalar: ScalarType) -> np.ndarray:
    """`values` as `scalar`: integers wrap, floats truncate and saturate to integers (NaN gives 0), anything to u1 is
    whether it is not zero."""
    if scalar is u1:
        return values != 0
    if values.dtype.kind == "f" and not scalar.is_float:
        return _saturated(values, scalar)
    with quiet():
        if scalar is bf16:
            return bfloat16_values(bfloat16_bits(values.astype(np.float32)))
        return values.astype(host_dtype(scalar))


def _saturated(values: np.ndarray, scalar: ScalarType) -> np.ndarray:
    with quiet():
        wide = np.trunc(values.astype(np.float64))
        low, high = float(scalar.minimum), float(scalar.maximum)
        inside = (wide > low) & (wide < high)
        result = np.where(inside, wide, 0.0).astype(host_dtype(scalar))
        result = np.where(wide >= high, host_dtype(scalar).type(scalar.maximum), result)
        return np.where(wide <= low, host_dtype(scalar).type(scalar.minimum), result)


def operand(value: Any) -> Operand:
    """`value` as an operand; QuadrantsTypeError if it is no number, array or sequence of numbers."""
    typed = getattr(value, "_operand", None)
    if typed is not None:
        return typed()
    if isinstance(value, bool):
        return np.asarray(value), u1
    if isinstance(value, (int, float)):
        return _python_number(value), None
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value), scalar_of_numpy(value.dtype)
    if isinstance(value, (list, tuple)):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return array, u1 if array.dtype.kind == "b" else None
    raise QuadrantsTypeError(f"a number, vector or matrix is expected, not {type(value).__name__} {value!r}")


def _python_number(value: int | float) -> np.ndarray:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise QuadrantsTypeError(f"the integer {value} does not fit in 64 bits")
    return np.asarray(value)


def weak_float(scalar: ScalarType | None) -> ScalarType | None:
    """The float type that an operand of type `scalar` has in `/` and elementary functions: itself if it is a float,
    else the default (weak stays weak)."""
    return scalar if scalar is None or scalar.is_float else knobs.current.default_float


def common_type(left: Operand, right: Operand) -> ScalarType | None:
    """The type in which two operands meet, None if both are weak."""
    (left_array, left_type), (right_array, right_type) = left, right
    if left_type is None and right_type is None:
        return None
    if left_type is not None and right_type is not None:
        return ir_types.promote(left_type, right_type)
    typed, weak = (left_type, right_array) if right_type is None else (right_type, left_array)
    assert typed is not None
    if typed.is_float:
        return typed
    if weak.dtype.kind == "f":
        return knobs.current.default_float
    return knobs.current.default_int if typed is u1 else typed


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "max": np.fmax,
    "min": np.fmin,
}
_BITS: dict[str, Callable[..., Any]] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
_SHIFTS: dict[str, Callable[..., Any]] = {"<<": np.left_shift, ">>": np.right_shift}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def binary(symbol: str, left: Operand, right: Operand) -> Operand:
    """`left symbol right`, elementwise; QuadrantsTypeError where the operator does not take such types."""
    scalar = common_type(left, right)
    if symbol == "/":
        scalar = weak_float(scalar)
        return _apply(np.true_divide, left[0], right[0], scalar), scalar
    if symbol in _COMPARISONS:
        return _apply(_COMPARISONS[symbol], left[0], right[0], scalar), u1
    if symbol in _ARITHMETIC:
        return _apply(_ARITHMETIC[symbol], left[0], right[0], _counting(scalar)), _counting(scalar)
    if symbol == "**":
        return _power(left, right, _counting(scalar))
    _require_integers(symbol, left, right)
    if symbol in _BITS:
        return _apply(_BITS[symbol], left[0], right[0], scalar), scalar
    kept = left[1] if left[1] is not None else scalar
    return _apply(_SHIFTS[symbol], left[0], right[0], _counting(kept)), _counting(kept)


def _counting(scalar: ScalarType | None) -> ScalarType | None:
    return knobs.current.default_int if scalar is u1 else scalar


def _apply(function: Callable[..., Any], left: np.ndarray, right: np.ndarray, scalar: ScalarType | None) -> np.ndarray:
    with quiet():
        if scalar is None:
            return np.asarray(function(left, right))
        result = np.asarray(function(convert(left, scalar), convert(right, scalar)))
        return convert(result, scalar) if scalar is bf16 else result


def _require_integers(symbol: str, left: Operand, right: Operand) -> None:
    for array, _ in (left, right):
        if array.dtype.kind == "f":
            names = [
                str(scalar or ("float" if values.dtype.kind == "f" else "int")) for values, scalar in (left, right)
            ]
            raise QuadrantsTypeError(f"unsupported operand type(s) for '{symbol}': '{names[0]}' and '{names[1]}'")


def _power(left: Operand, right: Operand, scalar: ScalarType | None) -> Operand:
    negative = right[0].dtype.kind == "i" and bool(np.any(right[0] < 0))
    if negative and left[0].dtype.kind != "f":
        real = knobs.current.default_float if scalar is not None else None
        wide = left[0].astype(np.float64) if real is None else left[0]
        return _apply(np.power, wide, right[0].astype(np.float64), real), real
    return _apply(np.power, left[0], right[0], scalar), scalar


def unary_float(function: Callable[..., Any], value: Operand) -> Operand:
    """A real function of an operand, computed at the operand's width (f16 and bf16 in f32)."""
    array, scalar = value
    real = weak_float(scalar)
    wide = np.float64 if real is None or real is f64 else np.float32
    with quiet():
        result = np.asarray(function(array.astype(wide)))
    return (result, None) if real is None else (convert(result, real), real)
