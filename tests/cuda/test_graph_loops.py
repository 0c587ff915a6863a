"""Loops of kernels that are graphs: the GPU that is played repeats them by itself, and the host looks at flags where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.bindings import Result
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.evidence.ptx.graphs import GraphFunctions
from quadrants.runtime import launch

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]
_WAITS = ("cuMemcpyDtoH", "cuMemcpyHtoD", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize")


def number(value: int) -> qd.Ndarray:
    made = qd.ndarray(qd.i32, ())
    made.fill(value)
    return made


def numbers(*values: int) -> qd.Ndarray:
    made = qd.ndarray(qd.i32, len(values))
    made.from_numpy(np.array(values, np.int32))
    return made


def calls(driver: PlayedDriver, run: Callable[[], object]) -> list[str]:
    before = len(driver.bindings.calls)
    run()
    return [name for name in driver.bindings.calls[before:] if name not in ("cuCtxSetCurrent", "cuGraphAddNode_v2")]


def waits(told: list[str]) -> int:
    return sum(name in _WAITS for name in told)


@qd.kernel
def put(flag, value: int):
    for _ in range(1):
        flag[None] = value


def settle(x, flag):
    while qd.graph.do_while(flag):
        for i in range(x.shape[0]):
            x[i] += i
        for i in range(1):
            flag[None] -= 1


def test_a_loop_of_any_number_of_rounds_is_one_call_that_waits_for_nothing(driver: PlayedDriver) -> None:
    kernel = qd.kernel(settle, graph=True)
    x, flag, total = numbers(0, 0, 0), number(1), 1
    kernel(x, flag)
    assert "cuLaunchKernel" not in driver.bindings.calls
    for rounds in (1, 7, 0, 60):
        put(flag, rounds)
        driver.synchronise()
        before = driver.bindings.rounds
        assert calls(driver, lambda: kernel(x, flag)) == ["cuGraphLaunch"]
        driver.synchronise()
        assert driver.bindings.rounds == before + rounds
        total += rounds
        assert x.to_numpy().tolist() == [0, total, 2 * total] and flag[None] == 0
    assert "launched as a graph of 2, with 1 loop that the GPU repeats, some of them side by side\n" in kernel.report()


def test_the_package_of_cuda_12_names_nodes_otherwise(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = driver.bindings.cuGraphAddNode
    monkeypatch.setattr(driver.bindings, "cuGraphAddNode_v2", newer, raising=False)
    monkeypatch.setattr(
        driver.bindings, "cuGraphAddNode", lambda graph, before, count, told: newer(graph, before, None, count, told)
    )
    x, flag = numbers(0, 0, 0), number(4)
    qd.kernel(settle, graph=True)(x, flag)
    assert x.to_numpy().tolist() == [0, 4, 8] and "cuLaunchKernel" not in driver.bindings.calls


def looked_at(driver: PlayedDriver) -> None:
    """The host looks at the flag: once a round, and once at the end."""
    kernel = qd.kernel(settle, graph=True)
    x, flag, total = numbers(0, 0, 0), number(1), 1
    kernel(x, flag)
    for rounds in (1, 7, 0):
        put(flag, rounds)
        assert waits(calls(driver, lambda: kernel(x, flag))) == rounds + 1
        total += rounds
        assert x.to_numpy().tolist() == [0, total, 2 * total]
    assert driver.bindings.rounds <= 10, "but for a loop that was tried, with its branch"
    assert "launched one by one: loops are not the GPU's" in kernel.report()


def test_older_drivers_leave_it_to_the_host(driver: PlayedDriver) -> None:
    driver.bindings.version = 12030
    looked_at(driver)
    assert driver.bindings.rounds == 0, "none was tried"


def test_older_packages_leave_it_to_the_host(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(GraphFunctions, "cuGraphConditionalHandleCreate")
    looked_at(driver)


def test_drivers_that_refuse_a_loop_leave_it_to_the_host(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver.bindings, "cuGraphAddNode", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE, 0))
    looked_at(driver)


def test_packages_of_another_form_leave_it_to_the_host(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver.bindings, "cuGraphAddNode", lambda graph, told: None)
    looked_at(driver)


def test_drivers_whose_loops_are_not_what_they_should_be_leave_it_to_the_host(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        driver.bindings, "_repeat", lambda _, body, works, repeats: driver.bindings._run_nodes(body, works)
    )
    looked_at(driver)


def test_drivers_whose_branches_always_run_leave_it_to_the_host(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat = driver.bindings._repeat

    def always(condition, body, works, repeats: bool) -> None:
        if repeats:
            repeat(condition, body, works, repeats)
        else:
            driver.bindings._run_nodes(body, works)

    monkeypatch.setattr(driver.bindings, "_repeat", always)
    looked_at(driver)


def test_drivers_that_change_no_node_leave_it_to_the_host(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver.bindings, "cuGraphExecKernelNodeSetParams", lambda *_: (Result.CUDA_SUCCESS,))
    assert not driver.has_loops()


def test_without_memory_for_the_trial_the_host_looks(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuMemAlloc", lambda _: (Result.CUDA_ERROR_OUT_OF_MEMORY, 0))
        assert not driver.has_loops()
    looked_at(driver)


def test_a_gpu_that_is_lost_by_the_trial_is_told(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver.bindings, "cuGraphLaunch", lambda *_: (Result.CUDA_ERROR_ILLEGAL_ADDRESS,))
    with pytest.raises(RuntimeError, match="ILLEGAL_ADDRESS"):
        driver.has_loops()


def test_the_host_looks_where_that_is_asked_for(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error", graph_loops=False)
    looked_at(driver)


def test_other_arguments_change_nodes_of_the_body_too(driver: PlayedDriver) -> None:
    kernel = qd.kernel(settle, graph=True)
    x, flag, y, other = numbers(0, 0, 0), number(2), numbers(0, 0, 0, 0), number(3)
    put(flag, 2)
    put(other, 3)
    kernel(x, flag)
    kernel(y, flag)
    told = calls(driver, lambda: kernel(y, other))
    assert told.count("cuGraphExecKernelNodeSetParams") == 3, (
        "what changes the flag, and who decides on the first round and on others"
    )
    assert told[-1] == "cuGraphLaunch" and "cuGraphInstantiate" not in told
    assert (x.to_numpy().tolist(), y.to_numpy().tolist()) == ([0, 2, 4], [0, 3, 6, 9])
    assert flag[None] == other[None] == 0


def test_loops_in_loops_and_what_stands_around_them(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def count(x, outer, inner):
        for i in range(x.shape[0]):
            x[i] = 0
        while qd.graph.do_while(outer):
            for i in range(1):
                inner[None] = outer[None]
                outer[None] -= 1
            while qd.graph.do_while(inner):
                for i in range(x.shape[0]):
                    x[i] += 1
                for i in range(1):
                    inner[None] -= 1
            for i in range(x.shape[0]):
                x[i] += 100
        while qd.graph.do_while(inner):
            for i in range(x.shape[0]):
                x[i] = -1
        for i in range(x.shape[0]):
            x[i] += 1000

    x, outer, inner = numbers(1, 1), number(0), number(0)
    for rounds in (3, 0, 1):
        outer.fill(rounds)
        inner.fill(0)
        count(x, outer, inner)
        assert x.to_numpy().tolist() == [1000 + 100 * rounds + rounds * (rounds + 1) // 2] * 2
    assert "cuLaunchKernel" not in driver.bindings.calls


def test_conditions_of_any_form(driver: PlayedDriver) -> None:
    """What has to be computed for it is computed on the GPU, in front of each round."""

    @qd.kernel(graph=True)
    def halve(x, limit: float):
        while x[0] + x[1] > limit:
            for i in range(x.shape[0]):
                x[i] *= 0.5

    x = qd.ndarray(qd.f32, 2)
    for limit, left in ((1.0, 0.75), (100.0, 12.0), (0.1, 0.09375)):
        x.fill(12.0)
        x[1] = 0.0
        halve(x, limit)
        assert x[0] == left
    assert "cuLaunchKernel" not in driver.bindings.calls


def more_than_nothing(x, left):
    while left[None] > 0:
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] -= 2


def not_yet(x, left):
    while left[None] == 0:
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] += 5


def not_three(x, left):
    while left[None] != 3:
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] += 1


def not_nothing(x, left):
    while left[None] != 0:
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] //= 2


@pytest.mark.parametrize(
    ("function", "dtype", "rounds"),
    [
        (more_than_nothing, qd.i32, {5: 3, 0: 0, -7: 0}),
        (not_yet, qd.i32, {0: 1, 2: 0}),
        (not_three, qd.i32, {0: 3, 3: 0}),
        (not_nothing, qd.i32, {9: 4, 0: 0}),
        (not_nothing, qd.i64, {1 << 33: 34, 0: 0}),
        (not_nothing, qd.i16, {256: 9, 0: 0}),
        (not_nothing, qd.u8, {255: 8, 0: 0}),
    ],
)
def test_flags_are_compared_as_they_are_written(driver: PlayedDriver, function, dtype, rounds: dict[int, int]) -> None:
    """Who decides looks at a flag's own memory only where that is of 32 bits and compared with 0."""
    kernel, x, left, total = qd.kernel(function, graph=True), numbers(0, 0, 0), qd.ndarray(dtype, ()), 0
    for value, count in rounds.items():
        left.fill(value)
        driver.synchronise()
        before = driver.bindings.rounds
        kernel(x, left)
        driver.synchronise()
        total += count
        assert x.to_numpy().tolist() == [total] * 3
        assert driver.bindings.rounds == before + count or not before, "but for a loop that was tried"
    assert "cuLaunchKernel" not in driver.bindings.calls


