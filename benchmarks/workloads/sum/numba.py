from types import SimpleNamespace

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True, cache=True)
def total(x):
    s = np.float32(0)
    for i in prange(len(x)):
        s += x[i]
    return s


def make(case):
    return SimpleNamespace(x=case.inputs(), total=0.0)


def run(s):
    s.total = total(s.x)


def results(s):
    return (float(s.total),)
