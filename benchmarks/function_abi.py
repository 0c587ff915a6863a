"""What a call costs: a large function called from a parallel loop, in a function of its own, against the same inlined.

`python -m benchmarks.function_abi` prints the ratio (wanted: at most 1.15) and appends it to the history. The function
has loops of unknown length, so that neither form becomes vector code: what is compared is the passing of arguments.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks import history
from benchmarks.peers import PEERS

ROWS = 40_000
LINES = 120


def source(lines: int = LINES) -> str:
    """A kernel that calls one function of about `lines` lines, which reads and writes elements of four arrays."""
    text = ["import quadrants as qd", "", "", "def large(a, b, c, out, i):", "    s = a[i]", "    t = b[i]"]
    for line in range(lines):
        k = line % 7
        statements = (
            f"    s = s * 0.{line % 9 + 1} + a[i] * t",
            f"    t = t * 0.5 + c[i + {k}] - s",
            f"    s += qd.sqrt(abs(b[i + {k}] * t) + {k + 1}.0)",
            f"    while s > {20 * k + 100}.0:\n        s = s * 0.125 + c[i + {k}]",
            f"    t += a[i + {k}] * b[i + {k}] - 0.25 * t",
        )
        text.append(statements[line % len(statements)])
    text += ["    out[i] = s", "    return t", "", ""]
    text += ["@qd.kernel", "def run(a, b, c, out, more):", "    for i in range(len(more)):"]
    return "\n".join([*text, "        more[i] = large(a, b, c, out, i)", ""])


def load(text: str, folder: Path, name: str) -> ModuleType:
    """Imports a module from text that the compiler can read back."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.random(ROWS + 8, np.float32) for _ in range(4)] + [np.zeros(ROWS, np.float32)]


def prepared(folder: Path) -> dict[str, Any]:
    """The two forms, compiled: name -> (kernel, arguments)."""
    from quadrants.passes import inline

    limits = inline.SMALL_ONCE, inline.SMALL
    forms: dict[str, Any] = {}
    try:
        for name, limit in (("call", 0), ("inlined", 1 << 30)):
            inline.SMALL_ONCE = inline.SMALL = limit
            forms[name] = load(source(), folder, f"function_abi_{name}").run, arrays()
            forms[name][0](*forms[name][1])
    finally:
        inline.SMALL_ONCE, inline.SMALL = limits
    return forms


def measure(rounds: int = 15, calls: int = 20) -> dict[str, dict[str, Any]]:
    """Median and minimum seconds of one launch of both forms, timed in turn; AssertionError if they differ."""
    import quadrants as qd

    qd.init(offline_cache=False, default_ip=qd.i64, default_fp=qd.f64)
    with tempfile.TemporaryDirectory() as folder:
        forms = prepared(Path(folder))
    np.testing.assert_allclose(forms["call"][1][4], forms["inlined"][1][4], rtol=1e-5)
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, (kernel, arguments) in forms.items():
            start = time.perf_counter()
            for _ in range(calls):
                kernel(*arguments)
            times[name].append((time.perf_counter() - start) / calls)
    return {n: {"ok": True, "median": statistics.median(t), "minimum": min(t)} for n, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry", action="store_true", help="leave the history alone")
    options = parser.parse_args()
    results = measure()
    ratio = results["call"]["minimum"] / results["inlined"]["minimum"]
    for name, result in results.items():
        print(f"{name:8s} min {1e6 * result['minimum']:8.1f} us  median {1e6 * result['median']:8.1f} us")
    print(f"a call costs {ratio:.3f} x the same code inlined")
    if not options.dry:
        history.append({**history.describe([PEERS[0]]), "results": {"function_abi": results}})


if __name__ == "__main__":
    main()
