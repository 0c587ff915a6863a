"""`qd.profiler`: what is counted, which launches take the slow path, and what is said where something is not there."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.lang.kernel import Kernel
from quadrants.runtime import profile

NAMES = {
    *("print_kernel_profiler_info", "query_kernel_profiler_info", "clear_kernel_profiler_info"),
    *("get_kernel_profiler_total_time", "set_kernel_profiler_toolkit", "set_kernel_profiler_metrics"),
    *("collect_kernel_profiler_metrics", "get_predefined_cupti_metrics", "CuptiMetric", "get_default_kernel_profiler"),
    *("print_memory_profiler_info", "print_scoped_profiler_info", "clear_scoped_profiler_info"),
}


def on(arch: knobs.Arch | None = None, **options: object) -> None:
    qd.init(arch=arch or qd.cpu, kernel_profiler=True, offline_cache=False, log_level="warn", **options)


@qd.kernel
def bump(x):
    for i in range(x.shape[0]):
        x[i] += 1


class Solver:
    @qd.kernel
    def step(self, x):
        for i in range(x.shape[0]):
            x[i] *= 2


def installed(kernel: Kernel) -> int:
    return len(kernel._installed)


def test_the_names_are_those_of_the_family():
    assert {name for name in dir(qd.profiler) if not name.startswith("_")} == NAMES
    assert "profiler" in dir(qd)
    assert all(len(getattr(qd.profiler, name).__doc__ or "") > 30 for name in NAMES)


def test_every_launch_is_counted():
    on()
    x = np.zeros(1000)
    for _ in range(7):
        bump(x)
    found = qd.profiler.query_kernel_profiler_info("bump")
    assert found.counter == 7 and x[0] == 7
    assert 0 < found.min <= found.avg <= found.max
    assert found.avg * 7e-3 == pytest.approx(qd.profiler.get_kernel_profiler_total_time())
    qd.profiler.clear_kernel_profiler_info()
    assert qd.profiler.query_kernel_profiler_info("bump").counter == 0
    assert qd.profiler.get_kernel_profiler_total_time() == 0.0
    bump(x)
    assert qd.profiler.query_kernel_profiler_info("bump").counter == 1


@pytest.mark.parametrize("arch", [knobs.Arch.reference, knobs.Arch.simulated])
def test_interpreted_kernels_are_counted(arch: knobs.Arch):
    on(arch)
    x = np.zeros(3)
    bump(x)
    bump(x)
    found = qd.profiler.query_kernel_profiler_info("bump")
    assert found.counter == 2 and found.min > 0


def test_a_device_that_is_done_when_it_returns_is_measured():
    on(knobs.Arch.simulated)
    x = qd.ndarray(qd.i32, 5)
    x.fill(3)
    bump(x)
    assert x[4] == 4 and qd.profiler.query_kernel_profiler_info("bump").counter == 1
    assert qd.profiler.query_kernel_profiler_info("bump").min > 0


def test_kernels_that_are_tuned_are_counted():
    on(autotune=True)
    x = np.zeros(100_000)
    for _ in range(40):
        bump(x)
    assert bump._last is not None
    assert qd.profiler.query_kernel_profiler_info("bump").counter == 40 and x[0] == 40
    assert installed(bump) == 0


def test_launches_go_past_python_only_without_the_profiler():
    """Without the option no word of the launch's code is another: the binding is installed, and nothing is noted."""
    x = np.zeros(10)
    on(autotune=False)
    for _ in range(3):
        bump(x)
    assert installed(bump) == 0
    qd.init(offline_cache=False, autotune=False, log_level="error")
    for _ in range(3):
        bump(x)
    assert installed(bump) == 1
    assert profile.times() == {}


def test_methods_and_local_kernels_have_their_names():
    on()
    x = np.ones(4)
    solver = Solver()
    qd.data_oriented(Solver)
    solver.step(x)

    @qd.kernel
    def step(x):
        for i in range(x.shape[0]):
            x[i] += 1

    step(x)
    assert set(profile.times()) == {"Solver.step", "step"}
    assert qd.profiler.query_kernel_profiler_info("step").counter == 2
    assert qd.profiler.query_kernel_profiler_info("Solver.step").counter == 1


