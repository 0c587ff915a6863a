"""Kernels timed by events of their stream, on a GPU that is played: every thread of a launch takes a microsecond of its clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.evidence.ptx.bindings import Result
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.runtime import profile

pytestmark = pytest.mark.slow


@pytest.fixture
def driver() -> Iterator[PlayedDriver]:
    with played() as found:
        qd.init(arch=qd.cuda, kernel_profiler=True, offline_cache=False, log_level="error")
        yield found
    qd.reset()


@qd.kernel
def add(x, value: int):
    for i in range(x.shape[0]):
        x[i] += value


@qd.kernel
def total(x) -> int:
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    return s


def numbers(count: int = 5) -> qd.Ndarray:
    x = qd.ndarray(qd.i32, count)
    x.fill(0)
    return x


def ran(driver: PlayedDriver, start: int = 0) -> float:
    """The milliseconds of the launches that have run, by the clock that is played."""
    return sum(blocks * threads for blocks, threads in driver.launched[start:]) * 1e-3


def test_events_around_launches_say_how_long_they_took(driver: PlayedDriver) -> None:
    x = numbers(1000)
    before = len(driver.launched)
    for _ in range(3):
        add(x, 1)
    assert len(driver.launched) == before, "nobody has waited yet"
    found = qd.profiler.query_kernel_profiler_info("add")
    assert found.counter == 3 and len(driver.launched) == before + 3
    assert found.avg * 3 == pytest.approx(ran(driver, before)) and found.avg > 0
    assert x[999] == 3


def test_all_launches_of_a_kernel_are_in_its_time(driver: PlayedDriver) -> None:
    x = numbers(3000)
    x.fill(2)
    qd.sync()
    qd.profiler.clear_kernel_profiler_info()
    before = len(driver.launched)
    assert total(x) == 6000
    assert len(driver.launched) > before + 1, "partial sums and their sum"
    assert qd.profiler.query_kernel_profiler_info("total").max == pytest.approx(ran(driver, before))


def test_a_streams_launches_are_measured_there(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, stream = numbers(), qd.create_stream()
    recorded: list[int] = []
    record = driver.bindings.cuEventRecord

    def noted(event: int, where: int) -> object:
        recorded.append(where)
        return record(event, where)

    monkeypatch.setattr(driver.bindings, "cuEventRecord", noted)
    before = len(driver.launched)
    add(x, 1, qd_stream=stream)
    add(x, 2, qd_stream=stream)
    found = qd.profiler.query_kernel_profiler_info("add")
    assert found.counter == 2 and found.avg * 2 == pytest.approx(ran(driver, before))
    assert x[4] == 3 and recorded == [stream.handle] * 4


def test_events_are_given_back(driver: PlayedDriver) -> None:
    x = numbers()
    for _ in range(3 * profile._MOST_OPEN):
        add(x, 1)
    open_events = driver.bindings.calls.count("cuEventCreate") - driver.bindings.calls.count("cuEventDestroy")
    assert 0 < open_events <= 2 * profile._MOST_OPEN
    assert qd.profiler.query_kernel_profiler_info("add").counter == 3 * profile._MOST_OPEN
    add(x, 1)
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    assert driver.bindings.calls.count("cuEventCreate") == driver.bindings.calls.count("cuEventDestroy")


def test_without_the_profiler_a_launch_is_one_call(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    x = numbers()
    for _ in range(3):
        add(x, 1)
    before = len(driver.bindings.calls)
    add(x, 1)
    assert driver.bindings.calls[before:] == ["cuCtxSetCurrent", "cuLaunchKernel"]


def test_a_graph_is_measured_as_a_whole(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def twice(x):
        for i in range(x.shape[0]):
            x[i] += 1
        for i in range(x.shape[0]):
            x[i] *= x[x.shape[0] - 1 - i] * 0 + 2

    x = numbers()
    qd.sync()
    before = len(driver.launched)
    twice(x)
    twice(x)
    found = qd.profiler.query_kernel_profiler_info("twice")
    assert found.counter == 2 and found.avg * 2 == pytest.approx(ran(driver, before))


def test_a_launch_that_fails_a_check_is_not_counted(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, kernel_profiler=True, debug=True, offline_cache=False, log_level="error")

    @qd.kernel
    def check(x):
        for i in range(x.shape[0]):
            assert x[i] == 0, "not zero"

    x = numbers()
    check(x)
    x[1] = 1
    with pytest.raises(AssertionError, match="not zero"):
        check(x)
    assert qd.profiler.query_kernel_profiler_info("check").counter == 1
    assert driver.bindings.calls.count("cuEventCreate") == driver.bindings.calls.count("cuEventDestroy")


def test_a_launch_that_loses_the_gpu_is_named(driver: PlayedDriver) -> None:
    """The profiler may be the first that waits."""

    @qd.kernel
    def stray(x):
        for i in range(x.shape[0]):
            x[i + (1 << 40)] = 1

    stray(numbers())
    with pytest.raises(RuntimeError, match="launched since the host last waited: stray"):
        qd.profiler.query_kernel_profiler_info("stray")
    assert "cuEventDestroy" not in driver.bindings.calls, "a GPU that is lost takes nothing back"


def test_a_launch_that_the_driver_refuses_leaves_no_events(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers()
    add(x, 1)
    qd.profiler.clear_kernel_profiler_info()
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuLaunchKernel", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE,))
        with pytest.raises(RuntimeError, match="INVALID_VALUE"):
            add(x, 1)
    assert driver.bindings.calls.count("cuEventCreate") == driver.bindings.calls.count("cuEventDestroy")
    assert qd.profiler.query_kernel_profiler_info("add").counter == 0
