"""What is in front of each of 5,000,000 integers, added up, by a plain loop in order."""

import numpy as np

SIZE, TOLERANCE = 5_000_000, 0


def inputs():
    return np.random.default_rng(6).integers(0, 100, SIZE).astype(np.int32)


def error(sums):
    x = inputs().astype(np.int64)
    return int((sums != np.cumsum(x) - x).sum())
