"""Loops long enough for threads, chunks and tails: NumPy is the oracle here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 255, 1000, 4096, 4097, 100_003)
BIG = 300_007


kernel_of = cache(qd.kernel)


@pytest.fixture(scope="module", autouse=True, params=[1, 2, 5], ids=lambda count: f"{count}-threads")
def _without_options(request: pytest.FixtureRequest) -> Iterator[None]:
    """So many threads, set once for all tests: code that is compiled once has to be right for all sizes."""
    qd.init(arch=qd.cpu, default_ip=qd.i64, default_fp=qd.f64, cpu_max_num_threads=request.param)
    kernel_of.cache_clear()
    yield
    qd.reset()


def saxpy(a, x, y):
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


def count_above(x, limit):
    n = 0
    for i in range(len(x)):
        if x[i] > limit:
            n += 1
    return n


def extremes(x):
    low = x[0]
    high = x[0]
    for i in range(len(x)):
        low = min(low, x[i])
        high = max(high, x[i])
    return low, high


def total(x):
    s = 0
    for i in range(len(x)):
        s += x[i]
    return s


def bits(x):
    every = x[0]
    some = x[0]
    odd = x[0] ^ x[0]
    for i in range(len(x)):
        every &= x[i]
        some |= x[i]
        odd ^= x[i]
    return every, some, odd


def histogram(index, out):
    for i in range(len(index)):
        out[index[i]] += 1


def scatter_rows(index, rows, out):
    for i in range(len(index)):
        out[index[i]] += rows[i]


def flattened(a, out):
    for i, j in qd.ndrange(a.shape[0], a.shape[1]):
        out[j, i] = a[i, j] * 2 + i - j


def row_sums(a, out):
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
        out[i] = s


def two_stages(x, y, z):
    for i in range(len(x)):
        y[i] = x[len(x) - 1 - i] * 2
    for i in range(len(x)):
        z[i] = y[len(x) - 1 - i] + 1


def divergent(a, out):
    for i in range(len(a)):
        n = a[i]
        steps = 0
        while n > 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
            if steps > 200:
                break
        out[i] = steps


def carried_by_three(a, out, n):
    for i in range(5, n - 5):
        a[i + 3] += a[i] & 15
        x = 0
        for j in range(50):
            x += (i * j) % 7
        out[i] = x


def carried_by_seven(a, out, n):
    for i in range(n - 9):
        a[i + 7] = (a[i] + a[i + 8]) & 255
        x = 0
        for j in range(50):
            x += (i * j) % 7
        out[i] = x


def compact(x, counter, out):
    for i in range(len(x)):
        if x[i] > 0:
            out[qd.atomic_add(counter[0], 1)] = x[i]


@pytest.mark.parametrize("count", SIZES)
def test_elementwise(count: int) -> None:
    x = np.arange(count, dtype=np.float32)
    y = np.ones(count, np.float32)
    kernel_of(saxpy)(2.0, x, y)
    assert (y == 2 * x + 1).all()


@pytest.mark.parametrize("count", SIZES)
def test_sums_and_counts(count: int) -> None:
    x = np.random.default_rng(count).integers(-1000, 1000, count)
    assert kernel_of(total)(x) == x.sum()
    assert kernel_of(count_above)(x, 17) == (x > 17).sum()


@pytest.mark.parametrize("count", SIZES[1:])
def test_extremes_and_bits(count: int) -> None:
    x = np.random.default_rng(count).integers(-(2**31), 2**31, count).astype(np.int32)
    assert kernel_of(extremes)(x) == (x.min(), x.max())
    expected = np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)
    assert kernel_of(bits)(x) == tuple(int(v) for v in expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_of_floats_is_accurate(dtype: type) -> None:
    x = np.random.default_rng(3).random(BIG).astype(dtype)
    assert kernel_of(total)(x) == pytest.approx(x.astype(np.float64).sum(), rel=1e-6)


def test_extremes_with_nan() -> None:
    x = np.random.default_rng(3).standard_normal(BIG).astype(np.float32)
    x[[0, 5, BIG // 2, BIG - 1]] = np.nan
    assert kernel_of(extremes)(x) == (np.nanmin(x), np.nanmax(x))


@pytest.mark.parametrize("count", [1, 7, 64, 40_000])
@pytest.mark.parametrize("numbers", [0, 1])
def test_extremes_of_nan_alone(count: int, numbers: int) -> None:
    x = np.full(count, np.nan)
    x[count - numbers :] = 3.5
    low, high = qd.kernel(extremes)(x)
    expected = 3.5 if numbers else np.nan
    np.testing.assert_array_equal([low, high], [expected, expected])


@pytest.mark.parametrize("bins", [1, 3, 64, 10_000, 250_000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.uint8, np.int16])
def test_histograms(bins: int, dtype: type) -> None:
    index = np.random.default_rng(bins).integers(0, bins, 60_000).astype(np.int32)
    out = np.zeros(bins, dtype)
    kernel_of(histogram)(index, out)
    expected = np.bincount(index, minlength=bins).astype(dtype)
    assert (out == expected).all()


def test_scatter_of_rows() -> None:
    random = np.random.default_rng(9)
    index = random.integers(0, 100, 50_000)
    rows = random.integers(-5, 5, (50_000, 3)).astype(np.float32)
    out = np.zeros((100, 3), np.float32)
    kernel_of(scatter_rows)(index, rows, out)
    expected = np.zeros((100, 3))
    np.add.at(expected, index, rows)
    assert (out == expected).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (3, 4001), (67, 71), (0, 4), (4, 0)])
def test_two_axes(shape: tuple[int, int]) -> None:
    a = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    out = np.zeros(shape[::-1], np.int64)
    kernel_of(flattened)(a, out)
    i, j = np.indices(shape)
    assert (out == (a * 2 + i - j).T).all()


def test_inner_reductions() -> None:
    a = np.random.default_rng(4).integers(0, 100, (311, 257)).astype(np.float64)
    out = np.zeros(311)
    kernel_of(row_sums)(a, out)
    assert (out == a.sum(axis=1)).all()


def test_loops_wait_for_one_another() -> None:
    x = np.arange(BIG, dtype=np.int64)
    y, z = np.zeros_like(x), np.zeros_like(x)
    kernel = kernel_of(two_stages)
    for _ in range(5):
        kernel(x, y, z)
        assert (z == 2 * x + 1).all()
        x += 1


def test_divergent_iterations() -> None:
    a = np.arange(20_000, dtype=np.int64)
    out = np.zeros_like(a)
    kernel_of(divergent)(a, out)
    expected = np.zeros_like(a)
    for start in range(1, 2000):
        n, steps = start, 0
        while n > 1 and steps <= 200:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        expected[start] = steps
    assert (out[:2000] == expected[:2000]).all()


@pytest.mark.parametrize("function", [carried_by_three, carried_by_seven], ids=lambda f: f.__name__)
def test_dependence_over_a_distance_runs_in_order(function) -> None:
    count = 6000
    a = np.random.default_rng(2).integers(0, 16, count)
    expected = [int(value) for value in a]
    function(expected, [0] * count, count)
    kernel = kernel_of(function)
    for _ in range(4):
        found = a.copy()
        kernel(found, np.zeros(count, np.int64), count)
        assert found.tolist() == expected
    assert "no parallel loop" in kernel.report()


def test_tickets() -> None:
    x = np.random.default_rng(5).integers(-100, 100, BIG)
    counter, out = np.zeros(1, np.int64), np.zeros(BIG, np.int64)
    kernel_of(compact)(x, counter, out)
    kept = counter[0]
    assert kept == (x > 0).sum()
    assert (np.sort(out[:kept]) == np.sort(x[x > 0])).all()
