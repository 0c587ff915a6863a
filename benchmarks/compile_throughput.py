"""How fast our own compiler is: 10,000 made-up lines in 200 functions, 12 levels deep, called from one kernel.

`python -m benchmarks.compile_throughput` prints microseconds per IR operation for parsing, inference and passes with
verification off (wanted: at most 20), and the whole compile time against the sum of compiling each function alone
(wanted: at most 2), and appends both to the history.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import history
from benchmarks.function_abi import load
from benchmarks.generated import separate, source
from benchmarks.peers import PEERS

FUNCTIONS, SAMPLES = 200, 8


def compiled(text: str, name: str) -> tuple[dict[str, float], int]:
    """CPU seconds of each part of one compile of the text's kernel, and how many operations the front end made."""
    from quadrants import compiler, knobs
    from quadrants.frontend.arguments import describe_argument
    from quadrants.passes.structure import count_ops

    counted: list[int] = []

    def counting(module: Any, context: Any, lower: Any = compiler.lower) -> None:
        counted.append(sum(count_ops(function.body) for function in module.functions.values()))
        lower(module, context)

    state, plain, clock = knobs.current, compiler.lower, compiler.time
    argument = describe_argument("x", np.ones(64, np.float32), None, state.default_int, state.default_float)
    with tempfile.TemporaryDirectory() as folder:
        kernel = load(text, Path(folder), name).everything
        compiler.lower = counting
        compiler.time = SimpleNamespace(perf_counter=time.process_time)  # a busy machine then hardly matters
        try:
            program = compiler.compile_kernel(kernel.function, [("x", argument)], state, set(), None)
        finally:
            compiler.lower, compiler.time = plain, clock
    return dict(program.times), counted[0]


def total(text: str, name: str, rounds: int) -> tuple[dict[str, float], int]:
    """The parts' least times over several compiles, and their sum as 'whole'. The target's time is the first one's:
    later ones find its objects in this process."""
    times, operations = compiled(text, f"{name}_0")
    for turn in range(1, rounds):
        again, _ = compiled(text, f"{name}_{turn}")
        times.update({part: min(times[part], again[part]) for part in ("front end", "passes")})
    return {**times, "whole": sum(times.values())}, operations


def measure(rounds: int) -> dict[str, Any]:
    """The least times of several compiles: of everything, and of each of some functions alone."""
    import quadrants as qd

    qd.init(offline_cache=False, verify=False, default_ip=qd.i64, default_fp=qd.f64)
    compiled(separate(index=SAMPLES), "warm_up")
    alone = 0.0
    for index in range(SAMPLES):
        alone += total(separate(48, FUNCTIONS + 1 + index), f"alone_{index}", rounds)[0]["whole"] / SAMPLES
    whole, operations = total(source(FUNCTIONS), "whole", rounds)
    ours = whole["front end"] + whole["passes"]
    return {
        "ok": True,
        "operations": operations,
        "parts": whole,
        "microseconds_per_operation": 1e6 * ours / operations,
        "whole_over_sum": whole["whole"] / (alone * FUNCTIONS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="leave the history alone")
    options = parser.parse_args()
    result = measure(options.rounds)
    for part, seconds in result["parts"].items():
        per_operation = 1e6 * seconds / result["operations"]
        print(f"{part:10s} {1e3 * seconds:9.1f} ms {per_operation:8.2f} us an operation")
    print(f"{result['operations']} operations: {result['microseconds_per_operation']:.1f} us each until lowered")
    print(f"the whole takes {result['whole_over_sum']:.2f} x the sum of its functions alone")
    if not options.dry:
        record = {**history.describe([PEERS[0]]), "results": {"compile_throughput": {"compiler": result}}}
        history.append(record)


if __name__ == "__main__":
    main()
