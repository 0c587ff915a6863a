"""Integers wrap, also where the compiler knows the signs of what they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow

COUNT = 3000
SCRAMBLED = (np.arange(COUNT) * 1664525 + 1013904223).astype(np.int32)


def made(kernel: Any, *given: Any) -> np.ndarray:
    """What a kernel writes to its last parameter."""
    out = np.zeros(COUNT, np.int64)
    kernel(*given, out)
    return out


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i64", "f64"))


def test_signs_of_scrambled_counters() -> None:
    @qd.kernel
    def signs(out):
        for i in range(len(out)):
            h = qd.i32(i) * 1664525 + 1013904223
            out[i] = 1
            if h < 0:
                out[i] = -1

    @qd.kernel
    def wide_signs(out):
        for i in range(len(out)):
            h = i * 6364136223846793005 + 1442695040888963407
            out[i] = -1 if h < 0 else 1

    @qd.kernel
    def conditions(out):
        for i in range(len(out)):
            h = qd.i32(i) * 1664525 + 1013904223
            if h < 0:
                out[i] = 1 if i > 1000 else 2

    later = np.where(np.arange(COUNT) > 1000, 1, 2)
    assert (made(conditions) == np.where(SCRAMBLED < 0, later, 0)).all()
    assert (made(signs) == np.where(SCRAMBLED < 0, -1, 1)).all()
    with np.errstate(over="ignore"):
        wide = np.arange(COUNT, dtype=np.int64) * 6364136223846793005 + 1442695040888963407
    assert (made(wide_signs) == np.where(wide < 0, -1, 1)).all()


def test_indices_divided_from_scrambled_counters() -> None:
    def chosen(values, j):
        if j > 7:
            return values[0]
        return values[j]

    @qd.kernel
    def inside(values, out):
        for i in range(len(out)):
            out[i] = values[(qd.i32(i) * 1664525 + 1013904223) // 2**26]

    @qd.kernel
    def called(values, out):
        for i in range(len(out)):
            out[i] = chosen(values, (qd.i32(i) * 1664525 + 1013904223) // 2**26)

    values = np.arange(100, 200)
    places = SCRAMBLED // 2**26
    assert places.min() < 0
    assert (made(inside, values) == values[places]).all()
    assert (made(called, values) == values[np.where(places > 7, 0, places)]).all()


def test_comparisons_next_to_the_borders() -> None:
    @qd.kernel
    def grows(values, out):
        for i in range(len(out)):
            out[i] = 1 if values[i] + 1 > values[i] else 2

    @qd.kernel
    def fits(values, out):
        for i in range(len(out)):
            out[i] = 1 if qd.i32(values[i]) == values[i] else 2

    @qd.kernel
    def counted(out):
        for i in range(2**31 - 10, 2**31 + 10):
            if qd.i32(i) < 0:
                out[i - 2**31] = 1

    assert (np.nonzero(made(counted))[0] == np.arange(10)).all()
    borders = np.where(np.arange(COUNT) % 3, 5, 2**31 - 1)
    assert (made(grows, borders.astype(np.int32)) == np.where(borders == 5, 1, 2)).all()
    assert (made(fits, borders + 1) == np.where(borders == 5, 1, 2)).all()


def test_elements_that_wrapped_indices_share() -> None:
    @qd.kernel
    def products(y, x):
        for i in range(len(x)):
            y[qd.i32(i) * 65536 * 65536] = y[qd.i32(i) * 65536 * 65536] * 3 + x[i]

    @qd.kernel
    def shifts(y, x):
        for i in range(len(x)):
            k = (qd.i32(i) << 30) << 2
            y[k] = y[k] * 3 + x[i]

    @qd.kernel
    def wide_products(y, x):
        for i in range(len(x)):
            y[(i * 2**62) * 4] = y[(i * 2**62) * 4] * 3 + x[i]

    @qd.kernel
    def sums(y, x):
        for i in range(len(x)):
            k = qd.i32(i) * 2000000000 + qd.i32(i) * 2000000000 + qd.i32(i) * 294967296
            y[k] = y[k] * 3 + x[i]

    @qd.kernel
    def inner(y, x):
        for i in range(1):
            for j in range(len(x)):
                k = qd.i32(j) * 65536 * 65536
                y[k] = y[k] * 3 + x[j]

    x = np.arange(COUNT)
    expected = 0
    for value in x.tolist():
        expected = (expected * 3 + value) % 2**64
    for kernel in (products, shifts, wide_products, sums, inner):
        y = np.zeros(4, np.int64)
        kernel(y, x)
        assert y.tolist() == [expected - 2**64 * (expected >= 2**63), 0, 0, 0], kernel.__name__
        assert kernel is inner or "runs in order: an iteration" in kernel.report(), kernel.__name__


def test_indices_that_differ_in_width_alone() -> None:
    @qd.kernel
    def remainders(y, x):
        for i in range(len(x)):
            y[qd.i64(qd.i32(i) * 1000003) % 2 + 2 * i] = x[i]
            y[(i * 1000003) // 65536 * 0 + 2 * i + 1 - (i * 1000003) % 2] = -x[i]

    @qd.kernel
    def signs(out):
        for i in range(len(out)):
            narrow = qd.i32(i) * 1000003
            wide = i * 1000003
            out[i] = 1
            if wide < 0:
                out[i] = 2
            if narrow < 0:
                out[i] = 3

    y = np.zeros(2 * COUNT, np.int64)
    x = np.arange(1, COUNT + 1)
    remainders(y, x)
    parity = np.arange(COUNT) % 2
    expected = np.zeros_like(y)
    expected[2 * np.arange(COUNT) + parity] = x
    expected[2 * np.arange(COUNT) + 1 - parity] = -x
    assert (y == expected).all()
    with np.errstate(over="ignore"):
        narrow = np.arange(COUNT, dtype=np.int32) * np.int32(1000003)
    assert (made(signs) == np.where(narrow < 0, 3, 1)).all()


def test_loops_whose_bounds_wrap_are_not_joined() -> None:
    @qd.kernel
    def both(m: qd.i64, out):
        for i in range(qd.i32(m) * 65536 + 5):
            out[i] += 1
        for i in range(m * 65536 + 5):
            out[i] += 2

    @qd.kernel
    def alike(m: qd.i32, out):
        for i in range(m * m + 5):
            out[i] += 1
        for i in range(m * m + 5):
            out[i] += 2

    assert made(both, -65536).tolist() == [1] * 5 + [0] * (COUNT - 5)
    assert "run as one" not in both.report()
    assert made(alike, 65536).tolist() == [3] * 5 + [0] * (COUNT - 5)
