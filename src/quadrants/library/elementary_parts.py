"""What the elementary functions of both precisions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.lang.loops import static
from quadrants.lang.ops import abs, fma, select, sqrt

__all__ = [
    "INF",
    "NAN",
    "arc_cosine",
    "arc_sine",
    "logarithm_terms",
    "polynomial",
    "quarters_of_turn",
    "signed_power",
    "turned",
    "within",
]

INF = float("inf")
NAN = float("nan")


def polynomial(x: Any, coefficients: Any) -> Any:
    """coefficients[0] + coefficients[1] * x + …, by Horner's rule."""
    value = fma(x, coefficients[-1], coefficients[-2])
    for k in static(range(len(coefficients) - 3, -1, -1)):
        value = fma(value, x, coefficients[k])
    return value


def within(x: Any, low: Any, high: Any) -> Any:
    """x, but at least low and at most high; NaN stays."""
    return select(x < low, low, select(x > high, high, x))


def logarithm_terms(f: Any, coefficients: Any) -> Any:
    """(h, t) with log(1 + f) = f - (h - t), h = f * f / 2 (FreeBSD's e_log.c, by K. C. Ng, 1993)."""
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    return h, s * fma(z, polynomial(z, coefficients), h)


def quarters_of_turn(k: Any, t: Any, p: Any, quarter: Any, low: Any) -> Any:
    """k * pi / 4 + (t + p); pi / 4 is quarter + low."""
    head = k * quarter
    tail = fma(k, low, fma(k, quarter, -head))
    return head + (t + (p + tail))


def _arc_sine_parts(x: Any, coefficients: Any) -> Any:
    """(inner, s, rest) with asin(s) = s + rest: s = x where |x| <= 1/2, else the sine of half of acos |x|
    (FreeBSD's e_asin.c, by K. C. Ng, 1993)."""
    size = abs(x)
    inner = size <= 0.5
    z = select(inner, x * x, fma(size, -0.5, 0.5))
    root = sqrt(z)
    s = select(inner, x, root)
    correction = select(inner | (z == 0.0), 0.0, fma(-root, root, z) / (root + root))
    return inner, s, fma(s * z, polynomial(z, coefficients), correction)


def arc_sine(x: Any, coefficients: Any, right_angle: Any, low: Any) -> Any:
    """asin(x); pi / 2 is right_angle + low."""
    inner, s, rest = _arc_sine_parts(x, coefficients)
    double = s + s
    head = right_angle - double
    outer = head + (((right_angle - head) - double) + fma(-2.0, rest, low))
    return np.copysign(select(inner, s + rest, outer), x)


def arc_cosine(x: Any, coefficients: Any, right_angle: Any, straight_angle: Any) -> Any:
    """acos(x); the angles pi / 2 and pi are pairs of a number and the rest."""
    inner, s, rest = _arc_sine_parts(x, coefficients)
    middle = right_angle[0] - (s - (right_angle[1] - rest))
    right = 2.0 * (s + rest)
    double = s + s
    head = straight_angle[0] - double
    left = head + (((straight_angle[0] - head) - double) + fma(-2.0, rest, straight_angle[1]))
    return select(inner, middle, select(x < 0.0, left, right))


def signed_power(x: Any, y: Any, size_power: Any) -> Any:
    """x**y from |x|**y: the sign and the special cases of IEEE 754's pow."""
    size = abs(x)
    half = 0.5 * y
    whole = np.trunc(y) == y
    odd = whole & (np.trunc(half) != half)
    value = select(odd, np.copysign(size_power, x), size_power)
    value = select((x < 0.0) & (size < INF) & ~whole, NAN, value)
    certain = (x == 1.0) | (y == 0.0) | ((size == 1.0) & (abs(y) == INF))
    return select(certain, 1.0, value)


def turned(x: Any, per_angle: Any, magic: Any, half_pi: Any) -> Any:
    """(r, r_low, shifted) with x = n * pi / 2 + r + r_low: three steps of Cody and Waite. `per_angle` is 2 / pi; `half_pi` is
    pi / 2 in three parts, the first so short that its product with n is exact; adding `magic` leaves n, rounded to
    nearest, in the last bits of `shifted`."""
    shifted = fma(x, per_angle, magic)
    n = shifted - magic
    a = fma(n, -half_pi[0], x)  # exact
    p = n * half_pi[1]
    p_low = fma(n, half_pi[1], -p)
    r = a - p
    back = r - a
    r_low = (a - (r - back)) - (p + back) - fma(n, half_pi[2], p_low)
    return r, r_low, shifted
