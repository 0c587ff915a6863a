"""Weakly compressible MLS-MPM in NumPy and float64, for any dimension: the right answer of mpm88 and mpm3d."""

from __future__ import annotations

import itertools

import numpy as np


def steps(case, x, v, C, J):
    """Runs case.STEPS steps; returns positions and velocities."""
    x, v, C, J = (a.astype(np.float64) for a in (x, v, C, J))
    dim, cells, dt = x.shape[1], case.CELLS, case.DT
    shape = (cells,) * dim
    for _ in range(case.STEPS):
        base = np.floor(x * cells - 0.5).astype(int)
        fx = x * cells - base
        w = 0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2
        stress = -4 * dt * case.STIFFNESS * case.VOLUME * (J - 1) * cells * cells
        affine = stress[:, None, None] * np.eye(dim) + case.MASS * C
        nodes = []
        for offset in itertools.product(range(3), repeat=dim):
            weight = np.prod([w[o][:, axis] for axis, o in enumerate(offset)], axis=0)
            flat = np.ravel_multi_index(tuple((base + offset).T), shape)
            nodes.append((flat, weight[:, None], offset - fx))
        mass, momentum = np.zeros(cells**dim), np.zeros((cells**dim, dim))
        for flat, weight, d in nodes:
            push = weight * (case.MASS * v + (affine @ d[..., None])[..., 0] / cells)
            mass += np.bincount(flat, weight[:, 0] * case.MASS, cells**dim)
            for axis in range(dim):
                momentum[:, axis] += np.bincount(flat, push[:, axis], cells**dim)
        u = momentum / np.maximum(mass, 1e-300)[:, None]
        u[:, 1] -= dt * case.GRAVITY
        place = np.stack(np.unravel_index(np.arange(cells**dim), shape), 1)
        blocked = ((place < case.BORDER) & (u < 0)) | ((place > cells - case.BORDER) & (u > 0))
        u[blocked | (mass[:, None] == 0)] = 0
        v, C = np.zeros_like(v), np.zeros_like(C)
        for flat, weight, d in nodes:
            v += weight * u[flat]
            C += 4 * cells * weight[..., None] * u[flat][:, :, None] * d[:, None, :]
        x = x + dt * v
        J = J * (1 + dt * np.trace(C, axis1=1, axis2=2))
    return x, v


def error(case, x, v):
    """The largest deviation of positions (in cells) and velocities (relative to the largest) from the right answer."""
    right_x, right_v = steps(case, *case.inputs())
    return max(np.abs(x - right_x).max() * case.CELLS, np.abs(v - right_v).max() / np.abs(right_v).max())
