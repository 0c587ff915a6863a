"""Iteration counts of the Mandelbrot set, 768 x 512 pixels, at most 300 steps: divergent trip counts."""

import numpy as np

WIDTH, HEIGHT, LIMIT, TOLERANCE = 768, 512, 300, 1e-2


def inputs():
    return np.zeros((HEIGHT, WIDTH), np.int32)


def error(count):
    """The part of the pixels that differs from NumPy's count in single precision (rounding moves a few)."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    c = (column * np.float32(3 / WIDTH) - 2) + 1j * (row * np.float32(2 / HEIGHT) - 1)
    z, steps, alive = np.zeros_like(c), np.zeros(c.shape, np.int32), np.ones(c.shape, bool)
    for _ in range(LIMIT):
        alive &= z.real * z.real + z.imag * z.imag <= 4
        steps += alive
        z = np.where(alive, z * z + c, z)
    return (steps != count).mean()
