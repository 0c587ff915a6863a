"""Polynomials that approximate functions best: the tool behind the coefficients in `quadrants/library/elementary_*.py`.

    python benchmarks/math/minimax.py            # all fits, with their errors
    python benchmarks/math/minimax.py sin_f32    # those whose names begin so

Remez' exchange algorithm (Remez 1934; Cheney, "Introduction to Approximation Theory", 3.8) on a dense grid of Chebyshev
points, in mpmath's arithmetic: sum(c[k] * x**k) differs from f(x) by at most E / weight(x), and takes that difference
with alternating signs at one more point than there are coefficients. The first coefficients, whose rounding would show,
are rounded to the format of the function one after the other, and the others are fitted anew each time: what rounding
one of them costs, the rest makes good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

__all__ = ["FITS", "Fit", "fit"]

Function = Callable[[mp.mpf], mp.mpf]
_GRID = 600
_FITTED = 3


@dataclass(frozen=True)
class Fit:
    """target ~ sum(c[k] * x**k) on [low, high]; the error counts `weight` times; `bits` is the format's precision."""

    target: Function
    low: float
    high: float
    count: int
    bits: int
    weight: Function = lambda x: mp.mpf(1)


def fit(wanted: Fit) -> tuple[list[float], float]:
    """The rounded coefficients, and log2 of the largest weighted error on the grid."""
    low, high = mp.mpf(wanted.low), mp.mpf(wanted.high)
    middle, half = (low + high) / 2, (high - low) / 2
    xs = [middle - half * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / _GRID) for k in range(_GRID)]
    weights = [wanted.weight(x) for x in xs]
    rest = [wanted.target(x) for x in xs]
    fixed: list[float] = []
    best: list = []
    for position in range(wanted.count):
        if position < _FITTED:
            best = _remez(xs, rest, weights, list(range(position, wanted.count)))
        rounded = _rounded(best[max(position - _FITTED + 1, 0)], wanted.bits)
        fixed.append(rounded)
        rest = [value - rounded * x**position for value, x in zip(rest, xs)]
    error = max(abs(value * weight) for value, weight in zip(rest, weights))
    return fixed, float(mp.log(error, 2))


def _rounded(value: mp.mpf, bits: int) -> float:
    with mp.workprec(bits):
        return float(np.float32(float(+value))) if bits == 24 else float(+value)


def _remez(xs: list, values: list, weights: list, powers: list[int]) -> list:
    """The best coefficients of these powers on the grid."""
    count = len(powers)
    columns = [[x**power * weight for x, weight in zip(xs, weights)] for power in powers]
    wanted = [value * weight for value, weight in zip(values, weights)]
    chosen = _first_guess(weights, count)
    for _ in range(30):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, index in enumerate(chosen):
            for column in range(count):
                matrix[row, column] = columns[column][index]
            matrix[row, count] = (-1) ** row
            right[row] = wanted[index]
        solution = mp.lu_solve(matrix, right)
        errors = [
            value - mp.fsum(solution[k] * columns[k][index] for k in range(count)) for index, value in enumerate(wanted)
        ]
        level = abs(solution[count])
        exchanged = _extrema(errors, count + 1)
        largest = max(abs(error) for error in errors)
        if exchanged is None or exchanged == chosen or largest <= level * mp.mpf("1.0001"):
            break
        chosen = exchanged
    return [solution[k] for k in range(count)]


