"""Streams, events and graphs on every target: what kernels compute is what they compute in order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsSyntaxError
from quadrants.evidence.programs import TargetExecutor


@pytest.fixture
def here(executor: TargetExecutor) -> TargetExecutor:
    qd.init(arch=executor.arch, offline_cache=False, log_level="error", **executor.options)
    return executor


def test_streams_and_events(here: TargetExecutor) -> None:
    @qd.kernel
    def add(x, value: int):
        for i in range(x.shape[0]):
            x[i] += value

    x = qd.ndarray(qd.i32, 6)
    x.fill(0)
    with qd.create_stream() as stream:
        event = qd.create_event()
        for k in range(3):
            add(x, k, qd_stream=stream)
        event.record(stream)
        event.wait()
        event.synchronize()
        add(x, 10)
        stream.synchronize()
    event.destroy()
    assert x.to_numpy().tolist() == [13] * 6
    with pytest.raises(RuntimeError, match="destroyed"):
        stream.synchronize()
    with pytest.raises(TypeError, match=r"qd\.create_stream\(\)\), not int"):
        add(x, 1, qd_stream=3)
    add(x, 1, qd_stream=None)
    assert x[0] == 14


def test_blocks_that_may_run_side_by_side(here: TargetExecutor) -> None:
    @qd.kernel
    def both(a, b):
        """Two blocks."""
        with qd.stream_parallel():
            for i in range(a.shape[0]):
                a[i] += i
        with qd.stream_parallel():
            for i in range(b.shape[0]):
                b[i] *= 2.0
            for i in range(b.shape[0]):
                b[i] += 1.0

    a, b = qd.ndarray(qd.i32, 5), qd.ndarray(qd.f32, 7)
    a.fill(1)
    b.fill(3.0)
    both(a, b)
    assert a.to_numpy().tolist() == [1, 2, 3, 4, 5] and b.to_numpy().tolist() == [7.0] * 7


def test_a_graph_repeats_while_its_flag_says_so(here: TargetExecutor) -> None:
    @qd.kernel(graph=True)
    def settle(x, flag):
        while qd.graph.do_while(flag):
            for i in range(x.shape[0]):
                x[i] = x[i] / 2
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    for i in range(1):
                        flag[None] = int(x[0] > 1.0)
                with qd.graph.parallel():
                    for i in range(1, x.shape[0]):
                        x[i] += 1.0

    x, flag = qd.ndarray(qd.f64, 3), qd.ndarray(qd.i32, ())
    for start in (8.0, 100.0):
        x.fill(start)
        flag.fill(1)
        settle(x, flag)
        values, rounds = [start] * 3, 0
        while values[0] > 1.0:
            values = [value / 2 for value in values]
            values[1:] = [value + 1.0 for value in values[1:]]
            rounds += 1
        assert rounds and x.to_numpy().tolist() == values and flag[None] == 0


def test_loops_of_a_graph_within_one_another(here: TargetExecutor) -> None:
    @qd.kernel(graph=True)
    def count(x, outer, inner):
        while qd.graph.do_while(outer):
            for i in range(1):
                inner[None] = 2
                outer[None] -= 1
            while qd.graph.do_while(inner):
                for i in range(x.shape[0]):
                    x[i] += 1
                for i in range(1):
                    inner[None] -= 1

    x, outer, inner = qd.ndarray(qd.i32, 4), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    x.fill(0)
    outer.fill(3)
    count(x, outer, inner)
    assert x.to_numpy().tolist() == [6] * 4


def test_what_a_condition_has_read_is_read_in_the_body(here: TargetExecutor) -> None:
    def drain(x, left):
        while left[0] != 0:
            for i in range(1):
                x[left[0]] = left[0] * 10
                left[0] -= 1
            for i in range(x.shape[0]):
                x[i] += 1

    expected = [3, 11, 22, 33]
    for kernel in (qd.kernel(drain), qd.kernel(drain, graph=True)):
        x, left = qd.ndarray(qd.i32, 4), qd.ndarray(qd.i32, 1)
        x.fill(0)
        left.fill(3)
        kernel(x, left)
        assert x.to_numpy().tolist() == expected and left[0] == 0


def test_a_graph_gives_no_value_and_takes_no_stream() -> None:
    @qd.kernel(graph=True)
    def give(x):
        return x[0]

    with pytest.raises(QuadrantsSyntaxError, match="give is a graph, which gives no value"):
        give(np.zeros(2))

    @qd.kernel(graph=True)
    def run(x):
        for i in range(2):
            x[i] = i

    with pytest.raises(RuntimeError, match="run is a graph"):
        run(np.zeros(2), qd_stream=qd.create_stream())
    with pytest.raises(QuadrantsSyntaxError, match="checkpoints=True needs graph=True"):
        qd.kernel(checkpoints=True)
    with pytest.raises(QuadrantsSyntaxError, match="not available in this release(.|\n)*make a kernel of each block"):
        qd.kernel(graph=True, checkpoints=True)


def refused(kernel, *arguments) -> str:
    with pytest.raises(QuadrantsSyntaxError) as found:
        qd.kernel(kernel)(*arguments)
    return str(found.value)


def test_what_stands_in_the_wrong_place_is_refused() -> None:
    def beside(x):
        with qd.stream_parallel():
            x[0] = 1.0
        x[1] = 2.0

    def deeper(x):
        for _ in range(2):
            with qd.stream_parallel():
                x[0] = 1.0

    def alone(x):
        with qd.graph.parallel():
            x[0] = 1.0

    def mixed(x):
        with qd.graph.parallel_context():
            x[0] = 1.0

    def named(x):
        with qd.stream_parallel() as stream:
            x[0] = 1.0

    def file(x):
        with open("x") as f:
            x[0] = 1.0

    def number(x):
        while qd.graph.do_while(x[0]):
            x[0] = 0.0

    x = np.zeros(2)
    told = refused(beside, x)
    assert "all statements at the top level are such blocks" in told and "x[1] = 2.0" in told
    assert "at the top level of a kernel only" in refused(deeper, x)
    assert "in a block of qd.graph.parallel_context() only" in refused(alone, x)
    assert "are `with qd.graph.parallel():` blocks" in refused(mixed, x)
    assert "`with` is not supported" in refused(named, x)
    assert "`with` is not supported" in refused(file, x)
    assert "an ndarray of i32 without axes" in refused(number, x)


def test_ordinary_python_is_told() -> None:
    for function in (qd.graph.parallel, qd.graph.parallel_context, qd.stream_parallel):
        with pytest.raises(QuadrantsSyntaxError, match="works in kernels"):
            function()


def test_older_names() -> None:
    @qd.kernel(graph=True)
    def run(x, flag):
        while qd.graph_do_while(flag):
            with qd.graph_parallel_context():
                with qd.graph_parallel():
                    for i in range(1):
                        x[0] += flag[None]
                        flag[None] -= 1

    x, flag = np.zeros(1), qd.ndarray(qd.i32, ())
    flag.fill(2)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run(x, flag)
    assert x[0] == 3.0
    told = {str(warning.message) for warning in found if warning.category is DeprecationWarning}
    assert told == {
        f"qd.graph_{name} is an older name of qd.graph.{name}" for name in ("do_while", "parallel", "parallel_context")
    }
