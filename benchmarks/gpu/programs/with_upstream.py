# pyright: reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false, reportGeneralTypeIssues=false
# (rivals live in environments of their own, and their kernels are no Python functions)
"""Upstream's package, by its public interface: the same loops, annotated as it asks for."""

import os
from typing import Any

import numpy as np

import quadrants as qd

ARCH = os.environ.get("GPU_CHECK_DEVICE", "cuda")
qd.init(arch=qd.cuda if ARCH == "cuda" else qd.cpu, log_level="error")
Line = qd.types.ndarray(qd.f32, 1)
Grid = qd.types.ndarray(qd.f32, 2)


@qd.kernel
def add_one(x: Line):
    for i in range(x.shape[0]):
        x[i] += 1.0


@qd.kernel
def saxpy(x: Line, y: Line):
    for i in range(x.shape[0]):
        y[i] += 0.5 * x[i]


@qd.kernel
def total(x: Line) -> qd.f32:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@qd.kernel
def stencil(u: Grid, v: Grid):
    for i, j in qd.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@qd.kernel
def multiply(a: Grid, b: Grid, c: Grid):
    for i, j in qd.ndrange(a.shape[0], b.shape[1]):
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@qd.kernel
def attract(places: Grid, masses: Line, result: Grid):
    for i in range(places.shape[0]):
        a = qd.Vector([0.0, 0.0, 0.0])
        p = qd.Vector([places[i, 0], places[i, 1], places[i, 2]])
        for j in range(places.shape[0]):
            d = qd.Vector([places[j, 0], places[j, 1], places[j, 2]]) - p
            square = d.dot(d) + 0.0025
            a += d * (masses[j] / (square * qd.sqrt(square)))
        result[i, 0], result[i, 1], result[i, 2] = a[0], a[1], a[2]


def start():
    pass


def wait():
    qd.sync()


class Program:
    def __init__(self, arrays, outputs, run):
        self.arrays = [self.on_gpu(array) for array in (*arrays, *outputs)]
        self.function = run
        self.found: Any = None

    @staticmethod
    def on_gpu(array):
        made = qd.ndarray(qd.f32, array.shape)
        made.from_numpy(array)
        return made

    def run(self):
        self.found = self.function(*self.arrays)

    def results(self):
        return (np.array([self.found]) if self.found is not None else self.arrays[-1].to_numpy(),)


PROGRAMS = {
    "launch": lambda x: Program((x,), (), add_one),
    "saxpy": lambda x, y: Program((x, y), (), saxpy),
    "sum": lambda x: Program((x,), (), total),
    "stencil": lambda u: Program((u,), (u,), stencil),
    "matmul": lambda a, b: Program((a, b), (np.zeros((len(a), b.shape[1]), np.float32),), multiply),
    "nbody": lambda p, m: Program((p, m), (np.zeros_like(p),), attract),
}
