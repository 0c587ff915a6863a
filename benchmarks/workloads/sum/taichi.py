from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def total(x: ti.types.ndarray()) -> float:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def make(case):
    s = SimpleNamespace(x=ti.ndarray(ti.f32, case.SIZE), total=0.0)
    s.x.from_numpy(case.inputs())
    return s


def run(s):
    s.total = total(s.x)


def results(s):
    return (s.total,)
