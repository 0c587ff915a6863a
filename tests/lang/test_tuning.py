"""Choices by timing: who is watched, when turns are taken, what is kept. Times are made up; no test waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.lang import tuning
from quadrants.program import Program
from quadrants.runtime import launch, native, threads

pytestmark = pytest.mark.filterwarnings("ignore:.*wins over QD_OFFLINE_CACHE")


def twice(x, y):
    for i in range(len(x)):
        y[i] = 2 * x[i]


def added(x, cells, sums):
    for i in range(len(x)):
        sums[cells[i]] += x[i]


class Runs:
    """Launches that are made to seem to take so long as `seconds` says, by most threads (0: all)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[int] = []
        self.seconds: Callable[[int], float] = lambda most: 1.0
        real = Program.launch

        def launch(program: Program, frame: bytearray, most_threads: int = 0) -> float:
            real(program, frame, most_threads)
            self.threads.append(most_threads)
            return self.seconds(most_threads)

        monkeypatch.setattr(Program, "launch", launch)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr(tuning, "SHORTEST_WATCH", 2.5)
    before = threads.count()
    threads.set_count(4)
    yield Runs(monkeypatch)
    threads.set_count(before)


def call(kernel: Any, times: int, size: int = 100) -> None:
    x, y = np.arange(float(size)), np.zeros(size)
    for _ in range(times):
        y[:] = 0
        kernel(x, y)
        assert np.array_equal(y, 2 * x)


def slow_path_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadrants.lang.bindings.install", lambda *_: None)


