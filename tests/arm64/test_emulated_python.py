"""On an Arm64, where this machine is another: a Python for it, which an emulator runs, imports the package and tests it.

`make test` sets that Python up (`.ci/arm64_python.py`). What is left out below is left out because of the emulator.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quadrants.targets import hosts

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = Path(os.environ.get("QD_TEST_ARM64_PYTHON", Path(sys.prefix) / "arm64" / "python"))

# Tests of the whole suite that run there, with those that are left out.
PARTS = {
    "loader": ("tests/runtime/test_loader.py tests/runtime/test_relocations.py", ""),
    # The emulator asserts that a forked child makes no threads, and takes longer between two loops than workers spin.
    "threads": ("tests/runtime/test_threads.py tests/runtime/test_scatter.py", "forked_child or wake_workers_once"),
    "launcher": ("tests/runtime/test_launch.py tests/runtime/test_native.py", "forked"),
    "kernels": ("tests/run/test_external.py tests/run/test_functions.py tests/run/test_vectors.py", "not arm64-O1"),
}


@pytest.fixture(scope="module")
def python() -> Path:
    if hosts.host() is hosts.LINUX_ARM64:
        pytest.skip("this machine is an Arm64: all tests run there")
    if not PYTHON.exists():
        pytest.skip(f"there is no {PYTHON}: .ci/arm64_python.py makes it")
    return PYTHON


def run(python: Path, *arguments: str | Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "QD_OFFLINE_CACHE": "1"}
    environment.pop("QD_ARCH", None)
    done = subprocess.run([python, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_a_program_runs_there_and_starts_warm(python: Path, tmp_path: Path) -> None:
    said = [run(python, HERE / "smoke.py", tmp_path).splitlines()[-1] for _ in range(2)]
    assert said == ["aarch64 Arch.arm64 True", "aarch64 Arch.arm64 False"]


@pytest.mark.parametrize("part", PARTS)
def test_our_tests_pass_there(python: Path, part: str) -> None:
    paths, left_out = PARTS[part]
    options = (
        ["-q", "-p", "no:cacheprovider", "-k", f"not ({left_out})"] if left_out else ["-q", "-p", "no:cacheprovider"]
    )
    said = run(python, "-m", "pytest", *options, *paths.split())
    found = re.search(r"^(\d+) passed", said, re.MULTILINE)
    assert found is not None and int(found[1]) > 10, said[-2000:]
