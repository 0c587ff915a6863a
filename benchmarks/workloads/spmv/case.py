"""A sparse matrix (CSR, 200,000 rows of 4 to 28 entries) times a vector."""

import numpy as np

ROWS, TOLERANCE = 200_000, 1e-5


def inputs():
    """start (int64, rows + 1), column (int32), value, x (float32)."""
    rng = np.random.default_rng(6)
    start = np.concatenate([[0], np.cumsum(rng.integers(4, 29, ROWS))])
    column = rng.integers(0, ROWS, start[-1]).astype(np.int32)
    return start, column, rng.random(start[-1], np.float32), rng.random(ROWS, np.float32)


def error(y):
    start, column, value, x = inputs()
    right = np.add.reduceat(value.astype(np.float64) * x[column], start[:-1])
    return np.abs(y - right).max() / np.abs(right).max()
