"""`fma` is rounded once: against fractions, on numbers of all sizes and where sums nearly vanish."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quadrants.ir import evaluate
from quadrants.ir.types import ScalarType, f32, f64

COUNT = 400
MANTISSA, LOWEST, HIGHEST = {f32: 24, f64: 53}, {f32: -150, f64: -1100}, {f32: 130, f64: 1030}


def numbers(scalar: ScalarType, random: np.random.Generator, low: int, high: int) -> np.ndarray:
    """Numbers of both signs, with exponents from low to high."""
    bits = MANTISSA[scalar]
    whole = random.integers(1 << (bits - 1), 1 << bits, COUNT).astype(np.float64)
    sizes = np.ldexp(whole, random.integers(low, high, COUNT) - bits)
    return (sizes * random.choice([-1, 1], COUNT)).astype(scalar.numpy)


def rounded(scalar: ScalarType, exact: Fraction) -> Any:
    """The number of the type that is nearest, of two that are as near the even one, without another rounding on the way."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - MANTISSA[scalar] + 1, {f32: -149, f64: -1074}[scalar])
    whole = round(size / unit)  # halves to even
    largest = Fraction(float(np.finfo(scalar.numpy).max))
    found = float("inf") if whole * unit > largest else float(whole * unit)
    return found if exact > 0 else -found


@pytest.mark.parametrize("scalar", [f32, f64], ids=str)
@pytest.mark.parametrize("kind", ["all sizes", "near sizes", "cancelled", "nearly cancelled", "far apart"])
def test_rounded_once(scalar: ScalarType, kind: str) -> None:
    random = np.random.default_rng(len(kind))
    near = kind != "all sizes"
    low, high = (-20, 20) if near else (LOWEST[scalar] // 2, HIGHEST[scalar] // 2)
    a, b = numbers(scalar, random, low, high), numbers(scalar, random, low, high)
    c = numbers(scalar, random, -40 if near else LOWEST[scalar], 40 if near else HIGHEST[scalar])
    if kind == "cancelled":
        c = -(a * b)
    elif kind == "nearly cancelled":
        c = (-(a * b) * (1 + random.integers(-3, 4, COUNT) * np.finfo(scalar.numpy).eps)).astype(scalar.numpy)
    elif kind == "far apart":
        c = numbers(scalar, random, -3 * MANTISSA[scalar] // 2, MANTISSA[scalar])
    with np.errstate(all="ignore"):
        found = evaluate.fma(scalar, a, b, c)
    expected = [
        rounded(scalar, Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c)
    ]
    assert found.dtype == scalar.numpy
    assert found.tolist() == expected


@pytest.mark.parametrize("scalar", [f32, f64], ids=str)
def test_what_is_no_number_and_zeros(scalar: ScalarType) -> None:
    inf, nan = np.inf, np.nan
    cases = [
        (inf, 0.0, 1.0, nan),
        (inf, 1.0, -inf, nan),
        (inf, 1.0, 5.0, inf),
        (2.0, 3.0, -inf, -inf),
        (nan, 0.0, 0.0, nan),
        (-0.0, 1.0, 0.0, 0.0),
        (-0.0, 1.0, -0.0, -0.0),
        (1.0, 1.0, -1.0, 0.0),
        (0.0, 5.0, 7.0, 7.0),
    ]
    a, b, c, expected = (np.array(column, scalar.numpy) for column in zip(*cases))
    with np.errstate(all="ignore"):
        found = evaluate.fma(scalar, a, b, c)
        one = evaluate.fma(scalar, *(scalar.numpy.type(value) for value in (2.0, 3.0, 0.5)))
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found)[5:8], np.signbit(expected)[5:8])
    assert type(one) is scalar.numpy.type and one == 6.5
