"""The host's part of kernels as machine code: what it calls, and that it means what the interpreter of it means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.watching import watched

import quadrants as qd
from quadrants.blocks import Traffic
from quadrants.evidence.ptx import driver as played_driver
from quadrants.evidence.ptx.bindings import Result
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.runtime import launch

from .launching import saxpy, warm

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]

OURS = played_driver.__file__.rpartition("evidence")[0]


def vectors(count: int = 64) -> tuple[qd.Ndarray, qd.Ndarray]:
    x, y = qd.ndarray(qd.f32, count), qd.ndarray(qd.f32, count)
    x.fill(1.0)
    y.fill(0.0)
    return x, y


def calls_of(driver: PlayedDriver, launch_once: Callable[[], Any]) -> list[str]:
    """The driver's functions that a launch calls; AssertionError if Python of this package runs meanwhile."""
    frames: list[str] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(OURS) and not file.startswith(f"{OURS}evidence"):
            frames.append(frame.f_code.co_name)

    before = len(driver.bindings.calls)
    watched(launch_once, watch)
    assert frames == []
    return driver.bindings.calls[before:]


def test_a_launch_is_one_call_of_the_driver(driver: PlayedDriver) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 2.0, x))
    assert calls_of(driver, lambda: saxpy(y, 3.0, x)) == ["cuCtxSetCurrent", "cuLaunchKernel"]
    assert y.to_numpy().tolist() == [9.0] * 64


def test_captured_fields_are_launched_as_arguments_are(driver: PlayedDriver) -> None:
    x, total = qd.field(qd.i32, shape=(5, 7)), qd.field(qd.i32, shape=())

    @qd.kernel
    def count(step: int):
        for i, j in qd.ndrange(5, 7):
            x[i, j] += step
        for i, j in qd.ndrange(5, 7):
            total[None] += x[i, j]

    warm(lambda: count(1))
    found = calls_of(driver, lambda: count(2))
    assert found == ["cuCtxSetCurrent", "cuLaunchKernel"] * (len(found) // 2), "nothing is allocated, nothing waits"
    assert total[None] == 35 * (1 + 2 + 3 + 5)


def test_what_the_host_looks_at_and_writes_between_launches(driver: PlayedDriver) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 1.0, x))
    copies = Traffic.to_device, Traffic.to_host
    assert y[5] == 3.0
    assert calls_of(driver, lambda: saxpy(y, 1.0, x)) == ["cuCtxSetCurrent", "cuLaunchKernel"], (
        "looking changes nothing"
    )
    assert y[5] == 4.0 and y[6] == 4.0
    assert (Traffic.to_device, Traffic.to_host) == (copies[0], copies[1] + 2)
    y[5] = 10.0
    saxpy(y, 1.0, x)
    x.fill(2.0)
    saxpy(y, 1.0, x)
    assert y[5] == 13.0 and y[6] == 7.0
    assert Traffic.to_device == copies[0] + 2


def test_views_that_others_keep_are_copied_at_every_launch(driver: PlayedDriver) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 1.0, x))
    view = y.to_numpy(copy=False)
    saxpy(y, 1.0, x)
    view[0] += 10.0
    saxpy(y, 1.0, x)
    assert view[0] == 15.0 and view[1] == 5.0


def test_a_device_that_was_left_is_not_launched_by_old_addresses(driver: PlayedDriver) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 1.0, x))
    with played() as other:
        qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
        x, y = vectors()
        warm(lambda: saxpy(y, 1.0, x))
        assert y[0] == 3.0 and other.bindings.calls.count("cuLaunchKernel") == 3


def test_results_and_temporary_memory(driver: PlayedDriver) -> None:
    @qd.kernel
    def total(x) -> float:
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    x, _ = vectors(1000)
    free = driver.bindings.left
    for _ in range(5):
        assert total(x) == 1000.0
    held = free - driver.bindings.left
    for _ in range(5):
        total(x)
    assert free - driver.bindings.left == held, "temporary memory is given back"
    x[3] = 5.0
    assert total(x) == 1004.0


def test_host_loops_with_numbers_of_the_device(driver: PlayedDriver) -> None:
    @qd.kernel
    def halve(x, limit: float) -> int:
        rounds = 0
        while x[0] > limit:
            for i in range(x.shape[0]):
                x[i] *= 0.5
            rounds += 1
        for k in range(3):
            for i in range(x.shape[0]):
                x[i] += k
        return rounds

    x = qd.ndarray(qd.f64, 9)
    for _ in range(3):
        x.fill(64.0)
        assert halve(x, 1.5) == 6
        assert x.to_numpy().tolist() == [4.0] * 9


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "u1", "i8", "u16", "i64", "u64"])
def test_numbers_of_every_type_reach_tasks(driver: PlayedDriver, dtype: str) -> None:
    type_ = getattr(qd, dtype)

    def put(out, value, place):
        for i in range(out.shape[0]):
            if i == place:
                out[i] = value

    put.__annotations__.update(value=type_, place=qd.i8)
    put = qd.kernel(put)

    value = 1 if dtype == "u1" else 5
    out = qd.ndarray(type_, 12)
    for place in range(4):
        put(out, value, place)
    assert [float(number) for number in out.to_numpy()[:6]] == [value] * 4 + [0, 0]


