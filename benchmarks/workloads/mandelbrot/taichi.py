from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def paint(count: ti.template(), limit: int):
    for i, j in count:
        cx = j * (3 / count.shape[1]) - 2
        cy = i * (2 / count.shape[0]) - 1
        x, y, steps = 0.0, 0.0, 0
        while steps < limit and x * x + y * y <= 4:
            x, y = x * x - y * y + cx, 2 * x * y + cy
            steps += 1
        count[i, j] = steps


def make(case):
    return SimpleNamespace(count=ti.field(ti.i32, (case.HEIGHT, case.WIDTH)), limit=case.LIMIT)


def run(s):
    paint(s.count, s.limit)
    ti.sync()


def results(s):
    return (s.count.to_numpy(),)
