"""Five steps of MLS-MPM in 3-D, 32,768 particles on 64 cubed cells: scatter and gather over 27 nodes."""

import mpm
import numpy as np

DIMENSION, PARTICLES, CELLS, STEPS, DT, BORDER, TOLERANCE = 3, 32_768, 64, 5, 2e-4, 3, 2e-3
VOLUME = (0.5 / CELLS) ** DIMENSION
MASS, STIFFNESS, GRAVITY = 1.0 * VOLUME, 400.0, 9.8


def inputs():
    """x, v, C, J in single precision."""
    rng = np.random.default_rng(7)
    x = (rng.random((PARTICLES, DIMENSION)) * 0.4 + 0.2).astype(np.float32)
    v = (rng.standard_normal((PARTICLES, DIMENSION)) * 0.1 + np.float32(0.5)).astype(np.float32)
    return x, v, np.zeros((PARTICLES, DIMENSION, DIMENSION), np.float32), np.ones(PARTICLES, np.float32)


def error(x, v):
    import sys

    return mpm.error(sys.modules[__name__], x, v)
