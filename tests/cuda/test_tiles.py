"""Tiles on CUDA: rows lie in registers, and come from other threads by as many shuffles as there are numbers to come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.assemble import assemble, assembler
from quadrants.evidence.ptx.driver import played

pytestmark = pytest.mark.slow


def factor(a, tile: qd.template()):  # pyright: ignore[reportInvalidTypeForm]
    qd.loop_config(block_dim=64)
    for i in range(64):
        t = tile.zeros(dtype=qd.f32)
        t[:] = a[:, :]
        t.cholesky_(1e-6)
        a[:, :] = t


def solve(a, tile: qd.template()):  # pyright: ignore[reportInvalidTypeForm]
    qd.loop_config(block_dim=64)
    for i in range(64):
        t, b = tile.eye(dtype=qd.f32), tile.eye(dtype=qd.f32)
        t[:] = a[:, :]
        b -= qd.outer(1.0, a[:, 0])
        t.solve_triangular_(b)
        a[:, :] = b


def text_of(kernel: Any, tile: Any) -> str:
    with played(80) as driver:
        qd.init(arch=qd.cuda, offline_cache=False)
        a = np.eye(tile.SIZE, dtype=np.float32)
        qd.kernel(kernel)(a, tile)
        (text,) = driver.texts
        if assembler():
            (usage,) = assemble(text, 80)
            assert usage.stack == usage.spill_stores == usage.spill_loads == 0
    qd.reset()
    return text


@pytest.mark.parametrize("tile", [qd.simt.Tile16x16, qd.simt.Tile32x32], ids=repr)
def test_rows_lie_in_registers(tile: Any) -> None:
    n = tile.SIZE
    for kernel, shuffles in ((factor, n * (n + 1) // 2), (solve, n * (n + 1) // 2 + n)):
        text = text_of(kernel, tile)
        assert text.count("shfl.sync") == shuffles
        assert ".local" not in text
