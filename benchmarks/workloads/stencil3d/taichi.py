from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def step(u: ti.template(), v: ti.template(), rate: float):
    for i, j, k in ti.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
        v[i, j, k] = u[i, j, k] + rate * (
            u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
            + u[i, j, k - 1] + u[i, j, k + 1] - 6 * u[i, j, k]
        )  # fmt: skip


def make(case):
    shape = case.SIZE, case.SIZE, case.SIZE
    s = SimpleNamespace(u=ti.field(ti.f32, shape), v=ti.field(ti.f32, shape), pairs=case.STEPS // 2, rate=case.RATE)
    s.u.from_numpy(case.inputs())
    s.v.from_numpy(case.inputs())
    return s


def run(s):
    for _ in range(s.pairs):
        step(s.u, s.v, s.rate)
        step(s.v, s.u, s.rate)
    ti.sync()


def results(s):
    return (s.u.to_numpy(),)
