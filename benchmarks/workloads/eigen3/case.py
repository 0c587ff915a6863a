"""Eigenvalues and eigenvectors of 100,000 symmetric matrices of 3 x 3 numbers."""

import numpy as np

COUNT, TOLERANCE = 100_000, 1e-4


def inputs():
    half = np.random.default_rng(3).standard_normal((COUNT, 3, 3))
    return (half + half.transpose(0, 2, 1)).astype(np.float32)


def error(values, vectors):
    matrices, values, vectors = (x.astype(np.float64) for x in (inputs(), values, vectors))
    again = np.einsum("eik,ek,ejk->eij", vectors, values, vectors)
    apart = np.einsum("eki,ekj->eij", vectors, vectors) - np.eye(3)
    return max(np.abs(again - matrices).max() / 4, np.abs(apart).max())
