"""What a loop over an array gives: elements, as in Python, for plain NumPy arguments; indices for fields, ndarrays and
parameters that are annotated as arrays."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(params=["cpu", "reference"], autouse=True)
def target(request):
    qd.init(arch=getattr(qd, request.param), default_ip=qd.i64, default_fp=qd.f64)
    yield
    qd.reset()


def test_elements_of_a_plain_array():
    @qd.kernel
    def total(a):
        s = 0
        for x in a:
            s += x
        return s

    assert total(np.array([10, 20, 30])) == 60


def test_rows_of_a_plain_array_are_views():
    @qd.kernel
    def halve(a):
        for row in a:
            row *= 0.5

    values = np.arange(6.0).reshape(2, 3)
    halve(values)
    assert values.tolist() == [[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]]


def test_indices_of_an_annotated_array():
    @qd.kernel
    def fill(a: qd.types.ndarray()):
        for i in a:
            a[i] = i * 2

    values = np.zeros(4)
    fill(values)
    assert values.tolist() == [0, 2, 4, 6]


def test_indices_of_an_annotated_matrix():
    @qd.kernel
    def fill(a: qd.types.ndarray(ndim=2)):
        for i, j in a:
            a[i, j] = 10 * i + j

    values = np.zeros((2, 3))
    fill(values)
    assert values.tolist() == [[0, 1, 2], [10, 11, 12]]


def test_indices_of_ndarrays_and_fields():
    a, f = qd.ndarray(qd.f64, 3), qd.field(qd.f64, 3)

    @qd.kernel
    def fill(a):
        for i in a:
            a[i] = i + 1
        for i in f:
            f[i] = a[i] * 2

    fill(a)
    assert f.to_numpy().tolist() == [2, 4, 6]


def test_enumerate_and_zip_give_elements():
    @qd.kernel
    def run(a, b):
        s = 0
        for i, x in enumerate(a):
            s += i * x
        for x, y in zip(a, b):
            s += x * y
        return s

    assert run(np.array([1, 2, 3]), np.array([4, 5, 6])) == 8 + 32


def test_indices_by_numpy():
    @qd.kernel
    def number(a, b):
        for i, j, k in np.ndindex(a.shape):
            a[i, j, k] = 100 * i + 10 * j + k
        for i, j in np.ndindex(2, 3):
            b[i, j] = i - j
        for (i,) in np.ndindex(2):
            b[i, 0] += 5

    a, b = np.zeros((2, 3, 4)), np.zeros((2, 3))
    number(a, b)
    assert (a == np.fromfunction(lambda i, j, k: 100 * i + 10 * j + k, a.shape)).all()
    assert b.tolist() == [[5, -1, -2], [6, 0, -1]]


def test_whole_arrays_are_filled():
    scalars, vectors = qd.field(float, (3, 4)), qd.Vector.field(2, float, 3)

    @qd.kernel
    def fill(a, x: qd.types.ndarray()):
        scalars.fill(2)
        vectors.fill(1.5)
        a.fill(len(x))
        for i in range(1):
            x[:] = i + 7
        for i in vectors:
            vectors[i][0] += scalars[i, i]

    a, x = np.zeros((2, 2)), np.zeros(5, np.float32)
    fill(a, x)
    assert (scalars.to_numpy() == 2).all() and vectors.to_numpy().tolist() == [[3.5, 1.5]] * 3
    assert (a == 5).all() and (x == 7).all()
