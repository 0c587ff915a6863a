"""How often each of 500 bins is met by 10,000,000 numbers."""

import numpy as np

SIZE, BINS, TOLERANCE = 10_000_000, 500, 0


def inputs():
    return (np.random.default_rng(2).beta(2, 5, SIZE) * BINS).astype(np.int32)


def error(counts):
    return int((counts != np.bincount(inputs(), minlength=BINS)).sum())
