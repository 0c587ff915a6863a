"""20,000 systems of 12 equations with positive definite matrices, factorised in place and solved."""

import numpy as np

COUNT, SIZE, TOLERANCE = 20_000, 12, 1e-3


def inputs():
    rng = np.random.default_rng(8)
    half = rng.standard_normal((COUNT, SIZE, SIZE))
    matrices = half @ half.transpose(0, 2, 1) + SIZE * np.eye(SIZE)
    return matrices.astype(np.float32), rng.standard_normal((COUNT, SIZE)).astype(np.float32)


def error(x):
    matrices, right = (y.astype(np.float64) for y in inputs())
    return np.abs(np.einsum("eij,ej->ei", matrices, x) - right).max()
