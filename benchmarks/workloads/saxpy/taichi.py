from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def saxpy(y: ti.types.ndarray(), a: float, x: ti.types.ndarray()):
    for i in range(y.shape[0]):
        y[i] += a * x[i]


def make(case):
    x, y = case.inputs()
    s = SimpleNamespace(x=ti.ndarray(ti.f32, case.SIZE), y=ti.ndarray(ti.f32, case.SIZE), a=case.FACTOR)
    s.x.from_numpy(x)
    s.y.from_numpy(y)
    return s


def run(s):
    saxpy(s.y, s.a, s.x)
    ti.sync()


def results(s):
    return (s.y.to_numpy(),)
