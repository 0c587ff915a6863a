"""The laws that lanes rely on, at their edges: what each target computes at every width is what iterations compute one by
one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow

Arguments = Callable[[], list[Any]]


def _run(function: Any, arguments: Arguments, **options: Any) -> list[np.ndarray]:
    qd.reset()
    qd.init(**options)
    found = arguments()
    qd.kernel(function)(*found)
    return [value for value in found if isinstance(value, np.ndarray)]


def check(function: Any, arguments: Arguments) -> None:
    """Compares each width with the interpreter, which runs iteration after iteration."""
    expected = _run(function, arguments, arch="reference", lanes=1)
    for arch, lanes in (("x64", 4), ("x64", 8), ("x64", 16), ("x64", None), ("reference", 8)):
        found = _run(function, arguments, arch=arch, **({"lanes": lanes} if lanes else {}))
        for one, other in zip(found, expected):
            np.testing.assert_array_equal(one, other, f"{arch}, {lanes} lanes")


Integers = qd.types.ndarray(dtype=qd.i64, ndim=1)
Floats = qd.types.ndarray(dtype=qd.f64, ndim=1)


def products_wrap(y: Integers, x: Floats, n: qd.i32):
    for i in range(n):
        while x[i] > 0.5:
            x[i] *= 0.5
        y[i] = qd.i64(i * 500000000)


def sums_wrap(y: Integers, x: Floats, n: qd.i32):
    for i in range(n):
        while x[i] > 0.5:
            x[i] *= 0.5
        if qd.i64(i + 2147483630) < 0:
            y[i] = 7


def indices_wrap(y: Integers, x: Floats, n: qd.i32):
    for i in range(n):
        while x[i] > 0.5:
            x[i] *= 0.5
        if i % 4 == 0:
            y[i * 1073741824] += 1  # always the first one


def half(k):
    s = qd.f64(k)
    while s > 0.5:
        s *= 0.5
    return s + k


def arguments_wrap(y: Integers, x: Floats, n: qd.i32):
    for i in range(n):
        x[i] += half(qd.i64(i * 500000000))


@pytest.mark.parametrize("function", [products_wrap, sums_wrap, indices_wrap, arguments_wrap])
def test_numbers_of_32_bits_wrap_around_in_each_lane(function: Any) -> None:
    check(function, lambda: [np.zeros(37, np.int64), np.arange(37.0), np.int32(37)])


def numbered(counts, out, x):
    for i in range(len(counts)):
        for j in range(out.shape[1]):
            s = 0.0
            for k in range(4):
                s += x[k, j]
            if s > 0.0:
                out[i, j] = qd.atomic_add(counts[i], 1)
            else:
                out[i, j] = 1000 + qd.atomic_add(counts[i], 1)


def exchanged(counts, out, x):
    for i in range(len(counts)):
        for j in range(out.shape[1]):
            s = 0.0
            for k in range(4):
                s += x[k, j]
            if s > 0.0:
                qd.atomic_exchange(counts[i], j)
            else:
                qd.atomic_exchange(counts[i], -j)


@pytest.mark.parametrize("function", [numbered, exchanged])
def test_a_loop_within_shows_its_order(function: Any) -> None:
    x = np.random.default_rng(0).standard_normal((4, 50))
    check(function, lambda: [np.zeros(5, np.int64), np.zeros((5, 50), np.int64), x.copy()])


def numbered_under_a_condition(counts, out, x):
    if x[0, 0] != 0.0:
        for j in range(out.shape[1]):
            out[0, j] = qd.atomic_add(counts[0], 1)


def test_a_loop_under_a_condition_shows_its_order() -> None:
    x = np.ones((4, 50))
    check(numbered_under_a_condition, lambda: [np.zeros(5, np.int64), np.zeros((5, 50000), np.int64), x.copy()])


def greatest_from(x, first, out):
    for i in range(len(out)):
        best = out[i]
        for k in range(first[i], first[i] + i % 25):
            if 2 * x[k] > best:
                best = 2 * x[k]
        out[i] = best


def test_a_start_that_is_nan_stays_where_nothing_is_greater() -> None:
    def arguments() -> list[Any]:
        x = np.random.default_rng(2).standard_normal(200)
        x[::7] = np.nan
        out = np.zeros(40)
        out[::3], out[1], out[2] = np.nan, np.inf, -np.inf
        return [x, 3 * np.arange(40), out]

    check(greatest_from, arguments)
