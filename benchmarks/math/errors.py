"""How far our elementary functions are off: f32 ones on all 2**32 arguments, f64 ones on samples against mpmath.

    python benchmarks/math/errors.py f32 [stride [function…]]     # stride 1: all arguments, some seconds a function
    python benchmarks/math/errors.py f64 [samples [function…]]    # needs mpmath

f32 functions run in kernels, in parallel, and are compared there with our f64 functions rounded nowhere; these are
compared with mpmath at 120 bits (1,200 for sines of huge arguments). Errors are in units of the last place of the result.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd

NAMES = (
    *("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "log", "log1p", "log2", "log10", "asinh", "acosh", "atanh"),
    *("cbrt", "sin", "cos", "tan", "atan", "asin", "acos", "erf"),
)
PAIRS = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
_BLOCK = 1 << 20


def in_python(name: str) -> Callable[..., Any]:
    if name in PAIRS:
        return PAIRS[name]
    return math.erf if name == "erf" else getattr(np, re.sub("^a(?=(sin|cos|tan))", "arc", name))


def unit(x):
    """The distance of f32 numbers at |x|, as f64."""
    exponent = qd.bit_cast(qd.abs(x), qd.u32) >> 23
    low = qd.bit_cast(qd.cast(1, qd.u32) << qd.max(qd.cast(exponent, qd.i32) - 1, 0), qd.f32)
    return qd.cast(qd.select(exponent > 24, qd.bit_cast((exponent - 23) << 23, qd.f32), low), qd.f64)


def apart(found, exact):
    """The error of an f32 number; huge where NaN, infinities or signs differ."""
    near = qd.cast(exact, qd.f32)
    error = qd.abs(qd.cast(found, qd.f64) - exact) / unit(near)
    endless = (qd.abs(near) == math.inf) | (qd.abs(found) == math.inf)
    error = qd.select(endless, qd.select(found == near, 0.0, 1e8), error)
    turned = (qd.bit_cast(found, qd.u32) ^ qd.bit_cast(near, qd.u32)) >> 31 != 0
    error = qd.select(turned, 1e7, error)
    return qd.select(near != near, qd.select(found != found, 0.0, 1e9), qd.select(found != found, 1e9, error))


def measured_f32(name: str, stride: int) -> tuple[float, np.float32]:
    """The largest error, and where."""
    function = in_python(name)

    @qd.kernel
    def run(first, errors):
        for i in range(len(errors)):
            x = qd.bit_cast(qd.cast((first + i) * stride, qd.u32), qd.f32)
            errors[i] = apart(function(x), function(qd.cast(x, qd.f64)))

    worst, where = -1.0, 0
    errors = np.zeros(_BLOCK, np.float32)
    for first in range(0, (1 << 32) // stride, _BLOCK):
        run(first, errors)
        at = int(errors.argmax())
        if errors[at] > worst:
            worst, where = float(errors[at]), (first + at) * stride
    return worst, np.array([where], np.uint64).astype(np.uint32).view(np.float32)[0]


def samples(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            rng.integers(0, 1 << 64, count, np.uint64, endpoint=False).view(np.float64),
            1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-50, 0, count),
            rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-70, 10, count),
            rng.uniform(-10, 10, count),
            np.rint(rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(0, 60, count)) * (math.pi / 2),
        ]
    )


def measured_f64(name: str, count: int) -> tuple[float, tuple[float, ...]]:
    """The largest error among results that are neither NaN nor infinite nor 0, and where."""
    import mpmath

    function = in_python(name)
    if name in PAIRS:
        a = np.abs(samples(count, 1)) if name == "pow" else samples(count, 1)
        b = np.random.default_rng(3).permutation(samples(count, 2))
        if name == "pow":
            with np.errstate(all="ignore"):
                b[: a.size // 2] = np.random.default_rng(4).uniform(-1070, 1023, a.size // 2) / np.log2(
                    a[: a.size // 2]
                )
        columns = (a, b)
    else:
        columns = (samples(count, 1),)

    @qd.kernel
    def one(x, out):
        for i in range(len(out)):
            out[i] = function(x[i])

    @qd.kernel
    def two(x, y, out):
        for i in range(len(out)):
            out[i] = function(x[i], y[i])

    out = np.empty_like(columns[0])
    (two if name in PAIRS else one)(*columns, out)
    exact = _in_mpmath(mpmath, name)
    worst, where = 0.0, ()
    for arguments, found in zip(zip(*[column.tolist() for column in columns]), out.tolist()):
        if not math.isfinite(found) or found == 0 or not all(map(math.isfinite, arguments)):
            continue
        if len(arguments) == 2 and 0.0 in arguments:  # mpmath's zeros have no sign
            continue
        mpmath.mp.prec = 1200 if name in ("sin", "cos", "tan") and abs(arguments[0]) > 1e15 else 120
        value = exact(*map(mpmath.mpf, arguments))
        error = float(abs(found - value) / math.ulp(float(value)))
        if error > worst:
            worst, where = error, arguments
    return worst, where


def _in_mpmath(mpmath: Any, name: str) -> Callable[..., Any]:
    own = {
        "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x) / mpmath.log(2),
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
        "pow": lambda x, y: x**y,
        "hypot": lambda x, y: mpmath.sqrt(x * x + y * y),
    }
    return own.get(name) or getattr(mpmath, name)


def main(kind: str = "f32", amount: str = "", *names: str) -> None:
    qd.init(arch=qd.x64, default_ip=qd.i64, default_fp=qd.f64)
    for name in names or (NAMES if kind == "f32" else (*NAMES, *PAIRS)):
        start = time.perf_counter()
        if kind == "f32":
            error, where = measured_f32(name, int(amount or 1))
        else:
            error, where = measured_f64(name, int(amount or 2000))
        print(f"{name:6} {error:10.4f} at {where!r}  ({time.perf_counter() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
