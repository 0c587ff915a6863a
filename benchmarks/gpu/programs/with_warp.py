# pyright: reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false, reportGeneralTypeIssues=false
# (rivals live in environments of their own, and their kernels are no Python functions)
"""NVIDIA Warp: a thread an iteration, its own sum."""

import os
from typing import Any

import numpy as np
import warp as wp

DEVICE = os.environ.get("GPU_CHECK_DEVICE", "cuda")
Line = wp.array(dtype=wp.float32)
Grid = wp.array2d(dtype=wp.float32)
Points = wp.array(dtype=wp.vec3)


@wp.kernel
def add_one(x: Line):
    i = wp.tid()
    x[i] = x[i] + 1.0


@wp.kernel
def saxpy(y: Line, a: float, x: Line):
    i = wp.tid()
    y[i] = y[i] + a * x[i]


@wp.kernel
def stencil(u: Grid, v: Grid):
    i, j = wp.tid()
    v[i + 1, j + 1] = 0.25 * (u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2])


@wp.kernel
def multiply(a: Grid, b: Grid, c: Grid):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def attract(places: Points, masses: Line, result: Points):
    i = wp.tid()
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(places.shape[0]):
        d = places[j] - places[i]
        square = wp.dot(d, d) + 0.0025
        a += d * (masses[j] / (square * wp.sqrt(square)))
    result[i] = a


def start():
    wp.init()


def wait():
    wp.synchronize()


class Program:
    def __init__(self, arrays, outputs, run, types=None):
        types = types or [wp.float32] * (len(arrays) + len(outputs))
        self.arrays = [wp.array(a, dtype=t, device=DEVICE) for a, t in zip((*arrays, *outputs), types)]
        self.function = run
        self.found: Any = None

    def run(self):
        self.found = self.function(*self.arrays)

    def results(self):
        return ((self.found if self.found is not None else self.arrays[-1]).numpy(),)


def launch(kernel, shape, *inputs):
    wp.launch(kernel, dim=shape, inputs=list(inputs), device=DEVICE)


def total(x):
    out = wp.zeros(1, dtype=wp.float32, device=DEVICE)
    wp.utils.array_sum(x, out=out)
    return out


PROGRAMS = {
    "launch": lambda x: Program((x,), (), lambda x: launch(add_one, x.shape, x)),
    "saxpy": lambda x, y: Program((x, y), (), lambda x, y: launch(saxpy, x.shape, y, 0.5, x)),
    "sum": lambda x: Program((x,), (), total),
    "stencil": lambda u: Program((u,), (u,), lambda u, v: launch(stencil, (u.shape[0] - 2, u.shape[1] - 2), u, v)),
    "matmul": lambda a, b: Program(
        (a, b), (np.zeros((len(a), b.shape[1]), np.float32),), lambda a, b, c: launch(multiply, c.shape, a, b, c)
    ),
    "nbody": lambda p, m: Program(
        (p, m), (np.zeros_like(p),), lambda p, m, r: launch(attract, p.shape, p, m, r), [wp.vec3, wp.float32, wp.vec3]
    ),
}
