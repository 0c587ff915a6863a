"""Which loops run in parallel, against what their iterations are seen to touch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd
from quadrants.evidence.loop_programs import dependent, loop_program

pytestmark = pytest.mark.slow

SEEDS = [seed for seed in range(140) if dependent(loop_program(seed)) is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_loop_runs_in_parallel_exactly_where_it_may(seed: int, tmp_path: Path) -> None:
    source = loop_program(seed)
    kernel = qd.kernel(written(tmp_path / f"loop_{seed}.py", source).program)
    kernel(np.zeros(61, np.int64), np.zeros(61, np.int64), 61)
    in_order = "no parallel loop" in kernel.report()
    assert in_order == dependent(source), f"{'in order' if in_order else 'in parallel'}:\n{source}"
