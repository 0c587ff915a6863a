"""What launches are said to reach, by which graphs are put in order, is all that they reach."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import played
from quadrants.runtime import launch
from quadrants.targets.llvm import device_tasks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]
ROOT = Path(__file__).parents[2]
FILES = ["contractions", "grids", "layouts", "streams_and_graphs", "simt_blocks", "lowered_fields", "slices"]


def test_kernels_of_the_run_tests_as_graphs() -> None:
    files = [f"tests/run/test_{name}.py" for name in FILES]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "as_graphs",
        "-k",
        "cuda-O1",
        *files,
    ]
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = re.search(r"graphs: (\d+), with branches: (\d+)", done.stdout)
    assert found is not None and int(found[1]) > 20 and int(found[2]) > 2, done.stdout[-1000:]


@pytest.mark.parametrize("accesses", [lambda task, frame: (), lambda task, frame: ((0, 1, 4, False),)])
def test_a_launch_that_reaches_more_is_found(accesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not named, or said to be read only."""
    monkeypatch.setattr(device_tasks, "accesses_of", accesses)
    with played() as driver:
        driver.watch()
        qd.init(arch=qd.cuda, offline_cache=False, log_level="error")

        @qd.kernel
        def fill(x):
            for i in range(8):
                x[i] = i

        x = qd.ndarray(qd.i32, 8)
        fill(x)
        with pytest.raises(RuntimeError, match="of which nothing is said"):
            x.to_numpy()
    qd.reset()
