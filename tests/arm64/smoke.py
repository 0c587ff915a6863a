"""What a user's first program on an Arm64 does: run by `test_emulated_python.py` in an emulated Python, twice."""

from __future__ import annotations

import ctypes
import platform
import sys

import numpy as np

import quadrants as qd
from quadrants.runtime import launch, threads

qd.init(offline_cache_file_path=sys.argv[1], cpu_max_num_threads=4)
field = qd.field(qd.f32, shape=(64, 64))


@qd.kernel
def fill(scale):
    for i, j in qd.ndrange(64, 64):
        field[i, j] = scale * i + j


@qd.kernel
def doubled(y, x, work):
    for i in range(len(x)):
        total = x[i]
        for k in range(len(work)):
            total += work[k]
        y[i] = 2 * total


@qd.kernel
def histogram(counts, x):
    total = 0.0
    for i in range(len(x)):
        counts[i % 7] += 1
        total += x[i]
    return total


absolute = ctypes.CDLL(None).labs
absolute.argtypes, absolute.restype = [ctypes.c_long], ctypes.c_long


@qd.kernel
def distance(a, b):
    return absolute(a - b)


fill(2.0)
i, j = np.indices((64, 64))
assert (field.to_numpy() == 2 * i + j).all()

x, work, y = np.random.default_rng(0).random(50_000), np.zeros(20), np.zeros(50_000)
doubled(y, x, work)
assert (y == 2 * x).all()
counts = np.zeros(7, np.int64)
assert abs(histogram(counts, x) - x.sum()) < 1e-6 * len(x)
assert counts.sum() == len(x) and counts.max() - counts.min() <= 1
assert distance(3, 10) == 7

for _ in range(20):
    doubled(y, x, work)
assert launch.is_native() and launch.is_loaded()
found = threads.counters()
assert found["parallel_loops"] > 0 and threads.state().started == 3, found
print(platform.machine(), qd.cfg.arch, "llvmlite" in sys.modules)
