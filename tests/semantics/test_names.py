"""Names: scope, live ranges, joins, loop variables, live globals, static evaluation."""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Executor, Program, mismatch, program

PROGRAMS: list[Program] = []
names = partial(program, PROGRAMS, section="Names")
AFTER_INIT = ("i32", "f32")


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


TABLE = {"one": 1, "half": 0.5}
WEIGHTS = (0.25, 0.5, 0.25)
OFFSETS = ((0, 1), (1, 0))


# Live ranges.


@names(args=(f32(10.0, 20.0),), result=(("f32", 10.0), ("f64", 0.5)))
def each_live_range_has_its_own_type(a):
    x = 0
    first = a[x]
    x = 0.5
    return first, x


@names(result=("f64", 2.7))
def rebinding_never_truncates():
    x = 1
    x = 2.7
    return x


@names(args=(f32(0.5, 1.0, 2.0),), result=("f32", 3.5))
def accumulator_joins_with_what_is_added(a):
    s = 0
    for i in range(len(a)):
        s += a[i]
    return s


@names(args=(f32(0.5, 1.0, 2.0),), result=("f32", 1.0))
def accumulator_by_plain_assignment(a):
    s = 1
    for i in range(len(a)):
        s = s * a[i]
    return s


@names(args=(1,), result=("f64", 1.0))
def branches_join_an_integer_and_a_float(c):
    if c > 0:
        x = 1.0
    else:
        x = 2.5
    return x


@names(args=(0,), result=("f64", 2.0), joins=True)
def branches_join_where_the_integer_is_taken(c):
    x = 2
    if c > 0:
        x = 2.5
    return x


@names(args=(0,), result=("f64", 0.0), joins=True)
def loop_of_zero_trips_joins_too(n):
    x = 0
    for i in range(n):
        x = x + 0.5
    return x


@names(args=(1, 5, 0.5), result=("f32", 0.5))
def branches_join_typed_numbers(c, n: qd.i32, y: qd.f32):
    x = y
    if c > 3:
        x = y + n
    return x


@names(args=(8,), result=("f64", 0.0625))
def loop_joins_an_integer_and_a_float(n):
    x = 1.0
    while n > 4:
        x = x * 0.5
        n = n - 1
    return x


@names(args=(2.0,), result=(("f32", 2.0), ("i64", 3)))
def name_holds_a_vector_and_then_a_number(x: qd.f32):
    v = qd.Vector([x, x])
    first = v[0]
    v = 3
    return first, v


@names(args=(f32(1.0, 2.0, 3.0),), result=("f32", 18.0))
def name_changes_type_within_an_iteration(a):
    total = qd.f32(0)
    for i in range(3):
        x = i
        y = a[x]
        x = y * 2.0
        total += x + y
    return total


@names(args=(3,), result=("f32", 2.5))
def declared_name_has_the_declared_dtype(n: qd.i32):
    x: qd.f32 = n
    return x - 0.5


# Scope.


@names(args=(5,), result=("i64", 1))
def name_of_a_branch_is_the_functions(n):
    if n > 3:
        found = 1
    else:
        found = 2
    return found


@names(args=(4,), result=("i64", 6))
def name_of_a_loop_body_is_the_functions(n):
    for i in range(n):
        twice = 2 * i
    return twice


@names(args=(5,), result=("i64", 4))
def loop_variable_keeps_its_last_value(n):
    for i in range(n):
        pass
    return i


@names(args=(5,), result=("i64", 3))
def loop_variable_after_break(n):
    for i in range(n):
        if i * i > 5:
            break
    return i


@names(args=(4,), result=(("i64", 60), ("i64", 30)))
def assigning_the_loop_variable_does_not_steer_the_loop(n):
    total = 0
    for i in range(n):
        i = i * 10
        total += i
    return total, i


@names(args=(3, 2), result=("i64", 1))
def inner_loop_variable_keeps_its_last_value(n, m):
    for i in range(n):
        for j in range(m):
            pass
    return j


@names(args=(1, 2), result=(("i64", 2), ("i64", 1)))
def names_swap(a, b):
    a, b = b, a
    return a, b


@names(args=(1, 2, 3), result=(("i64", 2), ("i64", 3), ("i64", 1)))
def right_side_is_evaluated_before_the_names_are_bound(a, b, c):
    a, b, c = b, c, a
    return a, b, c


@names(args=(7,), result=(("i64", 8), ("i64", 8)))
def chained_assignment(n):
    a = b = n + 1
    return a, b


