import math
from types import SimpleNamespace

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True, cache=True)
def accelerate(pos, mass, acc, eps):
    for i in prange(len(pos)):
        ax = ay = az = np.float32(0)
        for j in range(len(pos)):
            x, y, z = pos[j, 0] - pos[i, 0], pos[j, 1] - pos[i, 1], pos[j, 2] - pos[i, 2]
            d2 = x * x + y * y + z * z + eps * eps
            f = mass[j] / (d2 * math.sqrt(d2))
            ax += f * x
            ay += f * y
            az += f * z
        acc[i, 0], acc[i, 1], acc[i, 2] = ax, ay, az


def make(case):
    pos, mass = case.inputs()
    return SimpleNamespace(pos=pos, mass=mass, acc=np.zeros_like(pos), eps=np.float32(case.SOFTENING))


def run(s):
    accelerate(s.pos, s.mass, s.acc, s.eps)


def results(s):
    return (s.acc,)
