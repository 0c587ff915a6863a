"""Elementary functions of f64, written in the language itself: at most 3 units in the last place off for every argument.

`FUNCTIONS` says which row of the op table each of these computes on targets that have no instruction for it (they reach
kernels as IR text, which `elementary_text` makes). All are straight lines, so that loops around them run in vector
lanes; where sine, cosine and tangent call themselves, for arguments beyond 2**30, the function of `FAR` is meant, which
is no part of kernels but called by them. Operations are rounded as written:
nothing is reassociated or contracted but what says `fma`. Coefficients: `benchmarks/math/minimax.py`; the docstrings
name the methods' sources. (hi, lo) are unevaluated sums, by Dekker's and Knuth's exact sums and products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir.types import f64, i64, u32, u64
from quadrants.lang.ops import abs, bit_cast, cast, fma, lookup, select, sqrt
from quadrants.library.elementary_parts import (
    INF,
    NAN,
    arc_cosine,
    arc_sine,
    logarithm_terms,
    polynomial,
    quarters_of_turn,
    signed_power,
    turned,
    within,
)

__all__ = ["FAR", "FUNCTIONS", "reduce_any", "turned_bits"]

# Constants as sums of numbers of 53 bits.
_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_LOG2E, _LOG2E_LOW = 1.4426950408889634, 2.0355273740931033e-17
_LOG10E, _LOG10E_LOW = 0.4342944819032518, 1.098319650216765e-17
_LOG10_2, _LOG10_2_LOW = 0.3010299956640665, -8.532344317057107e-14  # the first has 40 bits
_HALF_PI, _HALF_PI_LOW, _HALF_PI_LOWEST = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
_QUARTER_PI, _QUARTER_PI_LOW = 0.7853981633974483, 3.061616997868383e-17
_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16
_TWO_THIRDS, _TWO_THIRDS_LOW = 0.6666666666666666, 3.700743415417188e-17
_TWO_OVER_PI = 0.6366197723675814
_TAN_EIGHTH = 0.41421356237309503
# Adding it to a number below 2**51 rounds that to a whole one, and leaves it in the lower bits.
_MAGIC = 6755399441055744.0
_SMALLEST_NORMAL = 2.2250738585072014e-308
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_REDUCIBLE = 2.0**30

_SIN = (
    -0.1666666666666663,
    0.00833333333332184,
    -0.00019841269829358536,
    2.755731353852061e-06,
    -2.5050734390891757e-08,
    1.589543341930857e-10,
)
_COS = (
    0.041666666666666595,
    -0.0013888888888873338,
    2.480158728899748e-05,
    -2.7557314215299563e-07,
    2.0875705115118236e-09,
    -1.1358732786286139e-11,
)
_EXP = (
    0.5,
    0.16666666666666677,
    0.04166666666666669,
    0.008333333333321803,
    0.001388888888887924,
    0.00019841269884591462,
    2.48015872914865e-05,
    2.7557246504342666e-06,
    2.755733973938206e-07,
    2.5108078025989648e-08,
    2.088461386456862e-09,
)
_EXP2 = (
    0.6931471805599453,
    0.24022650695909997,
    0.05550410866482377,
    0.009618129107670823,
    0.0013333558145898338,
    0.00015403530314846297,
    1.5252734320714557e-05,
    1.3215550249119414e-06,
    1.0177861856672929e-07,
    7.031661400407403e-09,
    4.4845510054238177e-10,
    5.73579871384493e-11,
)
_LOG = (
    0.6666666666666734,
    0.3999999999941655,
    0.2857142874207587,
    0.22222198597016368,
    0.1818356343614004,
    0.15314065625603213,
    0.14795867418537814,
)
_ATAN = (
    -0.333333333333332,
    0.19999999999953652,
    -0.14285714280196385,
    0.111111107832991,
    -0.09090897751186941,
    0.07692060086638118,
    -0.06663102585486165,
    0.05847879103379179,
    -0.050392619816442503,
    0.03806357607290839,
    -0.01790625298681109,
)
_ASIN = (
    0.16666666666665403,
    0.07500000000338597,
    0.04464285682693607,
    0.030381959197204756,
    0.02237175654843264,
    0.017359728179903576,
    0.01388499735055466,
    0.012170816137971049,
    0.00652087056203227,
    0.01954813439059925,
    -0.016256065945333447,
    0.03193449104809019,
)
_SINH = (
    0.16666666666666666,
    0.008333333333333573,
    0.0001984126984106116,
    2.755731931009062e-06,
    2.505208941270954e-08,
    1.6061339180092448e-10,
    7.50326446936323e-13,
    6.4753425329990405e-15,
)
_ERF = (
    0.1283791670955126,
    -0.37612638903184165,
    0.11283791670977823,
    -0.02686617065003908,
    0.005223977680373725,
    -0.0008548330656450345,
    0.00012055485472845004,
    -1.4929867198401812e-05,
    1.6539939078662369e-06,
    -1.7314510786483175e-07,
    2.2133483197241e-08,
    -4.467120617208719e-09,
    7.089780288486099e-10,
)
_ERFCX = (
    0.25539567631050575,
    -0.4271858474139584,
    0.24165819424246268,
    -0.07897858101573335,
    0.00373289240485875,
    0.0069974617387793215,
    -0.0008471432793328502,
    -0.0009819769862068463,
    4.355634239675062e-05,
    0.00017435975715066783,
    2.7515234276071843e-05,
    -2.7555543032335755e-05,
    -1.3893898997170474e-05,
    1.1695238527660163e-06,
    3.561662401973496e-06,
    2.2200191996229116e-06,
    -6.335389301086984e-07,
    -2.373426807405826e-06,
    1.507876385455335e-06,
)
_LOG_TAIL = (
    0.3999999999999998,
    0.2857142857144385,
    0.22222222217785295,
    0.18181818844687048,
    0.1538455837373957,
    0.13336266826610194,
    0.1167572993557752,
    0.11982200212669941,
)
_CBRT = (
    1.8759518002596818,
    -1.8849797105185317,
    1.621429609547562,
    -0.7583978722276004,
    0.14599617999057796,
)
_SIN_REST = _SIN[1:]


# Exponentials.


def _power_of_two(whole: Any) -> Any:
    """2**n for n from -1022 to 1023, given as n + _MAGIC."""
    return bit_cast((bit_cast(whole, u64) + 1023) << 52, f64)


def _scaled(x: Any, n: Any) -> Any:
    """x * 2**n, rounded once; n is whole, within 2044 of 0. Two factors: one alone could overflow where the result does
    not."""
    half = fma(n, 0.5, _MAGIC)
    rest = (n - (half - _MAGIC)) + _MAGIC
    return x * _power_of_two(half) * _power_of_two(rest)


def _exponent_parts(x: Any) -> Any:
    """(n, r, p) with e**x = 2**n * (1 + p), x = n * log(2) + r, by two steps of Cody and Waite ("Software Manual for the
    Elementary Functions", 1980): the first is exact, being fused."""
    n = fma(x, _LOG2E, _MAGIC) - _MAGIC
    r = fma(n, -_LN2_LOW, fma(n, -_LN2, x))
    return n, r, fma(r * r, polynomial(r, _EXP), r)


def exp(x: Any) -> Any:
    n, _, p = _exponent_parts(within(x, -746.0, 710.0))
    return _scaled(1.0 + p, n)


def _half_exponential(x: Any) -> Any:
    """e**x / 2 for x >= 0: no overflow where the hyperbolic functions have none."""
    n, _, p = _exponent_parts(within(x, 0.0, 712.0))
    return _scaled(1.0 + p, n - 1.0)


def exp2(x: Any) -> Any:
    near = within(x, -1076.0, 1025.0)
    n = (near + _MAGIC) - _MAGIC
    r = near - n
    return _scaled(fma(r, polynomial(r, _EXP2), 1.0), n)


def expm1(x: Any) -> Any:
    """2**n * (p + (1 - 2**-n)): the difference is exact, or next to nothing beside p."""
    n, _, p = _exponent_parts(within(x, -50.0, 710.0))
    inverse = _power_of_two(_MAGIC - select(n > 64.0, 64.0, n))
    return select(x == 0.0, x, _scaled((1.0 - inverse) + p, n))


def sinh(x: Any) -> Any:
    size = abs(x)
    z = x * x
    grown = _half_exponential(size)
    small = fma(size * z, polynomial(z, _SINH), size)
    return np.copysign(select(size < 1.0, small, grown - 0.25 / grown), x)


def cosh(x: Any) -> Any:
    grown = _half_exponential(abs(x))
    return grown + 0.25 / grown


def tanh(x: Any) -> Any:
    """m / (m + 2), m = e**(2 |x|) - 1."""
    double = 2.0 * abs(x)
    grown = expm1(select(double > 50.0, 50.0, double))
    return np.copysign(grown / (grown + 2.0), x)


# Logarithms.


def _mantissa_and_exponent(x: Any) -> Any:
    """(f, n) with x = 2**n * (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for positive x."""
    tiny = x < _SMALLEST_NORMAL
    bits = bit_cast(select(tiny, x * 18014398509481984.0, x), u64)
    biased = (bits + (0x3FF0000000000000 - _ROOT_HALF_BITS)) >> 52
    f = bit_cast(bits - ((biased - 1023) << 52), f64) - 1.0
    n = bit_cast(biased | 0x4330000000000000, f64) - select(tiny, 4503599627371573.0, 4503599627371519.0)
    return f, n


def _of_positive(x: Any, value: Any) -> Any:
    """A logarithm of x, given its value where x is positive and finite."""
    return select(x > 0.0, select(x < INF, value, x), select(x == 0.0, -INF, NAN))


def log(x: Any) -> Any:
    f, n = _mantissa_and_exponent(x)
    h, t = logarithm_terms(f, _LOG)
    return _of_positive(x, fma(n, _LN2, f - (h - fma(n, _LN2_LOW, t))))


def log1p(x: Any) -> Any:
    """log(u) + c / u, where u + c is 1 + x exactly."""
    u = 1.0 + x
    c = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    f, n = _mantissa_and_exponent(u)
    h, t = logarithm_terms(f, _LOG)
    value = fma(n, _LN2, f - (h - (fma(n, _LN2_LOW, t) + c / u)))
    return select(x == 0.0, x, _of_positive(u, value))


def _other_base(x: Any, factor: Any, factor_low: Any, step: Any, step_low: Any) -> Any:
    """log(x) * (factor + factor_low) for a base in which 2 has the logarithm step + step_low, n * step being exact."""
    f, n = _mantissa_and_exponent(x)
    h, t = logarithm_terms(f, _LOG)
    head = f - h
    tail = (((f - head) - h) + t) - fma(0.5 * f, f, -h)
    product = head * factor
    rest = fma(head, factor, -product) + fma(tail, factor, head * factor_low)
    whole = n * step
    total = whole + product
    return _of_positive(x, total + (((whole - total) + product) + fma(n, step_low, rest)))


def log2(x: Any) -> Any:
    return _other_base(x, _LOG2E, _LOG2E_LOW, 1.0, 0.0)


def log10(x: Any) -> Any:
    return _other_base(x, _LOG10E, _LOG10E_LOW, _LOG10_2, _LOG10_2_LOW)


def asinh(x: Any) -> Any:
    """log(1 + a), a = |x| + x**2 / (1 + sqrt(1 + x**2)); 2 |x| where squares overflow or 1 does not count."""
    size = abs(x)
    large = size > 268435456.0
    square = x * x
    a = select(large, size - 1.0, size + square / (1.0 + sqrt(1.0 + square)))
    return np.copysign(log1p(a) + select(large, _LN2, 0.0), x)


def acosh(x: Any) -> Any:
    """log(1 + a), a = t + sqrt(t (t + 2)), t = x - 1."""
    large = x > 268435456.0
    t = x - 1.0
    value = log1p(select(large, t, t + sqrt(t * (t + 2.0)))) + select(large, _LN2, 0.0)
    return select(x < 1.0, NAN, value)


def atanh(x: Any) -> Any:
    """log(1 + 2 |x| / (1 - |x|)) / 2."""
    size = abs(x)
    quotient = size / (1.0 - size)
    double = size + size
    a = select(size < 0.5, fma(double, quotient, double), 2.0 * quotient)
    return np.copysign(0.5 * log1p(a), x)


# Powers and roots.


def _log2_pair(size: Any) -> Any:
    """log2(size) as (hi, lo), good to 2**-65 of it, for positive size: 2 atanh(s) log2(e), s = f / (2 + f), where s and
    the leading terms of the series are pairs."""
    f, n = _mantissa_and_exponent(size)
    d = 2.0 + f
    s = f / d
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) / d
    z = s * s
    z_low = fma(2.0 * s, s_low, fma(s, s, -z))
    u = _TWO_THIRDS * z
    u_low = fma(_TWO_THIRDS, z, -u) + fma(_TWO_THIRDS, z_low, _TWO_THIRDS_LOW * z)
    v = fma(z * z, polynomial(z, _LOG_TAIL), u_low)
    t = u + v
    t_low = (u - t) + v
    p = s * t
    p_low = fma(s, t, -p) + fma(s, t_low, s_low * t)
    double = s + s
    head = double + p
    tail = ((double - head) + p) + fma(2.0, s_low, p_low)
    g = head * _LOG2E
    g_low = fma(head, _LOG2E, -g) + fma(head, _LOG2E_LOW, tail * _LOG2E)
    total = n + g
    return total, ((n - total) + g) + g_low


