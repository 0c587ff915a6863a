"""Numbers on the host as kernels see them: promotion, wrap, saturating casts, NaN rules, over NumPy arrays.

An operand is a NumPy array and its data type; data type None marks a weak number (a Python number, or a vector of
such), which takes the type of what it meets. What an operation computes comes from the compiler's op table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsTypeError
from quadrants.ir import evaluate
from quadrants.ir import types as ir_types
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, f64, i64, u1, u64
from quadrants.lang.types import scalar_of_numpy

__all__ = [
    "Operand",
    "bfloat16_bits",
    "bfloat16_values",
    "binary",
    "common_type",
    "compute",
    "convert",
    "operand",
    "quiet",
    "unary_float",
]


class Operand(NamedTuple):
    """Numbers and their data type, None if weak."""

    array: np.ndarray
    scalar: ScalarType | None

    @property
    def is_float(self) -> bool:
        return self.array.dtype.kind == "f"


def quiet() -> Any:
    """A context without NumPy's warnings: wrap, infinities and NaN are ordinary results here."""
    return np.errstate(all="ignore")


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The bf16 bit patterns (uint16) nearest to `values`, ties to even; NaN stays NaN."""
    with quiet():
        rounded = np.ascontiguousarray(evaluate.round_bf16(values), dtype=np.float32)
    return (rounded.view(np.uint32) >> 16).astype(np.uint16).reshape(np.shape(values))


def bfloat16_values(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bf16 bit patterns."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def convert(values: np.ndarray, scalar: ScalarType) -> np.ndarray:
    """`values` as `scalar`: integers wrap, floats truncate and saturate to integers (NaN gives 0), anything to u1 is
    whether it is not zero. Always a new array; bf16 is held as float32."""
    with quiet():
        return np.asarray(evaluate.finish(scalar, np.array(evaluate.cast(scalar, values, type=scalar))))


def operand(value: Any) -> Operand:
    """`value` as an operand; QuadrantsTypeError if it is no number, array or sequence of numbers."""
    typed = getattr(value, "_operand", None)
    if typed is not None:
        return typed()
    if isinstance(value, (bool, np.bool_)):
        return Operand(np.asarray(value), u1)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return Operand(_python_number(value), None)
    if isinstance(value, (np.ndarray, np.generic)):
        return Operand(np.asarray(value), scalar_of_numpy(value.dtype))
    if isinstance(value, (list, tuple)):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return Operand(array, u1 if array.dtype.kind == "b" else None)
    raise QuadrantsTypeError(f"a number, vector or matrix is expected, not {type(value).__name__} {value!r}")


def _python_number(value: int | float) -> np.ndarray:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise QuadrantsTypeError(f"the integer {value} does not fit in 64 bits")
    return np.asarray(value)


def weak_float(scalar: ScalarType | None) -> ScalarType | None:
    """The float type that an operand of type `scalar` has in `/` and elementary functions: itself if it is a float,
    else the default (weak stays weak)."""
    return scalar if scalar is None or scalar.is_float else knobs.current.default_float


def common_type(*operands: Operand) -> ScalarType | None:
    """The type in which operands meet, None if all are weak."""
    met: ScalarType | None = None
    for entry in operands:
        if entry.scalar is not None:
            met = entry.scalar if met is None else ir_types.promote(met, entry.scalar)
    if met is None or met.is_float:
        return met
    weak = [entry for entry in operands if entry.scalar is None]
    if any(entry.is_float for entry in weak):
        return knobs.current.default_float
    return knobs.current.default_int if weak and met is u1 else met


def _held(scalar: ScalarType | None, operands: tuple[Operand, ...]) -> ScalarType:
    """The type to compute in: `scalar`, or for weak numbers Python's widths."""
    if scalar is not None:
        return scalar
    if any(entry.is_float for entry in operands):
        return f64
    return u64 if any(entry.array.dtype == np.uint64 for entry in operands) else i64


def compute(op: str, scalar: ScalarType | None, *operands: Operand) -> np.ndarray:
    """The op table's operation on operands converted to `scalar` (None: weak)."""
    held = _held(scalar, operands)
    row = OPS[op].evaluate
    assert row is not None
    arrays = [convert(entry.array, held) for entry in operands]
    with quiet():
        result = np.asarray(row(held, *arrays))
        return result if result.dtype.kind == "b" else np.asarray(evaluate.finish(held, result))


_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "max": "max", "min": "min"}
_BITS = {"&": "bit_and", "|": "bit_or", "^": "bit_xor"}
_SHIFTS = {"<<": "shl", ">>": "shr", ">>>": "ushr"}
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def binary(symbol: str, left: Operand, right: Operand) -> Operand:
    """`left symbol right`, elementwise; QuadrantsTypeError where the operator does not take such types."""
    scalar = common_type(left, right)
    if symbol in _ARITHMETIC:
        scalar = _counting(scalar)
        return Operand(compute(_ARITHMETIC[symbol], scalar, left, right), scalar)
    if symbol in _COMPARISONS:
        return Operand(compute(_COMPARISONS[symbol], scalar, left, right), u1)
    if symbol == "/":
        return _true_division(left, right, weak_float(scalar))
    if symbol == "**":
        return _power(left, right, _counting(scalar))
    _require_integers(symbol, left, right)
    if symbol in _BITS:
        return Operand(compute(_BITS[symbol], scalar, left, right), scalar)
    kept = _counting(left.scalar if left.scalar is not None else scalar)
    return Operand(compute(_SHIFTS[symbol], kept, left, right), kept)


def _counting(scalar: ScalarType | None) -> ScalarType | None:
    return knobs.current.default_int if scalar is u1 else scalar


def _real(entry: Operand) -> Operand:
    return entry if entry.is_float else Operand(entry.array.astype(np.float64), entry.scalar)


def _true_division(left: Operand, right: Operand, real: ScalarType | None) -> Operand:
    if real is None:
        left, right = _real(left), _real(right)
    return Operand(compute("div", real, left, right), real)


def _require_integers(symbol: str, left: Operand, right: Operand) -> None:
    if left.is_float or right.is_float:
        names = [str(entry.scalar or ("float" if entry.is_float else "int")) for entry in (left, right)]
        raise QuadrantsTypeError(f"unsupported operand type(s) for '{symbol}': '{names[0]}' and '{names[1]}'")


def _power(left: Operand, right: Operand, scalar: ScalarType | None) -> Operand:
    negative = right.array.dtype.kind == "i" and bool(np.any(right.array < 0))
    if negative and not left.is_float:
        scalar = weak_float(scalar)
        left, right = _real(left), _real(right)
    return Operand(compute("pow", scalar, left, right), scalar)


def unary_float(op: str, value: Operand) -> Operand:
    """A real function of the op table at the operand's width; integers become the default float."""
    real = weak_float(value.scalar)
    return Operand(compute(op, real, _real(value) if real is None else value), real)
