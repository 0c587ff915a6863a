"""Interrupts that Python handles at the first instruction of what machine code calls back: ctypes has nothing to give back then."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import played
from quadrants.runtime import launch
from quadrants.targets.llvm import device_host
from quadrants.targets.llvm.cuda import drivers

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]


def interrupted(run: Callable[[], Any], number: int, found: list[str]) -> Any:
    """What a run gives with an interrupt in front of the first instruction of the call back of that number; notes what is called."""
    found.clear()

    def trace(frame: Any, event: str, _: object) -> None:
        if frame.f_code.co_name == "called" and frame.f_code.co_filename == device_host.__file__:
            found.append(frame.f_locals["function"].__name__)
            if len(found) == number:
                raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return run()
    finally:
        sys.settrace(before)


@qd.kernel
def total(x, y):
    s = 0
    for i in range(x.shape[0]):
        s += x[i]
    for i in range(y.shape[0]):
        y[i] = s


@qd.kernel(graph=True)
def apart(x, y):
    for i in range(x.shape[0]):
        x[i] += 1
    for i in range(y.shape[0]):
        y[i] = x[i % x.shape[0]]


@qd.kernel(graph=True)
def settle(x, left):
    while qd.graph.do_while(left):
        for i in range(x.shape[0]):
            x[i] += 1
        for _ in range(1):
            left[None] -= 1


def filled(value: int, *shape: int) -> qd.Ndarray:
    x = qd.ndarray(qd.i32, shape)
    x.fill(value)
    return x


_sizes = itertools.count(40)


def new_sum() -> int:
    for plan in drivers.current().device.services.plans.values():
        plan.drop()  # memory is asked for again
    y = filled(0, 4)
    total(filled(2, 300), y)
    return y.to_numpy()[3]


def new_graph() -> int:
    y = filled(0, next(_sizes))
    apart(filled(6, 300), y)
    return y.to_numpy()[3]


def new_loop() -> int:
    x = filled(1, 30)
    settle(x, filled(3))
    return x.to_numpy()[3]


RUNS: dict[str, tuple[Callable[[], int], int, set[str]]] = {
    "sum": (new_sum, 600, {"_allocate"}),
    "graph": (new_graph, 7, {"_note", "_finish"}),
    "loop": (new_loop, 4, {"_read"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupt_in_front_of_a_call_back_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, answer, services = RUNS[name]
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # ctypes tells of it there
    with played():
        qd.init(arch=qd.cuda, offline_cache=False, log_level="error", graph_loops=False)
        found: list[str] = []
        assert run() == answer
        for number in range(1, 100):
            try:
                assert interrupted(run, number, found) == answer
                break
            except KeyboardInterrupt:
                assert len(found) == number
                assert run() == answer
        assert services <= set(found) and len(found) == number - 1
    qd.reset()
