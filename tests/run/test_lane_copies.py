"""Rows that belong to one iteration, worked on in private copies by lanes: the same numbers, and nothing else touched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs

pytestmark = pytest.mark.slow

COUNT = 21  # whole blocks and a rest at every width


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = knobs.current.lanes, knobs.current.arch, knobs.current.verify
    yield
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = before


def cholesky(A, L, x):
    for e in range(A.shape[0]):
        for j in range(6):
            s = A[e, j, j]
            for k in range(j):
                s -= L[e, j, k] * L[e, j, k]
            d = qd.sqrt(s)
            L[e, j, j] = d
            for i in range(j + 1, 6):
                t = A[e, i, j]
                for k in range(j):
                    t -= L[e, i, k] * L[e, j, k]
                L[e, i, j] = t / d


def factorise(A, L, x):
    """The same for any size, and the solution of both triangles."""
    for e in range(A.shape[0]):
        n = A.shape[1]
        for j in range(n):
            s = A[e, j, j]
            for k in range(j):
                s -= L[e, j, k] * L[e, j, k]
            L[e, j, j] = qd.sqrt(s)
            for i in range(j + 1, n):
                t = A[e, i, j]
                for k in range(j):
                    t -= L[e, i, k] * L[e, j, k]
                L[e, i, j] = t / L[e, j, j]
        for i in range(n):
            t = x[e, i]
            for k in range(i):
                t -= L[e, i, k] * x[e, k]
            x[e, i] = t / L[e, i, i]
        for ii in range(n):
            i = n - 1 - ii
            t = x[e, i]
            for k in range(i + 1, n):
                t -= L[e, k, i] * x[e, k]
            x[e, i] = t / L[e, i, i]


def eliminate(A, L, x):
    """With pivots: which rows are exchanged differs from lane to lane."""
    for e in range(A.shape[0]):
        n = A.shape[1]
        for k in range(n):
            best = k
            for i in range(k + 1, n):
                if abs(A[e, i, k]) > abs(A[e, best, k]):
                    best = i
            for j in range(n):
                t = A[e, k, j]
                A[e, k, j] = A[e, best, j]
                A[e, best, j] = t
            t = x[e, k]
            x[e, k] = x[e, best]
            x[e, best] = t
            for i in range(k + 1, n):
                f = A[e, i, k] / A[e, k, k]
                L[e, i, k] = f
                for j in range(k, n):
                    A[e, i, j] -= f * A[e, k, j]
                x[e, i] -= f * x[e, k]


def upper(A, L, x):
    for e in range(A.shape[0]):
        n = A.shape[1]
        for i in range(n):
            for j in range(i, n):
                for k in range(i, j):
                    L[e, i, j] += A[e, i, k] * 0.5
                L[e, i, j] += A[e, i, j]


def tridiagonal(A, L, x):
    for e in range(A.shape[0]):
        n = x.shape[1]
        L[e, 0, 0] = A[e, 0, 0]
        for i in range(1, n):
            w = 0.1 / L[e, 0, i - 1]
            L[e, 0, i] = A[e, 0, i] + 3.0 - w * 0.2
            x[e, i] -= w * x[e, i - 1]
        for ii in range(1, n):
            i = n - 1 - ii
            x[e, i] = x[e, i] - 0.2 * x[e, i + 1] / L[e, 0, i]


def part(A, L, x):
    """A corner of larger matrices, under conditions that differ."""
    for e in range(A.shape[0]):
        for i in range(1, 4):
            for j in range(2):
                if A[e, i, j] > x[e, 0]:
                    L[e, i, j] += A[e, j, i]
                else:
                    for k in range(i):
                        L[e, i, j] -= A[e, k, i] * x[e, k]


def while_positive(A, L, x):
    for e in range(A.shape[0]):
        k = 0
        while k < 5 and x[e, k] > 0.1:
            for i in range(4):
                L[e, k, i] = A[e, k, i] + x[e, k]
                x[e, k + 1] = max(x[e, k + 1], L[e, k, i] * 0.25)
            k += 1


def absent(A, L, x):
    """Rows that no iteration reaches need not exist."""
    for e in range(2 * A.shape[0]):
        if e < A.shape[0]:
            for i in range(6):
                for j in range(6):
                    L[e, i, j] += A[e, i, j]


def columns(A, L, x):
    for i, e in qd.ndrange(6, A.shape[0]):
        for k in range(5):
            for j in range(5):
                L[e, i, j] += A[e, i, k] * x[e, j]


PROGRAMS = (cholesky, eliminate, upper, tridiagonal, part, while_positive, absent, columns)


def _arrays(dtype: Any, count: int, size: int, strided: bool) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    m = random.standard_normal((count, size, size))
    arrays = [
        m @ m.transpose(0, 2, 1) / size + np.eye(size),
        random.random((count, size, size)),
        random.random((count, size)),
    ]
    if not strided:
        return [array.astype(dtype) for array in arrays]
    wide = [np.full([2 * extent for extent in array.shape], 9.0, dtype) for array in arrays]
    for array, memory in zip(arrays, wide):
        memory[tuple([slice(None, None, 2)] * array.ndim)] = array
    return [memory[tuple([slice(None, None, 2)] * memory.ndim)] for memory in wide]


def _run(function: Callable[..., None], lanes: int, arch: knobs.Arch | None, arrays: list[np.ndarray]) -> None:
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = lanes, arch, True
    qd.kernel(function)(*arrays)


def _compare(function: Callable[..., None], lanes: int, arch: Any, *shape: Any) -> None:
    found, expected = _arrays(*shape), _arrays(*shape)
    _run(function, lanes, arch, found)
    _run(function, 1, knobs.Arch.reference, expected)
    tolerance = 2e-4 if shape[0] is np.float32 else 1e-12
    for one, other in zip(found, expected):
        assert np.allclose(one, other, rtol=tolerance, atol=tolerance)
        if one.base is not None:
            assert (one.base == 9.0).sum() == one.base.size - one.size


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_copies_mean_the_same(function: Any) -> None:
    for lanes, dtype in ((2, np.float64), (4, np.float64), (8, np.float32), (16, np.float32)):
        _compare(function, lanes, None, dtype, COUNT, 6, False)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_in_the_interpreter(function: Any) -> None:
    _compare(function, 4, knobs.Arch.reference, np.float64, 9, 6, False)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("size", [7, 9])
def test_elements_that_are_apart(function: Any, size: int) -> None:
    _compare(function, 8, None, np.float32, COUNT, size, size != 7)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 14, 31, 33])
@pytest.mark.parametrize("function", [factorise, eliminate, upper, tridiagonal], ids=lambda function: function.__name__)
def test_sizes_that_only_the_run_tells(function: Any, size: int) -> None:
    """Up to 31 there is room for copies, from 33 on there is none."""
    _compare(function, 8, None, np.float32, 17, size, False)


@pytest.mark.parametrize("count", [0, 1, 8, 16])
def test_counts(count: int) -> None:
    _compare(cholesky, 8, None, np.float32, count, 6, False)


def test_the_other_half_is_not_touched() -> None:
    arrays = _arrays(np.float32, 16, 6, False)
    arrays[1][:] = np.nan
    _run(cholesky, 8, None, arrays)
    for i, j in itertools.product(range(6), range(6)):
        assert np.isnan(arrays[1][:, i, j]).all() == (j > i)


def test_arrays_that_are_one() -> None:
    """What two arguments share is not copied."""
    for arch in (None, knobs.Arch.reference):
        found, expected = _arrays(np.float64, 16, 6, False), _arrays(np.float64, 16, 6, False)
        _run(cholesky, 8, arch, [found[0], found[0], found[2]])
        _run(cholesky, 1, knobs.Arch.reference, [expected[0], expected[0], expected[2]])
        assert np.allclose(found[0], expected[0], rtol=1e-12)


def test_sums_of_independent_iterations_go_side_by_side() -> None:
    knobs.current.lanes = 8
    kernel = qd.kernel(factorise)
    kernel(*_arrays(np.float32, 16, 14, False))
    assert "loops with iterations side by side: 1" in kernel.report()


def test_no_lane_reads_or_writes_an_element_alone() -> None:
    knobs.current.lanes = 8
    kernel = qd.kernel(cholesky)
    kernel(*_arrays(np.float32, 16, 6, False))
    assert "arrays copied for lanes: 2" in kernel.report()
    ir = kernel.ir()
    assert "interleave" in ir
    loads = [line for line in ir.splitlines() if "lane_load" in line or "lane_store" in line]
    assert loads
    assert all("steps = (0, 1)" in line for line in loads), loads


def sums(A, L, x):
    for e in range(A.shape[0]):
        for i in range(A.shape[1]):
            x[e, 0] += A[e, 0, i]


def filtered(A, L, x):
    for e in range(A.shape[0]):
        s = x[e, 0]
        for i in range(x.shape[1]):
            s = 0.5 * s + x[e, i]
            L[e, 0, i] = s


@pytest.mark.parametrize(
    ("function", "copies"),
    [(cholesky, 2), (factorise, 3), (eliminate, 3), (tridiagonal, 3), (filtered, 2), (sums, 0)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_loops_that_only_lanes_make_vectors_of(function: Any, copies: int) -> None:
    """Unasked; sums along rows are left to the code generator."""
    kernel = qd.kernel(function)
    kernel(*_arrays(np.float32, 16, 6, False))
    assert (f"arrays copied for lanes: {copies}" in kernel.report()) == bool(copies), kernel.report()


def records(m, v, w):
    """Whole vectors and matrices, that are read and written."""
    for e in range(len(v)):
        r = v[e]
        k = 0
        while r.dot(r) > 1.0 and k < 9:
            r = 0.5 * (m[e] @ r)
            k += 1
        v[e] = r
        m[e] = 2 * m[e] + 1
        w[e] = w[e] + 2


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize(("dtype", "lanes"), [(np.float32, 4), (np.float32, 8), (np.float32, 16), (np.float64, 8)])
def test_records(dtype: Any, lanes: int, arch: knobs.Arch | None) -> None:
    random = np.random.default_rng(3)
    arrays = [random.random((COUNT, 3, 3)), 3 * random.random((COUNT, 3)), random.integers(0, 9, (COUNT, 2))]
    scalar = qd.f32 if dtype is np.float32 else qd.f64
    found = []
    for width, arch_ in ((lanes, arch), (1, knobs.Arch.reference)):
        knobs.current.lanes, knobs.current.arch, knobs.current.verify = width, arch_, True
        memory = (
            qd.Matrix.ndarray(3, 3, scalar, COUNT),
            qd.Vector.ndarray(3, scalar, COUNT),
            qd.Vector.ndarray(2, qd.i32, COUNT),
        )
        for array, values in zip(memory, arrays):
            array.from_numpy(values.astype(array.to_numpy().dtype))
        kernel = qd.kernel(records)
        kernel(*memory)
        assert ("arrays copied for lanes: 3" in kernel.report()) == (width > 1)
        found.append([array.to_numpy() for array in memory])
    for one, other in zip(*found):
        assert np.allclose(one, other, rtol=1e-4)
