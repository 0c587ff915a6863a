"""A kernel of thirty lines, as a user would write it, and how long its process waits for it: a worker of `startup`.

Prints CPU and wall seconds of: importing the package (NumPy being there), importing LLVM's binding (if asked for), the
first call, the second, the third.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np


def now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


before_import = now()

import quadrants as qd  # noqa: E402 - the import is what is measured

after_import = now()

GRAVITY = 9.8
STEP = float(os.environ.get("STARTUP_STEP", "1e-3"))


def attraction(r, eps):
    d2 = r.dot(r) + eps * eps
    if d2 > 100.0:
        return 0 * r
    return r / (d2 * qd.sqrt(d2))


def bounce(x, v, low, high):
    if x < low:
        x = low
        v = -v
    elif x > high:
        x = high
        v = -v
    return x, v


@qd.kernel
def advance(pos, vel, mass, eps):
    for i in range(len(pos)):
        a = 0 * pos[i]
        for j in range(len(pos)):
            if i != j:
                a += mass[j] * attraction(pos[j] - pos[i], eps)
        for k in qd.static(range(3)):
            vel[i, k] += a[k] * STEP
        vel[i, 1] -= GRAVITY * STEP
    for i in range(len(pos)):
        for k in qd.static(range(3)):
            x, v = bounce(pos[i, k] + vel[i, k] * STEP, vel[i, k], 0.0, 1.0)
            pos[i, k] = x
            vel[i, k] = v


def main() -> None:
    count = 16
    pos = np.random.default_rng(1).random((count, 3))
    vel, mass = np.zeros((count, 3)), np.ones(count)
    seconds = {"import": between(before_import, after_import)}
    start = now()
    if "--llvm" in sys.argv:
        import llvmlite.binding  # noqa: F401
    seconds["llvm"] = between(start, now())
    for name in ("first", "second", "third"):
        start = now()
        advance(pos, vel, mass, 0.05)
        seconds[name] = between(start, now())
    print(json.dumps(seconds))


def between(start: tuple[float, float], end: tuple[float, float]) -> dict[str, float]:
    return {"cpu": end[0] - start[0], "wall": end[1] - start[1]}


if __name__ == "__main__":
    main()
