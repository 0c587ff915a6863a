"""How compile time grows with the code: lines, nesting, calls, sizes of matrices.

`python -m benchmarks.compile_scaling` prints CPU milliseconds of a first call for each program and size, appends them to
the history, and says which of the promises do not hold: time in proportion to the lines (from the second size on, at most
`GROWTH` times the time for twice the code), a 12x12 matrix product and inverse in under a second, and a kernel of 10,000
lines that compiles.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import history
from benchmarks.function_abi import load
from benchmarks.peers import PEERS

GROWTH = 2.6
MATRIX_SECONDS = 1.0
HEAD = ["import quadrants as qd", ""]
KERNEL = ["@qd.kernel", "def program(x):"]


def lines_in_one_loop(count: int) -> list[str]:
    """One parallel loop with so many lines in its body."""
    kinds = (
        "a = a * 0.{0}25 + b - c",
        "b = qd.sqrt(a * a + {0}.0) - b * 0.5",
        "c = qd.max(qd.min(c, a + {0}.0), b - 1.0)",
        "x[i] = a + c",
    )
    body = [f"        {kinds[line % 4].format(line % 9 + 1)}" for line in range(count)]
    return [
        *KERNEL,
        "    for i in range(len(x)):",
        "        a = x[i]",
        "        b = a * 0.5",
        "        c = a + b",
        *body,
    ]


def loops_in_a_row(count: int) -> list[str]:
    """So many lines in short parallel loops, one after the other."""
    loop = [
        "    for i in range(len(x)):",
        "        a = x[i] * 0.25",
        "        b = qd.sqrt(a * a + 1.0)",
        "        x[i] = a + b",
    ]
    return [*KERNEL, *loop * (count // len(loop))]


def functions_in_a_row(count: int) -> list[str]:
    """So many lines in functions that are too large to be inlined, each called once from one loop."""
    size = 50
    text: list[str] = []
    for index in range(count // size):
        body = [
            f"    a = qd.sqrt(a * a + {(index + line) % 31 + 1}.0) - a * 0.{line % 9 + 1}" for line in range(size - 2)
        ]
        text += [f"def part_{index}(a):", *body, "    return a", ""]
    calls = [f"        a = part_{index}(a)" for index in range(count // size)]
    return [*text, *KERNEL, "    for i in range(len(x)):", "        a = x[i]", *calls, "        x[i] = a"]


def cases_of_one_if(count: int) -> list[str]:
    """An `if` with so many cases: each stands within the `else` of the one before."""
    cases = [line for k in range(1, count) for line in (f"        elif k == {k}:", f"            x[i] = {k}.5")]
    return [
        *KERNEL,
        "    for i in range(len(x)):",
        "        k = int(x[i])",
        "        if k == 0:",
        "            x[i] = 0.5",
        *cases,
    ]


def calls_of_calls(count: int) -> list[str]:
    """A chain of so many functions, each called by the next."""
    text = ["def call_0(a):", "    return a + 1.0", ""]
    for index in range(1, count):
        body = ["    for k in range(3):", f"        a += a * {index}.0", f"    return a + call_{index - 1}(a)"]
        text += [f"def call_{index}(a):", *body, ""]
    return [*text, *KERNEL, "    for i in range(len(x)):", f"        x[i] = call_{count - 1}(x[i])"]


def matrices(size: int) -> list[str]:
    """The inverse of a product of square matrices, out of fields and out of values."""
    fill = [
        "        for i, j in qd.static(qd.ndrange(SIZE, SIZE)):",
        "            value[i, j] = x[(k * SIZE + i) * SIZE + j]",
    ]
    body = ["        value = qd.Matrix.zero(qd.f32, SIZE, SIZE)", *fill, "        found = (value @ value).inverse()"]
    return [
        f"SIZE = {size}",
        *KERNEL,
        "    for k in range(len(x) // SIZE // SIZE):",
        *body,
        "        x[k] = found.trace()",
    ]


PROGRAMS: dict[str, tuple[Callable[[int], list[str]], tuple[int, ...]]] = {
    "lines in one loop": (lines_in_one_loop, (1250, 2500, 5000, 10_000)),
    "loops in a row": (loops_in_a_row, (250, 500, 1000)),
    "functions in a row": (functions_in_a_row, (1250, 2500, 5000, 10_000)),
    "cases of one if": (cases_of_one_if, (50, 100, 200)),
    "calls of calls": (calls_of_calls, (25, 50, 100)),
    "matrices": (matrices, (3, 6, 12)),
}


def first_call(text: list[str], name: str) -> float:
    """CPU seconds of the first call of the text's kernel."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = load("\n".join([*HEAD, *text, ""]), Path(folder), name).program
        x = np.linspace(0.1, 1.0, 288, dtype=np.float32)
        start = time.process_time()
        kernel(x)
        return time.process_time() - start


def measure() -> dict[str, Any]:
    """CPU seconds by program and size."""
    import quadrants as qd

    qd.init(offline_cache=False, verify=False)
    first_call(lines_in_one_loop(8), "warm_up")
    found: dict[str, Any] = {"ok": True, "seconds": {}}
    for name, (program, sizes) in PROGRAMS.items():
        times = found["seconds"][name] = {}
        for size in sizes:
            times[str(size)] = first_call(program(size), f"{name.replace(' ', '_')}_{size}")
            print(f"{name:20s} {size:6d} {1e3 * times[str(size)]:9.1f} ms", flush=True)
    return found


def broken_promises(seconds: dict[str, dict[str, float]]) -> list[str]:
    """What does not hold, in words."""
    broken = []
    for name, times in seconds.items():
        if name == "matrices":
            if times["12"] > MATRIX_SECONDS:
                broken.append(f"a 12x12 product and inverse takes {times['12']:.2f} s to compile")
            continue
        values = list(times.values())
        for before, after, size in zip(values[1:], values[2:], list(times)[2:]):
            if after > GROWTH * before:
                broken.append(f"{name}: {after / before:.1f} times the time for twice the code, at {size}")
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="leave the history alone")
    options = parser.parse_args()
    result = measure()
    for broken in broken_promises(result["seconds"]):
        print(f"BROKEN {broken}")
    if not options.dry:
        history.append({**history.describe([PEERS[0]]), "results": {"compile_scaling": {"compiler": result}}})


if __name__ == "__main__":
    main()
