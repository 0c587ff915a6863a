"""Streams and events on a GPU that is played: it runs everything as late as it may, in the unlikeliest order."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.evidence.ptx.queues import DEFAULT, LEGACY, OWN, Queues

pytestmark = pytest.mark.slow


@qd.kernel
def add(x, value: int):
    for i in range(x.shape[0]):
        x[i] += value


@qd.kernel
def double(x):
    for i in range(x.shape[0]):
        x[i] *= 2


def numbers(count: int = 5) -> qd.Ndarray:
    x = qd.ndarray(qd.i32, count)
    x.fill(0)
    return x


def test_a_stream_has_its_order_and_the_host_sees_what_it_wrote(driver: PlayedDriver) -> None:
    x, stream = numbers(), qd.create_stream()
    assert stream.handle != 0
    for _ in range(3):
        add(x, 1, qd_stream=stream)
        double(x, qd_stream=stream)
    assert driver.machine.threads == 0, "nothing has waited yet"
    assert x.to_numpy().tolist() == [14] * 5


def test_launches_without_a_stream_and_with_one_wait_for_one_another(driver: PlayedDriver) -> None:
    x, first, second = numbers(), qd.create_stream(), qd.create_stream()
    add(x, 1)
    double(x, qd_stream=first)
    add(x, 5)
    double(x, qd_stream=second)
    add(x, 1)
    assert x[0] == 15


def test_streams_are_apart_until_an_event_orders_them(driver: PlayedDriver) -> None:
    """The played GPU runs the newest stream first where nothing says otherwise."""
    x, first, second = numbers(), qd.create_stream(), qd.create_stream()
    add(x, 0)
    qd.sync()
    add(x, 1, qd_stream=first)
    double(x, qd_stream=second)
    qd.sync()
    assert x[0] == 1, "doubled before the sum"
    event = qd.create_event()
    add(x, 1, qd_stream=first)
    event.record(first)
    event.wait(second)
    double(x, qd_stream=second)
    qd.sync()
    assert x[0] == 4
    event.destroy()


def test_events_and_streams_can_be_waited_for(driver: PlayedDriver) -> None:
    x, stream, event = numbers(), qd.create_stream(), qd.create_event()
    event.synchronize()
    add(x, 1, qd_stream=stream)
    event.record(stream)
    before = driver.machine.threads
    event.synchronize()
    ran = driver.machine.threads
    assert ran > before
    add(x, 1, qd_stream=stream)
    stream.synchronize()
    assert driver.machine.threads > ran


def test_temporary_memory_is_a_streams_own(driver: PlayedDriver) -> None:
    """Sums in two streams at once have partial sums of their own."""

    @qd.kernel
    def total(x, out):
        s = 0
        for i in range(x.shape[0]):
            s += x[i]
        for i in range(1):
            out[i] = s

    few, many, a, b = numbers(3000), numbers(3000), numbers(1), numbers(1)
    few.fill(1)
    many.fill(1000)
    first, second = qd.create_stream(), qd.create_stream()
    total(few, a)
    for _ in range(2):
        total(few, a, qd_stream=first)
        total(many, b, qd_stream=second)
    qd.sync()
    assert (a[0], b[0]) == (3000, 3000000)


def test_a_launch_to_a_stream_is_made_by_machine_code(driver: PlayedDriver) -> None:
    x, stream = numbers(), qd.create_stream()
    for _ in range(3):
        add(x, 1)
    before = len(driver.bindings.calls)
    add(x, 1, qd_stream=stream)
    assert driver.bindings.calls[before:] == ["cuCtxSetCurrent", "cuLaunchKernel"]
    add(x, 1)
    assert x[0] == 5


def test_numpy_arrays_and_numbers_come_back_from_a_stream(driver: PlayedDriver) -> None:
    @qd.kernel
    def largest(x) -> int:
        m = x[0]
        for i in range(x.shape[0]):
            m = max(m, x[i])
        return m

    stream, x = qd.create_stream(), np.arange(10)
    add(x, 3, qd_stream=stream)
    assert x[9] == 12
    assert largest(x, qd_stream=stream) == 12


def test_what_a_check_finds_in_a_stream_is_raised(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, debug=True, offline_cache=False, log_level="error")

    @qd.kernel
    def check(x):
        for i in range(x.shape[0]):
            assert x[i] == 0, "not zero"

    x, stream = numbers(), qd.create_stream()
    check(x, qd_stream=stream)
    x[2] = 1
    with pytest.raises(AssertionError, match="not zero"):
        check(x, qd_stream=stream)


def test_what_was_destroyed_is_not_used(driver: PlayedDriver) -> None:
    x = numbers()
    with qd.create_stream() as stream:
        add(x, 1, qd_stream=stream)
    with pytest.raises(RuntimeError, match="this stream was destroyed"):
        add(x, 1, qd_stream=stream)
    event, other = qd.create_event(), qd.create_stream()
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    with pytest.raises(RuntimeError, match="this event was destroyed"):
        event.record()
    with pytest.raises(RuntimeError, match="this stream was destroyed"):
        other.synchronize()
    other.destroy()


def test_the_names_of_default_streams_are_streams(driver: PlayedDriver) -> None:
    """Other packages name the default one of all threads, and that of a thread's own."""
    x, stream = numbers(), qd.create_stream()
    for name in (LEGACY, OWN):
        driver.order(name, stream.handle)
        add(x, 1, qd_stream=stream)
        driver.order(stream.handle, name)
        driver.synchronise(name)
        assert driver.machine.threads > 0
    assert x[0] == 2


def test_finalisers_of_the_host_wait_for_nothing_in_the_middle_of_a_launch() -> None:
    """Memory that the collector finds is given back, for which the driver waits: a host's thread does that, never the GPU."""
    queues, told = Queues(), []

    class Held:
        def __del__(self) -> None:
            queues.wait_for_all()

    def first() -> None:
        held = Held()
        held.itself = held
        del held
        for _ in range(100_000):
            circle: list = []
            circle.append(circle)
        told.append("first")

    queues.add(DEFAULT, first)
    queues.add(DEFAULT, lambda: told.append("then"))
    queues.wait_for_all()
    assert told == ["first", "then"]
