"""Kernels that are graphs, on a GPU that is played: their launches are one call, and change with the arguments."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsRuntimeError
from quadrants.evidence.ptx.bindings import Result
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.runtime import launch
from quadrants.targets.llvm import device_graphs
from quadrants.targets.llvm.device_graphs import GraphLaunches

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]


def three_steps(x, y, a: int):
    for i in range(x.shape[0]):
        x[i] += a
    for i in range(y.shape[0]):
        y[i] += x[i % x.shape[0]]
    for i in range(x.shape[0]):
        x[i] = x[i] * 2 + y[0]


def expected(x: np.ndarray, y: np.ndarray, a: int) -> None:
    x += a
    y += x[np.arange(len(y)) % len(x)]
    x[:] = x * 2 + y[0]


def numbers(count: int) -> qd.Ndarray:
    x = qd.ndarray(qd.i32, count)
    x.fill(0)
    return x


def calls(driver: PlayedDriver, run) -> list[str]:
    before = len(driver.bindings.calls)
    run()
    return [name for name in driver.bindings.calls[before:] if name != "cuCtxSetCurrent"]


def test_the_same_launches_are_one_call(driver: PlayedDriver) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y, a, b = numbers(5), numbers(9), np.zeros(5, np.int32), np.zeros(9, np.int32)
    for _ in range(3):
        step(x, y, 2)
        expected(a, b, 2)
    assert calls(driver, lambda: step(x, y, 2)) == ["cuGraphLaunch"]
    expected(a, b, 2)
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()
    assert "cuLaunchKernel" not in driver.bindings.calls
    assert f"launched as a graph of {len(order(driver))}\n" in step.report()


def test_other_arguments_change_nodes_alone(driver: PlayedDriver) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y, a, b = numbers(5), numbers(9), np.zeros(5, np.int32), np.zeros(9, np.int32)
    for value in (1, 1, 4, 7, 7):
        step(x, y, value)
        expected(a, b, value)
    assert calls(driver, lambda: step(x, y, 3)) == ["cuGraphExecKernelNodeSetParams", "cuGraphLaunch"]
    expected(a, b, 3)
    longer, c = numbers(40), np.zeros(40, np.int32)
    told = calls(driver, lambda: [step(longer, y, 3), step(longer, y, 3)])
    expected(c, b, 3)
    expected(c, b, 3)
    assert told.count("cuGraphInstantiate") <= 1 and told[-1] == "cuGraphLaunch" and told.count("cuGraphLaunch") == 2
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()
    assert longer.to_numpy().tolist() == c.tolist()


def test_other_launches_make_another_graph(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def some(x, rounds: int, is_last: int):
        for _ in range(rounds):
            for i in range(x.shape[0]):
                x[i] += 1
        if is_last:
            for i in range(x.shape[0]):
                x[i] *= 10

    x, value = numbers(4), 0
    for rounds, is_last in ((2, 0), (2, 0), (5, 0), (1, 1), (0, 0), (0, 1), (3, 1), (3, 1), (0, 0), (3, 1)):
        some(x, rounds, is_last)
        value = (value + rounds) * (10 if is_last else 1)
        value = value % 1000
        if x[0] >= 1000:
            x.fill(value)
    assert x[0] == value
    assert max(len(driver.bindings.graphs), len(driver.bindings.ready)) <= 1, "graphs that were replaced are given back"


def test_temporary_memory_and_copied_arrays(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def total(x, out):
        s = 0
        for i in range(x.shape[0]):
            s += x[i]
        for i in range(1):
            out[i] = s

    out = numbers(1)
    for count in (10, 3000, 10, 20000):
        total(np.ones(count, np.int32), out)
        assert out[0] == count


def test_errors_leave_a_kernel_that_works(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y = numbers(5), numbers(9)
    step(x, y, 1)
    for value, name in enumerate(
        ("cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams"), 5
    ):
        with monkeypatch.context() as patch:
            patch.setattr(driver.bindings, name, lambda *_: (Result.CUDA_ERROR_INVALID_VALUE,))
            with pytest.raises(RuntimeError, match="INVALID_VALUE"):
                step(x, y, value)
    a, b = x.to_numpy(), y.to_numpy()
    for value in (7, 7, 1):
        step(x, y, value)
        expected(a, b, value)
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()


def test_a_graph_that_cannot_be_launched_is_given_back(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y = numbers(5), numbers(9)
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuGraphInstantiate", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE, 0))
        with pytest.raises(RuntimeError, match="INVALID_VALUE"):
            step(x, y, 1)
    assert not driver.bindings.graphs and not driver.bindings.ready
    step(x, y, 1)
    assert x.to_numpy().tolist() == [3] * 5


def test_threads_launch_a_kernel_with_arguments_of_their_own(driver: PlayedDriver) -> None:
    """Python lets another thread go on while the graph is changed for one."""
    step = qd.kernel(three_steps, graph=True)
    worlds = [(numbers(5 + k), numbers(9), np.zeros(5 + k, np.int32), np.zeros(9, np.int32)) for k in range(3)]
    for x, y, a, b in worlds:
        step(x, y, 1)
        expected(a, b, 1)
    problems: list[BaseException] = []

    def run(x, y, k: int) -> None:
        try:
            for value in range(12):
                step(x, y, value * k)
        except BaseException as error:  # told in the main thread
            problems.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(x, y, k)) for k, (x, y, _, _) in enumerate(worlds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not problems
    for k, (x, y, a, b) in enumerate(worlds):
        for value in range(12):
            expected(a, b, value * k)
        assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()


def order(driver: PlayedDriver) -> list[tuple[int, ...]]:
    """What each node of the last graph waits for, by their numbers."""
    nodes = list(driver.bindings.graphs.values())[-1].nodes
    numbers = {handle: number for number, handle in enumerate(nodes)}
    return [tuple(sorted(numbers[before] for before in node.before)) for node in nodes.values()]


def test_launches_that_have_nothing_to_do_with_one_another_are_branches(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def join(a, b, c):
        for i in range(a.shape[0]):
            a[i] += 1
        for i in range(b.shape[0]):
            b[i] *= 2
        for i in range(a.shape[0]):
            a[i] = a[i] * 3 + b.shape[0]
        for i in range(c.shape[0]):
            c[i] = a[i] - b[i]

    a, b, c = numbers(5), numbers(9), numbers(4)
    for start in (1, 2):
        for x in (a, b, c):
            x.fill(start)
        join(a, b, c)
        first = (start + 1) * 3 + 9
        assert a.to_numpy().tolist() == [first] * 5 and b.to_numpy().tolist() == [2 * start] * 9
        assert c.to_numpy().tolist() == [first - 2 * start] * 4
        assert order(driver) == [(), (), (0,), (1, 2)]
    d = numbers(7)
    d.fill(1)
    told = calls(driver, lambda: join(d, d, c))  # what was apart meets
    assert "cuGraphInstantiate" in told and order(driver) == [(), (0,), (1,), (2,)]
    assert d.to_numpy().tolist() == [4 * 3 + 7] * 7
    join(a, b, c)
    assert order(driver) == [(), (), (0,), (1, 2)]
    assert c.to_numpy().tolist() == [(first + 1) * 3 + 9 - 4 * start] * 4


def test_prints_and_checks_keep_launches_in_a_row(driver: PlayedDriver, capsys: pytest.CaptureFixture[str]) -> None:
    @qd.kernel(graph=True)
    def tell(a, b):
        for i in range(a.shape[0]):
            print("first", a[i])
        for i in range(b.shape[0]):
            print("second", b[i])

    tell(numbers(1), numbers(2))
    assert capsys.readouterr().out == "first 0\nsecond 0\nsecond 0\n"
    assert order(driver) == [(), (0,)]


def test_blocks_of_stream_parallel_are_branches_of_one_call(driver: PlayedDriver) -> None:
    @qd.kernel
    def both(a, b):
        with qd.stream_parallel():
            for i in range(a.shape[0]):
                a[i] += i
        with qd.stream_parallel():
            for i in range(b.shape[0]):
                b[i] *= 2
            for i in range(b.shape[0] - 1):
                b[i] += 1

    a, b = numbers(5), numbers(7)
    b.fill(3)
    both(a, b)
    assert order(driver) == [(), (), (1,)]
    assert calls(driver, lambda: both(a, b)) == ["cuGraphLaunch"]
    with qd.create_stream() as stream:
        assert calls(driver, lambda: both(a, b, qd_stream=stream))[-1] == "cuGraphLaunch"
    assert a.to_numpy().tolist() == [0, 3, 6, 9, 12]
    assert b.to_numpy().tolist() == [31] * 6 + [24]


def test_numbers_that_change_are_told_by_machine_code(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so are other sizes of launches; where arrays lie decides on the graph's order, which Python puts in order."""

    @qd.kernel(graph=True)
    def some(x, y, count: int, a: int):
        for i in range(count):
            x[i] += a
        for i in range(y.shape[0]):
            y[i] += x[i] * a

    noted: list[int] = []
    note = GraphLaunches.note
    monkeypatch.setattr(GraphLaunches, "note", lambda *told: (noted.append(told[1]), note(*told))[1])
    x, y, a, b = numbers(900), numbers(7), np.zeros(900, np.int32), np.zeros(7, np.int32)
    for count, value in ((3, 1), (3, 1), (5, 2), (900, 7), (2, 0), (2, 1)):
        told = calls(driver, lambda count=count, value=value: some(x, y, count, value))
        a[:count] += value
        b += a[:7] * value
    assert told == ["cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"]
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()
    assert noted == [0, 1], "the first launch made the graph"
    z, c = numbers(7), np.zeros(7, np.int32)
    some(x, z, 4, 3)  # Python has taken over what machine code has told
    some(x, y, 900, 2)
    a[:4] += 3
    c += a[:7] * 3
    a += 2
    b += a[:7] * 2
    assert noted[2:] and x.to_numpy().tolist() == a.tolist()
    assert y.to_numpy().tolist() == b.tolist() and z.to_numpy().tolist() == c.tolist()


