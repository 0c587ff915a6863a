from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def accelerate(pos: ti.template(), mass: ti.template(), acc: ti.template(), eps: float):
    for i in pos:
        a = ti.Vector([0.0, 0.0, 0.0])
        for j in range(pos.shape[0]):
            r = pos[j] - pos[i]
            d2 = r.dot(r) + eps * eps
            a += mass[j] * r / (d2 * ti.sqrt(d2))
        acc[i] = a


def make(case):
    pos, mass = case.inputs()
    s = SimpleNamespace(eps=case.SOFTENING, mass=ti.field(ti.f32, case.SIZE))
    s.pos, s.acc = ti.Vector.field(3, ti.f32, case.SIZE), ti.Vector.field(3, ti.f32, case.SIZE)
    s.pos.from_numpy(pos)
    s.mass.from_numpy(mass)
    return s


def run(s):
    accelerate(s.pos, s.mass, s.acc, s.eps)
    ti.sync()


def results(s):
    return (s.acc.to_numpy(),)
