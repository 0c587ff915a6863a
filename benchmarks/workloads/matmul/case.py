"""A product of matrices of 700 x 600 and 600 x 500 numbers by three plain loops; NumPy's `@` is the BLAS that it ships."""

import numpy as np

SHAPE, TOLERANCE = (700, 600, 500), 1e-4


def inputs():
    rng = np.random.default_rng(4)
    rows, depth, columns = SHAPE
    return rng.standard_normal((rows, depth), np.float32), rng.standard_normal((depth, columns), np.float32)


def error(c):
    a, b = (x.astype(np.float64) for x in inputs())
    return np.abs(c - a @ b).max() / np.sqrt(SHAPE[1])
