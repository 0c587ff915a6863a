"""`scripts/gpu_check`, as it runs without a GPU: every program of ours and of torch is right, and what fails is told."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.gpu.__main__ import (
    _ANSWER,
    EACH,
    HOST,
    MINUTES,
    SECONDS,
    STEPS,
    conformance,
    failures,
    lacking,
    some_of,
)
from benchmarks.gpu.host import CASES as HOST_CASES
from benchmarks.gpu.processes import asked

from quadrants.knobs import Arch
from quadrants.targets import table

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
    assert set(report["cases"]["ours"]) == {
        "launch",
        "rounds",
        "saxpy",
        "sum",
        "stencil",
        "matmul",
        "matmul16",
        "nbody",
    }
    assert all(found["ok"] for found in report["cases"]["ours"].values())
    assert set(report["host"]) == set(HOST) and all(found["ok"] for found in report["host"].values())
    assert len(report["workloads"]) >= 5 and report["conformance"]["ok"]
    assert set(report["seconds"]) == {"host", "cases", "conformance", "workloads", "peers"}
    assert "nothing of ours failed" in told


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchs_programs_compute_the_same(tmp_path: Path) -> None:
    _, report, told = run(
        tmp_path, "--only", "launch,saxpy,sum,stencil,matmul,matmul16,nbody", "--peers", "torch", "--steps", "peers"
    )
    found = report["cases"]["torch"]
    assert len(found) == 7 and all(answer["ok"] for answer in found.values()), told


def test_a_peer_that_is_not_there_is_told(tmp_path: Path) -> None:
    code, report, told = run(tmp_path, "--only", "launch", "--peers", "upstream", "--steps", "cases,peers")
    assert code == 0 and "upstream: not installed" in told
    assert "upstream" not in report["cases"]


def test_names_that_are_not_known_are_refused() -> None:
    assert some_of(STEPS)("host,peers") == ["host", "peers"]
    with pytest.raises(argparse.ArgumentTypeError, match="hosts: there are host, cases"):
        some_of(STEPS)("hosts,peers")


WORKER = """
import json, os, subprocess, sys, time

def reply(**words):
    print(json.dumps(words), flush=True)

for name in sys.argv[1:]:
    reply(case=name, begins=True)
    if name.startswith("hang"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # it holds the pipe, too
        time.sleep(600)
    if name.startswith("die"):
        sys.stderr.write("a fault of the GPU\\n")
        sys.stderr.flush()
        os._exit(9)
    if name.startswith("lose"):
        reply(case=name, ok=False, why="lost")
        os._exit(75)
    if name.startswith("cut"):
        sys.stdout.write('{"case": "cu')
        sys.stdout.flush()
        os._exit(1)
    reply(case=name, ok=True)
"""


def test_what_hangs_dies_or_loses_the_gpu_costs_one_case(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    names = ["good", "hang", "good2", "die", "good3", "lose", "good4", "cut", "good5", "die2"]
    told: list[str] = []
    command = [sys.executable, str(tmp_path / "worker.py")]
    found = asked(command, names, dict(os.environ), 600.0, 15.0, lambda name, answer: told.append(name))
    assert told == names == list(found)
    assert {name for name, answer in found.items() if answer["ok"]} == {"good", "good2", "good3", "good4", "good5"}
    assert found["hang"]["why"].startswith("the process was stopped after 15 s")
    assert found["die"]["why"] == "the process ended with status 9: a fault of the GPU"
    assert found["lose"]["why"] == "lost" and "status 1" in found["cut"]["why"]


def test_what_there_was_no_time_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, str(tmp_path / "worker.py")]
    found = asked(command, ["good", "hang", "good2"], dict(os.environ), 15.0, 300.0)
    assert found["good"]["ok"] and "stopped" in found["hang"]["why"]
    assert found["good2"]["why"] == "not run: there was no time left"
    (tmp_path / "worker.py").write_text("raise SystemExit('no such package')")
    found = asked(command, ["good"], dict(os.environ), 300.0, 300.0)
    assert found["start"]["why"] == "the process ended with status 1: no such package"


def test_all_failures_are_told_in_full_and_the_steps_fit_their_time() -> None:
    long = "\n".join(f"line {k}" for k in range(50))
    report = {"host": {"order": {"ok": False, "why": long}}, "cases": {"ours": {"sum": {"ok": False, "error": 0.5}}}}
    told = failures(report)
    assert told[0].startswith("host order: line 0\n    line 1") and told[0].endswith("line 49")
    assert told[1] == "case sum: 0.5"
    assert 60 * MINUTES + EACH < 360 and max(SECONDS.values()) < 60 * MINUTES
    assert HOST == tuple(HOST_CASES)


def test_a_sample_that_is_not_done_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    found = conformance(True, 0.2)
    assert not found["ok"] and "stopped after 0 s" in found["why"]


def test_without_a_gpu_nothing_that_is_played_counts(tmp_path: Path) -> None:
    reason = table.missing(Arch.cuda)
    if not reason:
        pytest.skip("there is a GPU here")
    command = [str(ROOT / "scripts" / "gpu_check"), "--out", str(tmp_path / "check.json")]
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 1 and reason in done.stdout and "passed" not in done.stdout
    assert json.loads((tmp_path / "check.json").read_text())["script"] == {"start": reason}


def test_only_the_answer_says_that_nothing_can_run() -> None:
    warns = "import sys, warnings; print('loaded'); warnings.warn('old', DeprecationWarning); print('late', file=sys.stderr)"
    assert lacking(f"{warns}; print('{_ANSWER}', '')") == ""
    assert lacking(f"{warns}; print('{_ANSWER}', 'no driver')") == "no driver"


def test_a_driver_that_ends_the_process_is_a_reason() -> None:
    ends = "import os, sys; print('loaded', flush=True); sys.stderr.write('a fault'); sys.stderr.flush(); os.abort()"
    told = lacking(ends)
    assert told.startswith("who asks NVIDIA's driver ended with status -6: a fault"), told
    assert lacking("import os; os._exit(3)") == "who asks NVIDIA's driver ended with status 3"


def test_a_driver_that_does_not_answer_is_a_reason() -> None:
    assert lacking("import time; time.sleep(600)", 0.5) == "NVIDIA's driver does not answer within 0 s"
