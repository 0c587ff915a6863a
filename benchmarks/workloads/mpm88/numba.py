from types import SimpleNamespace

import numpy as np
from numba import njit, prange

f = np.float32


@njit(fastmath=True, cache=True)
def spline(d):
    return f(0.5) * (f(1.5) - d) ** 2, f(0.75) - (d - f(1)) ** 2, f(0.5) * (d - f(0.5)) ** 2


@njit(fastmath=True, cache=True)
def scatter(x, v, C, J, grid_v, grid_m, cells, pressure, mass):  # serial: Numba has no atomics on CPUs
    grid_v[:] = 0
    grid_m[:] = 0
    scale = f(cells)
    for p in range(len(x)):
        bx = int(x[p, 0] * scale - f(0.5))
        by = int(x[p, 1] * scale - f(0.5))
        fx = x[p, 0] * scale - f(bx)
        fy = x[p, 1] * scale - f(by)
        wx = spline(fx)
        wy = spline(fy)
        stress = -pressure * (J[p] - f(1))
        for i in range(3):
            for j in range(3):
                weight = wx[i] * wy[j]
                dx = (f(i) - fx) / scale
                dy = (f(j) - fy) / scale
                push = mass * (v[p, 0] + C[p, 0, 0] * dx + C[p, 0, 1] * dy) + stress * dx
                grid_v[bx + i, by + j, 0] += weight * push
                push = mass * (v[p, 1] + C[p, 1, 0] * dx + C[p, 1, 1] * dy) + stress * dy
                grid_v[bx + i, by + j, 1] += weight * push
                grid_m[bx + i, by + j] += weight * mass


@njit(parallel=True, fastmath=True, cache=True)
def update(grid_v, grid_m, cells, dt_gravity, border):
    for i in prange(cells):
        for j in range(cells):
            if grid_m[i, j] > 0:
                u = grid_v[i, j, 0] / grid_m[i, j]
                if (i < border and u < 0) or (i > cells - border and u > 0):
                    u = f(0)
                grid_v[i, j, 0] = u
                u = grid_v[i, j, 1] / grid_m[i, j] - dt_gravity
                if (j < border and u < 0) or (j > cells - border and u > 0):
                    u = f(0)
                grid_v[i, j, 1] = u


@njit(parallel=True, fastmath=True, cache=True)
def gather(x, v, C, J, grid_v, cells, dt):
    scale = f(cells)
    for p in prange(len(x)):
        bx = int(x[p, 0] * scale - f(0.5))
        by = int(x[p, 1] * scale - f(0.5))
        fx = x[p, 0] * scale - f(bx)
        fy = x[p, 1] * scale - f(by)
        wx = spline(fx)
        wy = spline(fy)
        vx = vy = f(0)
        cxx = cxy = cyx = cyy = f(0)
        for i in range(3):
            for j in range(3):
                weight = wx[i] * wy[j]
                u = weight * grid_v[bx + i, by + j, 0]
                vx += u
                cxx += f(4) * scale * u * (f(i) - fx)
                cxy += f(4) * scale * u * (f(j) - fy)
                u = weight * grid_v[bx + i, by + j, 1]
                vy += u
                cyx += f(4) * scale * u * (f(i) - fx)
                cyy += f(4) * scale * u * (f(j) - fy)
        v[p, 0] = vx
        x[p, 0] += dt * vx
        C[p, 0, 0] = cxx
        C[p, 0, 1] = cxy
        v[p, 1] = vy
        x[p, 1] += dt * vy
        C[p, 1, 0] = cyx
        C[p, 1, 1] = cyy
        J[p] *= f(1) + dt * (cxx + cyy)


def make(case):
    shape = (case.CELLS,) * case.DIMENSION
    grid = np.zeros((*shape, case.DIMENSION), f), np.zeros(shape, f)
    pressure = 4 * case.DT * case.STIFFNESS * case.VOLUME * case.CELLS**2
    return SimpleNamespace(particles=case.inputs(), grid=grid, case=case, pressure=f(pressure))


def run(s):
    c, dt = s.case, f(s.case.DT)
    for _ in range(c.STEPS):
        scatter(*s.particles, *s.grid, c.CELLS, s.pressure, f(c.MASS))
        update(*s.grid, c.CELLS, f(c.DT * c.GRAVITY), c.BORDER)
        gather(*s.particles, s.grid[0], c.CELLS, dt)


def results(s):
    return s.particles[:2]
