# pyright: reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false, reportGeneralTypeIssues=false
# (rivals live in environments of their own, and their kernels are no Python functions)
"""Numba's CUDA target (numba-cuda): a thread an iteration."""

import math
from typing import Any

import numpy as np
from numba import cuda


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] += np.float32(1)


@cuda.jit
def saxpy(y, a, x):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] += a * x[i]


@cuda.reduce
def total(a, b):
    return a + b


@cuda.jit
def stencil(u, v):
    i, j = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        v[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@cuda.jit
def multiply(a, b, c):
    j, i = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = np.float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@cuda.jit
def attract(places, masses, result):
    i = cuda.grid(1)
    if i < places.shape[0]:
        ax = ay = az = np.float32(0)
        for j in range(places.shape[0]):
            dx = places[j, 0] - places[i, 0]
            dy = places[j, 1] - places[i, 1]
            dz = places[j, 2] - places[i, 2]
            square = dx * dx + dy * dy + dz * dz + np.float32(0.0025)
            w = masses[j] / (square * math.sqrt(square))
            ax += dx * w
            ay += dy * w
            az += dz * w
        result[i, 0], result[i, 1], result[i, 2] = ax, ay, az


def start():
    cuda.current_context()


def wait():
    cuda.synchronize()


class Program:
    def __init__(self, arrays, outputs, run):
        self.arrays = [cuda.to_device(array) for array in (*arrays, *outputs)]
        self.has_outputs = bool(outputs)
        self.function = run
        self.found: Any = None

    def run(self):
        self.found = self.function(*self.arrays)

    def results(self):
        return (np.array([self.found]) if self.found is not None else self.arrays[-1].copy_to_host(),)


def lines(kernel):
    def run(*arrays):
        kernel[(len(arrays[0]) + 255) // 256, 256](*arrays)

    return run


def tiles(kernel):
    def run(*arrays):
        rows, columns = arrays[-1].shape
        kernel[((columns + 15) // 16, (rows + 15) // 16), (16, 16)](*arrays)

    return run


PROGRAMS = {
    "launch": lambda x: Program((x,), (), lines(add_one)),
    "saxpy": lambda x, y: Program((x, y), (), lambda x, y: saxpy[(len(y) + 255) // 256, 256](y, np.float32(0.5), x)),
    "sum": lambda x: Program((x,), (), total),
    "stencil": lambda u: Program((u,), (u,), tiles(stencil)),
    "matmul": lambda a, b: Program((a, b), (np.zeros((len(a), b.shape[1]), np.float32),), tiles(multiply)),
    "nbody": lambda p, m: Program((p, m), (np.zeros_like(p),), lines(attract)),
}
