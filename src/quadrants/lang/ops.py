"""The functions of the language: elementary functions, casts, bits, random numbers.

Each works on numbers and elementwise on vectors and matrices, in kernels and (unless it says otherwise) on the host,
where integers become the default float in elementary functions and Python numbers give Python numbers.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.ir.types import u1
from quadrants.lang import numeric
from quadrants.lang.intrinsic import intrinsic, kernel_only
from quadrants.lang.matrix import wrap_value
from quadrants.lang.numeric import Operand, operand
from quadrants.lang.types import scalar_type

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan2",
    "bit_cast",
    "bit_shr",
    "cast",
    "ceil",
    "cos",
    "exp",
    "floor",
    "fma",
    "frexp",
    "log",
    "lookup",
    "max",
    "min",
    "one",
    "pow",
    "randn",
    "random",
    "raw_div",
    "raw_mod",
    "round",
    "rsqrt",
    "select",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "zero",
]


def _unary(op: str, x: Any) -> Any:
    return wrap_value(*numeric.unary_float(op, operand(x)))


def _paired(*values: Any) -> list[Operand]:
    """The operands, which must have one shape or be numbers."""
    operands = [operand(value) for value in values]
    shapes = {entry.array.shape for entry in operands if entry.array.ndim}
    if len(shapes) > 1:
        raise QuadrantsTypeError(f"shapes {', '.join(map(str, sorted(shapes)))} do not fit together")
    return operands


def _binary(symbol: str, a: Any, b: Any) -> Any:
    return wrap_value(*numeric.binary(symbol, *_paired(a, b)))


@intrinsic
def abs(x: Any) -> Any:
    """The absolute value, of x's type. x is a number, vector or matrix (elementwise); the smallest integer of a type
    stays as it is."""
    entry = operand(x)
    return wrap_value(numeric.compute("abs", entry.scalar, entry), entry.scalar)


@intrinsic
def sqrt(x: Any) -> Any:
    """The square root; NaN below zero. x is a number, vector or matrix (elementwise); floats keep their type, integers
    give the default float."""
    return _unary("sqrt", x)


@intrinsic
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x); infinity for 0. x is a number, vector or matrix (elementwise); floats keep their type, integers give
    the default float."""
    return _unary("rsqrt", x)


@intrinsic
def sin(x: Any) -> Any:
    """The sine of x in radians. x is a number, vector or matrix (elementwise); floats keep their type, integers give
    the default float."""
    return _unary("sin", x)


@intrinsic
def cos(x: Any) -> Any:
    """The cosine of x in radians. x is a number, vector or matrix (elementwise); floats keep their type, integers give
    the default float."""
    return _unary("cos", x)


@intrinsic
def tan(x: Any) -> Any:
    """The tangent of x in radians. x is a number, vector or matrix (elementwise); floats keep their type, integers give
    the default float."""
    return _unary("tan", x)


@intrinsic
def asin(x: Any) -> Any:
    """The arcsine in [-pi/2, pi/2]; NaN outside [-1, 1]. x is a number, vector or matrix (elementwise); floats keep
    their type, integers give the default float."""
    return _unary("asin", x)


@intrinsic
def acos(x: Any) -> Any:
    """The arccosine in [0, pi]; NaN outside [-1, 1]. x is a number, vector or matrix (elementwise); floats keep their
    type, integers give the default float."""
    return _unary("acos", x)


@intrinsic
def tanh(x: Any) -> Any:
    """The hyperbolic tangent. x is a number, vector or matrix (elementwise); floats keep their type, integers give the
    default float."""
    return _unary("tanh", x)


@intrinsic
def exp(x: Any) -> Any:
    """e to the power of x. x is a number, vector or matrix (elementwise); floats keep their type, integers give the
    default float."""
    return _unary("exp", x)


@intrinsic
def log(x: Any) -> Any:
    """The natural logarithm; NaN below zero, minus infinity for 0. x is a number, vector or matrix (elementwise);
    floats keep their type, integers give the default float."""
    return _unary("log", x)


@intrinsic
def atan2(y: Any, x: Any) -> Any:
    """The angle in [-pi, pi] of the point (x, y). Numbers, vectors or matrices of one shape, or a number with either;
    integers give the default float. QuadrantsTypeError where shapes differ."""
    operands = [Operand(entry.array.astype(np.float64), entry.scalar) for entry in _paired(y, x)]
    real = numeric.weak_float(numeric.common_type(*operands))
    return wrap_value(numeric.compute("atan2", real, *operands), real)


@intrinsic
def pow(base: Any, exponent: Any) -> Any:
    """base ** exponent, elementwise, in the type that both meet in; an integer to a negative constant power is a float.
    QuadrantsTypeError where shapes differ."""
    return _binary("**", base, exponent)


