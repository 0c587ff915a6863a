"""NumPy."""

from types import SimpleNamespace

import numpy as np


def make(case):
    x = case.inputs()
    return SimpleNamespace(x=x, sums=np.zeros_like(x))


def run(s):
    s.sums[0] = 0
    np.cumsum(s.x[:-1], out=s.sums[1:])


def results(s):
    return (s.sums,)