def test_vectors_layouts_and_empty_loops(driver: PlayedDriver) -> None:
    x = qd.Vector.ndarray(3, qd.f32, (4, 5))
    y = qd.Vector.field(3, qd.f64, shape=(4, 5), layout=qd.Layout.SOA)
    v = qd.Vector([1.0, 2.0, 3.0])

    @qd.kernel
    def move(a, b, v, n: int):
        for i, j in qd.ndrange(n, 5):
            b[i, j] += a[i, j] * 2.0 + v

    x.fill([1.0, 0.0, -1.0])
    warm(lambda: move(x, y, v, 4))
    before = driver.bindings.calls.count("cuLaunchKernel")
    move(x, y, v, 0)
    assert driver.bindings.calls.count("cuLaunchKernel") == before, "nothing to do is nothing launched"
    assert y.to_numpy()[3, 4].tolist() == [9.0, 6.0, 3.0]


def test_arrays_that_overlap_take_the_form_for_that(driver: PlayedDriver) -> None:
    @qd.kernel
    def shift(a, b):
        for i in range(a.shape[0]):
            a[i] = b[i] + 1

    x, y = qd.ndarray(qd.i32, 8), qd.ndarray(qd.i32, 8)
    warm(lambda: shift(x, y))
    warm(lambda: shift(x, x))
    assert x[0] == 4
    assert shift._last.may_alias


def test_errors_of_launches_are_told(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 1.0, x))
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuLaunchKernel", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE,))
        with pytest.raises(RuntimeError, match=r"in a launch: CUDA_ERROR_INVALID_VALUE \(1\)"):
            saxpy(y, 1.0, x)
    saxpy(y, 1.0, x)
    assert y[0] == 4.0


def test_memory_that_is_not_there_for_temporaries(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def total(x) -> float:
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    x, _ = vectors(100)
    large, other = vectors(20000)
    saxpy(other, 1.0, large)
    total(x)
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuMemAlloc", lambda _: (Result.CUDA_ERROR_OUT_OF_MEMORY, 0))
        with pytest.raises(MemoryError, match=r"no memory left(.|\n)*in kernel total"):
            total(large)
    assert total(x) == 100.0
    assert total(large) == 20000.0


def test_kernels_give_way_to_one_that_needs_memory(driver: PlayedDriver) -> None:
    @qd.kernel
    def last(n: int) -> float:
        s = 0.0
        for i in range(n):
            s += float(i % 2)
        return s

    @qd.kernel
    def first(n: int) -> float:
        s = 1.0
        for i in range(n):
            s += float(i % 2)
        return s

    assert first(20000) == 10001.0
    driver.bindings.left = 0
    assert last(4) == 2.0
    driver.bindings.left = 1 << 20
    assert first(20000) == 10001.0


def test_an_interrupt_while_the_host_waits(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def first(x) -> float:
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    x, _ = vectors(10)
    first(x)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "read_into", interrupted)
        with pytest.raises(KeyboardInterrupt):
            first(x)
    assert first(x) == 10.0


def test_the_host_waits_only_where_it_looks(driver: PlayedDriver) -> None:
    x, y = vectors()
    warm(lambda: saxpy(y, 1.0, x))
    assert driver.machine.threads == 0, "nothing has waited yet"
    qd.sync()
    assert driver.machine.threads > 0
    assert y[0] == 3.0


def test_threads_launch_while_others_look(driver: PlayedDriver) -> None:
    x, y = vectors(8)
    seen: list[float] = []

    def look() -> None:
        for _ in range(30):
            seen.append(float(y[0]))

    warm(lambda: saxpy(y, 1.0, x))
    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(30):
        saxpy(y, 1.0, x)
    looking.join()
    assert y.to_numpy().tolist() == [33.0] * 8
    assert seen == sorted(seen)


def test_numpy_arrays_are_copied_there_and_back(driver: PlayedDriver) -> None:
    x, y = np.ones(10, np.float32), np.zeros(20, np.float32)
    kept, _ = vectors(10)
    for _ in range(3):
        saxpy(y[::2], 2.0, x)
        saxpy(y[1::2], 1.0, kept)
    assert y.tolist() == [6.0, 3.0] * 10
