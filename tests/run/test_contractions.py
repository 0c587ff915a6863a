"""Matrix products as users write them: all the usual forms run in tiles, and give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow

SIZES = [(64, 70, 77), (131, 200, 300), (13, 500, 64), (300, 33, 129)]


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


def carried(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = c[i, j] * 0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def nested(a, b, c):
    for i in range(len(c)):
        for j in range(c.shape[1]):
            c[i, j] = 0
            for k in range(len(b)):
                c[i, j] += a[i, k] * b[k, j]


def rows_of_b(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        c[i, j] = 0
    for i in range(len(c)):
        for k in range(len(b)):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def depth_first(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        c[i, j] = 0
    for k in range(len(b)):
        for i in range(len(c)):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def columns_first(a, b, c):
    for j in range(c.shape[1]):
        for i in range(len(c)):
            s = 0 * c[i, j]
            for k in range(len(b)):
                s = s + b[k, j] * a[i, k]
            c[i, j] = s


def all_at_once(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        c[i, j] = 0
    for i, j, k in qd.ndrange(c.shape[0], c.shape[1], b.shape[0]):
        c[i, j] += a[i, k] * b[k, j]


FORMS = [carried, nested, rows_of_b, depth_first, columns_first, all_at_once]


def _inputs(sizes: tuple[int, int, int], dtype: Any) -> list[np.ndarray]:
    rows, columns, depth = sizes
    generator = np.random.default_rng(sum(sizes))
    shapes = ((rows, depth), (depth, columns), (rows, columns))
    if np.dtype(dtype).kind == "f":
        return [generator.standard_normal(shape).astype(dtype) for shape in shapes]
    return [generator.integers(0, 100, shape).astype(dtype) for shape in shapes]


def _kernel(form: Callable[..., None]) -> Any:
    return qd.kernel(form)


def _compare(found: np.ndarray, expected: np.ndarray) -> None:
    if found.dtype.kind == "f":
        tolerance = 3e-6 if found.dtype == np.float32 else 1e-13
        assert abs(found - expected).max() <= tolerance * abs(expected).max()
    else:
        assert (found == expected.astype(found.dtype)).all()


def _in_tiles(kernel: Any) -> bool:
    return "in tiles of" in kernel.report()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_order_of_loops(form: Callable[..., None]) -> None:
    kernel, dtype = _kernel(form), np.float32
    for sizes in SIZES:
        a, b, c = _inputs(sizes, dtype)
        kernel(a, b, c)
        _compare(c, a.astype(np.float64) @ b.astype(np.float64))
    assert _in_tiles(kernel)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_integers_wrap(dtype: Any) -> None:
    a, b, c = _inputs((70, 80, 90), dtype)
    a *= dtype(2**31 - 7)
    kernel = _kernel(carried)
    kernel(a, b, c)
    assert _in_tiles(kernel)
    assert (c == a @ b).all()


def test_transposed_and_strided_factors() -> None:
    kernel = _kernel(carried)
    for sizes in SIZES:
        a, b, c = _inputs(sizes, np.float32)
        expected = a.astype(np.float64) @ b
        for left in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1].copy()[::-1]):
            for right in (b, b.T.copy().T):
                c[:] = 0
                kernel(left, right, c)
                _compare(c, expected)
    assert _in_tiles(kernel)


def test_batches() -> None:
    @qd.kernel
    def multiply(a, b, c):
        for n, i, j in qd.ndrange(c.shape[0], c.shape[1], c.shape[2]):
            s = 0.0 * c[n, i, j]
            for k in range(a.shape[2]):
                s += a[n, i, k] * b[n, k, j]
            c[n, i, j] = s

    generator = np.random.default_rng(1)
    a, b, c = (generator.standard_normal(shape) for shape in ((5, 70, 67), (5, 67, 81), (5, 70, 81)))
    multiply(a, b, c)
    assert _in_tiles(multiply)
    _compare(c, a @ b)


def test_what_is_done_with_the_sums() -> None:
    @qd.kernel
    def layer(a, b, c, bias, alpha, beta):
        for i, j in qd.ndrange(c.shape[0], c.shape[1]):
            s = 0.0
            for k in range(len(b)):
                s += a[i, k] * b[k, j]
            s = alpha * s + beta * c[i, j] + bias[j]
            c[i, j] = s if s > 0 else 0.0

    a, b, c = _inputs((100, 90, 80), np.float64)
    bias = np.linspace(-1, 1, 90)
    expected = np.maximum(0.5 * (a @ b) + 2.0 * c + bias, 0)
    layer(a, b, c, bias, 0.5, 2.0)
    assert _in_tiles(layer)
    _compare(c, expected)


def test_factors_that_are_computed() -> None:
    @qd.kernel
    def covariance(x, mean, c, n):
        for i, j in qd.ndrange(c.shape[0], c.shape[1]):
            s = 0.0
            for k in range(n):
                s += (x[k, i] - mean[i]) * (x[k, j] - mean[j])
            c[i, j] = s / n

    x = np.random.default_rng(1).standard_normal((200, 75))
    c = np.zeros((75, 75))
    covariance(x, x.mean(0), c, 200)
    assert _in_tiles(covariance)
    _compare(c, np.cov(x.T, bias=True))


def test_one_array_for_both_factors_and_for_the_result() -> None:
    kernel = _kernel(carried)
    a, b, c = _inputs((80, 80, 80), np.float64)
    kernel(a, a, c)
    _compare(c, a @ a)
    expected = [row.copy() for row in a]
    for i in range(80):
        for j in range(80):
            expected[i][j] = sum(expected[i][k] * b[k, j] for k in range(80))
    # The product overwrites its factor: iterations depend on one another, as they did for the nest itself.
    assert not np.allclose(a @ b, np.array(expected))
    serial = qd.kernel(columns_first)
    rows = a.copy()
    serial(rows, b, rows)
    assert np.isfinite(rows).all()


def test_nan_and_infinity_stay_in_their_rows() -> None:
    a, b, c = _inputs((67, 70, 100), np.float32)
    a[66, 99], b[99, 69] = np.nan, np.inf
    kernel = _kernel(carried)
    kernel(a, b, c)
    assert np.isnan(c[66]).all()
    assert np.isinf(c[:66, 69]).all()
    assert np.isfinite(c[:66, :69]).all()


def test_sizes_of_zero() -> None:
    kernel = _kernel(carried)
    for sizes in ((0, 70, 70), (70, 0, 70), (70, 70, 0)):
        a, b, c = _inputs(sizes, np.float64)
        kernel(a, b, c)
        assert (c == 0).all()


def test_the_same_bits_for_any_number_of_threads() -> None:
    a, b, c = _inputs((300, 500, 700), np.float32)
    found = []
    for threads in (1, 2, 3):
        qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=threads)
        _kernel(carried)(a, b, c)
        found.append(c.copy())
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


def test_the_tile_in_the_assembly() -> None:
    from quadrants.passes.tile import shape_of_tiles
    from quadrants.targets.llvm.x64.target import record

    a, b, c = _inputs((70, 80, 90), np.float32)
    kernel = _kernel(carried)
    kernel(a, b, c)
    text = kernel.assembly()
    task = text[text.index("task0") : text.index("task1")]
    capabilities = record()
    shape = shape_of_tiles(capabilities, qd.f32)
    if capabilities.fused_multiply_add:
        register = {512: "%zmm", 256: "%ymm", 128: "%xmm"}[capabilities.maximum_vector_bits]
        sums = [line for line in task.splitlines() if "vfmadd" in line and "ps" in line and register in line]
        assert len(sums) >= shape.rows * shape.vectors
    assert "gather" not in task and "scatter" not in task


def test_small_sizes_known_to_the_code_take_no_tiles() -> None:
    @qd.kernel
    def multiply(a, b, c):
        for i, j in qd.ndrange(48, 48):
            s = 0.0
            for k in range(48):
                s += a[i, k] * b[k, j]
            c[i, j] = s

    a, b, c = _inputs((48, 48, 48), np.float64)
    multiply(a, b, c)
    assert not _in_tiles(multiply)
    _compare(c, a @ b)


def test_matrix_by_vector_both_ways() -> None:
    @qd.kernel
    def rows(a, x, y):
        for i in range(len(y)):
            s = 0.0
            for j in range(len(x)):
                s += a[i, j] * x[j]
            y[i] = s

    @qd.kernel
    def columns(a, x, y):
        for i in range(len(y)):
            s = 0.0
            for j in range(len(x)):
                s += a[j, i] * x[j]
            y[i] = s

    generator = np.random.default_rng(1)
    for height, width in ((3, 5), (301, 70), (70, 1300), (1, 1), (0, 4), (2000, 0)):
        a = generator.standard_normal((height, width))
        x, y = generator.standard_normal(width), np.zeros(height)
        rows(a, x, y)
        assert np.allclose(y, a @ x, rtol=1e-12, atol=1e-12)
        x, y = generator.standard_normal(height), np.zeros(width)
        columns(a, x, y)
        assert np.allclose(y, a.T @ x, rtol=1e-12, atol=1e-12)
    assert "loops in fours: 1" in rows.report()
    assert "columns in blocks: 1" in columns.report()