def pow(x: Any, y: Any) -> Any:
    """2**(y log2 |x|), with the sign and the special cases of IEEE 754's pow."""
    size = abs(x)
    log_high, log_low = _log2_pair(size)
    log_high = select(size == 0.0, -INF, select(size < INF, log_high, size))
    e = y * log_high
    far = abs(e) > 1100.0
    e_low = select(far, 0.0, fma(y, log_high, -e) + y * log_low)
    e = within(e, -1100.0, 1100.0)
    n = (e + _MAGIC) - _MAGIC
    r = (e - n) + e_low
    value = _scaled(fma(r, polynomial(r, _EXP2), 1.0), n)
    return signed_power(x, y, value)


def cbrt(x: Any) -> Any:
    """From a third of the exponent (W. Kahan's start, as in FreeBSD's s_cbrt.c) a polynomial leads to 22 bits, and one of
    Halley's steps, t - t * (c - a) / (2 c + a) with c = t**3, to the end."""
    size = abs(x)
    tiny, huge = size < _SMALLEST_NORMAL, size > 2.0**1000
    a = size * select(tiny, 2.0**54, select(huge, 2.0**-54, 1.0))
    third = cast(bit_cast(a, u64) >> 32, u32) // 3 + 715094163
    t = bit_cast(cast(third, u64) << 32, f64)
    t = t * polynomial(t * t * t / a, _CBRT)
    cube = t * t * t
    t = fma(t, (a - cube) / (cube + (cube + a)), t)
    root = t * select(tiny, 2.0**-18, select(huge, 2.0**18, 1.0))
    return select((size > 0.0) & (size < INF), np.copysign(root, x), x)


