"""Functions of `math`, `numpy` and `operator` that are no operation of the IR, written in the language itself.

`REPLACEMENTS` says which function of Python's stands for which of these: a kernel that calls `math.gcd` calls `gcd`.
Their parameters are named as Python's are, since calls may name them. All run as ordinary Python, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.lang.loops import loop_config

__all__ = ["REPLACEMENTS"]


# Integers.


def gcd(*integers: Any) -> Any:
    """The greatest common divisor, never negative; 0 of zeros and of nothing."""
    found = 0
    for value in integers:
        found = _gcd_of_two(found, value)
    return found


def _gcd_of_two(a: Any, b: Any) -> Any:
    a = abs(a)
    b = abs(b)
    while b != 0:
        a, b = b, a % b
    return a


def lcm(*integers: Any) -> Any:
    """The least common multiple, never negative; 0 if one of them is 0, 1 of nothing."""
    found = 1
    for value in integers:
        found = _lcm_of_two(found, value)
    return found


def _lcm_of_two(a: Any, b: Any) -> Any:
    if a == 0 or b == 0:
        return 0 * (a * b)
    return abs(a // _gcd_of_two(a, b) * b)


def factorial(n: Any) -> Any:
    """n! for n >= 0; 1 for negative n."""
    product = 1
    loop_config(serialize=True)
    for k in range(2, n + 1):
        product *= k
    return product


def perm(n: Any, k: Any) -> Any:
    """How many ordered choices of k out of n there are."""
    product = 1
    loop_config(serialize=True)
    for taken in range(k):
        product *= n - taken
    return product if k <= n else 0 * product


def comb(n: Any, k: Any) -> Any:
    """How many choices of k out of n there are."""
    smaller = min(k, n - k)
    product = 1
    loop_config(serialize=True)
    for taken in range(smaller):
        product = product * (n - taken) // (taken + 1)
    return product if 0 <= k <= n else 0 * product


def isqrt(n: Any) -> Any:
    """The largest integer whose square is at most n; 0 for negative n."""
    root = int(math.sqrt(max(n, 0)))
    while root * root > n and root > 0:
        root -= 1
    while (root + 1) * (root + 1) <= n:
        root += 1
    return root


# Floats.


def isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    """math.isclose: whether a and b differ by no more than the tolerances; infinities are close to themselves."""
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    return abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


def isclose_to(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08) -> Any:
    """numpy.isclose: whether a differs from b by no more than atol + rtol * abs(b)."""
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    return abs(a - b) <= atol + rtol * abs(b)


def remainder(x: Any, y: Any) -> Any:
    """math.remainder: x - n * y for the integer n nearest to x / y, exactly (IEEE 754)."""
    size = abs(y)
    rest = math.fmod(abs(x), size)
    beyond = size - rest
    if rest < beyond:
        return math.copysign(1.0, x) * rest
    if rest > beyond or math.isnan(beyond):
        return math.copysign(1.0, x) * -beyond
    return math.copysign(1.0, x) * (rest - 2.0 * math.fmod(0.5 * (abs(x) - rest), size))


def modf(x: Any) -> Any:
    """The fractional and the integral part of a float, both with its sign."""
    if math.isinf(x):
        return math.copysign(0.0 * _float(1), x), _float(x)
    return math.fmod(x, 1.0), np.trunc(_float(x))


def ldexp(x: Any, i: Any) -> Any:
    """x * 2**i."""
    half = i // 2
    return x * 2.0**half * 2.0 ** (i - half)


def fabs(x: Any) -> Any:
    """The absolute value as a float."""
    return abs(_float(x))


def power(x: Any, y: Any) -> Any:
    """math.pow: x**y of floats."""
    return _float(x) ** _float(y)


def _float(x: Any) -> Any:
    return x * 1.0


def clip(a: Any, a_min: Any, a_max: Any) -> Any:
    """numpy.clip of a number; NaN stays NaN."""
    return a_max if a > a_max else a_min if a < a_min else a


def heaviside(x1: Any, x2: Any) -> Any:
    """0 for negative x1, 1 for positive, x2 for zero, NaN for NaN."""
    return x2 * 1.0 if x1 == 0 else 0.0 if x1 < 0 else 1.0 if x1 > 0 else x1 * 1.0


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0."""
    y = math.pi * x
    return 1.0 if x == 0 else math.sin(y) / y


