"""An image of 1000 x 1000 numbers filtered by 7 x 7 weights, whose number the kernel learns at run time."""

import numpy as np

SIZE, WIDTH, TOLERANCE = 1000, 7, 1e-4


def inputs():
    rng = np.random.default_rng(5)
    side = SIZE + WIDTH - 1
    return rng.random((side, side), np.float32), rng.random((WIDTH, WIDTH), np.float32) / WIDTH**2


def error(out):
    image, weights = (x.astype(np.float64) for x in inputs())
    windows = np.lib.stride_tricks.sliding_window_view(image, (WIDTH, WIDTH))
    return np.abs(out - np.einsum("ijab,ab->ij", windows, weights)).max()