def _rounded(op: str, x: Any, dtype: Any) -> Any:
    entry = operand(x)
    if entry.is_float:
        entry = Operand(numeric.compute(op, entry.scalar, entry), entry.scalar)
    return wrap_value(*entry) if dtype is None else _cast(entry, dtype)


@intrinsic
def floor(x: Any, dtype: Any = None) -> Any:
    """The largest whole number not above x, as `dtype` if given, else of x's type. x is a number, vector or matrix
    (elementwise)."""
    return _rounded("floor", x, dtype)


@intrinsic
def ceil(x: Any, dtype: Any = None) -> Any:
    """The smallest whole number not below x, as `dtype` if given, else of x's type. x is a number, vector or matrix
    (elementwise)."""
    return _rounded("ceil", x, dtype)


@intrinsic
def round(x: Any, dtype: Any = None) -> Any:
    """The nearest whole number, halves to even, as `dtype` if given, else of x's type. x is a number, vector or matrix
    (elementwise)."""
    return _rounded("round", x, dtype)


@intrinsic
def frexp(x: Any) -> tuple[Any, Any]:
    """(mantissa, exponent) with x = mantissa * 2 ** exponent and mantissa in [0.5, 1); the exponent is an i32. x is an
    f32 or f64 number."""
    mantissa, exponent = np.frexp(operand(x).array)
    return wrap_value(np.asarray(mantissa), operand(x).scalar), wrap_value(np.asarray(exponent), scalar_type(np.int32))


@intrinsic
def max(*values: Any) -> Any:
    """The largest of one or more values, elementwise; of NaN and a number the number. Numbers, vectors or matrices of
    one shape, or numbers with either, in the type that they meet in. QuadrantsTypeError where shapes differ."""
    return reduce(lambda a, b: _binary("max", a, b), values)


@intrinsic
def min(*values: Any) -> Any:
    """The smallest of one or more values, elementwise; of NaN and a number the number. Numbers, vectors or matrices of
    one shape, or numbers with either, in the type that they meet in. QuadrantsTypeError where shapes differ."""
    return reduce(lambda a, b: _binary("min", a, b), values)


@intrinsic
def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where `condition` holds, else `b`, elementwise; both are evaluated. Numbers, vectors or matrices of one
    shape, or numbers with either; the result has the type that a and b meet in. QuadrantsTypeError where shapes
    differ."""
    test, left, right = _paired(condition, a, b)
    dtype = numeric.common_type(left, right)
    arrays = [entry.array if dtype is None else numeric.convert(entry.array, dtype) for entry in (left, right)]
    return wrap_value(np.where(test.array != 0, *arrays), dtype)


def _cast(entry: Operand, dtype: Any) -> Any:
    scalar = scalar_type(dtype)
    return wrap_value(numeric.convert(entry.array, scalar), scalar)


@intrinsic
def cast(x: Any, dtype: Any) -> Any:
    """x as `dtype`: floats to integers truncate and saturate, NaN gives 0, integers wrap. x is a number, vector or
    matrix; `dtype` one of qd.types' scalars, int, float or bool (the default types)."""
    return _cast(operand(x), dtype)


@intrinsic
def bit_cast(x: Any, dtype: Any) -> Any:
    """The bits of x (a number, vector or matrix) read as `dtype`, which must be as wide: else QuadrantsTypeError. On
    the host x must be typed (NumPy, Vector, Matrix)."""
    entry, scalar = operand(x), scalar_type(dtype)
    if entry.array.dtype.itemsize != scalar.bytes or scalar.numpy is None:
        raise QuadrantsTypeError(f"bit_cast needs types of one width: {entry.array.dtype} cannot become {scalar}")
    return wrap_value(entry.array.view(scalar.numpy), scalar)


@intrinsic
def lookup(table: Any, index: Any, dtype: Any) -> Any:
    """Entry `index` of a constant table, as `dtype`. table: a tuple of Python numbers (in kernels, known when they are
    compiled); index: an integer from 0 to len(table) - 1, which is not checked, or a vector of them. QuadrantsTypeError
    for other indices."""
    entry, scalar = operand(index), scalar_type(dtype)
    if entry.is_float:
        raise QuadrantsTypeError("an index is an integer, not a float")
    return wrap_value(numeric.convert(np.asarray(table)[entry.array], scalar), scalar)


