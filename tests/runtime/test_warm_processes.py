"""Warm starts that only real processes can show: what is imported, parsed and compiled in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAME = "module_of_a_warm_process"

pytestmark = pytest.mark.slow

BASE = """\
import numpy as np
import quadrants as qd

SCALE = 2.0

def helper(x, gain=2.0):
    return x * SCALE * gain + 17.0

@qd.kernel
def work(a):
    for i in range(len(a)):
        a[i] = helper(a[i])

def main():
    a = np.arange(3.0)
    work(a)
    return a.tolist()
"""
PROCESS = """
import json, sys
compiled = []
sys.addaudithook(lambda event, arguments: event == "compile" and compiled.append(str(arguments[1])))
own = ("llvmlite", "quadrants.compiler", "quadrants.frontend.walker", "quadrants.passes", "quadrants.targets.llvm.emit")
sys.path.insert(0, {folder!r})
import {name}
compiled.clear()
result = {name}.main()
from quadrants.runtime.manifest import cache_counters
print(json.dumps([result, cache_counters(), [name for name in own if name in sys.modules], compiled.count({name}.__file__)]))
"""


def start(tmp_path: Path, cache: Path, text: str, **environment: str) -> subprocess.Popen[str]:
    (tmp_path / f"{NAME}.py").write_text(text)
    program = PROCESS.format(folder=str(tmp_path), name=NAME)
    settings = {"QD_OFFLINE_CACHE": "1", "QD_OFFLINE_CACHE_FILE_PATH": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    settings["PYTHONPATH"] = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **settings, **environment},
    )


def said(process: subprocess.Popen[str]) -> list[Any]:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return json.loads(out)


def test_a_new_process_neither_parses_nor_loads_llvm(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cold = said(start(tmp_path, cache, BASE, PYTHONHASHSEED="1"))
    warm = said(start(tmp_path, cache, BASE, PYTHONHASHSEED="2"))
    assert cold[1]["stores"] == 1 and len(cold[2]) == 5 and cold[3] == 1
    assert warm[1] == {"hits": 1, "misses": 0, "stores": 0, "not cacheable": 0}
    assert warm[0] == cold[0] and warm[2:] == [[], 0]


def test_processes_that_start_at_once(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    both = [start(tmp_path, cache, BASE) for _ in range(2)]
    results = [said(process) for process in both]
    assert results[0][0] == results[1][0] == [17.0, 21.0, 25.0]
    assert said(start(tmp_path, cache, BASE))[1]["hits"] == 1


FUNCTION_IN_TWO = """
import numpy as np
import quadrants as qd
from quadrants.targets import shared_objects

@qd.kernel
def whole(a, values, vectors):
    for i in range(len(a)):
        values[i], vectors[i] = qd.sym_eig(a[i])

@qd.kernel
def part(a, values):
    for i in range(len(a)):
        values[i], _ = qd.sym_eig(a[i])

MATRIX = np.eye(3, dtype=np.float32)[None] * np.float32(2)
VALUES = np.zeros((1, 3), np.float32)

def with_whole():
    whole(MATRIX, VALUES, np.zeros((1, 3, 3), np.float32))
    return VALUES.tolist(), shared_objects.counters

def with_part():
    part(MATRIX, VALUES)
    return VALUES.tolist(), shared_objects.counters
"""


def test_functions_are_compiled_once_a_machine(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = said(start(tmp_path, cache, FUNCTION_IN_TWO + "main = with_whole\n"))[0]
    second = said(start(tmp_path, cache, FUNCTION_IN_TWO + "main = with_part\n"))[0]
    assert first[0] == second[0] == [[2, 2, 2]]
    assert first[1]["compiled"] == second[1]["from disk"] == 1
    assert first[1]["from disk"] == second[1]["compiled"] == 0
