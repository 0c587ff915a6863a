from types import SimpleNamespace

import numpy as np

import quadrants as qd


def nearby(x, cells):
    base = qd.cast(x * cells - 0.5, int)
    fx = x * cells - base
    return base, fx, (0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2)


@qd.kernel
def substep(x, v, C, J, grid_v, grid_m):
    for i, j, k in qd.ndrange(cells, cells, cells):
        grid_v[i, j, k], grid_m[i, j, k] = 0.0, 0.0
    for p in range(len(x)):
        base, fx, w = nearby(x[p], cells)
        stress = -4 * dt * stiffness * volume * (J[p] - 1) * cells * cells
        affine = qd.Matrix([[stress, 0, 0], [0, stress, 0], [0, 0, stress]]) + mass * C[p]
        for i, j, k in qd.static(qd.ndrange(3, 3, 3)):
            weight = w[i][0] * w[j][1] * w[k][2]
            push = mass * v[p] + affine @ (qd.Vector([i, j, k]) - fx) / cells
            grid_v[base[0] + i, base[1] + j, base[2] + k] += weight * push
            grid_m[base[0] + i, base[1] + j, base[2] + k] += weight * mass
    for i, j, k in qd.ndrange(cells, cells, cells):
        if grid_m[i, j, k] > 0:
            u = grid_v[i, j, k] / grid_m[i, j, k] - qd.Vector([0, dt * gravity, 0])
            place = qd.Vector([i, j, k])
            for axis in qd.static(range(3)):
                if place[axis] < border and u[axis] < 0:
                    u[axis] = 0
                if place[axis] > cells - border and u[axis] > 0:
                    u[axis] = 0
            grid_v[i, j, k] = u
    for p in range(len(x)):
        base, fx, w = nearby(x[p], cells)
        new_v, new_C = 0 * v[p], 0 * C[p]
        for i, j, k in qd.static(qd.ndrange(3, 3, 3)):
            u = w[i][0] * w[j][1] * w[k][2] * grid_v[base[0] + i, base[1] + j, base[2] + k]
            new_v += u
            new_C += 4 * cells * u.outer_product(qd.Vector([i, j, k]) - fx)
        v[p], C[p] = new_v, new_C
        x[p] += dt * new_v
        J[p] *= 1 + dt * new_C.trace()


def make(case):
    global cells, dt, stiffness, volume, mass, border, gravity
    cells, dt, stiffness, volume = case.CELLS, case.DT, case.STIFFNESS, case.VOLUME
    mass, border, gravity = case.MASS, case.BORDER, case.GRAVITY
    shape = (cells,) * case.DIMENSION
    grid = np.zeros((*shape, case.DIMENSION), np.float32), np.zeros(shape, np.float32)
    return SimpleNamespace(state=(*case.inputs(), *grid), steps=case.STEPS)


def run(s):
    for _ in range(s.steps):
        substep(*s.state)


def results(s):
    return s.state[:2]
