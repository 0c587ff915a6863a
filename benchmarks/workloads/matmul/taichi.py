from types import SimpleNamespace

import numpy as np
import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def multiply(a: ti.types.ndarray(ti.f32, 2), b: ti.types.ndarray(ti.f32, 2), c: ti.types.ndarray(ti.f32, 2)):
    for i, j in ti.ndrange(a.shape[0], b.shape[1]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


def make(case):
    return SimpleNamespace(arrays=(*case.inputs(), np.zeros((case.SHAPE[0], case.SHAPE[2]), np.float32)))


def run(s):
    multiply(*s.arrays)
    ti.sync()


def results(s):
    return s.arrays[2:]
