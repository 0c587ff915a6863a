from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def nothing(
    a0: ti.types.ndarray(),
    a1: ti.types.ndarray(),
    a2: ti.types.ndarray(),
    a3: ti.types.ndarray(),
    a4: ti.types.ndarray(),
    a5: ti.types.ndarray(),
    a6: ti.types.ndarray(),
    a7: ti.types.ndarray(),
    a8: ti.types.ndarray(),
    a9: ti.types.ndarray(),
    a10: ti.types.ndarray(),
    a11: ti.types.ndarray(),
    a12: ti.types.ndarray(),
    a13: ti.types.ndarray(),
    a14: ti.types.ndarray(),
    a15: ti.types.ndarray(),
    a16: ti.types.ndarray(),
    a17: ti.types.ndarray(),
    a18: ti.types.ndarray(),
    a19: ti.types.ndarray(),
):
    pass


def make(case):
    return SimpleNamespace(arrays=[ti.ndarray(ti.f32, 16) for _ in range(case.ARRAYS)], calls=case.REPEATS)


def run(s):
    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19 = s.arrays
    for _ in range(s.calls):
        nothing(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19)


def results(s):
    return ()
