"""Found by the fuzzer (broadcast of an array): lanes asked for the size of a vector that is indexed at run time."""

from __future__ import annotations

import quadrants as qd
from quadrants.evidence.fuzz.data import numbers


def helper(count, a):
    if count <= 0:
        return a
    v = qd.Vector([a, a + 1, a + 2, a + 3])
    for k in range(a & 3):
        v[v[k] & 3] = qd.i32(v[a - k - 4 if a > 3 else k] + count)
    return helper(count - 1, qd.i32(v[a & 3] & 7))


def program(p, n: qd.i32):
    for i in range(n):
        x = p[i] & 7
        v = qd.Vector([x, 1, 2, 3])
        for k in range(x):
            v[v[k & 3] & 3 if k < 4 else -1] += x
        p[i] = v[x & 3] + helper(2, x)


def arguments(size):
    return numbers("i32", size, 1), size


SIZES = (19,)
STYLE = (False, False)
SETTINGS = dict(arch="cpu", options={"lanes": 8, "disable_passes": ("simplify2",)})