@intrinsic
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c for floats of one type, rounded once where the target can do that in an instruction (x86-64 with FMA
    can; the host and the interpreter round twice). Elementwise on vectors and matrices."""
    operands = _paired(a, b, c)
    met = numeric.weak_float(numeric.common_type(*operands))
    return wrap_value(numeric.compute("fma", met, *operands), met)


@intrinsic
def bit_shr(x: Any, count: Any) -> Any:
    """The integer x shifted right by `count` bits, with zeros coming in from the left whatever its sign. Elementwise on
    vectors."""
    return _binary(">>>", x, count)


def _truncated(op: str, symbol: str, a: Any, b: Any) -> Any:
    operands = _paired(a, b)
    dtype = numeric.common_type(*operands)
    if any(entry.is_float for entry in operands):
        if symbol == "/":
            return _binary("/", a, b)
        with numeric.quiet():
            result = np.asarray(np.fmod(operands[0].array, operands[1].array))
        return wrap_value(result if dtype is None else numeric.convert(result, dtype), dtype)
    return wrap_value(numeric.compute(op, dtype, *operands), dtype)


@intrinsic
def raw_div(a: Any, b: Any) -> Any:
    """a / b as C has it: integers are rounded towards zero (0 for b = 0), floats are divided. Elementwise on
    vectors."""
    return _truncated("truncdiv", "/", a, b)


@intrinsic
def raw_mod(a: Any, b: Any) -> Any:
    """The remainder of a / b as C has it: with a's sign, 0 for integers where b = 0. Elementwise on vectors."""
    return _truncated("truncmod", "%", a, b)


@intrinsic
def zero(x: Any) -> Any:
    """Zero of the type and shape of x, a number, vector or matrix."""
    entry = operand(x)
    return wrap_value(np.zeros_like(entry.array), entry.scalar)


@intrinsic
def one(x: Any) -> Any:
    """One, everywhere, of the type and shape of x, a number, vector or matrix."""
    entry = operand(x)
    return wrap_value(np.ones_like(entry.array), entry.scalar)


@intrinsic
def random(dtype: Any = float) -> Any:
    """A random number: in [0, 1) for floats, of the whole range for integers. In kernels only.

    The numbers follow from `qd.init(random_seed=…)`, from how many launches that draw came before, and from the
    iteration that asks: neither threads nor targets change them.
    """
    kernel_only("random")


def randn(dt: Any = None) -> Any:
    """A random number of the standard normal distribution (Box-Muller), of the float type `dt` (the default one). In
    kernels only."""
    dtype = float if dt is None else dt
    return sqrt(-2.0 * log(1.0 - random(dtype))) * cos(6.283185307179586 * random(dtype))


@intrinsic
def sign(x: Any) -> Any:
    """-1, 0 or 1, of the type of x, a number, vector or matrix (elementwise); NaN stays NaN."""
    entry = operand(x)
    return wrap_value(numeric.compute("sign", entry.scalar, entry), entry.scalar)


@intrinsic
def log2(x: Any) -> Any:
    """The logarithm to base 2; NaN below zero. x is a number, vector or matrix (elementwise); floats keep their type,
    integers give the default float."""
    return _unary("log2", x)


def _test(op: str, x: Any) -> Any:
    entry = operand(x)
    if not entry.is_float:
        return wrap_value(np.zeros(entry.array.shape, bool), u1)
    return wrap_value(numeric.compute(op, entry.scalar, entry), u1)


@intrinsic
def isnan(x: Any) -> Any:
    """Whether x is not a number, as u1. x is a number, vector or matrix (elementwise); False for integers."""
    return _test("is_nan", x)


@intrinsic
def isinf(x: Any) -> Any:
    """Whether x is an infinity, as u1. x is a number, vector or matrix (elementwise); False for integers."""
    return _test("is_inf", x)


def _bits(op: str, x: Any) -> Any:
    entry = operand(x)
    if entry.is_float:
        raise QuadrantsTypeError(f"{op} takes integers only")
    scalar = entry.scalar if entry.scalar is not None else scalar_type(int)
    return _cast(Operand(numeric.compute(op, scalar, entry), scalar), np.int32)


@intrinsic
def popcnt(x: Any) -> Any:
    """How many bits of an integer are set, as an i32. Elementwise on vectors; QuadrantsTypeError for floats."""
    return _bits("popcount", x)


@intrinsic
def clz(x: Any) -> Any:
    """How many zero bits lead an integer (its width for 0), as an i32. Elementwise on vectors; QuadrantsTypeError for
    floats."""
    return _bits("clz", x)


@intrinsic
def ffs(x: Any) -> Any:
    """The position of the lowest set bit of an integer, counted from 1 (0 if none is set), as an i32. Elementwise on
    vectors; QuadrantsTypeError for floats."""
    entry = operand(x)
    found = _bits("ctz", x)
    return select(wrap_value(entry.array == 0, u1), zero(found), found + 1)