def signbit(x: Any) -> Any:
    """Whether the sign of a float is negative, that of zero and NaN too."""
    return math.copysign(1.0, x) < 0.0


def logaddexp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    if x1 == x2:
        return x1 + math.log(2.0)
    difference = x1 - x2
    return max(x1, x2) + math.log1p(math.exp(-abs(difference)))


# NumPy's names of operators; elementwise on vectors, as the operators are.


def add(x1: Any, x2: Any) -> Any:
    return x1 + x2


def subtract(x1: Any, x2: Any) -> Any:
    return x1 - x2


def multiply(x1: Any, x2: Any) -> Any:
    return x1 * x2


def divide(x1: Any, x2: Any) -> Any:
    return x1 / x2


def floor_divide(x1: Any, x2: Any) -> Any:
    return x1 // x2


def mod(x1: Any, x2: Any) -> Any:
    return x1 % x2


def negative(x: Any) -> Any:
    return -x


def positive(x: Any) -> Any:
    return +x


def square(x: Any) -> Any:
    return x * x


def bitwise_and(x1: Any, x2: Any) -> Any:
    return x1 & x2


def bitwise_or(x1: Any, x2: Any) -> Any:
    return x1 | x2


def bitwise_xor(x1: Any, x2: Any) -> Any:
    return x1 ^ x2


def invert(x: Any) -> Any:
    return ~x


def left_shift(x1: Any, x2: Any) -> Any:
    return x1 << x2


def right_shift(x1: Any, x2: Any) -> Any:
    return x1 >> x2


def equal(x1: Any, x2: Any) -> Any:
    return x1 == x2


def not_equal(x1: Any, x2: Any) -> Any:
    return x1 != x2


def less(x1: Any, x2: Any) -> Any:
    return x1 < x2


def less_equal(x1: Any, x2: Any) -> Any:
    return x1 <= x2


def greater(x1: Any, x2: Any) -> Any:
    return x1 > x2


def greater_equal(x1: Any, x2: Any) -> Any:
    return x1 >= x2


def logical_and(x1: Any, x2: Any) -> Any:
    return bool(x1) and bool(x2)


def logical_or(x1: Any, x2: Any) -> Any:
    return bool(x1) or bool(x2)


def logical_xor(x1: Any, x2: Any) -> Any:
    return bool(x1) != bool(x2)


def logical_not(x: Any) -> Any:
    return not x


_OPERATORS = (
    *(add, subtract, multiply, divide, floor_divide, mod, negative, positive, square),
    *(bitwise_and, bitwise_or, bitwise_xor, invert, left_shift, right_shift),
    *(equal, not_equal, less, less_equal, greater, greater_equal),
    *(logical_and, logical_or, logical_xor, logical_not),
)

_NAMES_IN_OPERATOR = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floor_divide,
    "mod": mod,
    "neg": negative,
    "pos": positive,
    "and_": bitwise_and,
    "or_": bitwise_or,
    "xor": bitwise_xor,
    "invert": invert,
    "lshift": left_shift,
    "rshift": right_shift,
    "eq": equal,
    "ne": not_equal,
    "lt": less,
    "le": less_equal,
    "gt": greater,
    "ge": greater_equal,
    "not_": logical_not,
}

REPLACEMENTS: list[tuple[Any, Callable[..., Any]]] = [
    *((getattr(math, own.__name__), own) for own in (gcd, lcm, factorial, perm, comb, isqrt, isclose, remainder)),
    *((getattr(math, own.__name__), own) for own in (modf, ldexp, fabs)),
    (math.pow, power),
    *((getattr(np, own.__name__), own) for own in (clip, heaviside, sinc, signbit, logaddexp, fabs, modf, ldexp)),
    *((getattr(np, own.__name__), own) for own in (gcd, lcm)),
    (np.isclose, isclose_to),
    (np.float_power, power),
    *((getattr(np, own.__name__), own) for own in _OPERATORS),
    *((getattr(operator, name), own) for name, own in _NAMES_IN_OPERATOR.items()),
]