def test_tables(capsys: pytest.CaptureFixture[str]):
    on()
    x = np.zeros(10)
    for _ in range(3):
        bump(x)
    capsys.readouterr()
    qd.profiler.print_kernel_profiler_info()
    counted = capsys.readouterr().out.splitlines()
    assert counted[0] == f"Kernel profiler (count) on {qd.cpu.name}"
    assert "100.00%" in counted[4] and "3x" in counted[4] and counted[4].endswith("] bump")
    assert counted[-1].endswith(" 1 kernel")
    qd.profiler.print_kernel_profiler_info("trace")
    traced = capsys.readouterr().out.splitlines()
    assert [line.endswith("ms] bump") for line in traced[4:7]] == [True] * 3
    assert traced[-1].endswith("3 launches")
    with pytest.raises(ValueError, match="'count' or 'trace', not 'all'"):
        qd.profiler.print_kernel_profiler_info("all")


def test_a_long_trace_forgets_its_beginning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    assert profile._trace.maxlen == profile.MOST_TRACED
    monkeypatch.setattr(profile, "MOST_TRACED", 100)
    monkeypatch.setattr(profile, "_trace", collections.deque(maxlen=100))
    on()
    profile.note("first", 1.0)
    for _ in range(profile.MOST_TRACED):
        profile.note("others", 0.25)
    qd.profiler.print_kernel_profiler_info("trace")
    out = capsys.readouterr().out
    assert "(without 1 launch before these: each kernel's time has them all)" in out and "first" not in out
    assert qd.profiler.query_kernel_profiler_info("first").max == 1.0


def test_without_the_option_a_warning_says_so(capsys: pytest.CaptureFixture[str]):
    qd.init(offline_cache=False, log_level="warn")
    bump(np.zeros(3))
    assert qd.profiler.query_kernel_profiler_info("bump").counter == 0
    assert qd.profiler.get_kernel_profiler_total_time() == 0.0
    qd.profiler.print_kernel_profiler_info()
    qd.profiler.clear_kernel_profiler_info()
    assert qd.profiler.set_kernel_profiler_toolkit("default") is False
    said = capsys.readouterr()
    assert said.err.count("qd.init(kernel_profiler=True) switches the profiler on") == 5
    assert "bump" not in said.out


def test_hardware_counters_are_refused(capsys: pytest.CaptureFixture[str]):
    on()
    assert qd.profiler.set_kernel_profiler_toolkit("default") is True
    assert "CUPTI" not in capsys.readouterr().err
    assert qd.profiler.set_kernel_profiler_toolkit("cupti") is False
    metric = qd.profiler.CuptiMetric("smsp__pipe_tensor_cycles_active.avg", "tensor", scale=0.5)
    assert (metric.name, metric.header, metric.scale) == ("smsp__pipe_tensor_cycles_active.avg", "tensor", 0.5)
    qd.profiler.set_kernel_profiler_metrics([metric])
    assert qd.profiler.get_predefined_cupti_metrics("global_access") == []
    with qd.profiler.collect_kernel_profiler_metrics([metric]) as profiler:
        bump(np.zeros(3))
    assert profiler is qd.profiler.get_default_kernel_profiler()
    assert profiler.query_info("bump").counter == 1
    assert capsys.readouterr().err.count("CUPTI is not used here") == 4
    with pytest.raises(ValueError, match="default, cupti, not 'nsight'"):
        qd.profiler.set_kernel_profiler_toolkit("nsight")


def test_a_launch_that_fails_is_not_counted():
    on(debug=True)

    @qd.kernel
    def check(x):
        for i in range(x.shape[0]):
            assert x[i] == 0, "not zero"

    x = np.zeros(3)
    check(x)
    x[1] = 1
    with pytest.raises(AssertionError, match="not zero"):
        check(x)
    assert qd.profiler.query_kernel_profiler_info("check").counter == 1


def test_a_reset_forgets():
    on()
    bump(np.zeros(3))
    on()
    assert profile.times() == {}


def test_memory_of_fields_is_told(capsys: pytest.CaptureFixture[str]):
    on()
    x = qd.ndarray(qd.f32, (4, 5))
    v = qd.Vector.field(3, qd.f64, shape=10)
    x.fill(0)
    v.fill(0)
    capsys.readouterr()
    qd.profiler.print_memory_profiler_info()
    lines = capsys.readouterr().out.splitlines()
    assert "240 B  field of f64 (10, 3)" in lines[1]
    assert "80 B  ndarray of f32 (4, 5)" in lines[2]
    assert lines[3].endswith("320 B  in 2")


def test_host_tasks_are_told_and_forgotten(capsys: pytest.CaptureFixture[str]):
    on()
    bump(np.zeros(3))
    capsys.readouterr()
    qd.profiler.print_scoped_profiler_info()
    out = capsys.readouterr().out
    assert all(f"1x  {scope}" in out for scope in ("front end", "passes", "target", "load"))
    qd.profiler.clear_scoped_profiler_info()
    qd.profiler.print_scoped_profiler_info()
    assert capsys.readouterr().out == "Host tasks\n"
