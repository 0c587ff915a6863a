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
        x[i] = s[63 - t] + qd.simt.subgroup.shuffle(x[i], qd.u32(0))  # second


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
        y = qd.simt.subgroup.shuffle(x[i], qd.u32(0))
        x[i] = s[t ^ 1] + y


def line_of(function: Callable[..., Any], comment: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if f"# {comment}" in line)


@pytest.mark.parametrize("function", [no_barrier, too_late, between_subgroups], ids=lambda f: f.__name__)
def test_threads_that_do_not_meet_are_found(function: Callable[..., Any]) -> None:
    with pytest.raises(qd.QuadrantsAssertionError, match="a race in a block of threads, which do not meet") as caught:
        qd.kernel(function)(np.arange(64))
    text = str(caught.value)
    assert f"line {line_of(function, 'first')}" in text and f"line {line_of(function, 'second')}" in text


@pytest.mark.parametrize("function", [with_barriers, within_a_subgroup], ids=lambda f: f.__name__)
def test_threads_that_meet_are_in_order(function: Callable[..., Any]) -> None:
    qd.kernel(function)(np.arange(64))
