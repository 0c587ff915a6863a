"""Threads of blocks as invocations of a workgroup: what the shaders have, and what becomes of invocations without a thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.targets.webgpu.device import CHOICES

subgroup: Any = qd.simt.subgroup

pytestmark = [pytest.mark.slow]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 70_000 * 4])
def test_blocks_share_memory_and_wait(texts: list[str], count: int) -> None:
    """A last block that is not full, one thread, and more blocks than there are workgroups."""

    @qd.kernel
    def turned(x, y):
        qd.loop_config(block_dim=4)
        for i in range(x.shape[0]):
            t = qd.simt.block.thread_idx()
            held = qd.simt.block.SharedArray((4,), qd.f32)
            held[t] = x[i]
            qd.simt.block.sync()
            last = min(3, x.shape[0] - 1 - (i - t))
            y[i] = held[last - t]

    x = np.arange(count, dtype=np.float32)
    y = np.zeros_like(x)
    turned(x, y)
    expected = np.concatenate([part[::-1] for part in np.split(x, range(4, count, 4))])
    assert (y == expected).all()
    assert "@workgroup_size(4)" in texts[0]
    assert "workgroupBarrier();" in texts[0] and "var<workgroup> shared_0: array<f32, 4>;" in texts[0]


def test_invocations_without_a_thread_wait_with_the_others(texts: list[str]) -> None:
    """How often to meet is not known to invocations that have no thread: they are told."""

    @qd.kernel
    def walk(x, y, limits):
        qd.loop_config(block_dim=32)
        for i in range(x.shape[0]):
            t = qd.simt.block.thread_idx()
            held = qd.simt.block.SharedArray((32,), qd.i32)
            held[t] = x[i]
            qd.simt.block.sync()
            threads = min(32, x.shape[0] - (i - t))
            rounds = 0
            while rounds < limits[i // 32]:
                value = held[(t + 1) % threads]
                qd.simt.block.sync()
                held[t] += value
                qd.simt.block.sync()
                rounds += 1
            if held[t] % 2 == 0:
                continue
            y[i] = held[t]

    x = np.random.default_rng(3).integers(0, 100, 100).astype(np.int32)
    limits = np.array([3, 0, 5, 2], np.int32)
    y = np.zeros_like(x)
    walk(x, y, limits)
    for block in range(4):
        held = x[32 * block : 32 * block + 32]
        for _ in range(limits[block]):
            held = held + np.roll(held, -1)
        assert (y[32 * block : 32 * block + 32] == np.where(held % 2 == 0, 0, held)).all()
    assert "agreed_" in texts[0]


@pytest.mark.parametrize("dtype", [qd.i32, qd.u8, qd.f32, qd.f64, qd.i64], ids=str)
def test_threads_update_memory_of_the_block(texts: list[str], dtype: Any) -> None:
    @qd.kernel
    def count(x, out):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            t = qd.simt.block.thread_idx()
            held = qd.simt.block.SharedArray((4,), dtype)
            if t < 4:
                held[t] = 0
            qd.simt.block.sync()
            qd.atomic_add(held[x[i]], 1)
            qd.simt.block.sync()
            if t < 4:
                out[i // 64, t] = held[t]

    x = np.random.default_rng(4).integers(0, 4, 256).astype(np.int32)
    out = np.zeros((4, 4))
    count(x, out)
    assert (out == [np.bincount(part, minlength=4) for part in x.reshape(4, 64)]).all()
    assert "array<atomic<u" in texts[0]


def test_fences_take_blocks_apart(texts: list[str]) -> None:
    @qd.kernel
    def ordered(x):
        qd.loop_config(block_dim=8)
        for i in range(x.shape[0]):
            x[i] = i
            qd.simt.block.mem_fence()
            x[i] = x[i] + 2

    x = np.zeros(20, np.int32)
    ordered(x)
    assert (x == np.arange(20) + 2).all()
    assert "var<workgroup>" not in texts[0] and "@workgroup_size(64)" in texts[0]
    assert "no fences" in ordered.report()


def test_members_of_a_subgroup_wait_with_the_block_or_in_turn(texts: list[str]) -> None:
    """WGSL has barriers of workgroups: where all threads of the block come to the subgroup's, it is one; else they run in turn."""

    @qd.kernel
    def swapped(x, some: qd.template()):
        qd.loop_config(block_dim=16)
        for i in range(x.shape[0]):
            held = qd.simt.block.SharedArray((16,), qd.i32)
            t = qd.simt.block.thread_idx()
            held[t] = x[i]
            if qd.static(some):
                if t < 8:
                    subgroup.sync()
                    x[i] = held[t ^ 1]
            else:
                subgroup.sync()
                x[i] = held[t ^ 1]

    x = np.arange(32, dtype=np.int32)
    swapped(x, False)
    assert (x == np.arange(32) ^ 1).all()
    assert "workgroupBarrier();" in texts[0] and "@workgroup_size(16)" in texts[0]
    x = np.arange(32, dtype=np.int32)
    swapped(x, True)
    assert (x == np.where(np.arange(32) % 16 < 8, np.arange(32) ^ 1, np.arange(32))).all()
    assert "workgroupBarrier();" not in texts[1]
    assert "the target has barriers of whole blocks only" in swapped.report()


