"""Debug mode on the reference target finds races between the iterations of parallel loops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _debug_mode() -> Iterator[None]:
    qd.init(arch=qd.reference, debug=True, default_ip=qd.i64, log_level=qd.ERROR)
    yield
    qd.reset()


def store_and_load(a, index):
    for i in range(len(index)):  # loop
        a[index[i]] = a[i] + 1


def store_and_store(a, index):
    for i in range(len(index)):  # loop
        a[index[i]] = i


def update_and_load(a, index, b):
    for i in range(len(index)):  # loop
        a[index[i]] += i
        b[i] = a[i]


def update_and_store(a, index):
    for i in range(len(index)):  # loop
        a[index[i]] += 1
        a[i] = 0


def two_kinds_of_updates(a, index):
    for i in range(len(index)):  # loop
        a[index[i]] += 1
        a[i] *= 2


def insisted(a):
    qd.loop_config(serialize=False)
    for i in range(1, len(a)):  # loop
        a[i] = a[i - 1]


def two_counters(a, n):
    qd.loop_config(serialize=False)
    for i, j in qd.ndrange(3, n):  # loop
        a[i] = j


def with_a_reduction(a, index):
    s = 0
    for i in range(len(index)):  # loop
        s += a[index[i]]
        a[i] = i
    return s


def component(a, index):
    for i in range(len(index)):  # loop
        a[index[i]][1] = i


INDEX = np.array([1, 2, 1, 4])
RACES = {
    store_and_load: "iteration 0 stores a[1] at line {1}, iteration 1 loads it at line {1}",
    store_and_store: "iteration 0 stores a[1] at line {1}, iteration 2 stores it at line {1}",
    update_and_load: "iteration 0 updates a[1] at line {1}, iteration 1 loads it at line {2}",
    update_and_store: "iteration 0 updates a[1] at line {1}, iteration 1 stores it at line {2}",
    two_kinds_of_updates: "iteration 0 updates a[1] at line {1}, iteration 1 updates it at line {2}",
    insisted: "iteration 1 stores a[1] at line {1}, iteration 2 loads it at line {1}",
    two_counters: "iteration (0, 0) stores a[0] at line {1}, iteration (0, 1) stores it at line {1}",
    with_a_reduction: "iteration 0 loads a[1] at line {1}, iteration 1 stores it at line {2}",
    component: "iteration 0 stores a[1, 1] at line {1}, iteration 2 stores it at line {1}",
}


@pytest.mark.parametrize("function", RACES, ids=lambda f: f.__name__)
def test_race(function: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    loop = first + next(number for number, line in enumerate(lines) if "# loop" in line)
    array = qd.Vector.field(3, qd.i64, 6) if function is component else np.arange(10)
    given = {"index": INDEX, "b": np.zeros(4, np.int64), "n": 4}
    arguments = [given[name] for name in list(inspect.signature(function).parameters)[1:]]
    kernel = qd.kernel(function)
    for _ in range(2):
        with pytest.raises(qd.QuadrantsAssertionError) as caught:
            kernel(array.copy() if isinstance(array, np.ndarray) else array, *arguments)
        expected = RACES[function].format(0, loop + 1, loop + 2)
        assert str(caught.value).startswith(f"a race in the parallel loop at line {loop}: {expected}")
        assert f"in kernel {function.__name__}" in str(caught.value)


def updates(a, index):
    for i in range(len(index)):
        a[index[i]] += i
        a[index[i]] -= 2


def equal_values(a, index):
    for i in range(len(index)):
        a[index[i]] = 1


def volatile_loads(a, index):
    for i in range(len(index)):
        known = qd.volatile_load(a[index[i]])
        qd.atomic_min(a[index[i] // 2], known)


def one_iteration_alone(a, index):
    for i in range(len(index)):
        a[i] = index[i]
        a[i] += a[i]
        a[i] *= a[i]


def tickets(a, counter, out):
    for i in range(len(a)):
        if a[i] > 3:
            out[qd.atomic_add(counter[0], 1)] = a[i]


def one_loop_after_another(a, index):
    for i in range(len(index)):
        a[i] = i
    for i in range(len(index)):
        a[len(index) - 1 - i] = a[len(index) - 1 - i] + index[i]


def in_order(a):
    for i in range(1, len(a)):
        a[i] = a[i - 1]


def vectors_of_its_own(a, index):
    for i in range(len(index)):
        v = qd.Vector([0, 0, 0])
        v[index[i] % 3] = i
        a[i] = v.sum()


@pytest.mark.parametrize(
    "function",
    [updates, volatile_loads, equal_values, one_iteration_alone, one_loop_after_another, vectors_of_its_own],
    ids=lambda f: f.__name__,
)
def test_no_race(function: Callable[..., Any]) -> None:
    qd.kernel(function)(np.arange(10), INDEX)


def test_no_race_in_order_or_by_tickets() -> None:
    qd.kernel(in_order)(np.arange(10))
    out = np.zeros(10, np.int64)
    qd.kernel(tickets)(np.arange(10), np.zeros(1, np.int64), out)
    assert sorted(out) == [0, 0, 0, 0, 4, 5, 6, 7, 8, 9]


def test_races_are_looked_for_in_debug_mode_alone() -> None:
    qd.init(arch=qd.reference, default_ip=qd.i64)
    qd.kernel(store_and_store)(np.arange(10), INDEX)
