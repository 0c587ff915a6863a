"""Objects and lists that change under more than one name are refused, at the line marked `# <--`: here they are values,
and the other names would not see the change."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import quadrants as qd
from quadrants.errors import QuadrantsCompilationError

MARK = "# <--"


@dataclass
class Point:
    x: float
    y: float = 0.5

    def move(self, by):
        self.x += by
        return self


@dataclass
class Pair:
    p: Point
    q: Point


def set_x(p, q):
    p.x = 5.0  # <--
    return q.x


def same(p):
    return p


def same_after(p, n):
    if n == 0:
        return p
    return same_after(p, n - 1)


def second_name(c):
    a = Point(c)
    b = a
    b.x = 7.0  # <--
    return a.x


def name_of_a_member(c):
    b = Pair(Point(c), Point(2.0))
    p = b.p
    p.x = 5.0  # <--
    return b.p.x


def twice_in_an_object(c):
    p = Point(c)
    b = Pair(p, p)
    b.p.x = 5.0  # <--
    return b.q.x


def twice_in_a_list(c):
    p = Point(c)
    points = [p, p]
    points[0].x = 4.0  # <--
    return points[1].x


def in_a_tuple(c):
    p = Point(c)
    t = (p, 1)
    p.x = 2.0  # <--
    return t[0].x


def result_that_is_the_argument(c):
    p = Point(c)
    q = same(p)
    q.x = 3.0  # <--
    return p.x


def result_of_a_recursion(c):
    p = Point(c)
    q = same_after(p, 2)
    q.x = 3.0  # <--
    return p.x


def chained_calls(c):
    p = Point(c)
    p.move(1.0).move(2.0)  # <--
    return p.x


def method_in_a_name(c):
    p = Point(c)
    f = p.move
    f(2.0)  # <--
    return p.x


def method_under_a_second_name(c):
    p = Point(c)
    q = p
    q.move(1.0)  # <--
    return p.x


def one_object_given_twice(c):
    p = Point(c)
    other = p.x
    return set_x(p, p) + other


def loop_over_names(c):
    p = Point(c)
    for q in (p, Point(3.0)):
        q.x += 1.0  # <--
    return p.x


def one_of_two(c):
    p = Point(c)
    r = Point(2.0)
    q = p if c > 0 else r
    q.x = 3.0  # <--
    return p.x


def one_of_two_paths(c):
    p = Point(c)
    q = Point(2.0)
    if c > 0:
        q = p
    p.x = 4.0  # <--
    return q.x


def another_of_two_paths(c):
    p = Point(c)
    q = p
    if c > 0:
        q = Point(2.0)
    p.x = 4.0  # <--
    return q.x


def read_in_the_next_iteration(c):
    p = Point(c)
    q = p
    s = 0.0
    for i in range(3):
        s += p.x
        q.x += 1.0  # <--
    return s


def read_by_a_nested_function(c):
    p = Point(c)

    def look():
        return p.x

    q = p
    q.x = 3.0  # <--
    return look()


def member_that_is_another(c):
    b = Pair(Point(c), Point(2.0))
    b.p = b.q
    b.p.x = 3.0  # <--
    return b.q.x


def copy_of_the_outside_alone(c):
    b = Pair(Point(c), Point(2.0))
    d = dataclasses.replace(b)
    d.p.x = 3.0  # <--
    return b.p.x


def shared_in_the_next_iteration(c):
    p = Point(c)
    q = Point(2.0)
    for i in range(3):  # <--
        q.x += 1.0
        q = p
    return p.x + q.x


def object_that_a_loop_comes_to(c):
    a = Point(c)
    b = Point(2.0)
    for q in (b, a):  # <--
        a.x += q.x
    return a.x


def list_in_an_object(c):
    numbers = [c, 2.0]
    b = Pair(numbers, 1.0)
    b.p[0] = 9.0  # <--
    return numbers[0]


def list_that_shrinks_in_its_loop(c):
    numbers = [1, 2, 3]
    s = c
    for x in numbers:  # <--
        s += x
        if x == 1:
            numbers.pop()
    return s


def list_that_changes_ahead_in_its_loop(c):
    numbers = [1, 2, 3]
    s = c
    for x in numbers:  # <--
        numbers[1] = 9
        s += x
    return s


PROGRAMS = [
    found
    for name, found in list(globals().items())
    if inspect.isfunction(found) and list(inspect.signature(found).parameters) == ["c"]
]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(QuadrantsCompilationError, match="one name|one object|the body changes") as caught:
        qd.kernel(function)(1.0)
    lines, first = inspect.getsourcelines(set_x if function is one_object_given_twice else function)
    (marked,) = [first + k for k, line in enumerate(lines) if MARK in line]
    assert caught.value.location is not None
    assert caught.value.location.line == marked


def test_given_twice_to_a_function_that_was_compiled_before() -> None:
    """What a function does to one object is known from a call with two."""

    @qd.kernel
    def twice(c):
        p, q = Point(c), Point(2.0)
        s = set_x(p, q)
        return s + set_x(q, q)

    with pytest.raises(QuadrantsCompilationError, match='"p" is changed by the function'):
        twice(1.0)


def pair_of_one():
    p = Point(1.0)
    return Pair(p, p)


def store(b, p):
    b.p = p


def lengthened(numbers):
    numbers += [3.0]


def result_that_holds_one_object_twice(c):
    b = pair_of_one()
    b.p.x = c
    return b.q.x


def argument_that_another_one_keeps(c):
    p = Point(c)
    b = Pair(Point(2.0), Point(3.0))
    store(b, p)
    p.x = 7.0
    return b.p.x


def list_that_a_function_adds_to(c):
    numbers = [c, 2.0]
    lengthened(numbers)
    return len(numbers)


def grown_by_another_name(p):
    q = p
    q.x += 1.0


def argument_with_a_second_name(c):
    p = Point(c)
    grown_by_another_name(p)
    return p.x


@pytest.mark.parametrize(
    "function, says",
    [
        (result_that_holds_one_object_twice, "one name in a kernel"),
        (argument_that_another_one_keeps, "one name in a kernel"),
        (list_that_a_function_adds_to, "the list of the caller"),
        (argument_with_a_second_name, '"p" may be or hold'),
    ],
)
def test_refused_across_calls(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(QuadrantsCompilationError, match=says):
        qd.kernel(function)(1.0)
