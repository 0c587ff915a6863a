"""Functions of f32 for targets without f64: those that `elementary_f32` computes in f64 on the way.

Where more than 24 bits are needed a number is a pair, its value and the rest: sums and products then leave what was rounded
away (T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971; products by `fma`). Texts are
made as those of `elementary_f32` are, and errors are bounded as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir.types import f32, i32, i64, u32, u64
from quadrants.lang.ops import abs, bit_cast, cast, fma, select, sqrt
from quadrants.library import elementary_f32, elementary_f64
from quadrants.library.elementary_f32 import log
from quadrants.library.elementary_parts import INF, NAN, logarithm_terms, polynomial, signed_power, turned, within

__all__ = ["FAR", "FUNCTIONS"]

_HALF_PI, _HALF_PI_LOW, _HALF_PI_LOWEST = 1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15
_LN2, _LN2_LOW = 0.6931471824645996, -1.9046542121259336e-09
_LOG2E, _LOG2E_LOW = 1.4426950216293335, 1.925963033500011e-08
_TWO_THIRDS, _TWO_THIRDS_LOW = 0.6666666865348816, -1.9868215517249155e-08
_TWO_OVER_PI = 0.6366197723675814
_MAGIC = 12582912.0
_REDUCIBLE = 131072.0
_SMALLEST_NORMAL = 1.1754943508222875e-38
# 2 / 5, 2 / 7, 2 / 9, 2 / 11: atanh's series, |s| <= 0.172, beyond its first term.
_LOG_REST = (0.4, 0.2857142857142857, 0.2222222222222222, 0.18181818181818182)
_FROM_HERE_A_LOGARITHM = 2.0**28
"""From there on asinh and acosh are log(2 x) to the last bit."""


def _rest_of_sum(total: Any, large: Any, small: Any) -> Any:
    """What `total`, the rounded sum of two numbers of which `large` is not the smaller, lacks."""
    return small - (total - large)


# Roots.


def cbrt(x: Any) -> Any:
    """Halley's step from a third of the exponent, then Newton's with the cube's rest."""
    a, t = elementary_f32._near_cube_root(x)
    square = t * t
    square_low = fma(t, t, -square)
    cube = square * t
    cube_low = fma(square, t, -cube) + square_low * t
    root = t + ((a - cube) - cube_low) / (3.0 * square)
    return elementary_f32._scaled_cube_root(x, root)


def hypot(x: Any, y: Any) -> Any:
    """Of scaled numbers; the root gets a step of Newton's with what the squares and their sum lack."""
    a, b = abs(x), abs(y)
    large, small = select(a < b, b, a), select(a < b, a, b)
    far, near = large > 2.0**60, large < 2.0**-40
    scale = select(far, f32(2.0**-70), select(near, f32(2.0**90), f32(1.0)))
    large, small = large * scale, small * scale
    square = large * large
    other = small * small
    total = square + other
    rest = _rest_of_sum(total, square, other) + fma(large, large, -square) + fma(small, small, -other)
    root = sqrt(total)
    better = root + (fma(-root, root, total) + rest) / (root + root)
    value = select(total == 0.0, total, better) * select(far, f32(2.0**70), select(near, f32(2.0**-90), f32(1.0)))
    return select((abs(x) == INF) | (abs(y) == INF), INF, value)


# Logarithms.


def _log1p(x: Any, low: Any) -> Any:
    """log(1 + x + low) for x > 0, which `low` is small beside."""
    u = 1.0 + x
    c = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0)) + low
    f, n = elementary_f32._mantissa_and_exponent(u)
    h, t = logarithm_terms(f, elementary_f32._LOG)
    return fma(n, _LN2, f - (h - (fma(n, _LN2_LOW, t) + c / u)))


def asinh(x: Any) -> Any:
    """log1p(|x| + x**2 / (1 + sqrt(1 + x**2))); near 0 |x| (1 - x**2 / 6)."""
    size = abs(x)
    z = size * size
    rise = z / (1.0 + sqrt(1.0 + z))
    total = size + rise
    value = _log1p(total, _rest_of_sum(total, size, rise))
    value = select(size < 0.01, fma(size * z, fma(z, 0.075, -0.16666666666666666), size), value)
    value = select(size > _FROM_HERE_A_LOGARITHM, log(size) + _LN2, value)
    return np.copysign(select(size < INF, value, size), x)


def acosh(x: Any) -> Any:
    """log1p(t + sqrt(2 t + t**2)) for t = x - 1."""
    t = x - 1.0
    inside = fma(t, t, t + t)
    root = sqrt(inside)
    root_low = select(inside == 0.0, 0.0, fma(-root, root, inside) / (root + root))
    large, small = select(t < root, root, t), select(t < root, t, root)
    total = large + small
    value = _log1p(total, _rest_of_sum(total, large, small) + root_low)
    value = select(x > _FROM_HERE_A_LOGARITHM, log(x) + _LN2, value)
    return select(x < 1.0, NAN, select(x == 1.0, 0.0, select(x < INF, value, x)))


def atanh(x: Any) -> Any:
    """log1p(2 |x| / (1 - |x|)) / 2; near 0 |x| (1 + x**2 / 3)."""
    size = abs(x)
    z = size * size
    below = 1.0 - size
    below_low = (1.0 - below) - size
    twice = size + size
    ratio = twice / below
    ratio_low = (fma(-ratio, below, twice) - ratio * below_low) / below
    value = select(size < 1.0, 0.5 * _log1p(ratio, ratio_low), select(size == 1.0, f32(INF), f32(NAN)))
    value = select(size < 0.01, fma(size * z, fma(z, 0.2, 0.3333333333333333), size), value)
    return np.copysign(value, x)


