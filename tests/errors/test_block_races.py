"""Debug mode on the simulated device finds races between the threads of a block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _debug_mode() -> Iterator[None]:
    qd.init(arch="simulated", debug=True, default_ip=qd.i64, log_level=qd.ERROR)
    yield
    qd.reset()


def no_barrier(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((8,), qd.i64)
        t = i % 8
        s[t] = x[i]  # first
        x[i] = s[7 - t]  # second


def too_late(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((8,), qd.i64)
        t = i % 8
        s[t] = x[i]
        qd.simt.block.sync()
        y = s[7 - t]  # first
        s[t] = y + i  # second
        x[i] = s[t]


def between_subgroups(x):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((64,), qd.i64)
        t = i % 64
        s[t] = x[i]  # first
        qd.simt.subgroup.sync()
        x[i] = s[63 - t]  # second


def values_handed_on(x):
    """Shuffles, votes and what teams combine put nothing in order."""
    qd.loop_config(block_dim=32)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((32,), qd.i64)
        t = i % 32
        s[t] = x[i]  # first
        y = qd.simt.subgroup.shuffle(x[i], qd.u32(0)) + qd.simt.subgroup.reduce_add(x[i])
        x[i] = s[t ^ 1] + y + qd.cast(qd.simt.subgroup.ballot(x[i] > 0), qd.i64)  # second


def those_who_did_not_wait(x):
    """Every second member waits for every second one."""
    qd.loop_config(block_dim=32)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((32,), qd.i64)
        t = i % 32
        s[t] = x[i]  # first
        if t % 2 == 0:
            qd.simt.subgroup.sync()
        y = s[t ^ 2] if t % 2 == 0 else 0
        if t % 2 == 0:
            x[i] = y + s[t ^ 1]  # second


def with_barriers(x):
    qd.loop_config(block_dim=8)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((8,), qd.i64)
        t = i % 8
        s[t] = x[i]
        qd.simt.block.sync()
        y = s[7 - t]
        qd.simt.block.sync()
        qd.atomic_add(s[0], y)
        qd.atomic_add(s[0], 1)
        x[i] = y


def within_a_subgroup(x):
    qd.loop_config(block_dim=64)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((64,), qd.i64)
        t = i % 64
        s[t] = x[i]
        qd.simt.subgroup.sync()
        x[i] = s[t ^ 1]


def one_after_another(x):
    """Order is handed on: from those who met before to those who meet later."""
    qd.loop_config(block_dim=32)
    for i in range(len(x)):
        s = qd.simt.block.SharedArray((32,), qd.i64)
        t = i % 32
        if t < 8:
            s[t] = x[i]
            qd.simt.subgroup.sync()
        if t >= 4:
            qd.simt.subgroup.sync()
            s[t] = s[t % 4] if t < 8 else 0
        qd.simt.subgroup.sync()
        x[i] = s[t ^ 1] if t >= 4 else s[t]


def line_of(function: Callable[..., Any], comment: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if f"# {comment}" in line)


@pytest.mark.parametrize(
    "function",
    [no_barrier, too_late, between_subgroups, values_handed_on, those_who_did_not_wait],
    ids=lambda f: f.__name__,
)
def test_threads_that_do_not_meet_are_found(function: Callable[..., Any]) -> None:
    with pytest.raises(qd.QuadrantsAssertionError, match="a race in a block of threads, which do not meet") as caught:
        qd.kernel(function)(np.arange(64))
    text = str(caught.value)
    assert f"line {line_of(function, 'first')}" in text and f"line {line_of(function, 'second')}" in text


@pytest.mark.parametrize("function", [with_barriers, within_a_subgroup, one_after_another], ids=lambda f: f.__name__)
def test_threads_that_meet_are_in_order(function: Callable[..., Any]) -> None:
    qd.kernel(function)(np.arange(64))
