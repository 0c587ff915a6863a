"""Found by the fuzzer (VerificationError): what a branch assigned and nothing read left the next branch as its result."""

from __future__ import annotations

import quadrants as qd
from quadrants.evidence.fuzz.data import numbers


def helper(x, a):
    if x > 0.0:
        if a > 3:
            return x * 0.0
        if a & 63:
            a = a + 1
    return x


def program(p, n: qd.i32):
    for i in range(n):
        p[i] = helper(qd.f64(1.0), p[i])


def arguments(size):
    return numbers("i32", size, 1), size


SIZES = (5,)
STYLE = (True, False)
SETTINGS = dict(arch="reference", options={"verify": True})
