"""Adjacent loops that run as one: how many tasks are left, and that nothing else has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

from .conftest import DEVICES

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i32", "f64"))


def tasks(kernel: Any) -> int:
    """How many tasks a kernel has, where the arrays have one shape."""
    lines = kernel.report().splitlines()
    return sum(["parallel loop at line" in line and "sizes of arrays differ" not in line for line in lines])


def has_tasks(executor: TargetExecutor, kernel: Any, fused: int, apart: int) -> bool:
    """Whether a kernel has that many tasks; where the host launches them, parts in order are tasks, too."""
    if executor.arch in DEVICES:
        return tasks(kernel) >= fused
    return tasks(kernel) == (fused if executor.optimises else apart)


def test_a_chain_of_elements(executor: TargetExecutor) -> None:
    @qd.kernel
    def chain(x, t, y):
        for i in range(len(x)):
            t[i] = x[i] * x[i]
        for i in range(len(x)):
            y[i] = t[i] + 1.0
        for i in range(len(x)):
            y[i] += 2.0 * t[i]
        total = 0.0
        for i in range(len(x)):
            total += y[i]
        return total

    for size in (0, 1, 37, 100_000 if "x64" == executor.arch else 50):
        x = np.random.default_rng(1).random(size)
        t, y = np.zeros(size), np.zeros(size)
        total = chain(x, t, y)
        assert np.allclose(t, x * x) and np.allclose(y, x * x * 3 + 1) and np.isclose(total, y.sum())
    assert has_tasks(executor, chain, 1, 4)


def test_two_dimensions_of_fields(executor: TargetExecutor) -> None:
    u, v, w = (qd.field(qd.f64, (17, 9)) for _ in range(3))

    @qd.kernel
    def step():
        for i, j in u:
            v[i, j] = u[i, j] + i
        for i, j in v:
            w[i, j] = v[i, j] * u[i, j] - j

    start = np.random.default_rng(2).random((17, 9))
    u.from_numpy(start)
    step()
    assert np.allclose(w.to_numpy(), (start + np.arange(17)[:, None]) * start - np.arange(9))
    assert has_tasks(executor, step, 1, 2)


def test_arguments_that_share_memory(executor: TargetExecutor) -> None:
    @qd.kernel
    def shifted(x, y, z):
        for i in range(len(x)):
            x[i] = i
        for i in range(len(x)):
            z[i] = y[i] + x[i]

    memory, z = np.zeros(9), np.zeros(8)
    shifted(memory[1:], memory[:-1], z)
    assert z.tolist() == [0, 1, 3, 5, 7, 9, 11, 13]


def test_two_sizes(executor: TargetExecutor) -> None:
    @qd.kernel
    def both(x, y, z):
        low = 0.0
        for i in range(len(x)):
            x[i] = i
        for i in range(len(y)):
            y[i] = 2.0 * i
            low += i
        total = 0.0
        for i in range(len(z)):
            z[i] += y[i]
            total += z[i]
        return total, low

    for n, m, k in ((5, 5, 5), (7, 5, 5), (5, 7, 5), (0, 3, 2), (100, 100, 90)):
        x, y, z = np.zeros(n), np.zeros(m), np.ones(k)
        if k > m:
            continue
        assert both(x, y, z) == ((2 * np.arange(k) + 1).sum(), np.arange(m).sum())
        assert (x == np.arange(n)).all() and (y == 2 * np.arange(m)).all()
    assert has_tasks(executor, both, 2, 3)


def test_what_stays_apart(executor: TargetExecutor) -> None:
    @qd.kernel
    def neighbours(x, t):
        for i in range(1, len(x) - 1):
            t[i] = x[i - 1] + x[i + 1]
        for i in range(1, len(x) - 1):
            x[i] = t[i]

    @qd.kernel
    def normalise(x):
        total = 0.0
        for i in range(len(x)):
            total += x[i]
        for i in range(len(x)):
            x[i] /= total

    @qd.kernel
    def asked(x, y):
        for i in range(len(x)):
            x[i] = 1.0
        qd.loop_config(fuse=False)
        for i in range(len(x)):
            y[i] = x[i]

    @qd.kernel
    def scattered(x, y, places):
        for i in range(len(x)):
            x[i] = i
        for i in range(len(x)):
            y[places[i]] += x[i]

    x, t = np.arange(8.0) ** 2, np.zeros(8)
    expected = x.copy()
    expected[1:-1] = x[:-2] + x[2:]
    neighbours(x, t)
    assert np.allclose(x, expected) and has_tasks(executor, neighbours, 2, 2)
    normalise(x)
    assert np.allclose(x, expected / expected.sum()) and has_tasks(executor, normalise, 2, 2)
    asked(x, t)
    assert (t == 1).all() and has_tasks(executor, asked, 2, 2)
    y = np.zeros(3)
    scattered(x, y, np.array([0, 1, 2, 0, 1, 2, 0, 1]))
    assert y.tolist() == [9, 12, 7] and has_tasks(executor, scattered, 2, 2)
