"""Threads of blocks on CUDA: which instructions they are, what they take, and how many are launched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsAssertionError
from quadrants.evidence.ptx.assemble import assemble, assembler
from quadrants.evidence.ptx.driver import played
from quadrants.targets.llvm import device_launches

pytestmark = pytest.mark.slow

block, subgroup, grid = qd.simt.block, qd.simt.subgroup, qd.simt.grid


@pytest.fixture(params=[75, 90], ids=lambda sm: f"sm_{sm}")
def driver(request: pytest.FixtureRequest) -> Iterator[Any]:
    with played(request.param) as found:
        qd.init(arch=qd.cuda, verify=True, default_ip=qd.i32)
        yield found
        qd.reset()


def text_of(driver: Any, function: Callable[..., Any], *arguments: Any) -> str:
    before = len(driver.texts)
    qd.kernel(function)(*arguments)
    return "\n".join(driver.texts[before:])


def count(text: str, pattern: str) -> int:
    return len(re.findall(rf"^\s*(?:@!?%p\d+ )?{pattern}", text, re.MULTILINE))


def in_memory(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        t = block.thread_idx()
        tile = block.SharedArray((64,), qd.f32)
        tile[t] = x[i]
        block.sync()
        y[i] = tile[63 - t]


def by_shuffles(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        y[i] = subgroup.reduce_add(x[i])


def in_memory_of_warps(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        t = block.thread_idx()
        tile = block.SharedArray((64,), qd.f32)
        tile[t] = x[i]
        if t < 32:
            subgroup.sync()
            y[i] = tile[31 - t]


def by_votes(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        y[i] = qd.math.popcnt(subgroup.ballot(x[i] > 0))


def counted(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        bins = block.SharedArray((4,), qd.i32)
        t = block.thread_idx()
        if t < 4:
            bins[t] = 0
        block.sync()
        bins[int(x[i]) & 3] += 1
        block.sync()
        y[i] = bins[t & 3]


def fenced(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=32)
    for i in range(len(x)):
        y[i] = x[i]
        block.mem_fence()
        grid.mem_fence()


WAITS = r"bar\.sync|barrier\.sync|barrier\.cta\.sync"
"""Waits of a block: of all of its threads (`bar.sync`), and of those that are there."""


def x_of(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.float32) % 7 - 2


def test_memory_of_the_block_is_shared_memory(driver: Any) -> None:
    x, y = x_of(256), np.zeros(256, np.float32)
    text = text_of(driver, in_memory, x, y)
    assert (y.reshape(-1, 64) == x.reshape(-1, 64)[:, ::-1]).all()
    assert count(text, r"st\.shared\.b32") == 1 and count(text, r"ld\.shared\.b32") == 1
    assert count(text, WAITS) == 2  # one of them stands between two blocks of one that is launched
    assert "st.b32" not in text and "ld.b32" not in text
    if assembler():
        (usage,) = assemble(text, driver.sm)
        assert usage.shared == 256 and usage.stack == 0 and usage.registers <= 32
    assert driver.launched[-1] == (4, 64)


def test_warps_wait_by_themselves(driver: Any) -> None:
    x, y = x_of(256), np.zeros(256, np.float32)
    text = text_of(driver, in_memory_of_warps, x, y)
    assert (y.reshape(-1, 64)[:, :32] == x.reshape(-1, 64)[:, 31::-1]).all() and not y.reshape(-1, 64)[:, 32:].any()
    assert count(text, r"bar\.warp\.sync") == 1
    assert count(text, WAITS) == 1  # between two blocks of one that is launched


def test_values_go_from_lane_to_lane(driver: Any) -> None:
    x, y = x_of(256), np.zeros(256, np.float32)
    text = text_of(driver, by_shuffles, x, y)
    assert (y.reshape(-1, 32) == x.reshape(-1, 32).sum(1)[:, None]).all()
    assert count(text, "shfl.sync.idx.b32") == 5 and ".shared" not in text
    assert count(text, WAITS) == 1


def by_blocks(x: qd.types.ndarray(), y: qd.types.ndarray()):
    qd.loop_config(block_dim=256)
    for i in range(len(x)):
        y[i] = block.reduce_add(x[i], 256, qd.f32)


def test_sums_of_blocks_go_through_an_element_a_warp(driver: Any) -> None:
    x, y = x_of(500), np.zeros(500, np.float32)
    kernel = qd.kernel(by_blocks)
    kernel(x, y)
    assert (y[:256] == x[:256].sum()).all() and (y[256:] == x[256:].sum()).all()
    assert "an iteration is a block of 256 threads that run at once, which share 32 bytes" in kernel.report()
    text = driver.texts[-1]
    assert count(text, "shfl.sync.idx.b32") == 5 and count(text, r"st\.shared\.b32") == 1 and count(text, WAITS) == 3


def test_votes_are_ballots(driver: Any) -> None:
    x, y = x_of(70), np.zeros(70, np.float32)
    text = text_of(driver, by_votes, x, y)
    assert (y[:32] == (x[:32] > 0).sum()).all() and (y[64:] == (x[64:] > 0).sum()).all()
    assert count(text, "vote.sync.ballot.b32") == 1


def test_updates_of_shared_memory_are_atomic(driver: Any) -> None:
    x, y = x_of(128), np.zeros(128, np.float32)
    text = text_of(driver, counted, x, y)
    for k in range(2):
        bins = np.bincount(x[64 * k : 64 * k + 64].astype(np.int32) & 3, minlength=4)
        assert (y[64 * k : 64 * k + 64].reshape(-1, 4) == bins).all()
    assert count(text, r"(?:atom|red)\.shared\.add\.u32") == 1


def test_fences(driver: Any) -> None:
    x, y = x_of(64), np.zeros(64, np.float32)
    text = text_of(driver, fenced, x, y)
    assert (x == y).all()
    assert count(text, "fence.sc.cta") == 1 and count(text, "fence.sc.gpu") == 1


def test_a_thread_that_fails_a_check_leaves_the_others_alone(driver: Any) -> None:
    qd.init(arch=qd.cuda, debug=True)

    @qd.kernel
    def checked(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            assert x[i] < 4, "too large"
            total = subgroup.reduce_add(x[i])
            block.sync()
            y[i] = total

    y = np.zeros(64, np.float32)
    with pytest.raises(QuadrantsAssertionError, match="too large"):
        checked(x_of(64), y)
    checked(x_of(64) * 0, y)


@pytest.mark.parametrize("threads", [None, 32, 512])
def test_plain_loops_are_launched_in_blocks_as_large_as_the_user_says(driver: Any, threads: int | None) -> None:
    def plain(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(len(x)):
            y[i] = x[i] + 1

    def with_size(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=threads)
        for i in range(len(x)):
            y[i] = x[i] + 1

    x, y = x_of(2048), np.zeros(2048, np.float32)
    text = text_of(driver, plain if threads is None else with_size, x, y)
    assert (y == x + 1).all()
    assert f".maxntid {threads or 256}, 1, 1" in text
    assert driver.launched[-1][1] == (threads or 256)


@pytest.mark.parametrize(
    "shape", [(7, 33, 41), (1, 5000, 1), (5000, 1, 1), (1, 1, 5000), (3, 1, 4097), (2, 2, 2), (17, 256, 1)], ids=str
)
def test_each_iteration_of_a_nest_runs_once(driver: Any, shape: tuple[int, int, int]) -> None:
    """Also where threads take several, which the host's two multiprocessors do from 4096 on."""

    @qd.kernel
    def numbered(y: qd.types.ndarray(), n: qd.i64):
        for i, j, k in qd.ndrange((1, 1 + y.shape[0]), (-2, y.shape[1] - 2), y.shape[2]):
            y[i - 1, j + 2, k] += i + n * (j + n * k)

    y = np.zeros(shape, np.int64)
    numbered(y, 10_000)
    i, j, k = np.indices(shape)
    assert (y == 1 + i + 10_000 * (j - 2 + 10_000 * k)).all()


def test_more_blocks_than_are_launched_are_taken_in_turns(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a grid loop does not rely on how many blocks are launched."""
    monkeypatch.setattr(device_launches, "_MOST_BLOCKS", 3)
    x, y = x_of(1000), np.zeros(1000, np.float32)
    text_of(driver, in_memory, x, y)
    whole = y[: 64 * 15].reshape(-1, 64)
    assert (whole == x[: 64 * 15].reshape(-1, 64)[:, ::-1]).all()
    assert driver.launched[-1] == (3, 64)
