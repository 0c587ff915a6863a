"""a * b + c, rounded once, on NumPy's numbers: what the row `fma` means."""

# pyright: basic
# NumPy's own annotations leave the results of `where`, `view` and indexing unknown, differently by version.

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["fused_multiply_add", "odd_sum"]

_SPLITTER = 134217729.0  # 2**27 + 1
_LEAST, _MOST = 2.0**-900, 2.0**950


def fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """Of f64 numbers or arrays, a * b + c rounded once. The sum of three parts that the last operation rounds is made by rounding
    to odd (S. Boldo, G. Melquiond: Emulation of FMA, 2008); where a product or a summand is so large or so small that its
    parts are none of f64's numbers, by fractions."""
    with np.errstate(all="ignore"):
        plain = np.add(np.multiply(a, b), c)
        product, summand = np.abs(np.multiply(a, b)), np.abs(c)
        usual = (product > _LEAST) & (product < _MOST) & (summand < _MOST) & ((summand > _LEAST) | (summand == 0))
        found = np.where(usual, _by_parts(a, b, c), plain)
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        rest = finite & ~usual & (np.not_equal(a, 0) & np.not_equal(b, 0))
    if np.any(rest):
        columns = [np.broadcast_to(np.asarray(value, np.float64), found.shape)[rest] for value in (a, b, c)]
        found[rest] = [_by_fractions(*map(float, numbers)) for numbers in zip(*columns)]
    return found if found.ndim else found[()]


def _by_parts(a: Any, b: Any, c: Any) -> Any:
    mantissa, exponent = np.frexp(a)
    high, low = _exact_product(mantissa, np.ldexp(b, exponent))
    inner, innermost = _exact_sum(c, low)
    outer, rest = _exact_sum(high, inner)
    return outer + odd_sum(innermost, rest)


def _exact_product(a: Any, b: Any) -> tuple[Any, Any]:
    """The product and what it is off by (T. J. Dekker, 1971)."""
    product = a * b
    a_high, b_high = (value * _SPLITTER - (value * _SPLITTER - value) for value in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _exact_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The sum and what it is off by (D. E. Knuth, 1969)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def odd_sum(a: Any, b: Any) -> Any:
    """The sum, rounded to the neighbour whose last bit is 1 where it is no number of f64's: rounded once more, to f32 or with
    what is added, it is as if it had been rounded once."""
    total, off = _exact_sum(a, b)
    even = (np.asarray(total, np.float64).view(np.int64) & 1) == 0
    return np.where(
        (off != 0) & even & np.isfinite(total), np.nextafter(total, np.where(off > 0, np.inf, -np.inf)), total
    )


def _by_fractions(a: float, b: float, c: float) -> float:
    from fractions import Fraction  # with decimal numbers, which take longer to import than a warm start has

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero is that of IEEE's sum
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
