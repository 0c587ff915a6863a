"""Elementary functions of f32, written in the language itself: at most 2 units in the last place off for every argument.

`FUNCTIONS` says which row of the op table each of these computes on targets that have no instruction for it (they reach
kernels as IR text, which `elementary_text` makes). All are straight lines, so that loops around them run in vector
lanes; where sine, cosine and tangent call themselves, for arguments beyond 2**17, the function of `FAR` is meant, which
is no part of kernels but called by them. Operations are rounded as written:
nothing is reassociated or contracted but what says `fma`. Coefficients: `benchmarks/math/minimax.py`; the docstrings
name the methods' sources. Where f32 would lose too much on the way, f64 carries it (a `select` between two plain numbers
would be f64, too: hence `f32(1.0)`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir.types import f32, f64, i32, i64, u32, u64
from quadrants.lang.ops import abs, bit_cast, cast, fma, select, sqrt
from quadrants.library import elementary_f64
from quadrants.library.elementary_parts import (
    INF,
    NAN,
    arc_cosine,
    arc_sine,
    logarithm_terms,
    polynomial,
    quarters_of_turn,
    signed_power,
    within,
)

__all__ = ["FAR", "FUNCTIONS"]

_SIN = (
    -0.16666655242443085,
    0.008332189172506332,
    -0.00019518285989761353,
)
_COS = (
    0.04166664555668831,
    -0.0013887309469282627,
    2.4432327336398885e-05,
)
_EXP = (
    0.4999999701976776,
    0.16666539013385773,
    0.04166774824261665,
    0.008367096073925495,
    0.0013837324222549796,
)
_EXP2 = (
    0.6931471824645996,
    0.24022594094276428,
    0.055503662675619125,
    0.009625445120036602,
    0.0013387928484007716,
    0.00013332664093468338,
)
_LOG = (
    0.6666677594184875,
    0.39977580308914185,
    0.29870960116386414,
)
_TANH = (
    -0.3333328068256378,
    0.13331405818462372,
    -0.05373651534318924,
    0.020628172904253006,
    -0.005692305043339729,
)
_ATAN = (
    -0.33333316445350647,
    0.19998528063297272,
    -0.14244389533996582,
    0.10599154978990555,
    -0.0609000064432621,
)
_ASIN = (
    0.16666752099990845,
    0.07495306432247162,
    0.045469772070646286,
    0.024180786684155464,
    0.04216637834906578,
)
_SINH = (
    0.1666666716337204,
    0.00833331048488617,
    0.0001984289410756901,
    2.782230239972705e-06,
)
_ERF = (
    0.12837916612625122,
    -0.3761262893676758,
    0.11283625662326813,
    -0.02685571275651455,
    0.005192329175770283,
    -0.0008048528106883168,
    7.989755977177992e-05,
)
_ERFC_LOG = (
    -0.00016400785534642637,
    1.1294535398483276,
    0.6334985494613647,
    0.10807003825902939,
    -0.024941155686974525,
    0.0040761977434158325,
    -0.00040357167017646134,
    1.5470353901037015e-05,
    4.3826815954162157e-07,
)
_EXP2_SHORT = (
    0.6931471807047777,
    0.2402265106699305,
    0.05550410365341659,
    0.009618038060791853,
    0.0013333935388751207,
    0.00015466781172362442,
    1.5196128007638196e-05,
)
_LOG_SHORT = (
    0.666666656468654,
    0.400003349755421,
    0.28537316791473905,
    0.23582082351200856,
)
_SIN_WIDE = elementary_f64._SIN[:5]
_COS_WIDE = elementary_f64._COS[:5]

_LN2, _LN2_LOW = 0.6931471824645996, -1.9046542121259336e-09
_LOG2E, _LOG2E_LOW = 1.4426950216293335, 1.925963033500011e-08
_LOG10E, _LOG10E_LOW = 0.4342944920063019, -1.0103049952192578e-08
_LOG10_2, _LOG10_2_LOW = 0.3010299956640665, -8.532344317057107e-14
_HALF_PI, _HALF_PI_LOW, _HALF_PI_LOWEST = 1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15
_QUARTER_PI, _QUARTER_PI_LOW = 0.7853981852531433, -2.1855694143368964e-08
_PI, _PI_LOW = 3.1415927410125732, -8.742277657347586e-08
_TWO_OVER_PI = 0.6366197723675814
_TAN_EIGHTH = 0.4142135679721832
# Adding it to a number below 2**22 rounds that to a whole one, and leaves it in the lower bits.
_MAGIC = 12582912.0
_SMALLEST_NORMAL = 1.1754943508222875e-38
_REDUCIBLE = 131072.0


# Exponentials.


def _power_of_two(whole: Any) -> Any:
    """2**n for n from -126 to 127, given as n + _MAGIC."""
    return bit_cast((bit_cast(whole, i32) + 127) << 23, f32)


def _scaled(x: Any, n: Any) -> Any:
    """x * 2**n, rounded once; n is whole, within 252 of 0. Two factors: one alone could overflow where the result does
    not."""
    half = fma(n, 0.5, _MAGIC)
    rest = (n - (half - _MAGIC)) + _MAGIC
    return x * _power_of_two(half) * _power_of_two(rest)


def _exponent_parts(x: Any) -> Any:
    """(n, p) with e**x = 2**n * (1 + p), by two steps of Cody and Waite ("Software Manual for the Elementary Functions",
    1980): the first is exact, being fused."""
    n = fma(x, _LOG2E, _MAGIC) - _MAGIC
    r = fma(n, -_LN2_LOW, fma(n, -_LN2, x))
    return n, fma(r * r, polynomial(r, _EXP), r)


def exp(x: Any) -> Any:
    n, p = _exponent_parts(within(x, -104.0, 89.0))
    return _scaled(1.0 + p, n)


def _half_exponential(x: Any) -> Any:
    """e**x / 2 for x >= 0: no overflow where the hyperbolic functions have none."""
    n, p = _exponent_parts(within(x, 0.0, 90.0))
    return _scaled(1.0 + p, n - 1.0)


def exp2(x: Any) -> Any:
    near = within(x, -151.0, 129.0)
    n = (near + _MAGIC) - _MAGIC
    r = near - n
    return _scaled(fma(r, polynomial(r, _EXP2), 1.0), n)


def expm1(x: Any) -> Any:
    """2**n * (p + (1 - 2**-n)): the difference is exact, or next to nothing beside p."""
    n, p = _exponent_parts(within(x, -20.0, 89.0))
    inverse = _power_of_two(_MAGIC - select(n > 40.0, 40.0, n))
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
    """A polynomial up to 5/8, then 1 - 2 / (e**(2 |x|) + 1)."""
    size = abs(x)
    z = x * x
    small = fma(size * z, polynomial(z, _TANH), size)
    return np.copysign(select(size < 0.625, small, 1.0 - 2.0 / (exp(size + size) + 1.0)), x)


# Logarithms.


def _mantissa_and_exponent(x: Any) -> Any:
    """(f, n) with x = 2**n * (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for positive x."""
    tiny = x < _SMALLEST_NORMAL
    bits = bit_cast(select(tiny, x * 33554432.0, x), i32)
    exponent = (bits - 0x3F3504F3) >> 23
    f = bit_cast(bits - (exponent << 23), f32) - 1.0
    return f, cast(exponent, f32) - select(tiny, f32(25.0), f32(0.0))


def _of_positive(x: Any, value: Any) -> Any:
    """A logarithm of x, given its value where x is positive and finite."""
    return select(x > 0.0, select(x < INF, value, x), select(x == 0.0, f32(-INF), f32(NAN)))


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
    """log(x) * (factor + factor_low) for a base in which 2 has the logarithm step + step_low."""
    f, n = _mantissa_and_exponent(x)
    h, t = logarithm_terms(f, _LOG)
    head = f - h
    tail = ((f - head) - h) + t
    product = head * factor
    rest = fma(head, factor, -product) + fma(tail, factor, head * factor_low)
    whole = n * step
    total = whole + product
    rest = rest + fma(n, step_low, fma(n, step, -whole))
    return _of_positive(x, total + (((whole - total) + product) + rest))


def log2(x: Any) -> Any:
    return _other_base(x, _LOG2E, _LOG2E_LOW, 1.0, 0.0)


def log10(x: Any) -> Any:
    return _other_base(x, _LOG10E, _LOG10E_LOW, 0.3010300099849701, -1.432098883924482e-08)


def _log2_of_wide(size: Any) -> Any:
    """log2 of a positive normal f64, good to 2**-37 of log(m) for the mantissa m."""
    bits = bit_cast(size, u64)
    biased = (bits + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)) >> 52
    f = bit_cast(bits - ((biased - 1023) << 52), f64) - 1.0
    n = bit_cast(biased | 0x4330000000000000, f64) - 4503599627371519.0
    s = f / (2.0 + f)
    z = s * s
    return fma(fma(s * z, polynomial(z, _LOG_SHORT), s + s), 1.4426950408889634, n)


def asinh(x: Any) -> Any:
    """log(|x| + sqrt(x**2 + 1)) in f64; near 0, where that cancels, |x| (1 - x**2 / 6)."""
    size = abs(cast(x, f64))
    z = size * size
    value = _log2_of_wide(size + sqrt(z + 1.0)) * 0.6931471805599453
    value = select(size < 0.01, fma(size * z, fma(z, 0.075, -0.16666666666666666), size), value)
    return np.copysign(cast(select(size < INF, value, size), f32), x)


def acosh(x: Any) -> Any:
    """log(x + sqrt((x - 1) (x + 1))) in f64."""
    wide = cast(x, f64)
    value = _log2_of_wide(wide + sqrt((wide - 1.0) * (wide + 1.0))) * 0.6931471805599453
    value = select(wide < 1.0, NAN, select(wide < 1.01, _near_one(wide - 1.0), value))
    return cast(select(wide < INF, value, wide), f32)


def _near_one(t: Any) -> Any:
    """acosh(1 + t) for small t: sqrt(2 t) (1 - t / 12 + 3 t**2 / 160 - …)."""
    return sqrt(t + t) * fma(t, fma(t, fma(t, -0.005580357142857143, 0.01875), -0.08333333333333333), 1.0)


def atanh(x: Any) -> Any:
    """log((1 + |x|) / (1 - |x|)) / 2 in f64; near 0, where that cancels, |x| (1 + x**2 / 3)."""
    size = abs(cast(x, f64))
    z = size * size
    ratio = (1.0 + size) / (1.0 - size)
    value = select(size < 1.0, _log2_of_wide(ratio) * 0.34657359027997264, select(size == 1.0, INF, NAN))
    value = select(size < 0.01, fma(size * z, fma(z, 0.2, 0.3333333333333333), size), value)
    return np.copysign(cast(value, f32), x)


# Powers and roots.


def pow(x: Any, y: Any) -> Any:
    """2**(y log2 |x|) in f64, with the sign and the special cases of IEEE 754's pow."""
    size = abs(x)
    wide = cast(y, f64)
    long = cast(size, f64)
    e = wide * select(size == 0.0, -INF, select(size < INF, _log2_of_wide(long), long))
    e = within(e, -400.0, 400.0)
    shifted = e + 6755399441055744.0
    r = e - (shifted - 6755399441055744.0)
    scale = bit_cast((bit_cast(shifted, u64) + 1023) << 52, f64)
    value = cast(fma(r, polynomial(r, _EXP2_SHORT), 1.0) * scale, f32)
    return signed_power(x, y, value)


def cbrt(x: Any) -> Any:
    """Two of Halley's steps from a third of the exponent (W. Kahan's start, as in FreeBSD's s_cbrtf.c), the second in
    f64."""
    a, t = _near_cube_root(x)
    better, wide = cast(t, f64), cast(a, f64)
    cube = better * better * better
    root = cast(fma(better, (wide - cube) / (cube + (cube + wide)), better), f32)
    return _scaled_cube_root(x, root)


def _near_cube_root(x: Any) -> Any:
    """(a, t): |x| times 1 or a cube that takes it away from the ends of the range, and its cube root but for 2**-15 of it."""
    size = abs(x)
    tiny, huge = size < _SMALLEST_NORMAL, size > 2.0**100
    a = size * select(tiny, 2.0**24, select(huge, f32(2.0**-24), f32(1.0)))
    t = bit_cast(bit_cast(a, u32) // 3 + 709958130, f32)
    cube = t * t * t
    return a, fma(t, (a - cube) / (cube + (cube + a)), t)


def _scaled_cube_root(x: Any, root: Any) -> Any:
    """The cube root of x from that of the `a` that `_near_cube_root` gives."""
    size = abs(x)
    tiny, huge = size < _SMALLEST_NORMAL, size > 2.0**100
    root = root * select(tiny, 2.0**-8, select(huge, f32(2.0**8), f32(1.0)))
    return select((size > 0.0) & (size < INF), np.copysign(root, x), x)


def hypot(x: Any, y: Any) -> Any:
    """In f64, where no square overflows."""
    a, b = cast(x, f64), cast(y, f64)
    value = cast(sqrt(fma(a, a, b * b)), f32)
    return select((abs(x) == INF) | (abs(y) == INF), INF, value)


# Trigonometry.


def _reduced(x: Any) -> Any:
    """(r, quarters) with x = quarters * pi / 2 + r, for |x| up to 2**17: three steps of Cody and Waite."""
    shifted = fma(x, _TWO_OVER_PI, _MAGIC)
    n = shifted - _MAGIC
    r = fma(n, -_HALF_PI_LOWEST, fma(n, -_HALF_PI_LOW, fma(n, -_HALF_PI, x)))
    return r, bit_cast(shifted, i32)


def _far(x: Any) -> Any:
    """What `_reduced` gives, for any x above 1."""
    r, _, quarters = elementary_f64.reduce_any(cast(x, f64))
    return cast(r, f32), cast(quarters, i32)


def _sine_and_cosine(r: Any) -> Any:
    z = r * r
    sine = fma(z * r, polynomial(z, _SIN), r)
    cosine = fma(z * z, polynomial(z, _COS), fma(z, -0.5, 1.0))
    return sine, cosine


def _turned(value: Any, quarters: Any) -> Any:
    """value with its sign turned for two and three quarters."""
    return bit_cast(bit_cast(value, i32) ^ ((quarters & 2) << 30), f32)


def _sine(reduced: Any) -> Any:
    r, quarters = reduced
    sine, cosine = _sine_and_cosine(r)
    return _turned(select((quarters & 1) != 0, cosine, sine), quarters)


def _cosine(reduced: Any) -> Any:
    r, quarters = reduced
    sine, cosine = _sine_and_cosine(r)
    return _turned(select((quarters & 1) != 0, sine, cosine), quarters + 1)


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


def _far_sin(x: Any) -> Any:
    return _sine(_far(x))


def _far_cos(x: Any) -> Any:
    return _cosine(_far(x))


def tan(x: Any) -> Any:
    """In f64: a quotient of rounded sine and cosine would be 2 units off."""
    wide = cast(x, f64)
    shifted = fma(wide, _TWO_OVER_PI, 6755399441055744.0)
    n = shifted - 6755399441055744.0
    r = fma(n, -6.123233995736766e-17, fma(n, -1.5707963267948966, wide))
    value = select(x == 0.0, x, _tangent(r, bit_cast(shifted, i64)))
    if abs(x) > 1073741824.0:
        value = np.tan(x)
    return value


def _far_tan(x: Any) -> Any:
    r, _, quarters = elementary_f64.reduce_any(cast(x, f64))
    return _tangent(r, quarters)


def _tangent(r: Any, quarters: Any) -> Any:
    """The f32 tangent of r + quarters * pi / 2, r being f64."""
    z = r * r
    sine = fma(z * r, polynomial(z, _SIN_WIDE), r)
    cosine = fma(z * z, polynomial(z, _COS_WIDE), fma(z, -0.5, 1.0))
    odd = (quarters & 1) != 0
    return cast(select(odd, -cosine, sine) / select(odd, sine, cosine), f32)


def _arc(small: Any, large: Any) -> Any:
    """(k, t, p) with atan(small / large) = k * pi / 4 + t + p, for 0 <= small <= large."""
    middle = small > _TAN_EIGHTH * large
    t = select(middle, small - large, small) / select(middle, small + large, large)
    z = t * t
    return select(middle, f32(1.0), f32(0.0)), t, t * z * polynomial(z, _ATAN)


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
    scale = select(large > 2.0**100, f32(2.0**-4), f32(1.0))
    small = select(large == INF, select(small == INF, f32(1.0), f32(0.0)), small * scale)
    large = select(large == INF, 1.0, select(large == 0.0, 1.0, large * scale))
    k, t, p = _arc(small, large)
    k, t, p = select(steep, 2.0 - k, k), select(steep, -t, t), select(steep, -p, p)
    left = bit_cast(x, i32) < 0
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
    """A polynomial up to 0.92, then 1 - e**-q(x)."""
    size = select(abs(x) > 4.0, 4.0, abs(x))
    z = size * size
    small = fma(size, polynomial(z, _ERF), size)
    value = 1.0 - exp(-polynomial(size, _ERFC_LOG))
    return np.copysign(select(size < 0.921875, small, value), x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, erf, exp, exp2, expm1, hypot),
        *(log, log10, log1p, log2, pow, sin, sinh, tan, tanh),
    )
}
FAR: dict[str, Callable[..., Any]] = {"sin": _far_sin, "cos": _far_cos, "tan": _far_tan}
