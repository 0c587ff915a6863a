"""A process that was forked from one that has opened the GPU."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.targets import table

pytestmark = pytest.mark.slow


def told_by_a_child(kernel: Callable[[np.ndarray], None], x: np.ndarray) -> str:
    """What a forked process says of a launch; it ends by a signal where it hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            text = "it ran"
            try:
                kernel(x)
            except RuntimeError as error:
                text = str(error)
            os.write(writing, text.encode())
        finally:  # whatever else it raises: the child runs no other tests
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def test_a_forked_process_is_told_that_the_driver_is_not_there() -> None:
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")

    @qd.kernel
    def double(x):
        for i in range(len(x)):
            x[i] *= 2

    x = np.ones(10, np.float32)
    double(x)
    assert "drivers do not work behind a fork" in told_by_a_child(double, x)
    double(x)
    assert (x == 4).all()
    qd.reset()