def test_sizes_that_machine_code_has_told_are_those_of_the_next_graph(driver: PlayedDriver) -> None:
    """Each way in which Python takes over leads to the launches that a kernel without a graph makes."""

    def some(x, y, count: int, rounds: int):
        for i in range(count):
            x[i] += 1
        for i in range(y.shape[0]):
            y[i] += x[i]
        if rounds > 1:
            for i in range(y.shape[0]):
                y[i] *= 2

    def launched(kernel, *arguments: object) -> list[tuple[int, int]]:
        driver.synchronise()
        before = len(driver.launched)
        kernel(*arguments)
        driver.synchronise()
        return driver.launched[before:]

    graph, plain = qd.kernel(some, graph=True), qd.kernel(some)
    x, y, z = numbers(900), numbers(7), numbers(900)
    wanted = {(n, rounds): launched(plain, x, y, n, rounds) for n in (3, 900) for rounds in (1, 2)}
    assert wanted[3, 1] != wanted[900, 1] != wanted[900, 2]
    graph(x, y, 3, 1)
    assert launched(graph, x, y, 900, 1) == wanted[900, 1], "told by machine code"
    assert launched(graph, x, y, 900, 2) == wanted[900, 2], "a graph with one launch more"
    assert launched(graph, z, y, 3, 2) == wanted[3, 2], "another array, and another size, are told by Python"
    assert launched(graph, z, y, 900, 2) == wanted[900, 2]
    assert launched(graph, x, y, 900, 2) == wanted[900, 2]


