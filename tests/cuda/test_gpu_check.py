"""`scripts/gpu_check`, as it runs without a GPU: every program of ours and of torch is right, and what fails is told."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow]


def run(tmp_path: Path, *options: str) -> tuple[int, dict, str]:
    out = tmp_path / "check.json"
    environment = {**os.environ, "PYTHON": sys.executable, "BENCH_HOME": str(tmp_path)}
    done = subprocess.run(
        [str(ROOT / "scripts" / "gpu_check"), "--played", "--out", str(out), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    return done.returncode, json.loads(out.read_text()), done.stdout + done.stderr


def test_all_of_ours_is_right_by_the_interpreter_of_ptx(tmp_path: Path) -> None:
    code, report, told = run(tmp_path)
    assert code == 0, told
    assert report["failures"] == [] and report["played"]
    assert set(report["cases"]["ours"]) == {"launch", "rounds", "saxpy", "sum", "stencil", "matmul", "nbody"}
    assert all(found["ok"] for found in report["cases"]["ours"].values())
    assert len(report["workloads"]) >= 5 and report["conformance"]["ok"]
    assert "nothing of ours failed" in told


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchs_programs_compute_the_same(tmp_path: Path) -> None:
    _, report, told = run(tmp_path, "--only", "launch,saxpy,sum,stencil,matmul,nbody", "--peers", "torch")
    found = report["cases"]["torch"]
    assert len(found) == 6 and all(answer["ok"] for answer in found.values()), told


def test_a_peer_that_is_not_there_is_told(tmp_path: Path) -> None:
    code, report, told = run(tmp_path, "--only", "launch", "--peers", "upstream")
    assert code == 0 and "upstream: not installed" in told
    assert "upstream" not in report["cases"]
