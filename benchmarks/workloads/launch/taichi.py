from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def nothing(a: ti.types.ndarray(), b: ti.types.ndarray(), c: ti.types.ndarray()):
    pass


def make(case):
    return SimpleNamespace(arrays=[ti.ndarray(ti.f32, 16) for _ in range(case.ARRAYS)], calls=case.REPEATS)


def run(s):
    a, b, c = s.arrays
    for _ in range(s.calls):
        nothing(a, b, c)


def results(s):
    return ()