def test_shared_memory_of_narrow_numbers_is_refused_where_it_is_too_much(texts: list[str]) -> None:
    @qd.kernel
    def bytes_of_a_block(x):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            held = qd.simt.block.SharedArray((20_000,), qd.u8)
            held[i % 64] = x[i]
            qd.simt.block.sync()
            x[i] = held[(i + 1) % 64]

    with pytest.raises(QuadrantsUnsupportedError, match="a block shares 80000 bytes here") as caught:
        bytes_of_a_block(np.zeros(64, np.uint8))
    assert "for i in range(x.shape[0])" in str(caught.value)


@pytest.mark.parametrize("dtype", [qd.i8, qd.f16, qd.f32, qd.i64, qd.f64], ids=str)
def test_members_of_a_subgroup_exchange_by_its_operations(texts: list[str], dtype: Any) -> None:
    """Parts of four, on hardware with subgroups of as many or more; the last one is not full."""
    if CHOICES["Vulkan"].current().driver.subgroup < 4:
        pytest.skip("the driver has no subgroups of one size")

    @qd.kernel
    def exchange(x, y, votes):
        for i in range(x.shape[0]):
            value = qd.cast(x[i], dtype)
            y[i] = subgroup.reduce_add_tiled(value, 2)
            if x[i] > 4:
                votes[i] = subgroup.reduce_max_tiled(value, 2)

    x = np.random.default_rng(5).integers(0, 9, 39).astype(np.float64)
    y, votes = np.zeros_like(x), np.zeros_like(x)
    exchange(x, y, votes)
    parts = np.split(x, range(4, 39, 4))
    assert (y == np.concatenate([np.full(len(part), part.sum()) for part in parts])).all()
    largest = np.concatenate([np.full(len(part), part.max()) for part in parts])
    assert (votes == np.where(x > 4, largest, 0)).all()
    assert "subgroupShuffle(" in texts[0] and "subgroupBallot(" in texts[0] and "workgroupBarrier" not in texts[0]


@qd.kernel
def _checked_rounds(x, seen, limit):
    """A thread fails within loops; others wait for what it would have done."""
    qd.loop_config(block_dim=32)
    for i in range(x.shape[0]):
        t = qd.simt.block.thread_idx()
        held = qd.simt.block.SharedArray((32,), qd.i32)
        held[t] = x[i]
        qd.simt.block.sync()
        while held[0] < 4:
            for k in range(3):
                for j in range(2):
                    assert i != limit or held[0] != 2 or k + j != 2, "the limit is met"
                seen[i] += 1
            qd.simt.block.sync()
            if t == 0:
                held[0] += 1
            qd.simt.block.sync()
        seen[i] += 100


@pytest.mark.parametrize("count", [64, 50])
def test_threads_whose_checks_fail_come_to_the_barriers_that_are_left(texts: list[str], count: int) -> None:
    """WGSL wants all invocations there. Nothing waits for them without end, and they do nothing more."""
    qd.init(arch=qd.vulkan, debug=True, offline_cache=False, enable_fallback=False, log_level="error")
    x, seen = np.zeros(count, np.int32), np.zeros(count, np.int32)
    with pytest.raises(qd.QuadrantsAssertionError, match="the limit is met"):
        _checked_rounds(x, seen, 32)
    main = texts[-1].partition("var alive: bool")[2]
    assert "workgroupBarrier();" in main and "return;" not in main
    assert seen[32] == 2 * 3, "the thread ends within round 2, whose sum it does not store"
    assert (seen[33:] == 3 * 3 + 100).all(), "its block's rounds end with that one"
    assert (seen[:32] == 4 * 3 + 100).all()
    seen[:] = 0
    _checked_rounds(x, seen, -1)
    assert (seen == 4 * 3 + 100).all()
