"""Integers wrap, also where the compiler knows the signs of what they are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

COUNT = 3000
SCRAMBLED = (np.arange(COUNT) * 1664525 + 1013904223).astype(np.int32)


def made(kernel: Any, *given: Any) -> np.ndarray:
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
