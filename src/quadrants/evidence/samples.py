"""Samples of every scalar type that reach its corners, and distances between floats: what property tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.ir.types import ScalarType, bf16, f64

__all__ = ["corners", "numbers", "pairs", "same_bits", "ulps"]

_MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_LEAST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


def corners(scalar: ScalarType) -> np.ndarray:
    """The special values of a type: extremes, powers of two and their neighbours; for floats also NaN, infinities,
    signed zeros, denormals and halves."""
    if scalar.bits == 1:
        return np.array([False, True])
    if scalar.kind != "f":
        powers = [2**k for k in range(scalar.bits)]
        near = {n + d for n in (*powers, *(-p for p in powers), 0) for d in (-1, 0, 1)}
        values = sorted({numerics.wrap(scalar, n) for n in near} | {scalar.minimum, scalar.maximum})
        return np.array(values, numerics.held(scalar))
    least = 2.0 ** _LEAST[scalar.name]
    step = 2.0 ** (1 - _MANTISSA[scalar.name])
    largest = _largest(scalar)
    positive = [
        0.0,
        least * step,
        least * (1 - step),
        least,
        0.25,
        0.5,
        1 - step / 2,
        1.0,
        1 + step,
        1.5,
        2.0,
        2.5,
        3.0,
    ]
    positive += [7.0, 10.0, 100.5, 1024.0, largest / 2, largest, np.inf]
    values = np.array([*positive, *(-v for v in positive), np.nan], np.float64)
    with numerics.quiet():
        return numerics.convert(values, f64, scalar)


def _largest(scalar: ScalarType) -> float:
    return {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float(np.finfo(np.float32).max)}.get(
        scalar.name, float(np.finfo(np.float64).max)
    )


def numbers(scalar: ScalarType, random: np.random.Generator, count: int) -> np.ndarray:
    """`count` values of a type: a quarter corners, the rest spread over all magnitudes."""
    special = corners(scalar)
    chosen = special[random.integers(0, len(special), count)]
    spread = _spread(scalar, random, count)
    return np.where(random.random(count) < 0.25, chosen, spread)


def _spread(scalar: ScalarType, random: np.random.Generator, count: int) -> np.ndarray:
    if scalar.bits == 1:
        return random.random(count) < 0.5
    if scalar.kind != "f":
        widths = random.integers(1, scalar.bits + 1, count)
        raw = random.integers(0, 2**64, count, dtype=np.uint64) >> (64 - widths).astype(np.uint64)
        signs = np.where(random.random(count) < 0.5, np.uint64(1), np.uint64(2**64 - 1))
        return (raw * signs if scalar.kind == "i" else raw).astype(numerics.held(scalar))
    exponents = random.normal(0.0, 6.0, count)
    wide = random.standard_normal(count) * 2.0**exponents
    with numerics.quiet():
        return numerics.convert(wide, f64, scalar)


def pairs(scalar: ScalarType, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two operands a sample: independent, equal, or near one another."""
    a, b = numbers(scalar, random, count), numbers(scalar, random, count)
    return a, np.where(random.random(count) < 0.1, a, b)


def same_bits(found: Any, expected: Any, signed_zeros: bool = True) -> np.ndarray:
    """Where two arrays agree to the bit, any NaN counting as any other."""
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind != "f":
        return found == expected
    equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if signed_zeros:
        equal &= np.isnan(expected) | (np.signbit(found) == np.signbit(expected))
    return equal


def ulps(scalar: ScalarType, found: Any, expected: Any) -> np.ndarray:
    """How many floats of the type lie between; 0 where both are NaN, a huge number where just one is."""
    left, right = _ordinal(scalar, found), _ordinal(scalar, expected)
    distance = np.abs(left - right).astype(np.float64)
    nan_left, nan_right = np.isnan(np.asarray(found)), np.isnan(np.asarray(expected))
    return np.where(nan_left & nan_right, 0.0, np.where(nan_left | nan_right, np.inf, distance))


def _ordinal(scalar: ScalarType, value: Any) -> np.ndarray:
    """The position of a float among all floats of its type, as an integer (0 for both zeros)."""
    array = np.asarray(value, numerics.held(scalar))
    bits = array.view(f"i{array.dtype.itemsize}").astype(np.int64)
    if scalar is bf16:
        bits >>= 16
    low = np.int64(-(2 ** (scalar.bits - 1))) if scalar.bits < 64 else np.int64(-(2**63))
    return np.where(bits < 0, low - bits, bits)
