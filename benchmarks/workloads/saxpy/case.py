"""y += a x over 8 million floats: memory bandwidth."""

import numpy as np

SIZE, FACTOR, TOLERANCE = 1 << 23, 0.5, 1e-6


def inputs():
    rng = np.random.default_rng(1)
    return rng.random(SIZE, np.float32), rng.random(SIZE, np.float32)


def error(y):
    x, start = inputs()
    return np.abs(y - (start + np.float32(FACTOR) * x)).max()
