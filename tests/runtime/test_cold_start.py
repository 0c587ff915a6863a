"""What a first compile imports: only what the kernel needs, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
import numpy as np
import quadrants as qd

@qd.kernel
def saxpy(y: qd.types.ndarray(), a: float, x: qd.types.ndarray()):
    for i in range(len(y)):
        y[i] += a * x[i]

@qd.kernel
def waves(y, order):
    for i in range(len(y)):
        total = 0.0
        for j in range(len(order)):
            total += qd.sin(y[order[j]])
        y[i] = total

loaded = []
for kernel, arguments in ((saxpy, (np.ones(8), 2.0, np.ones(8))), (waves, (np.ones(8), np.arange(8)))):
    kernel(*arguments)
    loaded.append(sorted(sys.modules))
print(json.dumps(loaded))
"""


def test_passes_are_imported_when_a_kernel_needs_them(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "QD_OFFLINE_CACHE": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    shown = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=True).stdout
    first, second = (set(modules) for modules in json.loads(shown))
    assert first.isdisjoint({"dataclasses", "statistics", "decimal"})  # each takes milliseconds to import
    for name in ("scans", "gather_once", "expand_functions", "vectorise_inside", "tile", "jam", "random_streams"):
        assert f"quadrants.passes.{name}" not in first, name
    for name in ("quadrants.ir.text", "quadrants.ir.verify", "quadrants.ir.interpret"):
        assert name not in first, name
    for name in ("gather_once", "expand_functions", "vectorise_inside"):
        assert f"quadrants.passes.{name}" in second, name
    assert "quadrants.passes.tile" not in second
    assert len([name for name in first if name.startswith("quadrants.passes")]) < 75
