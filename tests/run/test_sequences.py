"""Tuples, lists and functions that kernels make of their own: whatever holds them, operators and calls are Python's. The plain
function is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor


def same_as_python(executor: TargetExecutor, function: Callable[..., Any], *arguments: Any) -> None:
    """The kernel leaves the arrays as the plain function does."""
    plain = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    executor.initialise(qd)
    qd.kernel(function)(*arguments)
    function(*plain)
    for ours, theirs in zip(arguments, plain):
        np.testing.assert_array_equal(ours, theirs)


def raised(n):
    numbers = [1.0, 2.0, 3.0]
    for i in range(n):
        numbers[i] += i
    return numbers


def operators_of_lists(out, n):
    numbers = [1.0, 2.0]
    pair = (1.0, 2.0)
    for i in range(n):
        if i > 5:
            break
        numbers[0] += 1
        pair = (pair[1], pair[0] + 1)
    both, twice = numbers + numbers, 2 * numbers
    out[0] = len(both) + 10 * len(twice) + 100 * len(numbers * 3) + 1000 * len(True * [n]) + 10000 * len(-1 * [n])
    out[1] = both[2] + 10 * twice[3] + 100 * len(2 * (n, 1))
    out[2] = len(pair + pair) + 10 * (pair == pair) + 100 * (numbers == numbers) + 1000 * (numbers == [4.0, 2.0])
    out[3] = (2.0 in numbers) + 10 * (7.0 not in numbers) + 100 * (numbers < [4.0, 3.0])
    chosen = numbers if n > 1 else [0.0, 0.0]
    out[4] = len(chosen + [5.0]) + 10 * len(chosen * 2) + 100 * (chosen == numbers)
    of_call = raised(n)
    out[5] = len(of_call + raised(n)) + 10 * (of_call == [1.0, 3.0, 5.0]) + 100 * len(of_call * 2)
    numbers *= 2
    out[6] = len(numbers)


def test_lists_are_lists_whatever_holds_them(executor: TargetExecutor) -> None:
    same_as_python(executor, operators_of_lists, np.zeros(7), 3)


def equality(out):
    x = out[0]
    pair, numbers = (x, 1.0), [x, 1.0]
    out[0] = (pair == pair) + 2 * (numbers == numbers) + 4 * (x in pair) + 8 * (x in [1.0, x]) + 16 * (pair <= pair)
    out[0] += 32 * (pair != pair) + 64 * (pair < pair) + 128 * (x == x) + 256 * ((x, 2.0) == (x + 0.0, 2.0))
    # E711: a list that is compared with None by == is asked for
    out[1] = (pair == 1) + 2 * (numbers != 1.0) + 4 * ([1.0] == None) + 8 * ((1, 2) == "ab")  # noqa: E711


def test_what_is_the_same_is_equal_within_tuples_and_lists(executor: TargetExecutor) -> None:
    same_as_python(executor, equality, np.array([np.nan, 0.0]))


def numpy_over_nested_lists(out, a, b):
    out[0] = np.max([[a, 5.0], [b, 0.0]]) + 10 * np.sum([[a, 5.0], [b, 0.0]]) + 100 * np.min([a, b])
    out[1] = np.sum([a > 0, b > 0]) + 10 * sum([a > 0, b > 0])


def test_numpy_takes_all_numbers_of_nested_lists(executor: TargetExecutor) -> None:
    same_as_python(executor, numpy_over_nested_lists, np.zeros(2), 1.0, 2.0)


def test_truths_of_a_vector_are_counted(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def count(x: float):
        v = qd.Vector([x, x + 1, x - 2])
        return (v > 0).sum()

    assert count(1.0) == 2


def defaults(out, n):
    def f(x, more=n * 2):
        return x + more

    def first_above(x, more=n):
        for j in range(10):
            if j > x:
                return j + more
        return -1

    numbers = [1, 2]

    def first(of=numbers):
        return of[0]

    pair = (n, n + 1)

    def item(i, *, of=pair):
        return of[i]

    functions = [lambda x, i=i: x + 10 * i for i in range(3)]
    total = 0
    for i in range(n):

        def tenfold(x=i):
            return x * 10

        total += tenfold()
        # E731: a lambda's default is asked for
        plus = lambda y, z=total: y + z  # noqa: E731
        total = plus(1)
    out[5] = total
    n, pair, numbers[0] = 100, (0, 0), 9
    out[0] = f(1) + 1000 * f(1, 5)
    out[1] = first_above(2)
    out[2] = first()
    out[3] = item(0) + 10 * item(1)
    out[4] = functions[0](1) + functions[2](1)


def test_defaults_of_nested_functions_are_those_of_their_definition(executor: TargetExecutor) -> None:
    same_as_python(executor, defaults, np.zeros(6), 3)


@dataclass
class Point:
    x: float

    def move(self, by: float) -> float:
        self.x += by
        return self.x


def moved(point, by):
    point.x += by
    return point.x


def increase(numbers, by):
    numbers[0] += by
    return numbers[0]


def by_keyword(out):
    p, numbers = Point(1.0), [1.0, 2.0]
    out[0] = moved(point=p, by=2) + 10 * moved(by=1, point=p)
    out[1] = increase(by=3, numbers=numbers) + 10 * increase(*(numbers, 5))
    for _ in range(3):
        out[2] += moved(by=1, point=p) + increase(numbers, by=1)
    while moved(by=1, point=p) < 20:
        out[3] += 1
    out[4], out[5] = p.x, numbers[0]


def test_objects_given_by_keyword_are_changed(executor: TargetExecutor) -> None:
    same_as_python(executor, by_keyword, np.zeros(6))


def test_templates_given_by_keyword_are_changed(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.func
    def add(total: qd.template(), x):
        total += x

    @qd.kernel
    def twice(n):
        total = 0
        for _ in range(3):
            add(x=n, total=total)
        return total

    assert twice(2) == 6


def marked(out):
    out[1] += 1
    return True


def asserts(out):
    n, p, numbers = 0, Point(1.0), [1, 2, 3]
    assert (n := n + 1) > 0
    assert marked(out), "marked"
    assert p.move(2.0) > 0, f"at {p.move(100.0)}"
    assert numbers.pop() == 3 and len(numbers) == 2
    for _ in range(3):
        assert p.move(1.0) > 0
    out[0] = n + 10 * p.x + 100 * len(numbers)


@pytest.mark.parametrize("debug", [False, True])
def test_conditions_of_assertions_change_what_they_change(executor: TargetExecutor, debug: bool) -> None:
    executor.initialise(qd)
    if debug:
        qd.init(arch=executor.arch, debug=True, default_ip=qd.i64, default_fp=qd.f64)
    out, plain = np.zeros(2), np.zeros(2)
    qd.kernel(asserts)(out)
    asserts(plain)
    np.testing.assert_array_equal(out, plain)


def vectors_of_lists(out, n):
    numbers, others = [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]
    for i in range(n):
        if i > 5:
            break
        numbers[0] += i
        others[i] += i
    v, w = np.array(numbers), np.array(others)
    copy, other = numbers.copy(), others.copy()
    copy[0], other[0] = 100.0, 200.0
    out[0] = len(v + v) + 10 * len(2 * w) + 100 * len(np.array(numbers) * n) + 1000 * (w + w)[1]
    out[1] = len(numbers + copy) + 10 * len(others + other) + 100 * len(numbers * 2)
    out[2] = copy[0] + other[0] + numbers[0] + others[0]


def test_vectors_made_of_lists_are_vectors(executor: TargetExecutor) -> None:
    same_as_python(executor, vectors_of_lists, np.zeros(3), 3)
