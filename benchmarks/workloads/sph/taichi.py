from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def sort(pos: ti.template(), start: ti.template(), fill: ti.template(), order: ti.template(), cells: int):
    for I in ti.grouped(fill):
        fill[I] = 0
    for p in pos:
        fill[ti.cast(pos[p] * cells, int)] += 1
    ti.loop_config(serialize=True)
    for _ in range(1):
        total = 0
        for i, j, k in ti.ndrange(cells, cells, cells):
            start[i, j, k] = total
            total += fill[i, j, k]
            fill[i, j, k] = start[i, j, k]
    for p in pos:
        order[ti.atomic_add(fill[ti.cast(pos[p] * cells, int)], 1)] = p


@ti.kernel
def sum_densities(
    pos: ti.template(), start: ti.template(), fill: ti.template(), order: ti.template(), density: ti.template(),
    cells: int, radius2: float, factor: float,
):  # fmt: skip
    for p in pos:
        c = ti.cast(pos[p] * cells, int)
        total = 0.0
        for i in range(ti.max(c[0] - 1, 0), ti.min(c[0] + 2, cells)):
            for j in range(ti.max(c[1] - 1, 0), ti.min(c[1] + 2, cells)):
                for k in range(ti.max(c[2] - 1, 0), ti.min(c[2] + 2, cells)):
                    for place in range(start[i, j, k], fill[i, j, k]):
                        r = pos[order[place]] - pos[p]
                        q = radius2 - r.dot(r)
                        if q > 0:
                            total += q * q * q
        density[p] = factor * total


def make(case):
    pos = ti.Vector.field(3, ti.f32, case.SIZE)
    pos.from_numpy(case.inputs())
    cells = (case.CELLS,) * 3
    lists = pos, ti.field(ti.i32, cells), ti.field(ti.i32, cells), ti.field(ti.i32, case.SIZE)
    return SimpleNamespace(lists=lists, density=ti.field(ti.f32, case.SIZE), case=case)


def run(s):
    sort(*s.lists, s.case.CELLS)
    sum_densities(*s.lists, s.density, s.case.CELLS, s.case.RADIUS2, s.case.FACTOR)
    ti.sync()


def results(s):
    return (s.density.to_numpy(),)