def test_turns_are_taken_after_a_while_and_fewer_threads_win(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    runs.seconds = lambda most: {0: 1.0, 2: 0.5, 1: 0.8}[most]
    kernel = qd.kernel(twice)
    call(kernel, 3)
    assert runs.threads == [0, 0, 0]
    assert "kept" not in kernel.report()
    call(kernel, 40)
    assert runs.threads[3:7] == [0, 2, 0, 2]
    assert 1 in runs.threads
    assert runs.threads[-5:] == [2] * 5
    times = "as compiled 1000.000 ms, 2 threads 500.000 ms, 1 thread 800.000 ms"
    assert f"arrays of 64 to 255 elements: {times}; kept: 2 threads" in kernel.report()


def test_fewer_threads_are_trusted_for_a_while(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    monkeypatch.setattr(tuning, "TRUST", 4.0)
    monkeypatch.setattr(tuning, "TRUSTED_RUNS", 0)
    runs.seconds = lambda most: {0: 1.0, 2: 0.5, 1: 0.8}[most]
    kernel = qd.kernel(twice)
    call(kernel, 40)
    assert "kept: 2 threads" in kernel.report()
    runs.seconds = lambda most: 0.3 if most == 0 else 0.5
    call(kernel, 40)
    runs.threads.clear()
    call(kernel, 20)
    assert set(runs.threads) == {0}
    assert "kept: as compiled" in kernel.report()


def test_sizes_have_winners_of_their_own(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    kernel = qd.kernel(twice)
    runs.seconds = lambda most: 2.0 if most else 1.0
    call(kernel, 30, size=100)
    runs.seconds = lambda most: {0: 1.0, 1: 0.6, 2: 0.5}[most]
    call(kernel, 60, size=10_000)
    runs.threads.clear()
    call(kernel, 1, size=100)
    call(kernel, 1, size=10_000)
    assert runs.threads == [0, 2]


def test_short_runs_are_left_alone(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    runs.seconds = lambda most: 1e-6
    kernel = qd.kernel(twice)
    call(kernel, 50)
    assert set(runs.threads) == {0}
    assert "kept" not in kernel.report()


@pytest.mark.skipif(not launch.is_native(), reason="this interpreter launches through Python")
def test_arrays_of_many_sizes_stay_in_the_launcher(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the levels of a multigrid: what is settled alike for neighbouring sizes is one binding."""
    runs.seconds = lambda most: tuning.SHORTEST_RUN / 2
    kernel = qd.kernel(twice)
    sizes = [1 << k for k in range(1, 19)]
    for size in sizes:
        call(kernel, 2, size)
    slow: list[int] = []
    original = type(kernel)._slow_call

    def counted(self: Any, *arguments: Any) -> Any:
        slow.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(type(kernel), "_slow_call", counted)
    for size in [*sizes, *reversed(sizes)]:
        call(kernel, 1, size)
    assert not slow and len(kernel._recent) == 1


def test_a_failed_launch_counts_for_nothing(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    kernel = qd.kernel(twice)
    call(kernel, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Program, "launch", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call(kernel, 1)
    runs.seconds = lambda most: 0.5 if most == 2 else 1.0
    call(kernel, 60)
    assert runs.threads[-1] == 2


@pytest.mark.parametrize("options", [{"autotune": False}, {"deterministic": True}, {"debug": True}])
def test_options_switch_it_off(runs: Runs, options: dict[str, bool]) -> None:
    before = {name: getattr(knobs.current, name) for name in options}
    try:
        for name, value in options.items():
            setattr(knobs.current, name, value)
        kernel = qd.kernel(twice)
        call(kernel, 20)
        assert kernel._last is not None
        assert kernel._last.tuner is None
        assert set(runs.threads) <= {0}
    finally:
        for name, value in before.items():
            setattr(knobs.current, name, value)


def test_results_that_depend_on_the_threads_are_not_left_to_timing(runs: Runs) -> None:
    kernel = qd.kernel(added)
    kernel(np.ones(50), np.zeros(50, np.int64), sums := np.zeros(3))
    assert sums[0] == 50
    assert kernel._last is not None
    assert not kernel._last.threads_are_free
    kernel(np.ones(50, np.int64), np.zeros(50, np.int64), np.zeros(3, np.int64))
    assert kernel._last.threads_are_free


def test_the_launcher_watches_and_asks(runs: Runs) -> None:
    """Through machine code: launches of 1 s each are believed, since only Python's are timed by the test."""
    kernel = qd.kernel(twice)
    call(kernel, 2)
    watch = kernel._installed[0].watch
    assert watch is not None
    assert (watch.low, watch.high, watch.threads) == (64, 256, 0)
    assert watch.limit in (500_000_000, 1_500_000_000)  # the process's first kernel is installed at its second call
    block = kernel._installed[0].block
    assert block is not None
    before = len(runs.threads)
    ran = block.runs
    call(kernel, 10)
    assert len(runs.threads) == before
    assert block.runs == ran + 10
    assert block.spent > 0
    call(kernel, 1, size=1000)  # another size does not fit
    assert len(runs.threads) == before + 1
    assert len(kernel._installed) == 2
    block.spent = block.limit
    runs.seconds = lambda most: 0.5 if most == 2 else 1.0
    call(kernel, 40)
    installed = [binding.watch for binding in kernel._installed]
    assert tuning.Watch(64, 256, 2, int(tuning.TRUSTED_RUNS * 0.5e9)) in installed
    before = len(runs.threads)
    call(kernel, 10)
    assert len(runs.threads) == before
    assert threads.state().thread_limit == 0


def test_fields_are_counted_as_the_launcher_counts_them(runs: Runs) -> None:
    def moved(x, v):
        for i, j in x:
            x[i, j] += v[i, j]

    kernel = qd.kernel(moved)
    x, v = qd.Vector.field(3, qd.f32, shape=(7, 5)), qd.Vector.field(3, qd.f32, shape=(7, 5))
    for _ in range(4):
        kernel(x, v)
    before = len(runs.threads)
    kernel(x, v)
    assert len(runs.threads) == before
    assert kernel._installed[0].watch is not None
    assert kernel._installed[0].watch.low <= 2 * 3 * 35 < kernel._installed[0].watch.high


def test_winners_are_kept_on_disk(runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = native._cache_directory
    slow_path_only(monkeypatch)
    try:
        knobs.current.assign("offline_cache", True)
        knobs.current.assign("offline_cache_file_path", str(tmp_path))
        runs.seconds = lambda most: 0.2 if most == 1 else 0.5 if most else 1.0
        call(qd.kernel(twice), 60)
        runs.threads.clear()
        again = qd.kernel(twice)
        call(again, 2)
        assert runs.threads == [1, 1]
        assert "kept: 1 thread" in again.report()
        threads.set_count(2)  # another machine, so to say
        runs.threads.clear()
        call(again, 1, size=110)
        call(qd.kernel(twice), 1)
        assert runs.threads == [1, 0]
    finally:
        qd.reset()
        native.use_cache(folder)


def test_fewer_threads_have_to_be_much_faster(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little faster is what they are wherever other programs want the processor, too."""
    slow_path_only(monkeypatch)
    runs.seconds = lambda most: 0.8 if most else 1.0
    kernel = qd.kernel(twice)
    call(kernel, 60)
    assert runs.threads[-1] == 0
    assert "kept: as compiled" in kernel.report()


def test_several_python_threads(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_path_only(monkeypatch)
    runs.seconds = lambda most: 0.2 if most == 1 else 0.5 if most else 1.0
    kernel = qd.kernel(twice)
    call(kernel, 1)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            call(kernel, 30)
        except BaseException as error:  # a thread's own would be lost: the test looks at them below
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    call(kernel, 60)
    assert runs.threads[-1] == 1
