"""The executable meaning of the pure operations, on NumPy scalars and arrays.

Each function takes the result's scalar type, then the operands as NumPy values of their own dtypes, then (for a few)
the operation's attributes by keyword. Values of bf16 are held as float32 rounded to bf16 by the caller (`round_bf16`).
NumPy's warnings are the caller's to silence.
"""

# pyright: basic
# NumPy's own annotations leave the results of `where`, `view` and indexing unknown, differently by version.

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from quadrants.ir.fused import fused_multiply_add, odd_sum
from quadrants.ir.types import ScalarType, Type, lanes_of, scalar_of, shape_of

N = Any


def held_dtype(scalar: ScalarType) -> np.dtype:
    """The NumPy dtype in which values of a scalar type are held (bf16: float32)."""
    return scalar.numpy if scalar.numpy is not None else np.dtype(np.float32)


def round_bf16(value: N) -> N:
    """float32 values rounded to the nearest bf16, halves to even."""
    bits = np.asarray(value, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(value), np.float32(np.nan), rounded)[()]


def finish(scalar: ScalarType, value: N) -> N:
    """`value` in the dtype that holds `scalar`."""
    held = np.asarray(value).astype(held_dtype(scalar), copy=False)
    return round_bf16(held) if scalar.name == "bf16" else held[()]


def add(s: ScalarType, a: N, b: N) -> N:
    return np.add(a, b)


def sub(s: ScalarType, a: N, b: N) -> N:
    return np.subtract(a, b)


def mul(s: ScalarType, a: N, b: N) -> N:
    return np.multiply(a, b)


def div(s: ScalarType, a: N, b: N) -> N:
    return np.true_divide(a, b)


def floordiv(s: ScalarType, a: N, b: N) -> N:
    if s.is_float:
        return np.floor_divide(a, b)
    quotient = np.floor_divide(a, np.where(b == 0, b.dtype.type(1), b))
    return np.where(b == 0, b.dtype.type(0), quotient)[()]


def mod(s: ScalarType, a: N, b: N) -> N:
    if s.is_float:
        return np.remainder(a, b)
    return np.where(b == 0, b.dtype.type(0), np.remainder(a, np.where(b == 0, b.dtype.type(1), b)))[()]


def truncdiv(s: ScalarType, a: N, b: N) -> N:
    quotient = floordiv(s, a, b)
    inexact = (sub(s, a, mul(s, quotient, b)) != 0) & (b != 0)
    return np.where(inexact & ((a < 0) != (b < 0)), quotient + b.dtype.type(1), quotient)[()]


def truncmod(s: ScalarType, a: N, b: N) -> N:
    return np.where(b == 0, b.dtype.type(0), sub(s, a, mul(s, truncdiv(s, a, b), b)))[()]


def pow(s: ScalarType, a: N, b: N) -> N:
    if s.is_float:
        return np.power(a, b)
    return np.vectorize(lambda x, y: _integer_power(s, int(x), int(y)), otypes=[held_dtype(s)])(a, b)[()]


def wrap(s: ScalarType, value: int) -> int:
    """A Python integer wrapped to an integer type's range."""
    value &= (1 << s.bits) - 1
    return value - (1 << s.bits) if s.kind == "i" and value >> (s.bits - 1) else value


