from types import SimpleNamespace

import numpy as np
import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def multiply(start: ti.template(), column: ti.template(), value: ti.template(), x: ti.template(), y: ti.template()):
    for row in y:
        total = 0.0
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total


def field(array):
    new = ti.field(ti.i32 if array.dtype == np.int32 else ti.f32, array.shape)
    new.from_numpy(array)
    return new


def make(case):
    start, column, value, x = case.inputs()
    matrix = [field(a) for a in (start.astype(np.int32), column, value, x)]
    return SimpleNamespace(matrix=matrix, y=ti.field(ti.f32, case.ROWS))


def run(s):
    multiply(*s.matrix, s.y)
    ti.sync()


def results(s):
    return (s.y.to_numpy(),)
