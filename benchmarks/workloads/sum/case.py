"""The sum of 32 million floats, right to 1e-6."""

import numpy as np

SIZE, TOLERANCE = 1 << 25, 1e-6


def inputs():
    return np.random.default_rng(2).random(SIZE, np.float32)


def error(total):
    right = inputs().sum(dtype=np.float64)
    return abs(total - right) / right