@names(args=(5,), result=("i64", 10))
def argument_names_can_be_rebound(n):
    n = n * 2
    return n


@names(args=(0,), result=("i64", 2))
def right_side_sees_the_old_value(n):
    x = 1
    x = x + 1
    return x + n


@names(args=(3,), result=("i64", 12))
def walrus_binds_a_name(n):
    if (m := n * 2) > 5:
        return m * 2
    return m


@names(args=(5,), result=("i64", 22))
def name_that_an_earlier_iteration_assigned(n):
    for i in range(n):
        if i == 2:
            y = i * 10
        elif i > 2:
            y = y + 1
        else:
            y = 0
    return y


@names(args=(3,), result=("i64", 6))
def name_that_a_taken_path_assigned(n):
    if n > 2:
        twice = 2 * n
    if n > 1:
        n = twice
    return n


# Static evaluation.


@names(args=(3.0,), result=("f32", 4.5))
def static_dictionary(x: qd.f32):
    return x * qd.static(TABLE["half"]) + x * qd.static(TABLE["one"])


@names(args=(f32(1.0, 2.0, 4.0),), result=("f32", 2.25))
def static_loop_over_a_tuple(a):
    s = 0.0
    for k in qd.static(range(3)):
        s += WEIGHTS[k] * a[k]
    return s


@names(args=(i32(1, 2, 3, 4),), result=("i32", 5))
def nested_tuple_as_a_static_range(a):
    s = 0
    for di, dj in qd.static(OFFSETS):
        s += a[2 * di + dj]
    return s


@names(args=(2,), result=("i64", 4))
def dead_static_branch_may_contain_anything(n):
    if qd.static(Mode.DOUBLE is Mode.PLAIN):
        return undefined_name.method(n) + "text"  # noqa: F821
    return n * 2


@names(args=(2,), result=("i64", 4))
def static_condition_chooses_between_types(n):
    if qd.static(len(WEIGHTS) == 3):
        x = n * 2
    else:
        x = qd.Vector([n, n])
    return x


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_names(item: Program, executor: Executor) -> None:
    assert mismatch(item, executor.run(item)) is None


# Captured names are live: several launches of one kernel.

SCALE = 2


def _scaled(x: qd.f32):
    return SCALE * x


def _triple(x):
    return 3 * x


def _quadruple(x):
    return 4 * x


helper = _triple


def _calls_helper(x: qd.i32):
    return helper(x)


def test_changed_global_number_is_seen_at_the_next_launch(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = executor.launcher(_scaled)
    assert launch(1.5) == 3.0
    monkeypatch.setitem(globals(), "SCALE", 4)
    assert launch(1.5) == 6.0
    monkeypatch.setitem(globals(), "SCALE", 0.5)
    assert launch(1.5) == 0.75


def test_redefined_function_is_seen_at_the_next_launch(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = executor.launcher(_calls_helper)
    assert launch(5) == 15
    monkeypatch.setitem(globals(), "helper", _quadruple)
    assert launch(5) == 20


def test_changed_closure_variable_is_seen_at_the_next_launch(executor: Executor) -> None:
    step: Any = 1

    def advanced(n: qd.i32):
        return n + step

    launch = executor.launcher(advanced)
    assert launch(10) == 11
    step = 5
    assert launch(10) == 15


def test_changed_global_in_a_called_function_is_seen(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice_scaled(x: qd.f32):
        return 2 * _scaled(x)

    launch = executor.launcher(twice_scaled)
    assert launch(1.0) == 4.0
    monkeypatch.setitem(globals(), "SCALE", 10)
    assert launch(1.0) == 20.0


VECTOR = qd.Vector([1.0, 2.0])


def _first_of_a_captured_vector():
    return VECTOR[0]


def test_changed_element_of_a_captured_vector_is_seen(executor: Executor) -> None:
    launch = executor.launcher(_first_of_a_captured_vector)
    before = VECTOR[0]
    try:
        assert launch() == 1.0
        VECTOR[0] = 7.0
        assert launch() == 7.0
    finally:
        VECTOR[0] = before


def _first_of_a_template(v: qd.template()):
    return v[0]


def test_changed_element_of_a_template_argument_is_seen(executor: Executor) -> None:
    launch = executor.launcher(_first_of_a_template)
    vector = qd.Vector([1.0, 2.0])
    assert launch(vector) == 1.0
    vector[0] = 7.0
    assert launch(vector) == 7.0
