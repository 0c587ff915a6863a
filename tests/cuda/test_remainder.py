"""Remainders of floats, exact for every quotient, on GPUs, too."""

from __future__ import annotations

import math

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import played

pytestmark = pytest.mark.slow

CASES = [0.0, 1.0, 3.0, 0.1, 7.25, 1e-30, 1e20, 3e38, 1.5e-45, 1e-40, 2.0**24 + 2, math.inf, math.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_pair(dtype: type) -> None:
    values = np.array([*CASES, *[-x for x in CASES], *([1e300, 5e-324, -1e-310] if dtype is np.float64 else [])], dtype)
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(values, values))
    out, quotients = np.empty_like(a), np.empty_like(a)

    @qd.kernel
    def rest(a: qd.types.ndarray(), b: qd.types.ndarray(), out: qd.types.ndarray(), quotients: qd.types.ndarray()):
        for i in range(a.shape[0]):
            out[i] = a[i] % b[i]
            quotients[i] = a[i] // b[i]

    with played():
        qd.init(arch=qd.cuda)
        rest(a, b, out, quotients)
    qd.reset()
    with np.errstate(all="ignore"):
        expected, whole = np.mod(a, b), np.floor_divide(a, b)
    same = (out == expected) & (np.signbit(out) == np.signbit(expected)) | (np.isnan(out) & np.isnan(expected))
    assert same.all(), [(a[k], b[k], out[k], expected[k]) for k in np.flatnonzero(~same)[:5]]
    same = (quotients == whole) | (np.isnan(quotients) & np.isnan(whole))
    assert same.all(), [(a[k], b[k], quotients[k], whole[k]) for k in np.flatnonzero(~same)[:5]]
