"""Tiles: square matrices whose rows threads hold, against NumPy, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsCompilationError, QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow

Tile16, Tile32, block = qd.simt.Tile16x16, qd.simt.Tile32x32, qd.simt.block


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    start(executor)


def start(executor: TargetExecutor, **options: Any) -> None:
    qd.init(arch=knobs.arch_by_name(executor.arch), verify=True, default_ip=qd.i32, **executor.options, **options)


def positive(*shape: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    b = np.random.default_rng(shape[-1]).standard_normal(shape).astype(np.float32)
    return (b @ np.swapaxes(b, -1, -2) + 4 * np.eye(shape[-1])).astype(np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).integers(-9, 10, shape).astype(np.float32)


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() < 2e-5 * np.abs(expected).max())


def test_cholesky_factors_of_several_matrices() -> None:
    @qd.kernel
    def factor(a, l):
        qd.loop_config(block_dim=64)
        for i in range(a.shape[0] * 16):
            t = Tile16.zeros(dtype=qd.f32)
            t[:] = a[i // 16, 0:16, 0:16]
            t.cholesky_(1e-6)
            l[i // 16, 0:16, 0:16] = t

    a, l = positive(5, 16, 16), np.ones((5, 16, 16), np.float32)
    below = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
    factor(below, l)
    assert close(l, np.linalg.cholesky(a.astype(np.float64)))


@pytest.mark.parametrize("n", [32, 21])
def test_a_larger_tile_and_a_smaller_matrix(n: int) -> None:
    @qd.kernel
    def factor(a, n):
        qd.loop_config(block_dim=32)
        for i in range(32):
            t = Tile32.eye()
            t[:] = a[0:n, 0:n]
            t.cholesky_(1e-6)
            a[0:n, :] = t

    a = np.full((n + 3, n), 7, np.float32)
    a[:n] = positive(n, n)
    expected = np.linalg.cholesky(a[:n].astype(np.float64))
    factor(a, n)
    assert close(a[:n], expected) and (a[n:] == 7).all()


def test_a_matrix_of_many_tiles() -> None:
    @qd.kernel
    def factor(h):
        n, size = h.shape[1], Tile16.SIZE
        qd.loop_config(block_dim=16)
        for i in range(h.shape[0] * 16):
            b = i // 16
            for step in range((n + size - 1) // size):
                k0 = step * size
                k1 = min(k0 + size, n)
                diagonal = Tile16.eye(dtype=qd.f32)
                diagonal[:] = h[b, k0:k1, k0:k1]
                for j in range(k0):
                    v = h[b, k0:k1, j]
                    diagonal -= qd.outer(v, v)
                diagonal.cholesky_(1e-6)
                h[b, k0:k1, k0:k1] = diagonal
                block.sync()
                for below in range(step + 1, (n + size - 1) // size):
                    i0 = below * size
                    i1 = i0 + size
                    panel = Tile16.zeros(dtype=qd.f32)
                    panel[:] = h[b, i0:i1, k0:k1]
                    for j in range(k0):
                        v_own = h[b, i0:i1, j]
                        v_diagonal = qd.f32(0)
                        if k0 + i % 16 < n:
                            v_diagonal = h[b, k0 + i % 16, j]
                        panel -= qd.outer(v_own, v_diagonal)
                    diagonal.solve_triangular_(panel)
                    h[b, i0:i1, k0:k1] = panel
                block.sync()

    given = positive(2, 40, 40)
    h = qd.ndarray(qd.f32, (2, 40, 40))
    h.from_numpy(given)
    factor(h)
    assert close(np.tril(h.to_numpy()), np.linalg.cholesky(given.astype(np.float64)))


def test_triangular_systems() -> None:
    @qd.kernel
    def solve(l, b, x):
        qd.loop_config(block_dim=32)
        for i in range(32):
            left, right = Tile16.zeros(), Tile16.zeros()
            left[:] = l[:, :]
            right[:] = b[i // 16, :, :]
            if i // 16 == 0:
                left.solve_triangular_(right)
            else:
                left.solve_triangular_(B=right, lower=False)
            x[i // 16, :, :] = right

    l = numbers(16, 16) / 20 + 3 * np.eye(16, dtype=np.float32)
    b, x = numbers(2, 16, 16), np.zeros((2, 16, 16), np.float32)
    solve(l, b, x)
    assert close(x[0] @ np.tril(l).T, b[0]) and close(x[1] @ np.triu(l).T, b[1])


def test_fields_shared_arrays_and_transposed_parts() -> None:
    a, out = qd.field(qd.f64, (20, 20)), qd.field(qd.f32, (16, 16, 3))

    @qd.kernel
    def move(row: int, column: int):
        qd.loop_config(block_dim=16)
        for i in range(16):
            shared = block.SharedArray((16, 17), qd.f32)
            t = Tile16.zeros(dtype=qd.f64)
            t[:] = a[row : row + 16, column : column + 16]
            shared[0:16, 0:16] = t
            block.sync()
            own = Tile16.zeros(dtype=qd.f32)
            own[:] = shared[:, 0:16]
            own += qd.outer(shared[0:16, 3], shared[5, :])
            out[:, :, 1] = own
            own[:] = t
            own[:] = 2.5
            out[:, :, 2] = own

    given = numbers(20, 20)
    a.from_numpy(given.astype(np.float64))
    move(3, 9)
    part = np.zeros((16, 16))
    part[:, :11] = given[3:19, 9:]
    found = out.to_numpy()
    assert (found[:, :, 1] == part + np.outer(part[:, 3], part[5])).all()
    assert (found[:, :, 2] == 2.5).all() and (found[:, :, 0] == 0).all()


def test_bounds_that_count_from_the_end() -> None:
    """Of fields they are indices."""
    f = qd.field(qd.f32, (20, 20), offset=(5, -3))

    @qd.kernel
    def move(a, out, n):
        qd.loop_config(block_dim=16)
        for i in range(16):
            t = Tile16.zeros(dtype=qd.f32)
            t[:] = a[n:, -16:-2]
            out[-20:, 1:n] = t
            t[:] = f[n + 14 :, -3:13]
            t += qd.outer(1.0, 1.0)
            f[5:21, -3:13] = t

    a, out, before = numbers(20, 20), np.zeros((16, 16), np.float32), numbers(20, 21)[:, :20]
    f.from_numpy(before)
    move(a, out, -7)
    part = np.zeros((16, 16), np.float32)
    part[:7, :14] = a[-7:, -16:-2]
    expected = np.zeros((16, 16), np.float32)
    expected[:, 1:-7] = part[:, : 16 - 8]
    assert (out == expected).all()
    part[:] = before[2:18, :16]
    before[:16, :16] = part + 1
    assert (f.to_numpy() == before).all()


@qd.func
def shifted(t: qd.template(), by):  # pyright: ignore[reportInvalidTypeForm]
    t -= qd.outer(by, 1.0)
    t.cholesky_(1e-6)


@qd.func
def read(a, n):
    t = Tile16.eye()
    t[:] = a[0:n, 0:n]
    return t


def test_tiles_through_functions() -> None:
    @qd.kernel
    def run(a, out, n):
        qd.loop_config(block_dim=16)
        for i in range(16):
            t = read(a, n)
            s = t
            shifted(s, 0.25)
            out[0, :, :] = t
            out[1, :, :] = s

    a, out = positive(16, 16), np.zeros((2, 16, 16), np.float32)
    run(a, out, 16)
    assert (out[0] == a).all() and close(out[1], np.linalg.cholesky(a.astype(np.float64) - 0.25))


def test_tiles_through_loops_and_branches() -> None:
    @qd.kernel
    def run(a, out, n):
        qd.loop_config(block_dim=16)
        for i in range(16):
            t = Tile16.zeros()
            t[:] = a[0:n, :]
            for k in range(5):
                vector = a[0:n, k % 3]
                if k % 2 == 1:
                    vector = a[0:n, 2]
                if k < n:
                    t -= qd.outer(vector, qd.Vector([1.0, 2.0, 3.0]))
                else:
                    t.eye_()
            out[:, :] = t

    a, out = numbers(16, 16), np.zeros((16, 16), np.float32)
    run(a, out, 16)
    expected = a.copy()
    for k in (0, 2, 2, 2, 1):
        expected[:, :3] -= np.outer(a[:, k], [1, 2, 3])
    assert (out == expected).all()
    run(a, out, 2)
    assert (out == np.eye(16)).all()


def test_what_tiles_refuse(executor: TargetExecutor) -> None:
    def refused(body: Any, kind: type[Exception], match: str) -> None:
        with pytest.raises(kind, match=match) as error:
            qd.kernel(body)(numbers(16, 16))
        assert "# here" in str(error.value)

    def other(a):
        for i in range(16):
            t = Tile16.zeros()
            t -= a[0:16, 0]  # here

    def rows(a):
        for i in range(16):
            t = Tile16.zeros()
            t[:] = a[0:16, 3]  # here

    def some(a):
        for i in range(16):
            t = Tile16.zeros()
            t[0:4] = 1.0  # here

    def a_row(a):
        for i in range(16):
            t = Tile16.zeros()
            t[i, :] = 1.0  # here

    def integers(a):
        for i in range(16):
            t = Tile16.zeros(dtype=qd.i32)
            t.cholesky_(1e-6)  # here

    def sizes(a):
        for i in range(32):
            t, u = Tile16.zeros(), Tile32.zeros()
            t.solve_triangular_(u)  # here

    def value(a):
        for i in range(16):
            a[i, 0] = a[0:i, 3] + 1.0  # here

    def steps(a):
        for i in range(16):
            t = Tile16.zeros()
            t[:] = a[0:16:2, 0:16]  # here

    def nameless(a):
        for i in range(16):
            Tile16.zeros().cholesky_(0.1)  # here

    def element(a):
        for i in range(16):
            t = Tile16.zeros()
            a[i, 0] = t[0, 0]  # here

    def length(a):
        for i in range(16):
            t = Tile16.zeros()
            a[i, 0] = len(t)  # here

    def shown(a):
        for i in range(16):
            t = Tile16.zeros()
            print(t)  # here

    def product(a):
        for i in range(16):
            a[i, 0] = qd.outer(a[:, 0], 1.0) + 1.0  # here

    def number(a):
        for i in range(16):
            a[i, 0] = Tile16.zeros()  # here

    refused(other, QuadrantsTypeError, "adds or subtracts outer products")
    refused(rows, QuadrantsSyntaxError, "two slices, rows and columns")
    refused(some, QuadrantsSyntaxError, "assigned as a whole")
    refused(a_row, QuadrantsSyntaxError, "assigned as a whole")
    refused(integers, QuadrantsTypeError, "cholesky takes a tile of floats")
    refused(sizes, QuadrantsTypeError, "two tiles of floats of one size")
    refused(value, QuadrantsSyntaxError, "whole arrays are not sliced in a kernel, but for tiles")
    refused(steps, QuadrantsSyntaxError, "has a step of 1")
    refused(nameless, QuadrantsSyntaxError, "has a name")
    for body in (element, length, shown):
        refused(body, QuadrantsSyntaxError, "threads hold the elements of a tile: assign it to a part of an array")
    refused(product, QuadrantsSyntaxError, "an outer product, which tiles add or subtract, is not a number")
    refused(number, QuadrantsCompilationError, "two slices, rows and columns")
    with pytest.raises(QuadrantsSyntaxError, match="works in the loops of kernels only"):
        Tile16.zeros()
    with pytest.raises(QuadrantsSyntaxError, match="works in the loops of kernels only"):
        qd.outer(1, 2)
    start(executor, subgroup_size=16)

    def large(a):
        for i in range(32):
            t = Tile32.zeros()  # here

    refused(large, QuadrantsSyntaxError, "needs as many threads side by side")