def test_sums_and_memory_of_the_kernels_own_in_rounds(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def until(x, flag, total):
        while qd.graph.do_while(flag):
            s = 0.0
            for i in range(x.shape[0]):
                x[i] *= 0.5
                s += x[i]
            total[None] = s
            if s < 1.0:
                flag[None] = 0

    x, flag, total = qd.ndarray(qd.f32, 3000), number(1), qd.ndarray(qd.f32, ())
    for count in (2, 1):
        x.fill(count)
        flag.fill(1)
        until(x, flag, total)
        assert total[None] == 3000 * 2.0**-12
    assert "cuLaunchKernel" not in driver.bindings.calls


def test_what_the_host_carries_along_is_the_hosts(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def grow(x, flag):
        n = 1
        while qd.graph.do_while(flag):
            for i in range(n):
                x[i] += 1
            n += 1
            for i in range(1):
                flag[None] -= 1

    x, flag = numbers(0, 0, 0, 0), number(3)
    grow(x, flag)
    assert x.to_numpy().tolist() == [3, 2, 1, 0]
    assert "cuGraphLaunch" not in driver.bindings.calls
    assert "carries some from round to round" in grow.report()


def test_what_the_host_looks_at_in_a_round_is_the_hosts(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def grow(x, size, flag):
        while qd.graph.do_while(flag):
            for i in range(size[None]):
                x[i] += 1
            for i in range(1):
                size[None] += 1
                flag[None] -= 1

    x, size, flag = numbers(0, 0, 0, 0), number(1), number(3)
    grow(x, size, flag)
    assert x.to_numpy().tolist() == [3, 2, 1, 0]
    assert "cuGraphLaunch" not in driver.bindings.calls


def test_a_check_that_fails_ends_the_loop(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error", debug=True)

    @qd.kernel(graph=True)
    def climb(x, flag, most: int):
        while qd.graph.do_while(flag):
            for i in range(x.shape[0]):
                assert x[i] < most, "too high"
                x[i] += 1
            for i in range(1):
                flag[None] -= 1

    x, flag = numbers(0), number(10)
    with pytest.raises(AssertionError, match="too high"):
        climb(x, flag, 4)
    assert x[0] == 4
    x.fill(0)
    flag.fill(3)
    climb(x, flag, 4)
    assert x[0] == 3 and flag[None] == 0
    assert "cuLaunchKernel" not in driver.bindings.calls


def test_prints_of_rounds(driver: PlayedDriver, capsys: pytest.CaptureFixture[str]) -> None:
    @qd.kernel(graph=True)
    def tell(flag):
        while qd.graph.do_while(flag):
            for i in range(1):
                print("left", flag[None])
                flag[None] -= 1

    tell(number(3))
    assert capsys.readouterr().out == "left 3\nleft 2\nleft 1\n"


def test_kernels_that_were_kept_know_who_repeats_their_loops(tmp_path: Path) -> None:
    """A driver that has no loops takes none of one that has them."""
    for version in (13000, 13000, 12030):
        with played() as driver:
            driver.bindings.version = version
            qd.init(arch=qd.cuda, offline_cache_file_path=str(tmp_path), log_level="error")
            x, flag = numbers(0, 0, 0), number(4)
            qd.kernel(settle, graph=True)(x, flag)
            assert x.to_numpy().tolist() == [0, 4, 8]
            assert ("cuGraphLaunch" in driver.bindings.calls) == (version == 13000)
        qd.reset()


def test_rounds_draw_numbers_of_their_own(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def draw(x, at, left):
        while qd.graph.do_while(left):
            for i in range(x.shape[1]):
                x[at[None], i] = qd.random()
            for i in range(1):
                at[None] += 1
                left[None] -= 1

    x, at, left = qd.ndarray(qd.f64, (8, 5)), number(0), number(4)
    draw(x, at, left)
    left.fill(4)
    draw(x, at, left)
    assert len(set(x.to_numpy().reshape(-1).tolist())) == 40


def test_arrays_that_are_gone_are_reached_no_more(driver: PlayedDriver) -> None:
    """The graph holds where they were until it is told where others are."""
    kernel = qd.kernel(settle, graph=True)
    for rounds in range(1, 6):
        x, flag = numbers(*[0] * (300 * rounds)), number(rounds)
        kernel(x, flag)
        assert x.to_numpy().tolist() == [rounds * i for i in range(300 * rounds)]
        del x, flag


def test_a_graph_with_a_loop_that_cannot_be_made_is_told_and_made_later(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = qd.kernel(settle, graph=True)
    x, flag = numbers(0, 0, 0), number(2)
    kernel(x, flag)
    y, other = numbers(0, 0, 0), number(3)
    with monkeypatch.context() as patch:
        patch.setattr(driver.bindings, "cuGraphExecKernelNodeSetParams", lambda *_: (Result.CUDA_ERROR_INVALID_VALUE,))
        with pytest.raises(RuntimeError, match="INVALID_VALUE"):
            kernel(y, other)
    assert other[None] == 3
    kernel(y, other)
    assert y.to_numpy().tolist() == [0, 3, 6] and other[None] == 0
    assert len(driver.bindings.graphs) == 2, "the graph and the body of its loop"


def branches(driver: PlayedDriver, kernel, *arguments: object) -> None:
    """Runs a kernel; the host has looked at nothing."""
    told = calls(driver, lambda: kernel(*arguments))
    assert "cuMemcpyDtoH" not in told and "cuLaunchKernel" not in told and told[-1] == "cuGraphLaunch"


def test_branches_that_the_gpu_decides_on(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def choose(x, which):
        if which[None] > 2:
            for i in range(x.shape[0]):
                x[i] += 1
        elif which[None] > 0:
            for i in range(x.shape[0]):
                x[i] += 10
        else:
            for i in range(x.shape[0]):
                x[i] += 100
        for i in range(x.shape[0]):
            x[i] += 1000

    x, which, total = numbers(0, 0, 0), number(1), 0
    choose(x, which)
    total += 1010
    for value, added in ((5, 1), (0, 100), (2, 10), (-1, 100)):
        put(which, value)
        branches(driver, choose, x, which)
        total += 1000 + added
        assert x.to_numpy().tolist() == [total] * 3
    assert "parts that it runs or leaves out" in choose.report()


def test_branches_in_rounds_and_rounds_in_branches(driver: PlayedDriver) -> None:
    @qd.kernel(graph=True)
    def walk(x, steps, empty: int):
        if steps[None] > 1:
            while qd.graph.do_while(steps):
                if steps[None] % 2 == 0:
                    for i in range(x.shape[0]):
                        x[i] = x[i] * 2
                else:
                    for i in range(empty):
                        x[i] += 1
                for i in range(1):
                    steps[None] -= 1

    x, steps = numbers(1, 1), number(1)
    walk(x, steps, 2)
    value = 1
    for rounds, count in ((4, 2), (1, 2), (5, 0), (0, 2), (3, 2)):
        put(steps, rounds)
        branches(driver, walk, x, steps, count)
        for k in range(rounds, 0, -1) if rounds > 1 else ():
            value = value * 2 if k % 2 == 0 else value + (count > 0)
        assert x.to_numpy().tolist() == [value] * 2
        (whole,) = [graph for graph in driver.bindings.graphs.values() if graph.owner is None]
        assert all(loop.body.nodes for loop in whole.loops()), "a body is never empty"


def test_a_branch_keeps_what_it_was_told_when_it_was_asked(driver: PlayedDriver) -> None:
    """What is written between the question and the branch does not change the answer."""

    @qd.kernel(graph=True)
    def late(x, flag):
        is_set = flag[None] != 0
        for i in range(x.shape[0]):
            flag[None] = 0
        if is_set:
            for i in range(x.shape[0]):
                x[i] += 1

    x, flag = numbers(0), number(1)
    late(x, flag)
    assert x[0] == 1 and flag[None] == 0
    late(x, flag)
    assert x[0] == 1