def _first_guess(weights: list, count: int) -> list[int]:
    """Where Chebyshev's polynomial has its extrema (the grid is as dense as they are), away from where the weight is 0."""
    last = len(weights) - 1
    chosen = [round(last * k / count) for k in range(count + 1)]
    most = max(weights)
    return [index + last // (4 * count) if weights[index] < most / 1000 and index < last else index for index in chosen]


def _extrema(errors: list, count: int) -> list[int] | None:
    """`count` neighbouring points of alternating sign, each the largest of its run of one sign."""
    runs: list[int] = []
    for index, error in enumerate(errors):
        if runs and (error > 0) == (errors[runs[-1]] > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = index
        else:
            runs.append(index)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs if len(runs) == count else None


def _odd(function: Function) -> Function:
    """(f(r) / r - 1) / r**2 as a function of z = r * r."""

    def ratio(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return (function(r) / r - 1) / z

    return ratio


def _relative_odd(function: Function) -> Function:
    """The weight of an error of `_odd`: r**3 / f(r)."""

    def weight(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return r**3 / function(r)

    return weight


mp.mp.prec = 160
_QUARTER = float(mp.pi / 4) * 1.0001
_LN2_HALF = float(mp.log(2) / 2) * 1.0005
_TAN_EIGHTH = float(mp.tan(mp.pi / 8)) * 1.0001


def _odd_fit(function: Function, most: float, count: int, bits: int) -> Fit:
    return Fit(_odd(function), 1e-30, most * most, count, bits, _relative_odd(function))


def _cosine(z: mp.mpf) -> mp.mpf:
    r = mp.sqrt(z)
    return (mp.cos(r) - 1 + z / 2) / z**2


def _exponential(r: mp.mpf) -> mp.mpf:
    return (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2


def _power_of_two(r: mp.mpf) -> mp.mpf:
    return mp.expm1(r * mp.log(2)) / r if r else mp.log(2)


def _logarithm_of_quotient(z: mp.mpf) -> mp.mpf:
    """log((1 + s) / (1 - s)) = 2 s + s z L(z), z = s * s."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / (s * z)


def _logarithm_tail(z: mp.mpf) -> mp.mpf:
    """log((1 + s) / (1 - s)) = s (2 + 2 z / 3 + z z T(z)), z = s * s."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2 - 2 * z / 3) / z**2


def _quotient_fit(count: int, bits: int) -> Fit:
    """For arguments of the logarithm between sqrt(1/2) and sqrt(2)."""
    return Fit(_logarithm_of_quotient, 1e-30, 0.02945, count, bits, lambda z: z * mp.sqrt(z) / mp.atanh(mp.sqrt(z)) / 2)


def _error_function(z: mp.mpf) -> mp.mpf:
    """erf(x) = x + x E(z): the leading coefficient is 2 / sqrt(pi) - 1."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def _scaled_complement(u: mp.mpf) -> mp.mpf:
    """erfc(x) exp(x * x) at the x for which u = (x - A) / (x + B)."""
    x = (ERFCX_A + ERFCX_B * u) / (1 - u)
    return mp.erfc(x) * mp.exp(x * x)


ERFCX_A, ERFCX_B = 2.0, 2.0
_ERF_LIMIT = 0.921875
_U_LOW, _U_HIGH = (_ERF_LIMIT - ERFCX_A) / (_ERF_LIMIT + ERFCX_B), (6.0 - ERFCX_A) / (6.0 + ERFCX_B)

FITS: dict[str, Fit] = {
    "sin_f32": _odd_fit(mp.sin, _QUARTER, 3, 24),
    "cos_f32": Fit(_cosine, 1e-30, _QUARTER**2, 3, 24, lambda z: z * z / mp.cos(mp.sqrt(z))),
    "exp_f32": Fit(_exponential, -_LN2_HALF, _LN2_HALF, 5, 24, lambda r: abs(r * r / mp.expm1(r)) if r else mp.mpf(0)),
    "exp2_f32": Fit(_power_of_two, -0.5001, 0.5001, 6, 24, lambda r: abs(r) / 2**r),
    "log_f32": _quotient_fit(3, 24),
    "tanh_f32": _odd_fit(mp.tanh, 0.625, 5, 24),
    "atan_f32": _odd_fit(mp.atan, _TAN_EIGHTH, 5, 24),
    "asin_f32": _odd_fit(mp.asin, 0.5001, 5, 24),
    "sinh_f32": _odd_fit(mp.sinh, 1.0001, 4, 24),
    "erf_f32": Fit(_error_function, 1e-30, _ERF_LIMIT**2, 7, 24, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))),
    "erfc_log_f32": Fit(lambda x: -mp.log(mp.erfc(x)), _ERF_LIMIT, 3.95, 9, 24, lambda x: mp.erfc(x)),
    "sin_f64": _odd_fit(mp.sin, _QUARTER, 6, 53),
    "cos_f64": Fit(_cosine, 1e-30, _QUARTER**2, 6, 53, lambda z: z * z / mp.cos(mp.sqrt(z))),
    "exp_f64": Fit(_exponential, -_LN2_HALF, _LN2_HALF, 11, 53, lambda r: abs(r * r / mp.expm1(r)) if r else mp.mpf(0)),
    "exp2_f64": Fit(_power_of_two, -0.5001, 0.5001, 12, 53, lambda r: abs(r) / 2**r),
    "exp2_short": Fit(_power_of_two, -0.5001, 0.5001, 7, 53, lambda r: abs(r) / 2**r),
    "log_f64": _quotient_fit(7, 53),
    "log_tail_f64": Fit(_logarithm_tail, 1e-30, 0.02945, 8, 53, lambda z: z * z / 2),
    "log_short": _quotient_fit(4, 53),
    "atan_f64": _odd_fit(mp.atan, _TAN_EIGHTH, 11, 53),
    "asin_f64": _odd_fit(mp.asin, 0.5001, 12, 53),
    "sinh_f64": _odd_fit(mp.sinh, 1.0001, 8, 53),
    "cbrt_f64": Fit(lambda r: 1 / mp.cbrt(r), 0.9, 1.1, 5, 53),
    "erf_f64": Fit(_error_function, 1e-30, _ERF_LIMIT**2, 13, 53, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z))),
    "erfcx_f64": Fit(_scaled_complement, _U_LOW, _U_HIGH, 19, 53, lambda u: 1 / _scaled_complement(u)),
}


def main(beginnings: list[str]) -> None:
    for name, wanted in FITS.items():
        if not beginnings or any(name.startswith(start) for start in beginnings):
            coefficients, error = fit(wanted)
            print(f"{name}: error 2**{error:.1f}")
            for coefficient in coefficients:
                print(f"    {float(np.float32(coefficient)) if wanted.bits == 24 else coefficient!r},")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
