"""What a process waits for before its first kernel runs, in processes of their own.

`python -m benchmarks.startup` prints medians, CPU time (which a busy machine hardly moves) and wall time, of the import
on top of NumPy's (wanted: at most 100 ms) and of the first calls of a kernel of thirty lines: 'first ever' with an empty
cache; 'cold', where the runtime's own machine code is on disk, but not the kernel, on top of importing LLVM's binding
(wanted: at most 60 ms); 'warm', from the disk cache (wanted: at most 15 ms).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PARTS = ("import", "llvm", "first", "second", "third")
Times = dict[str, dict[str, float]]


def run(cache: Path, step: float, llvm: bool) -> Times:
    """The worker's times with that cache; each `step` makes a kernel of its own."""
    settings = {
        "QD_OFFLINE_CACHE": "1",
        "QD_OFFLINE_CACHE_FILE_PATH": str(cache),
        "STARTUP_STEP": repr(step),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "benchmarks.support.startup_kernel", *["--llvm"] * llvm]
    found = subprocess.run(command, capture_output=True, text=True, env={**environment, **settings}, check=True)
    return json.loads(found.stdout)


def measure(rounds: int) -> dict[str, list[Times]]:
    """Times by kind of start; the kinds take turns."""
    found: dict[str, list[Times]] = {"first ever": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "kept")
        run(kept, 1.0, True)  # leaves compiled Python and the runtime's machine code
        for turn in range(rounds):
            found["first ever"].append(run(Path(folder, f"empty{turn}"), 1.0, True))
            found["cold"].append(run(kept, 2.0 + turn, True))
            found["warm"].append(run(kept, 1.0, False))
    return found


def median(times: list[Times], part: str, clock: str) -> float:
    return statistics.median([each[part][clock] for each in times])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    results: Any = measure(parser.parse_args().rounds)
    print(f"{'milliseconds':12s}" + "".join([f"{part:>18s}" for part in PARTS]) + "   (CPU / wall)")
    for kind, times in results.items():
        cells = [f"{1e3 * median(times, part, 'cpu'):8.2f} / {1e3 * median(times, part, 'wall'):.2f}" for part in PARTS]
        print(f"{kind:12s}" + "".join([f"{cell:>18s}" for cell in cells]))


if __name__ == "__main__":
    main()
