"""Loops that carry prefixes: in parallel blocks, with what they would give in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow

SIZES = (0, 1, 100, 32_767, 32_768, 70_001, 300_000)


@pytest.fixture(autouse=True)
def _started() -> None:
    qd.init(arch=qd.cpu, default_ip=qd.i64, cpu_max_num_threads=4, verify=True)


def splits(kernel: Any) -> bool:
    return "runs in parallel blocks: it carries prefixes" in kernel.report()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_sums(dtype: type) -> None:
    @qd.kernel
    def exclusive(x, y):
        s = x.dtype(3)
        for i in range(len(x)):
            y[i] = s
            s += x[i]
        return s

    @qd.kernel
    def in_place(x):
        s = x.dtype(0)
        for i in range(len(x)):
            s -= x[i]
            x[i] = s

    for size in SIZES:
        x = np.random.default_rng(size).integers(0, 1 << 31, size).astype(dtype)
        y = np.zeros_like(x)
        with np.errstate(over="ignore"):
            sums = np.cumsum(x, dtype=dtype)
            assert exclusive(x, y) == (sums[-1] + dtype(3) if size else 3)
            assert (y == sums - x + dtype(3)).all()
            in_place(x)
            assert (x == dtype(0) - sums).all()
    assert splits(exclusive) and splits(in_place)


def test_extremes_and_several_values() -> None:
    @qd.kernel
    def running(x, low, high, first):
        least, most = 1 << 40, first
        count = 0
        for i in range(2, len(x) - 1):
            least = min(least, x[i])
            low[i] = least
            if x[i] > most:
                most = x[i]
            high[i] = most
            count += x[i] & 1
        return count

    for size in SIZES[2:]:
        x = np.random.default_rng(size).integers(-(10**9), 10**9, size)
        low, high = np.zeros_like(x), np.zeros_like(x)
        part = x[2:-1]
        assert running(x, low, high, -5) == (part & 1).sum()
        assert (low[2:-1] == np.minimum.accumulate(part)).all()
        assert (high[2:-1] == np.maximum(np.maximum.accumulate(part), -5)).all()
        assert not low[:2].any() and not low[-1]
    assert splits(running)


def test_appending() -> None:
    @qd.kernel
    def select(x, y, places):
        n = 0
        for i in range(len(x)):
            if x[i] > 0:
                y[n] = x[i]
                places[n] = i
                n += 1
        return n

    @qd.kernel
    def rows(counts, begin):
        s = 0
        qd.loop_config(serialize=True)
        for i in range(len(counts)):
            found = 0
            for k in range(3):
                found += counts[i] >> k & 1
            begin[i + 1] = s + found
            s += found

    for size in SIZES:
        x = np.random.default_rng(size).integers(-9, 9, size)
        y, places = np.full_like(x, -99), np.full_like(x, -99)
        n = select(x, y, places)
        (expected,) = np.nonzero(x > 0)
        assert n == len(expected) and (y[:n] == x[expected]).all() and (places[:n] == expected).all()
        assert (y[n:] == -99).all()
        begin = np.zeros(size + 1, np.int64)
        rows(x & 7, begin)
        assert (begin[1:] == np.cumsum([0, 1, 1, 2, 1, 2, 2, 3] @ (np.arange(8)[:, None] == (x & 7)))).all()
    assert splits(select) and splits(rows)


def test_what_stays_in_order() -> None:
    @qd.kernel
    def floats(x, y):
        s = 0.0
        for i in range(len(x)):
            s += x[i]
            y[i] = s

    @qd.kernel
    def recurrence(x, y):
        s = 1
        for i in range(len(x)):
            s = s * 3 + x[i]
            y[i] = s

    @qd.kernel
    def neighbours(x, y):
        s = 0
        for i in range(1, len(x)):
            s += x[i]
            x[i] = s + x[i - 1]

    @qd.kernel
    def overwritten(x, y):
        s = 0
        for i in range(len(x)):
            y[i] = 2 * x[i]
            s += y[len(x) - 1 - i]
            x[i] = s

    @qd.kernel
    def gaps(x, y):
        n = 0
        for i in range(len(x)):
            y[n] = i
            if x[i] > 0:
                n += 1

    @qd.kernel
    def shared(x, y):
        n = 0
        for i in range(1, len(x)):
            n += x[i]
            y[i] = n
            x[0] += y[i]

    @qd.kernel
    def popping(x, y):
        n = 60_000
        for i in range(len(x)):
            if x[i] >= 0:
                y[n] = i
                n += 1
            else:
                n -= 1

    for kernel in (floats, recurrence, neighbours, overwritten, gaps, shared, popping):
        given = np.random.default_rng(5).integers(-2, 3, 40_000)
        ours, python = (given.copy(), given.copy()), (given.copy(), given.copy())
        if kernel is popping:
            ours, python = ((given.copy(), np.zeros(150_000, int)) for _ in range(2))
        if kernel is floats:
            ours, python = ([part.astype(float) for part in pair] for pair in (ours, python))
        kernel(*ours)
        with np.errstate(over="ignore"):
            kernel.function(*python)
        assert all((one == other).all() for one, other in zip(ours, python))
        assert not splits(kernel)


def test_on_every_target(executor: TargetExecutor) -> None:
    qd.reset()
    executor.initialise(qd, ("i32", "f64"))

    @qd.kernel
    def exclusive(x, y):
        s = 0
        for i in range(len(x)):
            y[i] = s
            s += x[i]

    x = np.random.default_rng(1).integers(0, 9, 100 if executor.name.startswith("ref") else 50_000).astype(np.int32)
    y = np.zeros_like(x)
    exclusive(x, y)
    assert (y == np.cumsum(x) - x).all()