def _integer_power(s: ScalarType, base: int, exponent: int) -> int:
    if exponent < 0:
        return {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(base, 0)
    return wrap(s, builtins.pow(base, exponent, 1 << s.bits))


def neg(s: ScalarType, a: N) -> N:
    return np.subtract(a.dtype.type(0), a) if not s.is_float else np.negative(a)


def abs_(s: ScalarType, a: N) -> N:
    return np.abs(a)


def sign(s: ScalarType, a: N) -> N:
    return np.sign(a)


def minimum(s: ScalarType, a: N, b: N) -> N:
    return np.fmin(a, b)


def maximum(s: ScalarType, a: N, b: N) -> N:
    return np.fmax(a, b)


def fma(s: ScalarType, a: N, b: N, c: N) -> N:
    if s.bits == 32 and np.asarray(a).dtype == np.float32:  # the product is exact in f64
        return odd_sum(np.multiply(a, b, dtype=np.float64), np.float64(c)).astype(np.float32)[()]
    if s.bits == 64 and np.asarray(a).dtype == np.float64:
        return fused_multiply_add(a, b, c)
    return np.add(np.multiply(a, b), c)


def bit_and(s: ScalarType, a: N, b: N) -> N:
    return np.bitwise_and(a, b)


def bit_or(s: ScalarType, a: N, b: N) -> N:
    return np.bitwise_or(a, b)


def bit_xor(s: ScalarType, a: N, b: N) -> N:
    return np.bitwise_xor(a, b)


def bit_not(s: ScalarType, a: N) -> N:
    return np.invert(a)


def _shifted(s: ScalarType, a: N, b: N, operation: Any, outside: N) -> N:
    inside = (b >= 0) & (b < s.bits)
    return np.where(inside, operation(a, np.where(inside, b, b.dtype.type(0))), outside)[()]


def shl(s: ScalarType, a: N, b: N) -> N:
    return _shifted(s, a, b, np.left_shift, a.dtype.type(0))


def shr(s: ScalarType, a: N, b: N) -> N:
    return _shifted(s, a, b, np.right_shift, np.where(a < 0, a.dtype.type(-1) if s.kind == "i" else a, a.dtype.type(0)))


def ushr(s: ScalarType, a: N, b: N) -> N:
    unsigned = np.dtype(f"uint{s.bits}")
    logical = np.asarray(a).view(unsigned)[()]
    return np.asarray(
        _shifted(s, logical, b.astype(np.int64), lambda x, y: np.right_shift(x, y.astype(unsigned)), unsigned.type(0))
    ).view(a.dtype)[()]


def popcount(s: ScalarType, a: N) -> N:
    return _each_bits(s, a, int.bit_count)


def clz(s: ScalarType, a: N) -> N:
    return _each_bits(s, a, lambda bits: s.bits - bits.bit_length())


def ctz(s: ScalarType, a: N) -> N:
    return _each_bits(s, a, lambda bits: (bits & -bits).bit_length() - 1 if bits else s.bits)


def _each_bits(s: ScalarType, a: N, count: Any) -> N:
    mask = (1 << s.bits) - 1
    return np.vectorize(lambda x: count(int(x) & mask), otypes=[a.dtype])(a)[()]


def eq(s: ScalarType, a: N, b: N) -> N:
    return np.equal(a, b)


def ne(s: ScalarType, a: N, b: N) -> N:
    return np.not_equal(a, b)


def lt(s: ScalarType, a: N, b: N) -> N:
    return np.less(a, b)


def le(s: ScalarType, a: N, b: N) -> N:
    return np.less_equal(a, b)


def gt(s: ScalarType, a: N, b: N) -> N:
    return np.greater(a, b)


def ge(s: ScalarType, a: N, b: N) -> N:
    return np.greater_equal(a, b)


def is_nan(s: ScalarType, a: N) -> N:
    return np.isnan(a)


def is_inf(s: ScalarType, a: N) -> N:
    return np.isinf(a)


def select(s: ScalarType, condition: N, a: N, b: N) -> N:
    return np.where(condition, a, b)[()]


def sqrt(s: ScalarType, a: N) -> N:
    return np.sqrt(a)


def rsqrt(s: ScalarType, a: N) -> N:
    return np.divide(a.dtype.type(1), np.sqrt(a))


def cbrt(s: ScalarType, a: N) -> N:
    return np.cbrt(a)


def exp(s: ScalarType, a: N) -> N:
    return np.exp(a)


def exp2(s: ScalarType, a: N) -> N:
    return np.exp2(a)


def expm1(s: ScalarType, a: N) -> N:
    return np.expm1(a)


def log(s: ScalarType, a: N) -> N:
    return np.log(a)


def log2(s: ScalarType, a: N) -> N:
    return np.log2(a)


def log10(s: ScalarType, a: N) -> N:
    return np.log10(a)


def log1p(s: ScalarType, a: N) -> N:
    return np.log1p(a)


def sin(s: ScalarType, a: N) -> N:
    return np.sin(a)


def cos(s: ScalarType, a: N) -> N:
    return np.cos(a)


def tan(s: ScalarType, a: N) -> N:
    return np.tan(a)


def asin(s: ScalarType, a: N) -> N:
    return np.arcsin(a)


def acos(s: ScalarType, a: N) -> N:
    return np.arccos(a)


def atan(s: ScalarType, a: N) -> N:
    return np.arctan(a)


def sinh(s: ScalarType, a: N) -> N:
    return np.sinh(a)


def cosh(s: ScalarType, a: N) -> N:
    return np.cosh(a)


def tanh(s: ScalarType, a: N) -> N:
    return np.tanh(a)


def asinh(s: ScalarType, a: N) -> N:
    return np.arcsinh(a)


def acosh(s: ScalarType, a: N) -> N:
    return np.arccosh(a)


def atanh(s: ScalarType, a: N) -> N:
    return np.arctanh(a)


def erf(s: ScalarType, a: N) -> N:
    return np.vectorize(math.erf, otypes=[np.float64])(a)[()]


def floor(s: ScalarType, a: N) -> N:
    return np.floor(a)


def ceil(s: ScalarType, a: N) -> N:
    return np.ceil(a)


def trunc(s: ScalarType, a: N) -> N:
    return np.trunc(a)


def round_(s: ScalarType, a: N) -> N:
    return np.rint(a)


def atan2(s: ScalarType, a: N, b: N) -> N:
    return np.arctan2(a, b)


def hypot(s: ScalarType, a: N, b: N) -> N:
    return np.hypot(a, b)


def copysign(s: ScalarType, a: N, b: N) -> N:
    return np.copysign(a, b)


def constant(s: ScalarType, *, type: Type, value: Any) -> N:
    held = held_dtype(scalar_of(type))
    if lanes_of(type) > 1:
        return np.full(lanes_of(type), value, held)
    if not shape_of(type):
        return held.type(value)
    return np.asarray(value, held).reshape(shape_of(type))


def cast(s: ScalarType, a: N, *, type: Type) -> N:
    a = np.asarray(a)
    if s.bits == 1:
        return (a != 0)[()]
    if s.is_float or a.dtype.kind != "f":
        return a.astype(held_dtype(s))[()]
    return _saturate(s, a)


def _saturate(s: ScalarType, a: N) -> N:
    held = held_dtype(s)
    truncated = np.trunc(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = truncated <= float(s.minimum), truncated >= float(s.maximum)
    inside = np.where(low | high, 0.0, truncated).astype(held)
    return np.where(low, held.type(s.minimum), np.where(high, held.type(s.maximum), inside))[()]


def bitcast(s: ScalarType, a: N, *, type: Type) -> N:
    bits = np.asarray(a)
    if s.bits == 16 and bits.dtype == np.float32:
        bits = (bits.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if s.name == "bf16":
        return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    return bits.view(held_dtype(s))[()]


def lookup(s: ScalarType, a: N, *, type: Type, table: tuple[Any, ...]) -> N:
    entries = np.asarray(table, held_dtype(s))
    return entries[np.minimum(np.asarray(a).view(np.uint64), len(table) - 1)]


def splat(s: ScalarType, a: N, *, type: Type) -> N:
    return np.full(shape_of(type), a, held_dtype(s))


def construct(s: ScalarType, *elements: N, type: Type) -> N:
    return np.array(elements, held_dtype(s)).reshape(shape_of(type))


def extract(s: ScalarType, a: N, *indices: N) -> N:
    return a[tuple(int(index) for index in indices)]


def insert(s: ScalarType, a: N, b: N, *indices: N) -> N:
    copied = a.copy()
    copied[tuple(int(index) for index in indices)] = b
    return copied


def matmul(s: ScalarType, a: N, b: N) -> N:
    return np.matmul(a, b)


def transpose(s: ScalarType, a: N) -> N:
    return np.ascontiguousarray(np.transpose(a))


def reduce_add(s: ScalarType, a: N) -> N:
    return _fold(a, lambda x, y: x + y)


def reduce_mul(s: ScalarType, a: N) -> N:
    return _fold(a, lambda x, y: x * y)


def reduce_min(s: ScalarType, a: N) -> N:
    return _fold(a, np.fmin)


def reduce_max(s: ScalarType, a: N) -> N:
    return _fold(a, np.fmax)


def reduce_and(s: ScalarType, a: N) -> N:
    return _fold(a, np.bitwise_and)


def reduce_or(s: ScalarType, a: N) -> N:
    return _fold(a, np.bitwise_or)


def _fold(a: N, combine: Any) -> N:
    elements = a.reshape(-1)
    total = elements[0]
    for element in elements[1:]:
        total = combine(total, element)
    return total


def lane_index(s: ScalarType, *, type: Type) -> N:
    return np.arange(lanes_of(type), dtype=np.int64)


def broadcast(s: ScalarType, a: N, *, type: Type) -> N:
    return np.full(lanes_of(type), a, held_dtype(s))


def extract_lane(s: ScalarType, a: N, *, lane: int) -> N:
    return a[lane]


def any_lane(s: ScalarType, a: N) -> N:
    return np.any(a)


def all_lanes(s: ScalarType, a: N) -> N:
    return np.all(a)


def external(s: ScalarType, *values: N, library: str | None, symbol: str, parameters: tuple[str, ...]) -> N:
    from quadrants.ir.external import call

    return call(library, symbol, parameters, s.name, values)
