"""Water in a box by MLS-MPM, two blocks of it; python examples/mpm88.py [PICTURE.png]"""

from __future__ import annotations

import sys
import time

import numpy as np
from picture import dots, save, strip
from startup import print_first_calls

import quadrants as qd

particles, cells, frames, steps = 16_384, 128, 4, 900
dt, border, volume = 2e-4, 3, (0.5 / cells) ** 2
mass, stiffness, gravity = 1.0 * volume, 400.0, 9.8


def nearby(x):  # the lowest of the 3 x 3 nodes around x, the place of x from there, the weights along each axis
    base = qd.cast(x * cells - 0.5, int)
    fx = x * cells - base
    return base, fx, (0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2)


@qd.kernel
def substep(x, v, C, J, grid_v, grid_m):
    for i, j in qd.ndrange(cells, cells):
        grid_v[i, j], grid_m[i, j] = 0.0, 0.0
    for p in range(len(x)):  # particles to grid; that nodes are shared is the compiler's business
        base, fx, w = nearby(x[p])
        stress = -4 * dt * stiffness * volume * (J[p] - 1) * cells * cells
        affine = qd.Matrix([[stress, 0], [0, stress]]) + mass * C[p]
        for i, j in qd.static(qd.ndrange(3, 3)):
            weight = w[i][0] * w[j][1]
            grid_v[base[0] + i, base[1] + j] += weight * (mass * v[p] + affine @ (qd.Vector([i, j]) - fx) / cells)
            grid_m[base[0] + i, base[1] + j] += weight * mass
    for i, j in qd.ndrange(cells, cells):  # momentum to velocity, gravity, walls
        if grid_m[i, j] > 0:
            u = grid_v[i, j] / grid_m[i, j] - qd.Vector([0, dt * gravity])
            if (i < border and u[0] < 0) or (i > cells - border and u[0] > 0):
                u[0] = 0
            if (j < border and u[1] < 0) or (j > cells - border and u[1] > 0):
                u[1] = 0
            grid_v[i, j] = u
    for p in range(len(x)):  # grid to particles
        base, fx, w = nearby(x[p])
        new_v, new_C = 0 * v[p], 0 * C[p]
        for i, j in qd.static(qd.ndrange(3, 3)):
            u = w[i][0] * w[j][1] * grid_v[base[0] + i, base[1] + j]
            new_v += u
            new_C += 4 * cells * u.outer_product(qd.Vector([i, j]) - fx)
        v[p], C[p] = new_v, new_C
        x[p] += dt * new_v
        J[p] *= 1 + dt * new_C.trace()


def initial_state() -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(1).random((particles, 2), np.float32) * np.float32([0.35, 0.45]) + np.float32(0.05)
    x[particles // 2 :] += np.float32([0.5, 0.4])
    v, C, J = np.zeros_like(x), np.zeros((particles, 2, 2), np.float32), np.ones(particles, np.float32)
    return x, v, C, J, np.zeros((cells, cells, 2), np.float32), np.zeros((cells, cells), np.float32)


def main(picture: str) -> None:
    state = initial_state()
    substep(*state)
    colours = np.uint8([[70, 150, 255], [255, 170, 60]]).repeat(particles // 2, 0)
    images, start = [dots(state[0], colours)], time.perf_counter()
    for _ in range(frames - 1):
        for _ in range(steps):
            substep(*state)
        images.append(dots(state[0], colours))
    rate = particles * (frames - 1) * steps / (time.perf_counter() - start)
    print(f"{rate / 1e6:.1f} million particles a second, {particles} particles")
    save(picture, strip(images))
    print_first_calls("mpm88", "state = initial_state()", "substep(*state)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "output/mpm88.png")
