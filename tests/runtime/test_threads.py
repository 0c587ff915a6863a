"""The thread pool: results, the law of chunks, nesting, several callers, fork, and the services beside it."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading

import numpy as np
import pytest

from quadrants.runtime import threads

HEAVY = 100_000  # nanoseconds: enough to wake the pool for a few iterations


def frame_of(array: np.ndarray) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack("P", array.ctypes.data), 8)


def run(parallel_for, task: int, array: np.ndarray, count: int, chunk: int, cost: int, captures: int = 0) -> None:
    frame = frame_of(array)  # a name of its own: without one it would be gone before the call
    parallel_for(task, ctypes.addressof(frame), captures, count, chunk, cost)


COUNTS = (0, 1, 2, 63, 64, 65, 1000, 100_003)
CHUNKS = (0, 1, 7, 4096)


@pytest.mark.parametrize(("count", "chunk"), [(n, c) for n in COUNTS for c in CHUNKS if c != 1 or n <= 1000])
@pytest.mark.parametrize("cost", [0, 1, 1000, 1 << 62])
def test_every_iteration_runs_once(parallel_for, tasks, four_threads, count: int, chunk: int, cost: int) -> None:
    array = np.zeros(count + 1, np.int64)
    run(parallel_for, tasks["add_one"], array, count, chunk, cost)
    assert (array[:count] == 1).all() and array[count] == 0


@pytest.mark.parametrize("thread_count", [1, 2, 5])
@pytest.mark.parametrize("cost", [1, 100, HEAVY])
def test_chunks_are_a_law(parallel_for, tasks, thread_count: int, cost: int) -> None:
    count, chunk = 1037, 100
    length = ctypes.c_int64(chunk)
    threads.set_count(thread_count)
    try:
        array = np.full((11, 2), -1, np.int64)
        run(parallel_for, tasks["note_chunk"], array, count, chunk, cost, ctypes.addressof(length))
    finally:
        threads.set_count(None)
    assert array.tolist() == [[k * 100, min(k * 100 + 100, count)] for k in range(11)]


def test_small_loops_wake_nobody(parallel_for, tasks, four_threads) -> None:
    before = threads.counters()
    run(parallel_for, tasks["add_one"], np.zeros(10, np.int64), 10, 0, 1)
    after = threads.counters()
    assert after["small_loops"] == before["small_loops"] + 1
    assert after["parallel_loops"] == before["parallel_loops"]


def test_an_underestimated_loop_still_becomes_parallel(parallel_for, tasks, four_threads) -> None:
    before = threads.counters()
    cycles = ctypes.c_int64(3_000_000)
    parallel_for(tasks["spin"], 0, ctypes.addressof(cycles), 64, 0, 100)
    assert threads.counters()["parallel_loops"] == before["parallel_loops"] + 1


def test_workers_take_part(parallel_for, tasks, four_threads) -> None:
    before = threads.counters()
    cycles = ctypes.c_int64(1_000_000)
    parallel_for(tasks["spin"], 0, ctypes.addressof(cycles), 64, 0, HEAVY)
    assert threads.counters()["seats_taken"] > before["seats_taken"]


def test_loops_in_a_row_wake_workers_once(parallel_for, tasks) -> None:
    """A worker spins for a moment, in which the next loop begins; one that was woken and has no processor yet is not
    woken again. The best of many tries, since the machine is shared."""
    cycles, loops = ctypes.c_int64(500), 20
    threads.set_count(2)
    try:
        fewest = loops
        for _ in range(1000):
            before = threads.counters()
            for _ in range(loops):
                parallel_for(tasks["spin"], 0, ctypes.addressof(cycles), 100, 0, 1_000)
            after = threads.counters()
            assert after["parallel_loops"] == before["parallel_loops"] + loops
            fewest = min(fewest, after["wakes"] - before["wakes"])
            if fewest <= 2:
                break
    finally:
        threads.set_count(None)
    assert fewest <= 2


def test_free_chunks_get_shorter(parallel_for, tasks, four_threads) -> None:
    """The first are long, so that there are few; the last are short, so that nobody waits long for another."""
    count = 1 << 20
    starts = np.zeros(count + 1, np.int64)
    run(parallel_for, tasks["note_length"], starts, count, 0, 100)
    places = np.flatnonzero(starts)
    assert starts.sum() == count and (starts[places] == np.diff([*places, count])).all()
    assert 20 < len(places) < 3000
    assert (places % 64 == 0).all()


def test_nested_loops(parallel_for, tasks, four_threads) -> None:
    array = np.zeros((64, 100), np.int64)
    run(parallel_for, tasks["nest"], array, 64, 0, HEAVY)
    assert (array == 1).all()


def test_callers_on_several_threads(tasks, four_threads) -> None:
    unlocked = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)(
        threads.symbols()["qd_parallel_for"]
    )
    arrays = [np.zeros(10_000, np.int64) for _ in range(4)]

    def work(array: np.ndarray) -> None:
        frame = frame_of(array)
        for _ in range(300):
            unlocked(tasks["add_one"], ctypes.addressof(frame), 0, 10_000, 0, 100)

    workers = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all((array == 300).all() for array in arrays)


def test_the_number_of_threads_changes_between_loops(parallel_for, tasks) -> None:
    array = np.zeros(1000, np.int64)
    try:
        for number in (1, 8, 2, 32, 1, 3):
            threads.set_count(number)
            assert threads.count() == number
            run(parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
    finally:
        threads.set_count(None)
    assert (array == 6).all()
    assert threads.count() == threads.default_count()
    for number in (0, -1, 10_000):
        with pytest.raises(ValueError, match=r"1\.\.512"):
            threads.set_count(number)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own(parallel_for, tasks, four_threads) -> None:
    array = np.zeros(1000, np.int64)
    run(parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            before = threads.state().started
            run(parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
            status = 0 if before == 0 and threads.state().started > 0 and (array == 2).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (array == 1).all()


def test_a_signal_stops_a_long_loop(parallel_for, tasks, four_threads) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    cycles = ctypes.c_int64(3_000_000)  # a millisecond or so each: 10 seconds or more in all
    done = np.zeros(20_000, np.int64)
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(parallel_for, tasks["spin_and_add_one"], done, len(done), 0, 1_000_000, ctypes.addressof(cycles))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        interrupted, threads.state().interrupted = threads.state().interrupted, 0
    assert interrupted == 1
    assert 0 < done.sum() < len(done)


def test_scratch_memory() -> None:
    table = threads.symbols()
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(table["qd_allocate"])
    release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(table["qd_release"])
    for size in (0, 1, 64, 1000, 1 << 20):
        memory = allocate(size)
        assert memory and memory % 64 == 0
        ctypes.memset(memory, 1, size)
        release(memory)


def test_prints_are_kept_in_order() -> None:
    write = ctypes.PYFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)(threads.symbols()["qd_print"])
    threads.drain_prints()
    for number in range(3000):
        write(b"%08d" % number, 8)
    assert threads.drain_prints() == b"".join(b"%08d" % number for number in range(3000))
    assert threads.drain_prints() == b""


def test_the_first_failure_is_kept() -> None:
    table = threads.symbols()
    fail = ctypes.PYFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(table["qd_fail"])
    status = ctypes.PYFUNCTYPE(ctypes.c_int32)(table["qd_status"])
    assert threads.take_failure() is None and status() == 0
    values = (ctypes.c_int64 * 40)(*range(40))
    fail(7, ctypes.addressof(values), 3)
    fail(8, ctypes.addressof(values), 0)
    assert status() == 1
    assert threads.take_failure() == (7, (0, 1, 2))
    assert threads.take_failure() is None and status() == 0
    fail(9, ctypes.addressof(values), 40)
    assert threads.take_failure() == (9, tuple(range(32)))


@pytest.mark.slow
def test_a_signal_is_seen_soon_however_wrong_the_estimate_was(parallel_for, tasks, four_threads) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    cycles = ctypes.c_int64(3_000_000)  # a millisecond or so each, where a nanosecond is expected
    done = np.zeros(1_000_000, np.int64)
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(parallel_for, tasks["spin_and_add_one"], done, len(done), 0, 1, ctypes.addressof(cycles))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        threads.state().interrupted = 0
    assert 0 < done.sum() < 20_000


def test_the_pool_is_loaded_beside_what_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(threads, "_loaded", None)
    monkeypatch.setattr(threads, "default_count", lambda: 2)
    monkeypatch.setattr(threads, "_load", lambda: names.append(threading.current_thread().name))
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), threads.loading_beside():
        raise ZeroDivisionError
    assert len(names) == 1 and names[0] != threading.current_thread().name
    assert threading.active_count() == before
    monkeypatch.setattr(threads, "default_count", lambda: 1)
    with threads.loading_beside():  # nobody to do it beside
        assert len(names) == 1
