"""What a name is bound to when an iteration begins: what the one before it bound."""

from __future__ import annotations

import collections
import enum
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor


class Phase(enum.IntEnum):
    RISE = 0
    HOLD = 1
    FALL = 2


Point = collections.namedtuple("Point", "x y")


def same_as_python(executor: TargetExecutor, function: Callable[..., Any], *arguments: Any) -> None:
    """The kernel gives the results of the plain function, and leaves the arrays as it does."""
    plain = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    executor.initialise(qd)
    result = qd.kernel(function)(*arguments)
    expected = function(*plain)
    if expected is not None:
        assert np.allclose(result, expected)
    for ours, theirs in zip(arguments, plain):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_members_of_enumerations(executor: TargetExecutor) -> None:
    def phases(out):
        phase = Phase.RISE
        for i in range(len(out)):
            if phase == Phase.RISE:
                phase = Phase.HOLD
            elif phase == Phase.HOLD:
                phase = Phase.FALL
            else:
                phase = Phase.RISE
            out[i] = phase

    same_as_python(executor, phases, np.zeros(7, np.int64))


def test_tuples(executor: TargetExecutor) -> None:
    def fibonacci(out):
        pair = (0, 1)
        for i in range(len(out)):
            out[i] = pair[0]
            pair = (pair[1], pair[0] + pair[1])
        return pair

    same_as_python(executor, fibonacci, np.zeros(9, np.int64))


def test_tuples_in_a_while(executor: TargetExecutor) -> None:
    def powers(out):
        state = 1.0, 2
        i = 0
        while i < len(out):
            x, k = state
            out[i] = x * k
            state = x + 1, k * 2
            i += 1
        return state

    same_as_python(executor, powers, np.zeros(6))


def test_nested_and_named_tuples(executor: TargetExecutor) -> None:
    def spiral(out):
        state = (Point(0, 1), 2.0)
        for i in range(len(out)):
            point, z = state
            state = (Point(point.y, point.x + point.y), z * 0.5)
            out[i] = z + point.x
        return state[0].y

    same_as_python(executor, spiral, np.zeros(6))


def test_a_tuple_first_bound_in_the_loop_keeps_the_types_of_its_parts(executor: TargetExecutor) -> None:
    def last(values):
        for i in range(len(values)):
            found = (i, values[i])
            if values[i] > 4.0:
                break
        return values[found[0]] + found[1]

    same_as_python(executor, last, np.array([1.0, 2.0, 9.0, 3.0]))


def test_a_tuple_bound_on_one_path(executor: TargetExecutor) -> None:
    def best(values):
        found = (-1, 0.0)
        for i in range(len(values)):
            if values[i] > found[1]:
                found = (i, values[i])
        return found

    same_as_python(executor, best, np.array([1.0, 9.0, 2.0]))


def test_views(executor: TargetExecutor) -> None:
    def trail(rows, out):
        row = rows[0]
        for i in range(len(rows)):
            out[i] = row[0] + row[1]
            row[0] += 10.0
            row = rows[i]

    same_as_python(executor, trail, np.arange(12.0).reshape(6, 2), np.zeros(6))


def test_a_view_chosen_by_a_branch_is_a_view(executor: TargetExecutor) -> None:
    def halve(rows, flags):
        for i in range(len(flags)):
            if flags[i]:
                row = rows[2 * i]
            else:
                row = rows[2 * i + 1]
            row *= 0.5

    same_as_python(executor, halve, np.ones((6, 2)), np.array([True, False, True]))


def first(x):
    return x + 1


def second(x):
    return x * 2


