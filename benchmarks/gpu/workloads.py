"""One workload of `benchmarks/workloads`, as we run it on CPUs, on the GPU: its arrays are made ndarrays of the GPU first.

usage: workloads.py tiny|full NAME… ; answers as worker.py does.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TINY: dict[str, dict[str, Any]] = {
    "saxpy": {"SIZE": 100},
    "kepler": {"SIZE": 40},
    "jacobi2d": {"SIZE": 20, "SWEEPS": 2},
    "matmul": {"SHAPE": (17, 16, 15)},
    "nbody": {"SIZE": 32},
}
"""Sizes at which an interpreter of PTX is done at once."""


def moved(value: Any) -> Any:
    """A program's state with its arrays on the GPU; few numbers in a last axis, or in the last two, are vectors and matrices."""
    import numpy as np

    import quadrants as qd

    if isinstance(value, np.ndarray):
        kind = {"f": "f", "i": "i", "u": "u", "b": "u"}[value.dtype.kind]
        scalar = getattr(qd, "u1" if value.dtype.kind == "b" else f"{kind}{8 * value.dtype.itemsize}")
        shape = value.shape
        if len(shape) == 3 and max(shape[1:]) <= 4:
            made = qd.Matrix.ndarray(shape[1], shape[2], scalar, shape[0])
        elif len(shape) > 1 and shape[-1] <= 4:
            made = qd.Vector.ndarray(shape[-1], scalar, shape[:-1])
        else:
            made = qd.ndarray(scalar, shape)
        made.from_numpy(value)
        return made
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{name: moved(part) for name, part in vars(value).items()})
    if type(value) in (tuple, list):
        return type(value)(moved(part) for part in value)
    return value


def answer(worker: Any, folder: Path, is_tiny: bool) -> dict[str, Any]:
    import quadrants as qd

    case = worker.load(folder / "case.py")
    vars(case).update(TINY[folder.name] if is_tiny else {})
    module = worker.load(folder / "ours.py")
    state = moved(module.make(case))
    module.run(state)
    results = [part.to_numpy() if hasattr(part, "to_numpy") else part for part in module.results(state)]
    error = float(case.error(*results))
    program = SimpleNamespace(run=lambda: module.run(state))
    times = worker.measure(program, qd.sync, is_tiny)
    repeats = getattr(case, "REPEATS", 1)
    return {
        "ok": error <= case.TOLERANCE,
        "error": error,
        **times,
        "value": 1e3 * times["seconds"] / repeats,
        "unit": "ms",
    }


def main() -> None:
    kind, *names = sys.argv[1:]
    here = Path(__file__).parent
    sys.path[0] = str(here.parent / "support")
    from benchmarks.gpu import worker

    with ExitStack() as stack:
        if os.environ.get("GPU_CHECK_DEVICE") == "played":
            from quadrants.evidence.ptx.driver import played

            stack.enter_context(played())
        import quadrants as qd

        qd.init(arch=qd.cuda, enable_fallback=False, log_level="error")
        worker.serve(names, lambda name: answer(worker, here.parent / "workloads" / name, kind == "tiny"))


if __name__ == "__main__":
    main()
