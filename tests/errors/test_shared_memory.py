"""Debug mode on the reference target: threads of a block that reach one element without meeting, and shared memory that none
has written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.records import replace
from quadrants.targets import reference

block, subgroup = qd.simt.block, qd.simt.subgroup


@pytest.fixture(autouse=True)
def _debug_mode() -> Iterator[None]:
    qd.init(arch=qd.reference, debug=True, default_ip=qd.i64, log_level=qd.ERROR)
    yield
    qd.reset()


def no_barrier(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):  # loop
        shared = block.SharedArray(8, qd.i64)
        shared[i % 8] = x[i]
        block.sync()
        shared[i % 8] += 1
        x[i] = shared[7 - i % 8]


def stores_meet(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):  # loop
        shared = block.SharedArray((2, 2), qd.i64)
        shared[1, i % 2] = i
        block.sync()
        x[i] = shared[1, i % 2]


def in_global_memory(x):
    qd.loop_config(block_dim=4)
    for i in range(len(x)):  # loop
        x[i] = i
        x[i] = x[i // 4 * 4 + (i + 1) % 4] + block.thread_idx()


def in_a_loop(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):  # loop
        shared = block.SharedArray(8, qd.i64)
        for _ in range(3):
            shared[i % 8] = x[i]
            block.sync()
            x[i] = shared[7 - i % 8]


def updates_and_loads(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):  # loop
        shared = block.SharedArray(1, qd.i64)
        if i % 8 == 0:
            shared[0] = 0
        block.sync()
        shared[0] += x[i]
        x[i] = shared[0]


RACES = {
    no_barrier: "thread 3 loads shared[4] at line {6}, thread 4 updates it at line {5}",
    stores_meet: "thread 0 stores shared[1, 0] at line {3}, thread 2 stores it at line {3}",
    in_global_memory: "thread 0 loads x[1] at line {3}, thread 1 stores it at line {2}",
    in_a_loop: "thread 3 stores shared[3] at line {4}, thread 4 loads it at line {6}",
    updates_and_loads: "thread 0 loads shared[0] at line {7}, thread 1 updates it at line {6}",
}


@pytest.mark.parametrize("function", RACES, ids=lambda f: f.__name__)
def test_race(function: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    loop = first + next(number for number, line in enumerate(lines) if "# loop" in line)
    kernel = qd.kernel(function)
    for _ in range(2):
        with pytest.raises(qd.QuadrantsAssertionError) as caught:
            kernel(np.arange(16))
        text = str(caught.value)
        expected = RACES[function].format(*[loop + number - 1 for number in range(len(lines) + 1)])
        assert text.startswith(f"a race in a block of threads, which do not meet in between: {expected}")
        assert f"in kernel {function.__name__}" in text


def test_memory_that_none_has_written() -> None:
    def unwritten(x):
        qd.loop_config(block_dim=8)
        for i in range(len(x)):
            shared = block.SharedArray(8, qd.f64)
            if i % 8 != 3:
                shared[i % 8] = x[i]
            block.sync()
            x[i] = shared[(i + 1) % 8]

    kernel = qd.kernel(unwritten)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"shared\[3\] is read before a thread has") as caught:
        kernel(np.ones(16))
    assert caught.value.location.line == unwritten.__code__.co_firstlineno + 7

    pair = qd.types.vector(2, qd.f64)

    def vectors(x):
        for i in range(len(x)):
            shared = block.SharedArray(2, pair)
            if i < 2:
                shared[i].x = x[i]
            block.sync()
            x[i] = shared[0].y

    with pytest.raises(qd.QuadrantsAssertionError, match=r"shared\[0, 1\] is read before a thread has"):
        qd.kernel(vectors)(np.ones(16))


def test_what_is_in_order() -> None:
    """Barriers order; updates of one kind, equal stores, exchanges and a thread alone need no order; a block starts anew."""

    @qd.kernel
    def fine(x, out):
        qd.loop_config(block_dim=8)
        for i in range(len(x)):
            t = block.thread_idx()
            shared, count = block.SharedArray(8, qd.i64), block.SharedArray(2, qd.i64)
            if t < 2:
                count[t] = 0
            block.sync()
            count[0] += x[i]
            shared[t] = x[i]
            shared[t] *= 2
            block.sync()
            out[0, i] = shared[7 - t] + count[0]
            any_ = block.sync_any_nonzero(x[i] == 5)
            count[1] = any_
            shared[t] = 0
            block.sync()
            out[1, i] = count[1] + block.inclusive_add(shared[t] + 1, 8)
            out[2, i] = qd.atomic_exchange(count[0], t) >= 0

    x, out = np.arange(16), np.zeros((3, 16), np.int64)
    fine(x, out)
    sums = x.reshape(2, 8).sum(1)
    assert (out[0] == 2 * x.reshape(2, 8)[:, ::-1].ravel() + np.repeat(sums, 8)).all()
    assert (out[1] == np.tile(np.arange(1, 9), 2) + np.repeat([1, 0], 8)).all() and out[2].all()


def test_a_target_that_finds_no_races_takes_blocks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = replace(reference.RECORD, finds_races=False, version="1/finds_races")
    monkeypatch.setattr(reference, "record", lambda: lowered)
    kernel = qd.kernel(no_barrier)
    kernel(np.arange(16))
    assert "threads = " not in str(kernel.ir())
