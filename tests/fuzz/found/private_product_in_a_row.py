"""Found by the fuzzer (a value used where it is not defined): a loop that has come to carry a private product is no row."""

from __future__ import annotations

import quadrants as qd
from quadrants.evidence.fuzz.data import numbers


def helper_0(count, a):
    v1 = [a, a, a, a, a, a, a, a]
    for i2 in range(a):
        v1[a & 1] = i2


def program(d, n: qd.i32):
    a6 = n
    for i9 in range(n):
        a12 = n
        for i17 in range(a6):
            d[i9] *= a6
            a11 = helper_0(1, a12)


def arguments(size):
    d = numbers("u64", size, 6)
    return (d, size)


SIZES = (1,)
STYLE = (False, False)
SETTINGS = dict(arch="cpu", options={}, defaults=("i64", "f64"))
