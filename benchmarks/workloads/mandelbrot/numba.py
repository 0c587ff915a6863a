from types import SimpleNamespace

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True, cache=True)
def paint(count, limit):
    height, width = count.shape
    one, two, four = np.float32(1), np.float32(2), np.float32(4)
    for i in prange(height):
        for j in range(width):
            cx = np.float32(j) * np.float32(3 / width) - two
            cy = np.float32(i) * np.float32(2 / height) - one
            x = y = np.float32(0)
            steps = 0
            while steps < limit and x * x + y * y <= four:
                x, y = x * x - y * y + cx, two * x * y + cy
                steps += 1
            count[i, j] = steps


def make(case):
    return SimpleNamespace(count=case.inputs(), limit=case.LIMIT)


def run(s):
    paint(s.count, s.limit)


def results(s):
    return (s.count,)