# Powers.


def _log2_pair(x: Any) -> Any:
    """log2 of a positive finite number as a pair, good to 2**-34: with s = f / (2 + f), log(1 + f) is
    2 s + s**3 (2 / 3 + 2 / 5 s**2 + …)."""
    f, n = elementary_f32._mantissa_and_exponent(x)
    d = 2.0 + f
    d_low = f - (d - 2.0)
    s = f / d
    s_low = (fma(-s, d, f) - s * d_low) / d
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    cube = s * z
    cube_low = fma(s, z, -cube) + fma(s, z_low, s_low * z)
    series = z * polynomial(z, _LOG_REST)
    p = _TWO_THIRDS + series
    p_low = _rest_of_sum(p, _TWO_THIRDS, series) + _TWO_THIRDS_LOW
    term = cube * p
    term_low = fma(cube, p, -term) + fma(cube, p_low, cube_low * p)
    head = 2.0 * s + term
    tail = _rest_of_sum(head, 2.0 * s, term) + (term_low + 2.0 * s_low)
    part = head * _LOG2E
    part_low = fma(head, _LOG2E, -part) + fma(head, _LOG2E_LOW, tail * _LOG2E)
    whole = n + part
    back = whole - n
    return whole, ((n - (whole - back)) + (part - back)) + part_low


def pow(x: Any, y: Any) -> Any:
    """2**(y log2 |x|) in pairs, with the sign and the special cases of IEEE 754's pow."""
    size = abs(x)
    known, low = _log2_pair(size)
    plain = (size > 0.0) & (size < INF)
    logarithm = select(size == 0.0, -INF, select(size < INF, known, size))
    e = y * logarithm
    inside = plain & (abs(e) < 200.0)
    e_low = select(inside, fma(y, logarithm, -e) + y * low, 0.0)
    e = within(e, -200.0, 200.0)
    n = (e + _MAGIC) - _MAGIC
    r = (e - n) + e_low
    value = elementary_f32._scaled(fma(r, polynomial(r, elementary_f32._EXP2), 1.0), n)
    return signed_power(x, y, value)


# Trigonometry.


def _reduced(x: Any) -> Any:
    """(r, r_low, quarters) with x = quarters * pi / 2 + r + r_low, for |x| up to 2**17; what is left of x before the
    second step is a multiple of 2**-24 below 1."""
    r, r_low, shifted = turned(x, _TWO_OVER_PI, _MAGIC, (_HALF_PI, _HALF_PI_LOW, _HALF_PI_LOWEST))
    return r, r_low, bit_cast(shifted, i32)


def _far(x: Any) -> Any:
    """What `_reduced` gives, for any x above 1."""
    bits = cast(bit_cast(x, u32), u64)
    exponent = ((bits >> 23) & 255) + 896  # as f64 has it
    rest, _, quarters = elementary_f64.turned_bits(exponent, ((bits & 0x7FFFFF) | 0x800000) << 29)
    head = cast(rest, f32)
    tail = cast(rest - cast(head, i64), f32)
    unit = _HALF_PI * 2.0**-62
    r = head * unit
    r_low = fma(head, unit, -r) + fma(head, _HALF_PI_LOW * 2.0**-62, tail * unit)
    turns = cast(quarters, i32)
    backwards = x < 0.0
    r = select(abs(x) < INF, select(backwards, -r, r), NAN)
    return r, select(backwards, -r_low, r_low), select(backwards, -turns, turns)


def _far_sin(x: Any) -> Any:
    r, low, quarters = _far(x)
    return elementary_f32._sine((r + low, quarters))


def _far_cos(x: Any) -> Any:
    r, low, quarters = _far(x)
    return elementary_f32._cosine((r + low, quarters))


def _tangent(r: Any, low: Any, quarters: Any) -> Any:
    """Of r + low + quarters * pi / 2: the quotient of sine and cosine as pairs."""
    z = r * r
    sine_rest = fma(z * r, polynomial(z, elementary_f32._SIN), low)
    sine = r + sine_rest
    sine_low = _rest_of_sum(sine, r, sine_rest)
    cosine_rest = fma(z * z, polynomial(z, elementary_f32._COS), fma(z, -0.5, -r * low))
    cosine = 1.0 + cosine_rest
    cosine_low = _rest_of_sum(cosine, 1.0, cosine_rest)
    odd = (quarters & 1) != 0
    above, above_low = select(odd, -cosine, sine), select(odd, -cosine_low, sine_low)
    under, under_low = select(odd, sine, cosine), select(odd, sine_low, cosine_low)
    q = above / under
    return q + ((fma(-q, under, above) + above_low) - q * under_low) / under


def tan(x: Any) -> Any:
    r, low, quarters = _reduced(x)
    value = select(x == 0.0, x, _tangent(r, low, quarters))
    if abs(x) > _REDUCIBLE:
        value = np.tan(x)
    return value


def _far_tan(x: Any) -> Any:
    r, low, quarters = _far(x)
    return _tangent(r, low, quarters)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (acosh, asinh, atanh, cbrt, hypot, pow, tan)
}
FAR: dict[str, Callable[..., Any]] = {"sin": _far_sin, "cos": _far_cos, "tan": _far_tan}
