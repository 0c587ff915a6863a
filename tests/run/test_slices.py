"""Slices of the static axes of elements are read, stored and updated as NumPy does it."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd


def rows(F, p):
    for i in range(len(F)):
        c = F[i][:, 0] * 1.0
        F[i][0, :] = c
        F[i, 1, :2] += 1.0
        F[i][2, :] *= 2
        F[i][:, 2] /= 2
        p[i, :2] = p[i, 1:] * 1.0
        p[i][2] = 9
        p[i][::2] -= 1


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_slices_of_elements(target):
    qd.init(arch=getattr(qd, target), default_ip=qd.i64, default_fp=qd.f64)
    F, p = np.arange(18.0).reshape(2, 3, 3), np.arange(6.0).reshape(2, 3)
    expected_F, expected_p = F.copy(), p.copy()
    rows(expected_F, expected_p)
    qd.kernel(rows)(F, p)
    qd.reset()
    np.testing.assert_array_equal(F, expected_F)
    np.testing.assert_array_equal(p, expected_p)


def test_whole_arrays_are_not_sliced():
    @qd.kernel
    def clear(a):
        a[1:3] = 0

    with pytest.raises(qd.QuadrantsSyntaxError, match="whole arrays are not sliced"):
        clear(np.zeros(5))


def nested(n):
    w = [qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0])]
    w[0][1] = 9.0
    w[1].x += 1
    for k in range(2):
        w[0][k] += n
    return w[0][0], w[0][1], w[1][0], w[1][1]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_elements_of_vectors_in_a_list(target):
    qd.init(arch=getattr(qd, target), default_ip=qd.i64, default_fp=qd.f64)
    assert qd.kernel(nested)(5) == (6.0, 14.0, 4.0, 4.0)
    qd.reset()
