"""What devices run by blocks and teams of threads (sums, products of matrices, rows, stencils), on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow


def sums(x, n):
    s = 0.0
    least = 1e9
    count = 0
    for i in range(n):
        s += x[i]
        least = min(least, x[i])
        if x[i] > 0.5:
            count += 1
    return s, least, count


@pytest.mark.parametrize("size", [0, 1, 255, 5000])
def test_sums_of_a_line(executor: TargetExecutor, size: int) -> None:
    x = np.random.default_rng(size).random(size + 1)
    s, least, count = executor.launcher(sums)(x, size)
    assert np.isclose(s, x[:size].sum(), rtol=1e-13)
    assert least == min([*x[:size], 1e9]) and count == (x[:size] > 0.5).sum()


def total(x):
    s = x.dtype(0)
    for i, j, k in qd.ndrange(x.shape[0], (1, x.shape[1]), x.shape[2]):
        if j == k:
            continue
        s += x[i, j, k]
    return s


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float64])
@pytest.mark.parametrize("shape", [(3, 5, 7), (40, 2, 3), (0, 3, 3), (3, 1, 3)])
def test_sums_of_nests(executor: TargetExecutor, dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
    _, j, k = np.indices(shape)
    assert executor.launcher(total)(x) == x[(j > 0) & (j != k)].sum(dtype=dtype)


def time_steps(x, y, steps):
    for t in range(steps):
        s = 0.0
        for i in range(len(x)):
            s += x[i]
        y[t] = s
        for i in range(len(x)):
            x[i] += s / 1024


def test_sums_within_a_loop_in_order(executor: TargetExecutor) -> None:
    x, y = np.ones(512), np.zeros(3)
    executor.launcher(time_steps)(x, y, 3)
    assert y.tolist() == [512.0, 768.0, 1152.0]


def product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = a.dtype(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] += s


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("sizes", [(70, 66, 65), (130, 17, 120)])
def test_products_of_matrices(executor: TargetExecutor, dtype: type, sizes: tuple[int, int, int]) -> None:
    m, n, d = sizes
    generator = np.random.default_rng(2)
    a, b, c = (generator.integers(-9, 9, s).astype(dtype) for s in ((m, d), (d, n), (m, n)))
    expected = c + a @ b
    executor.launcher(product)(a, b, c)
    assert (c == expected).all()


def narrow_product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = qd.f32(0)
        for k in range(a.shape[1]):
            s += qd.cast(a[i, k], qd.f32) * qd.cast(b[k, j], qd.f32)
        c[i, j] = s


def test_products_of_narrow_floats(executor: TargetExecutor) -> None:
    generator = np.random.default_rng(3)
    a, b = (
        generator.integers(-9, 9, (70, 65)).astype(np.float16),
        generator.integers(-9, 9, (65, 66)).astype(np.float16),
    )
    c = np.zeros((70, 66), np.float32)
    executor.launcher(narrow_product)(a, b, c)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


def rows(a, x, y):
    for i in range(a.shape[0]):
        s = a.dtype(0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] += s


def sparse_rows(ends, columns, values, x, y):
    for i in range(len(y)):
        s = values.dtype(0)
        for k in range(ends[i], ends[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s


@pytest.mark.parametrize("mean", [3, 24])
def test_sparse_rows(executor: TargetExecutor, mean: int) -> None:
    generator = np.random.default_rng(mean)
    ends = np.cumsum(np.append(0, generator.integers(0, 2 * mean, 40)))
    columns, values = generator.integers(0, 30, ends[-1]), generator.integers(-9, 9, ends[-1]).astype(np.float32)
    x, y = generator.integers(-9, 9, 30).astype(np.float32), np.zeros(40, np.float32)
    executor.launcher(sparse_rows)(ends, columns, values, x, y)
    assert y.tolist() == [(values[a:b] * x[columns[a:b]]).sum() for a, b in zip(ends, ends[1:])]


def bodies(p, f):
    for i in range(len(p)):
        s = qd.Vector([0.0, 0.0, 0.0])
        for j in range(len(p)):
            r = qd.Vector([p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]])
            s += r / (r.dot(r) + 1.0)
        for k in qd.static(range(3)):
            f[i, k] = s[k]


@pytest.mark.parametrize("shape", [(5, 40), (33, 100), (3, 7)])
def test_rows(executor: TargetExecutor, shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(4)
    a, x, y = (generator.integers(-9, 9, s).astype(np.float32) for s in (shape, shape[1], shape[0]))
    expected = y + a @ x
    executor.launcher(rows)(a, x, y)
    assert (y == expected).all()


def test_few_bodies(executor: TargetExecutor) -> None:
    p = np.random.default_rng(5).random((50, 3))
    f = np.zeros_like(p)
    executor.launcher(bodies)(p, f)
    r = p[None, :, :] - p[:, None, :]
    assert np.allclose(f, (r / ((r * r).sum(axis=2) + 1)[:, :, None]).sum(axis=1), rtol=1e-12)


def smooth(x, y):
    for i, j in qd.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2)):
        s = 0.0
        for a, b in qd.static(qd.ndrange((-2, 3), (-2, 3))):
            s += x[i + a, j + b]
        y[i, j] = s


@pytest.mark.parametrize("shape", [(20, 40), (5, 5), (4, 7), (9, 33)])
def test_squares_of_twenty_five_points(executor: TargetExecutor, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(6).integers(0, 9, shape).astype(np.float64)
    y, expected = np.zeros(shape), np.zeros(shape)
    m, n = shape
    expected[2:-2, 2:-2] = sum(x[a : m - 4 + a, b : n - 4 + b] for a in range(5) for b in range(5))
    executor.launcher(smooth)(x, y)
    assert (y == expected).all()


def smooth_layer(x, y, k: qd.i32):
    for i, j in qd.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2)):
        if k < x.shape[2]:
            s = 0.0
            for a, b in qd.static(qd.ndrange((-2, 3), (-2, 3))):
                s += x[i + a, j + b, k]
            y[i, j] = s


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("layer", [1, 1 << 30])
def test_what_no_iteration_reads_is_not_read(executor: TargetExecutor, layers: int, layer: int) -> None:
    x, y = np.ones((9, 33, layers)), np.zeros((9, 33))
    executor.launcher(smooth_layer)(x, y, layer)
    assert y.sum() == (25 * 5 * 29 if layer < layers else 0)


def histogram(x, counts, weights):
    for i in range(len(x)):
        counts[x[i]] += 1
        weights[x[i]] += 0.5


@pytest.mark.parametrize(("size", "bins"), [(1000, 10), (50, 40), (9000, 300)])
def test_histograms(executor: TargetExecutor, size: int, bins: int) -> None:
    x = np.random.default_rng(7).integers(0, bins, size)
    counts, weights = np.ones(bins, np.int32), np.zeros(bins)
    executor.launcher(histogram)(x, counts, weights)
    expected = np.bincount(x, minlength=bins)
    assert (counts == expected + 1).all() and (weights == expected / 2).all()


def found(executor: TargetExecutor, function: Any, *arguments: Any) -> str:
    """What the report of a kernel says."""
    executor.initialise(qd)
    kernel = qd.kernel(function)
    kernel(*arguments)
    return kernel.report()


def test_devices_with_blocks_of_threads_use_them() -> None:
    device = TargetExecutor("simulated", "simulated")
    x = np.zeros((40, 40))
    assert "reductions in blocks: 1" in found(device, sums, np.zeros(10), 10)
    assert "loops shared by teams: 1" in found(device, rows, x, np.zeros(40), np.zeros(40))
    ends, ones = np.array([0, 20, 40]), np.ones(40)
    sparse = found(device, sparse_rows, ends, np.zeros(40, np.int64), ones, ones, np.zeros(2))
    assert "loops shared by teams: 2" in sparse  # with and without indices that count from the end
    assert "boxes in shared memory: 1" in found(device, smooth, x, np.zeros((40, 40)))
    assert "contractions in shared memory: 1" in found(device, product, x, x, np.zeros((40, 40)))
    found_in_histogram = found(device, histogram, np.zeros(40, np.int64), np.zeros(4, np.int32), np.zeros(4))
    assert "scattered sums in shared memory: 1" in found_in_histogram
    narrow = x.astype(np.float16)
    assert "contractions on tensor cores: 1" in found(
        device, narrow_product, narrow, narrow, np.zeros((40, 40), np.float32)
    )