def test_a_number_that_the_driver_does_not_take_is_told_again(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y, a, b = numbers(5), numbers(9), np.zeros(5, np.int32), np.zeros(9, np.int32)
    step(x, y, 1)
    expected(a, b, 1)
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuGraphExecKernelNodeSetParams", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE,))
        with pytest.raises(
            RuntimeError, match="in a launch: .*INVALID_VALUE"
        ):  # which may be a graph, or a change of one
            step(x, y, 2)
    step(x, y, 2)
    expected(a, b, 2)
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()


def test_long_rows_of_launches_are_listed_once_a_run(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel(graph=True)
    def many(x, y, rounds: int):
        for _ in range(rounds):
            for i in range(x.shape[0]):
                x[i] += y[i]
            for i in range(y.shape[0]):
                y[i] += 1

    listed: list[int] = []
    record = device_graphs._record
    monkeypatch.setattr(device_graphs, "_record", lambda node: (listed.append(1), record(node))[1])
    x, y = numbers(3), numbers(4)
    many(x, y, 300)
    assert len(listed) == 600
    assert x.to_numpy().tolist() == [299 * 150] * 3
    assert calls(driver, lambda: many(x, y, 300)) == ["cuGraphLaunch"] and len(listed) == 600
    z = numbers(3)
    many(z, y, 300)  # every other launch is a changed one
    many(z, y, 2)
    assert len(listed) == 1204 and z.to_numpy().tolist() == [sum(range(600, 902))] * 3


def test_who_has_waited_looks_again(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a thread's last look and its run another one may have begun, and only machine code says that one has."""
    found: list[GraphLaunches] = []
    monkeypatch.setattr(
        GraphLaunches, "finish", lambda self, finish=GraphLaunches.finish: (found.append(self), finish(self))
    )
    step = qd.kernel(three_steps, graph=True)
    x, y, a, b = numbers(5), numbers(9), np.zeros(5, np.int32), np.zeros(9, np.int32)
    step(x, y, 1)
    state, looks = found[0]._state, []
    state.busy = 1

    def wait(graph: GraphLaunches) -> None:
        looks.append(state.busy)
        state.busy = len(looks) < 3

    monkeypatch.setattr(GraphLaunches, "wait", wait)
    step(x, y, 1)
    for _ in range(2):
        expected(a, b, 1)
    assert looks == [1, 1, 1] and state.busy == 0
    assert x.to_numpy().tolist() == a.tolist() and y.to_numpy().tolist() == b.tolist()


def test_a_wait_that_is_interrupted_begins_no_run(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[GraphLaunches] = []
    monkeypatch.setattr(
        GraphLaunches, "finish", lambda self, finish=GraphLaunches.finish: (found.append(self), finish(self))
    )
    step = qd.kernel(three_steps, graph=True)
    x, y = numbers(5), numbers(9)
    step(x, y, 0)
    state, wait = found[0]._state, GraphLaunches.wait
    state.busy = 1

    def interrupted(graph: GraphLaunches) -> None:
        state.busy = 0
        wait(graph)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GraphLaunches, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(x, y, 1)
    assert state.busy == 0
    step(x, y, 1)
    assert x.to_numpy().tolist() == [3] * 5


def test_a_launch_by_a_finaliser_while_the_graph_is_made_is_an_error(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = qd.kernel(three_steps, graph=True)
    x, y, z = numbers(5), numbers(9), numbers(5)
    make, told = PlayedDriver.make_graph, []

    def meanwhile(*given):
        with pytest.raises(QuadrantsRuntimeError, match="while this thread is making its graph") as error:
            step(z, y, 1)
        told.append(error)
        return make(*given)

    with monkeypatch.context() as patch:
        patch.setattr(PlayedDriver, "make_graph", meanwhile)
        step(x, y, 1)
    assert len(told) == 1 and x.to_numpy().tolist() == [3] * 5 and z.to_numpy().tolist() == [0] * 5
    step(z, y, 1)
    assert z.to_numpy().tolist() == [1 * 2 + 2] * 5
