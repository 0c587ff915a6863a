"""Gravitational accelerations of 4096 bodies, all pairs."""

import numpy as np

SIZE, SOFTENING, TOLERANCE = 4096, 0.05, 1e-4


def inputs():
    rng = np.random.default_rng(5)
    return rng.random((SIZE, 3), np.float32), rng.random(SIZE, np.float32)


def error(acceleration):
    position, mass = (a.astype(np.float64) for a in inputs())
    chosen = slice(0, SIZE, 16)
    r = position[None] - position[chosen, None]
    d2 = (r * r).sum(-1) + SOFTENING**2
    right = (mass[None, :, None] * r / (d2 * np.sqrt(d2))[..., None]).sum(1)
    return np.abs(acceleration[chosen] - right).max() / np.abs(right).max()
