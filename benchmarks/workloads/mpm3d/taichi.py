from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def substep(
    x: ti.template(), v: ti.template(), C: ti.template(), J: ti.template(), grid_v: ti.template(), grid_m: ti.template()
):
    for I in ti.grouped(grid_m):
        grid_v[I] *= 0
        grid_m[I] = 0
    for p in x:
        base = ti.cast(x[p] * cells - 0.5, int)
        fx = x[p] * cells - base
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
        stress = -4 * dt * stiffness * volume * (J[p] - 1) * cells * cells
        affine = stress * ti.Matrix.identity(float, dimension) + mass * C[p]
        for offset in ti.static(ti.grouped(ti.ndrange(*(3,) * dimension))):
            weight = 1.0
            for axis in ti.static(range(dimension)):
                weight *= w[offset[axis]][axis]
            d = (offset - fx) / cells
            grid_v[base + offset] += weight * (mass * v[p] + affine @ d)
            grid_m[base + offset] += weight * mass
    for I in ti.grouped(grid_m):
        if grid_m[I] > 0:
            grid_v[I] /= grid_m[I]
            grid_v[I][1] -= dt * gravity
            for axis in ti.static(range(dimension)):
                if I[axis] < border and grid_v[I][axis] < 0:
                    grid_v[I][axis] = 0
                if I[axis] > cells - border and grid_v[I][axis] > 0:
                    grid_v[I][axis] = 0
    for p in x:
        base = ti.cast(x[p] * cells - 0.5, int)
        fx = x[p] * cells - base
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
        new_v, new_C = 0 * v[p], 0 * C[p]
        for offset in ti.static(ti.grouped(ti.ndrange(*(3,) * dimension))):
            weight = 1.0
            for axis in ti.static(range(dimension)):
                weight *= w[offset[axis]][axis]
            u = weight * grid_v[base + offset]
            new_v += u
            new_C += 4 * cells * u.outer_product(offset - fx)
        v[p] = new_v
        C[p] = new_C
        x[p] += dt * new_v
        J[p] *= 1 + dt * new_C.trace()


def make(case):
    global cells, dt, stiffness, volume, mass, border, gravity, dimension
    cells, dt, stiffness, volume = case.CELLS, case.DT, case.STIFFNESS, case.VOLUME
    mass, border, gravity, dimension = case.MASS, case.BORDER, case.GRAVITY, case.DIMENSION
    n, shape = case.PARTICLES, (cells,) * dimension
    vector, matrix = ti.Vector.field(dimension, ti.f32, n), ti.Matrix.field(dimension, dimension, ti.f32, n)
    state = vector, ti.Vector.field(dimension, ti.f32, n), matrix, ti.field(ti.f32, n)
    for field, value in zip(state, case.inputs()):
        field.from_numpy(value)
    grid = ti.Vector.field(dimension, ti.f32, shape), ti.field(ti.f32, shape)
    return SimpleNamespace(state=(*state, *grid), steps=case.STEPS)


def run(s):
    for _ in range(s.steps):
        substep(*s.state)
    ti.sync()


def results(s):
    return s.state[0].to_numpy(), s.state[1].to_numpy()
