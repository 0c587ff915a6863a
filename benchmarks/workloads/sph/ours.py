from types import SimpleNamespace

import numpy as np

import quadrants as qd


def cell(x, cells):
    return qd.cast(x * cells, int)


@qd.kernel
def sort(pos, start, fill, order, cells):
    for i, j, k in qd.ndrange(cells, cells, cells):
        fill[i, j, k] = 0
    for p in range(len(pos)):
        c = cell(pos[p], cells)
        fill[c[0], c[1], c[2]] += 1
    total = 0
    for i in range(cells):
        for j in range(cells):
            for k in range(cells):
                start[i, j, k] = total
                total += fill[i, j, k]
                fill[i, j, k] = start[i, j, k]
    for p in range(len(pos)):
        c = cell(pos[p], cells)
        order[qd.atomic_add(fill[c[0], c[1], c[2]], 1)] = p


@qd.kernel
def sum_densities(pos, start, fill, order, density, cells, radius2, factor):
    for p in range(len(pos)):
        c = cell(pos[p], cells)
        total = 0.0
        for i in range(max(c[0] - 1, 0), min(c[0] + 2, cells)):
            for j in range(max(c[1] - 1, 0), min(c[1] + 2, cells)):
                for k in range(max(c[2] - 1, 0), min(c[2] + 2, cells)):
                    for place in range(start[i, j, k], fill[i, j, k]):
                        r = pos[order[place]] - pos[p]
                        q = radius2 - r.dot(r)
                        if q > 0:
                            total += q * q * q
        density[p] = factor * total


def make(case):
    cells = (case.CELLS,) * 3
    start, fill = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
    order, density = np.zeros(case.SIZE, np.int32), np.zeros(case.SIZE, np.float32)
    return SimpleNamespace(lists=(case.inputs(), start, fill, order), density=density, case=case)


def run(s):
    sort(*s.lists, s.case.CELLS)
    sum_densities(*s.lists, s.density, s.case.CELLS, s.case.RADIUS2, s.case.FACTOR)


def results(s):
    return (s.density,)
