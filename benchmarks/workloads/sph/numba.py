from types import SimpleNamespace

import numpy as np
from numba import njit, prange

f = np.float32


@njit(fastmath=True, cache=True)
def sort(pos, start, fill, order, cells):
    fill[:] = 0
    scale = f(cells)
    for p in range(len(pos)):
        fill[int(pos[p, 0] * scale), int(pos[p, 1] * scale), int(pos[p, 2] * scale)] += 1
    total = 0
    for i in range(cells):
        for j in range(cells):
            for k in range(cells):
                start[i, j, k] = total
                total += fill[i, j, k]
                fill[i, j, k] = start[i, j, k]
    for p in range(len(pos)):
        i, j, k = int(pos[p, 0] * scale), int(pos[p, 1] * scale), int(pos[p, 2] * scale)
        order[fill[i, j, k]] = p
        fill[i, j, k] += 1


@njit(parallel=True, fastmath=True, cache=True)
def sum_densities(pos, start, fill, order, density, cells, radius2, factor):
    scale = f(cells)
    for p in prange(len(pos)):
        x, y, z = pos[p, 0], pos[p, 1], pos[p, 2]
        cx, cy, cz = int(x * scale), int(y * scale), int(z * scale)
        total = f(0)
        for i in range(max(cx - 1, 0), min(cx + 2, cells)):
            for j in range(max(cy - 1, 0), min(cy + 2, cells)):
                for k in range(max(cz - 1, 0), min(cz + 2, cells)):
                    for place in range(start[i, j, k], fill[i, j, k]):
                        o = order[place]
                        dx, dy, dz = pos[o, 0] - x, pos[o, 1] - y, pos[o, 2] - z
                        q = radius2 - (dx * dx + dy * dy + dz * dz)
                        if q > 0:
                            total += q * q * q
        density[p] = factor * total


def make(case):
    cells = (case.CELLS,) * 3
    start, fill = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
    order, density = np.zeros(case.SIZE, np.int32), np.zeros(case.SIZE, f)
    return SimpleNamespace(lists=(case.inputs(), start, fill, order), density=density, case=case)


def run(s):
    sort(*s.lists, s.case.CELLS)
    sum_densities(*s.lists, s.density, s.case.CELLS, f(s.case.RADIUS2), f(s.case.FACTOR))


def results(s):
    return (s.density,)
