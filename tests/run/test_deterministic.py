"""`qd.init(deterministic=True)`: the same bits in every run, float atomics included; on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.runtime import threads

RANDOM = np.random.default_rng(3)
CELLS = RANDOM.integers(0, 5, 200_000).astype(np.int64)
VALUES = RANDOM.normal(0, 1, len(CELLS)).astype(np.float32) * np.float32(1e3)


def add(sums, cell, x):
    sums[cell] += x


def histogram(cells, values, sums, counts):
    for i in range(len(cells)):
        add(sums, cells[i], values[i])
        counts[cells[i]] += 1


def count_only(cells, counts):
    for i in range(len(cells)):
        counts[cells[i]] += 1


@pytest.mark.parametrize("level", [0, 1])
def test_float_updates_that_meet_have_one_order(level: int) -> None:
    qd.init(deterministic=True, opt_level=level)
    kernel = qd.kernel(histogram)
    found = set()
    for number in (1, 3, 8, 8, 8):
        threads.set_count(number)
        sums, counts = np.zeros(5, np.float32), np.zeros(5, np.int32)
        kernel(CELLS, VALUES, sums, counts)
        found.add(sums.tobytes())
        assert counts.tolist() == np.bincount(CELLS).tolist()
    expected = np.zeros(5, np.float32)
    np.add.at(expected, CELLS, VALUES)
    assert found == {expected.tobytes()}
    assert "order_atomics: this loop runs in order: its float updates meet" in kernel.report()


def test_integer_updates_stay_parallel() -> None:
    qd.init(deterministic=True)
    kernel = qd.kernel(count_only)
    counts = np.zeros(5, np.int32)
    kernel(CELLS, counts)
    assert counts.tolist() == np.bincount(CELLS).tolist()
    assert "parallel loop at line" in kernel.report()


def test_without_the_option_nothing_is_ordered() -> None:
    qd.init()
    kernel = qd.kernel(histogram)
    kernel(CELLS, VALUES, np.zeros(5, np.float32), np.zeros(5, np.int32))
    assert "parallel loop at line" in kernel.report() and "in order" not in kernel.report()