@pytest.mark.parametrize("before, after", [("'a'", "'b'"), ("None", "1.0"), ("first", "second"), ("u", "v")])
def test_what_cannot_change_is_refused_where_it_is_read(executor: TargetExecutor, before: str, after: str) -> None:
    name = f"changes_{abs(hash((before, after)))}"
    text = f"def {name}(u, v):\n    s = {before}\n    for i in range(3):\n        v[i] = use(s)\n        s = {after}\n"

    namespace = {"first": first, "second": second, "use": lambda s: 0.0}
    linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(keepends=True), f"<{name}>")
    exec(compile(text, f"<{name}>", "exec"), namespace)
    executor.initialise(qd)
    with pytest.raises(qd.QuadrantsCompilationError, match='"s" changes in the loop'):
        qd.kernel(namespace[name])(np.zeros(3), np.zeros(3))


def test_what_is_bound_again_before_it_is_read_may_change(executor: TargetExecutor) -> None:
    def alternate(out):
        f = first
        for i in range(len(out)):
            f = second
            out[i] = f(i)

    same_as_python(executor, alternate, np.zeros(4))


@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_loop_and_its_else_bind_anew_what_a_loop_before_has_left(executor: TargetExecutor, count: int) -> None:
    def found(n, out):
        x = 1.5
        for i in range(n):
            x = 0.5
        for i in range(n):
            x = i * 1.0
            if i > 2:
                break
        else:
            x = 7.0
        out[0] = x
        k = 0
        while k < n:
            k += 1
            x = k * 1.0
        while k < 8:
            x = k * 2.0
            if k == 4:
                break
            k += 3
        else:
            x = -1.0
        out[1] = x

    same_as_python(executor, found, count, np.zeros(2))


def last_elements(a, b, rows, out):
    s = 0.0
    x, i = 5.0, 7
    for x in a:
        s += x
    out[0] = x
    for i, x in enumerate(a):
        a[i] = 2 * x
    out[1] = 10 * i + x
    for x, y in zip(a, b):
        s += x * y
    out[2] = 10 * x + y
    for j in range(2):
        for z in reversed(b):
            s += z
        out[3] += 100 * z + j
    for row in rows:
        row[0] += 1
    row[1] = 70
    out[4], out[5] = row[0], s


def test_elements_that_a_loop_ran_over_stay(executor: TargetExecutor) -> None:
    arrays = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0]), np.arange(6.0).reshape(3, 2), np.zeros(6)
    same_as_python(executor, last_elements, *arrays)


def no_iterations(a, n, out):
    x, i, k = 8.0, 9, 2.5
    for x in a:
        out[3] += x
    out[0] = x
    for i in range(n):
        if i > 2:
            break
    out[1] = i
    for i in range(n):
        i += 5
        k = i
        if i > 2:
            break
    out[2] = 10 * i + k


def test_loops_without_iterations_leave_names_as_they_were(executor: TargetExecutor) -> None:
    same_as_python(executor, no_iterations, np.zeros(0), 0, np.zeros(4))


def variables_of_loops_over_tuples(n):
    for j in (3, n):
        if j > 2:
            break
    for i, pair in enumerate(((1, 5), (3, 6), (7, 8))):
        if pair[0] == n + 1:
            break
    first, last = pair
    total = 0
    for k in (1, 2, 3):
        if k == n:
            continue
        for m in (k, n):
            if m > 2:
                break
            total += m * 10
        else:
            m = 70
            total += 1
    for a in (1, n, 4):
        if a >= n:
            break
        a = 50
    else:
        a = 90
    while n < 6:
        for b in (1, n, 4):
            if b > 3:
                break
            total += b
        n += b
    return j, i, first, last, k, m, total, a, b


def test_variables_of_loops_over_tuples_stay_where_break_leaves_them(executor: TargetExecutor) -> None:
    same_as_python(executor, variables_of_loops_over_tuples, 2)


def empty_iterations(n):
    pairs = [(i, j) for i in range(3) for j in range(i)]
    nothing = [x * n for x in ()]
    count = 0
    for _, _ in zip((), (1, n)):
        count += 1
    for _ in enumerate([]):
        count += 1
    return len(pairs), pairs[2][1], len(nothing), count


def test_iterations_of_nothing(executor: TargetExecutor) -> None:
    same_as_python(executor, empty_iterations, 2)
