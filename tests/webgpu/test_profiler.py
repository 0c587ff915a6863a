"""Kernels timed by the time stamps of their passes."""

from __future__ import annotations

import time

import numpy as np
import pytest

import quadrants as qd
from quadrants.targets.webgpu.device import WebDevice
from quadrants.targets.webgpu.timing import PassSpan

from .conftest import Opened

pytestmark = [pytest.mark.slow]


@pytest.fixture
def device(opened: Opened) -> WebDevice:
    found = opened({})
    qd.init(arch=qd.vulkan, kernel_profiler=True, offline_cache=False, enable_fallback=False, log_level="error")
    return found


@qd.kernel
def many(x, rounds: int):
    for i in range(x.shape[0]):
        for _ in range(rounds):
            x[i] = (x[i] * 1664525 + 1013904223) % 65537


@qd.kernel
def often(x):
    for i in range(x.shape[0]):
        x[i] += 1
    for i in range(x.shape[0]):
        x[i] *= x[x.shape[0] - 1 - i] * 0 + 2


def numbers() -> qd.Ndarray:
    x = qd.ndarray(qd.i64, 4096)
    x.fill(1)
    return x


def test_the_devices_clock_agrees_with_the_hosts(device: WebDevice) -> None:
    """Law: what the device worked is part of the time that the host saw pass, and not nothing."""
    x = numbers()
    many(x, 1)
    qd.sync()
    qd.profiler.clear_kernel_profiler_info()
    start = time.perf_counter()
    many(x, 2000)
    qd.sync()
    passed = (time.perf_counter() - start) * 1e3
    found = qd.profiler.query_kernel_profiler_info("many")
    assert found.counter == 1 and 0 < found.min < passed


def test_every_pass_of_a_kernel_counts(device: WebDevice) -> None:
    """A kernel of more launches than are handed over together has several passes, whose stamps are added up."""
    qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")
    x = numbers()
    many(x, 1)
    assert device.launches._waiting
    span = device.measure()
    assert isinstance(span, PassSpan)
    assert not device.launches._waiting, "what was launched before has a pass of its own"
    for _ in range(70):
        many(x, 1)
    span.stop()
    assert len(span._stamps) == 2
    assert span.milliseconds() > 0 and device.launches.span is None


def test_a_pass_is_a_kernels_own(device: WebDevice) -> None:
    """What waited is handed over before; what comes behind goes into a pass that nothing stamps."""
    x = numbers()
    often(x)
    often(x)
    assert device.launches.span is None
    assert qd.profiler.query_kernel_profiler_info("often").counter == 2
    assert (x.to_numpy() == 10).all()


def test_a_device_without_a_clock_is_waited_for(device: WebDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_tick", None)
    x = numbers()
    many(x, 3)
    assert not device.launches.running, "whoever measures has waited"
    assert qd.profiler.query_kernel_profiler_info("many").min > 0


def test_numpy_arrays_cost_copies_that_are_not_in_the_time(device: WebDevice) -> None:
    x = np.ones(1 << 12, np.int64)
    often(x)
    assert (x == 4).all() and qd.profiler.query_kernel_profiler_info("often").counter == 1
