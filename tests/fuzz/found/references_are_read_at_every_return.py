"""Found by the fuzzer: what a function had done to a parameter by reference was lost at a `return` written out."""

from __future__ import annotations

import quadrants as qd
from quadrants.evidence.fuzz.data import numbers


def helper(b: qd.template(), a):
    if b > 2:
        b = qd.i32(b - a)
    elif a == b:
        for k in range(3):
            b = qd.i32(b + k)
            if b > 7:
                return
    return


def program(p, n: qd.i32):
    for i in range(n):
        x = p[i]
        helper(x, i)
        p[i] = x


def arguments(size):
    return numbers("i32", size, 1), size


SIZES = (13,)
STYLE = (False, False)
SETTINGS = dict(arch="cpu")