def hypot(x: Any, y: Any) -> Any:
    a, b = abs(x), abs(y)
    large, small = select(a > b, a, b), select(a > b, b, a)
    up, down = large < 2.0**-500, large > 2.0**500
    scale = select(up, 2.0**600, select(down, 2.0**-600, 1.0))
    back = select(up, 2.0**-600, select(down, 2.0**600, 1.0))
    large, small = large * scale, small * scale
    value = sqrt(fma(large, large, small * small)) * back
    return select((a == INF) | (b == INF), INF, select((a != a) | (b != b), NAN, value))


# Trigonometry.

# 2 / pi in binary, 64 bits an entry, behind 64 zeros.
_TWO_OVER_PI_BITS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
    *(0,) * 14,  # so that no index of lanes without need of it is out of range
)


def _upper_product(a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a * b."""
    a_low, a_high = a & 0xFFFFFFFF, a >> 32
    b_low, b_high = b & 0xFFFFFFFF, b >> 32
    first, second = a_low * b_high, a_high * b_low
    middle = ((a_low * b_low) >> 32) + (first & 0xFFFFFFFF) + (second & 0xFFFFFFFF)
    return a_high * b_high + (first >> 32) + (second >> 32) + (middle >> 32)


def reduce_any(x: Any) -> Any:
    """(r, r_low, quarters) with x = quarters * pi / 2 + r + r_low up to whole turns, |r| <= pi / 4, for any x above 1.

    M. Payne, R. Hanek, "Radian Reduction for Trigonometric Functions", SIGNUM 18, 1983: of the product of the mantissa
    and 2 / pi only the bits between the whole turns and 2**-137 are computed, exactly.
    """
    bits = bit_cast(x, u64)
    exponent = (bits >> 52) & 2047
    rest, carried, quarters = turned_bits(exponent, (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000)
    head = cast(rest, f64)
    tail = cast(rest - cast(head, i64), f64) + cast(carried, f64) * 2.0**-64
    r = head * (_HALF_PI * 2.0**-62)
    r_low = fma(head, _HALF_PI * 2.0**-62, -r) + fma(head, _HALF_PI_LOW * 2.0**-62, tail * (_HALF_PI * 2.0**-62))
    backwards = x < 0.0
    quarters = cast(quarters, i64)
    wrong = ~(abs(x) < INF)
    r = select(wrong, NAN, select(backwards, -r, r))
    return r, select(backwards, -r_low, r_low), select(backwards, -quarters, quarters)


def turned_bits(exponent: Any, mantissa: Any) -> Any:
    """(rest, carried, quarters) of mantissa * 2**(exponent - 1075), all u64 but the rest: quarters + (rest + carried * 2**-64)
    * 2**-62 quarters of a turn, up to whole turns."""
    first = exponent - 1013  # exponent - 1075 is that of the mantissa; bits of 2**2 and more are whole turns
    word, shift = cast((first >> 6) & 31, i64), first & 63
    a, b = lookup(_TWO_OVER_PI_BITS, word, u64), lookup(_TWO_OVER_PI_BITS, word + 1, u64)
    c, d = lookup(_TWO_OVER_PI_BITS, word + 2, u64), lookup(_TWO_OVER_PI_BITS, word + 3, u64)
    back = 64 - shift
    top, middle, bottom = (a << shift) | (b >> back), (b << shift) | (c >> back), (c << shift) | (d >> back)
    low = mantissa * middle
    carried = low + _upper_product(mantissa, bottom)
    high = mantissa * top + _upper_product(mantissa, middle) + select(carried < low, 1, 0)
    quarters = (high + (1 << 61)) >> 62
    return bit_cast(high - (quarters << 62), i64), carried, quarters


def _reduced(x: Any) -> Any:
    """(r, r_low, quarters) as `reduce_any` gives them, for |x| up to 2**30; what is left of x before the second step is a multiple of 2**-53
    below 1."""
    r, r_low, shifted = turned(x, _TWO_OVER_PI, _MAGIC, (_HALF_PI, _HALF_PI_LOW, _HALF_PI_LOWEST))
    return r, r_low, bit_cast(shifted, i64)


def _sine_and_cosine(r: Any, r_low: Any) -> Any:
    """Of r + r_low, |r| <= pi / 4 (FreeBSD's k_sin.c and k_cos.c, by K. C. Ng, 1993)."""
    z = r * r
    cube = z * r
    sine = r - ((fma(0.5, r_low, -cube * polynomial(z, _SIN_REST)) * z - r_low) - cube * _SIN[0])
    half = 0.5 * z
    w = 1.0 - half
    cosine = w + (((1.0 - w) - half) + fma(z * z, polynomial(z, _COS), -(r * r_low)))
    return sine, cosine


def _turned(value: Any, quarters: Any) -> Any:
    """value with its sign turned for two and three quarters."""
    return bit_cast(bit_cast(value, u64) ^ (bit_cast(quarters & 2, u64) << 62), f64)


def _sine(reduced: Any) -> Any:
    r, r_low, quarters = reduced
    sine, cosine = _sine_and_cosine(r, r_low)
    return _turned(select((quarters & 1) != 0, cosine, sine), quarters)


def _cosine(reduced: Any) -> Any:
    r, r_low, quarters = reduced
    sine, cosine = _sine_and_cosine(r, r_low)
    return _turned(select((quarters & 1) != 0, sine, cosine), quarters + 1)


def _tangent(reduced: Any) -> Any:
    r, r_low, quarters = reduced
    sine, cosine = _sine_and_cosine(r, r_low)
    odd = (quarters & 1) != 0
    return select(odd, -cosine, sine) / select(odd, sine, cosine)


def sin(x: Any) -> Any:
    value = select(x == 0.0, x, _sine(_reduced(x)))
    if abs(x) > _REDUCIBLE:
        value = np.sin(x)
    return value


def cos(x: Any) -> Any:
    value = _cosine(_reduced(x))
    if abs(x) > _REDUCIBLE:
        value = np.cos(x)
    return value


def tan(x: Any) -> Any:
    value = select(x == 0.0, x, _tangent(_reduced(x)))
    if abs(x) > _REDUCIBLE:
        value = np.tan(x)
    return value


def _far_sin(x: Any) -> Any:
    return _sine(reduce_any(x))


def _far_cos(x: Any) -> Any:
    return _cosine(reduce_any(x))


def _far_tan(x: Any) -> Any:
    return _tangent(reduce_any(x))


def _arc(small: Any, large: Any) -> Any:
    """(k, t, p) with atan(small / large) = k * pi / 4 + t + p, for 0 <= small <= large."""
    middle = small > _TAN_EIGHTH * large
    t = select(middle, small - large, small) / select(middle, small + large, large)
    z = t * t
    return select(middle, 1.0, 0.0), t, t * z * polynomial(z, _ATAN)


def atan(x: Any) -> Any:
    """With tan(a - b) = (tan(a) - tan(b)) / (1 + tan(a) tan(b)) for b = pi / 4 and pi / 2."""
    size = abs(x)
    beyond = size > 1.0
    k, t, p = _arc(select(beyond, 1.0, size), select(beyond, size, 1.0))
    value = quarters_of_turn(
        select(beyond, 2.0 - k, k), select(beyond, -t, t), select(beyond, -p, p), _QUARTER_PI, _QUARTER_PI_LOW
    )
    return np.copysign(value, x)


def atan2(y: Any, x: Any) -> Any:
    a, b = abs(y), abs(x)
    steep = a > b
    small, large = select(steep, b, a), select(steep, a, b)
    scale = select(large > 2.0**1000, 2.0**-4, 1.0)
    small = select(large == INF, select(small == INF, 1.0, 0.0), small * scale)
    large = select(large == INF, 1.0, select(large == 0.0, 1.0, large * scale))
    k, t, p = _arc(small, large)
    k, t, p = select(steep, 2.0 - k, k), select(steep, -t, t), select(steep, -p, p)
    left = bit_cast(x, i64) < 0
    value = quarters_of_turn(
        select(left, 4.0 - k, k), select(left, -t, t), select(left, -p, p), _QUARTER_PI, _QUARTER_PI_LOW
    )
    return select((x != x) | (y != y), NAN, np.copysign(value, y))


def asin(x: Any) -> Any:
    return arc_sine(x, _ASIN, _HALF_PI, _HALF_PI_LOW)


def acos(x: Any) -> Any:
    return arc_cosine(x, _ASIN, (_HALF_PI, _HALF_PI_LOW), (_PI, _PI_LOW))


# The error function.


def erf(x: Any) -> Any:
    """A polynomial up to 0.92, then 1 - e**(-x**2) E(x); E is a polynomial in (x - 2) / (x + 2)."""
    size = select(abs(x) > 6.0, 6.0, abs(x))
    z = size * size
    small = fma(size, polynomial(z, _ERF), size)
    u = (size - 2.0) / (size + 2.0)
    value = 1.0 - exp(-z) * polynomial(u, _ERFCX)
    return np.copysign(select(size < 0.921875, small, value), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, erf, exp, exp2, expm1, hypot),
        *(log, log10, log1p, log2, pow, sin, sinh, tan, tanh),
    )
}
FAR: dict[str, Callable[..., Any]] = {"sin": _far_sin, "cos": _far_cos, "tan": _far_tan}
