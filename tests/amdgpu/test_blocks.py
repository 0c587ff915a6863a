"""Threads of blocks in AMD's code: which instructions they are, and what a block shares. None of it is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.amdgpu.driver import AssemblingDriver, assembled, unexplained_spills
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.amdgpu import compile, lld

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lld.missing()), reason=lld.missing())]

block, subgroup, grid = qd.simt.block, qd.simt.subgroup, qd.simt.grid


@pytest.fixture(params=compile.PROCESSORS)
def driver(request: pytest.FixtureRequest) -> Iterator[AssemblingDriver]:
    with assembled(request.param) as found:
        qd.init(arch=qd.amdgpu, verify=True, default_ip=qd.i32)
        yield found
        assert not unexplained_spills(found.made)
        qd.reset()


def instructions(driver: AssemblingDriver, function: Callable[..., Any], *arguments: Any) -> list[str]:
    qd.kernel(function)(*arguments)
    assembly = optimise.assembly(driver.made[-1].text, compile.machine_of(driver.processor), 2)
    return re.findall(r"^\s+([a-z]\w+)\s", assembly, re.MULTILINE)


def named(found: list[str], *stems: str) -> list[str]:
    return [name for name in found if name.startswith(stems)]


def in_memory(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=256)
    for i in range(len(x)):
        t = block.thread_idx()
        tile = block.SharedArray((256,), qd.f32)
        tile[t] = x[i]
        block.sync()
        y[i] = tile[255 - t]


def in_memory_of_waves(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        t = block.thread_idx()
        tile = block.SharedArray((64,), qd.f32)
        tile[t] = x[i]
        subgroup.sync()
        y[i] = tile[t ^ 1]


def by_shuffles(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        y[i] = subgroup.reduce_add(x[i]) + qd.math.popcnt(subgroup.ballot(x[i] > 0))


def counted(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        bins = block.SharedArray((64,), qd.i32)
        t = block.thread_idx()
        bins[t] = 0
        block.sync()
        bins[int(x[i]) & 3] += 1
        block.sync()
        y[i] = bins[t & 3]
        grid.mem_fence()


def test_memory_of_the_block_is_the_processors_own(driver: AssemblingDriver) -> None:
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    found = instructions(driver, in_memory, x, y)
    assert (y.reshape(-1, 256) == x.reshape(-1, 256)[:, ::-1]).all()
    assert named(found, "ds_write_b32", "ds_store_b32") and named(found, "ds_read_b32", "ds_load_b32")
    assert len(named(found, "s_barrier")) >= 2 and not named(found, "flat_", "scratch_")
    (kernel,) = driver.made[-1].usage
    assert kernel.shared_bytes == 1024 and kernel.block == 256 and kernel.stack_bytes == 0


def test_waves_wait_by_themselves(driver: AssemblingDriver) -> None:
    """The order of a wave's accesses costs no barrier: only the one between two blocks stands there."""
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    found = instructions(driver, in_memory_of_waves, x, y)
    assert (y == x.reshape(-1, 2)[:, ::-1].ravel()).all()
    write, read = (
        next(k for k, name in enumerate(found) if name.startswith(names))
        for names in (("ds_write_b32", "ds_store_b32"), ("ds_read_b32", "ds_load_b32"))
    )
    assert write < read
    assert not any(name.startswith("s_barrier") for name in found[write:read])


def test_values_go_from_lane_to_lane(driver: AssemblingDriver) -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    found = instructions(driver, by_shuffles, x, y)
    assert len(named(found, "ds_bpermute_b32")) == 5 and named(found, "v_cmp")
    (kernel,) = driver.made[-1].usage
    assert kernel.shared_bytes == 0 and kernel.wave == compile.PROCESSORS[driver.processor]


def test_updates_of_shared_memory_are_atomic(driver: AssemblingDriver) -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    found = instructions(driver, counted, x, y)
    assert (y == 16).all()
    assert named(found, "ds_add_u32", "ds_add_rtn_u32")


def test_plain_loops_are_launched_in_blocks_as_large_as_the_user_says(driver: AssemblingDriver) -> None:
    def plain(x: qd.types.ndarray()):
        qd.loop_config(block_dim=512)
        for i in range(len(x)):
            x[i] += 1

    instructions(driver, plain, np.zeros(64, np.float32))
    (kernel,) = driver.made[-1].usage
    assert kernel.block == 512
