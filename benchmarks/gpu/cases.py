"""What is measured on a GPU: inputs, the answer in double precision, and how much a run reads and writes or computes.

Sizes come in two kinds: those of a measurement, and `tiny` ones that show on any machine that a program is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """One workload. `inputs(size)`: the arrays that a program gets; `answer(size, arrays)`: what its results must begin with,
    within `tolerance` of the largest number; `amount(size)`: bytes moved, or operations, as `unit` says ('GB/s', 'GFLOP/s', 'rounds/ms', 'us')."""

    size: int
    tiny: int
    inputs: Callable[[int], Arrays]
    answer: Callable[[int, Arrays], Arrays]
    amount: Callable[[int], float]
    unit: str
    tolerance: float = 1e-5


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def _halves(*shape: int) -> np.ndarray:
    return _random(*shape).astype(np.float16)


def _nothing(size: int, arrays: Arrays) -> Arrays:
    return (arrays[0].astype(np.float64) + 1.0,)


def _rounds(size: int, arrays: Arrays) -> Arrays:
    return (arrays[0].astype(np.float64) + size,)


def _saxpy(size: int, arrays: Arrays) -> Arrays:
    x, y = (array.astype(np.float64) for array in arrays)
    return (y + 0.5 * x,)


def _sum(size: int, arrays: Arrays) -> Arrays:
    return (np.array([arrays[0].sum(dtype=np.float64)]),)


def _product(size: int, arrays: Arrays) -> Arrays:
    return (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64),)


def _stencil(size: int, arrays: Arrays) -> Arrays:
    u = arrays[0].astype(np.float64)
    v = u.copy()
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return (v,)


def _attraction(size: int, arrays: Arrays) -> Arrays:
    places, masses = (array.astype(np.float64) for array in arrays)
    between = places[None] - places[:64, None]
    squares = (between**2).sum(-1) + 0.0025
    return ((between * (masses / squares**1.5)[..., None]).sum(1),)


CASES: dict[str, Case] = {
    "launch": Case(1 << 10, 64, lambda n: (_random(n),), _nothing, lambda n: 1.0, "us"),
    "rounds": Case(500, 7, lambda n: (_random(n),), _rounds, lambda n: 1e6 * n, "rounds/ms"),
    "saxpy": Case(1 << 26, 100, lambda n: (_random(n), _random(n)), _saxpy, lambda n: 12.0 * n, "GB/s"),
    "sum": Case(1 << 26, 300, lambda n: (_random(n),), _sum, lambda n: 4.0 * n, "GB/s"),
    "stencil": Case(8192, 12, lambda n: (_random(n, n),), _stencil, lambda n: 8.0 * n * n, "GB/s"),
    "matmul": Case(4096, 9, lambda n: (_random(n, n), _random(n, n)), _product, lambda n: 2.0 * n**3, "GFLOP/s", 1e-4),
    "matmul16": Case(
        4096, 64, lambda n: (_halves(n, n), _halves(n, n)), _product, lambda n: 2.0 * n**3, "GFLOP/s", 1e-3
    ),
    "nbody": Case(
        1 << 15, 20, lambda n: (_random(n, 3), _random(n)), _attraction, lambda n: 20.0 * n * n, "GFLOP/s", 1e-4
    ),
}
"""What is measured, by name. `launch` adds 1 to a small array; its time is the host's for one launch; `matmul16` is of f16, whose
sums are f32 (torch rounds them to f16). `rounds` adds 1 while a flag on
the GPU says so, as one graph with a loop."""


def error(case: Case, size: int, arrays: Arrays, results: Arrays) -> float:
    """The largest difference from the answer, over the largest number of it."""
    wanted = case.answer(size, arrays)
    return max(float(np.abs(r[: len(w)] - w).max() / max(np.abs(w).max(), 1e-30)) for r, w in zip(results, wanted))
