"""Blocks among themselves: fences that others see, on every target that has them, and a single one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsSyntaxError
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow

block, grid = qd.simt.block, qd.simt.grid


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    options: dict[str, Any] = {**executor.options, "debug": executor.arch == "reference"}
    qd.init(arch=knobs.arch_by_name(executor.arch), verify=True, default_ip=qd.i32, **options)


@qd.kernel
def summed(x, partial, count, out):
    """The last block that is done adds up what the blocks have come to."""
    qd.loop_config(block_dim=32)
    for i in range(len(x)):
        t = block.thread_idx()
        total = block.reduce_add(x[i], 32)
        last = block.SharedArray(1, qd.i32)
        if t == 0:
            partial[i // 32] = total
            grid.mem_fence()
            last[0] = qd.atomic_add(count[0], 1) == len(partial) - 1
        block.sync()
        if last[0] != 0:
            grid.mem_fence()
            own = 0
            for b in range(t, len(partial), 32):
                own += partial[b]
            whole = block.reduce_add(own, 32)
            if t == 0:
                out[0] = whole


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_the_last_block_adds_up(executor: TargetExecutor, blocks: int) -> None:
    x = np.random.default_rng(blocks).integers(0, 100, 32 * blocks).astype(np.int32)
    for _ in range(20 if executor.arch == "x64" else 1):
        partial, count, out = np.full(blocks, -1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
        summed(x, partial, count, out)
        assert out[0] == x.sum() and count[0] == blocks


def test_a_fence_outside_of_loops_is_refused() -> None:
    @qd.kernel
    def outside(x):
        grid.mem_fence()

    with pytest.raises(QuadrantsSyntaxError, match="for loops at a kernel's top level"):
        outside(np.zeros(3))


def test_nothing_is_told_of_loops_within_a_single_block(capsys: pytest.CaptureFixture[str]) -> None:
    @qd.kernel
    def rounds(x):
        qd.loop_config(block_dim=32)
        for i in range(32):
            shared = block.SharedArray(32, qd.i32)
            for k in range(20):
                shared[i] = x[i]
                block.sync()
                x[i] = shared[(i + k) % 32]
                block.sync()

    x = np.arange(32, dtype=np.int32)
    rounds(x)
    assert (x == (np.arange(32) + sum(range(20))) % 32).all()
    told = capsys.readouterr()
    assert "runs in order" not in told.out + told.err
