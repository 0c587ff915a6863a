"""Nested functions that are refused, at the line marked `# <--`, and what lists of kernels do not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import quadrants as qd
from quadrants.errors import QuadrantsCompilationError

MARK = "# <--"


def function_that_calls_itself(n):
    def factorial(k):
        if k < 2:
            return 1
        return k * factorial(k - 1)  # <--

    return factorial(n)


def lambda_that_calls_itself(n):
    # E731: it is the lambda that is refused
    fibonacci = lambda k: k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)  # noqa: E731  # <--
    return fibonacci(n)


def functions_that_call_each_other(n):
    def even(k):
        return True if k < 1 else odd(k - 1)

    def odd(k):
        return False if k < 1 else even(k - 1)  # <--

    return even(n)


def list_in_order(n):
    numbers = [3, n, 5]
    numbers.sort()  # <--
    return numbers[0]


@pytest.mark.parametrize(
    "function, says",
    [
        (function_that_calls_itself, "at the top of the file"),
        (lambda_that_calls_itself, "at the top of the file"),
        (functions_that_call_each_other, "at the top of the file"),
        (list_in_order, "write a loop"),
    ],
)
def test_refused(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(QuadrantsCompilationError, match=says) as caught:
        qd.kernel(function)(3)
    lines, first = inspect.getsourcelines(function)
    marked = {first + number for number, line in enumerate(lines) if MARK in line}
    assert caught.value.location is not None
    assert caught.value.location.line in marked


def test_recursion_that_constants_end() -> None:
    @qd.kernel
    def scaled(n):
        def factorial(k):
            if k < 2:
                return 1
            return k * factorial(k - 1)

        return factorial(5) * n

    assert scaled(2) == 240


def test_static_ranges_unpack() -> None:
    def count(*values):
        return len(values) + 10 * values[-1]

    @qd.kernel
    def counted(n):
        numbers = [n, *range(3)]
        a, b = range(2)
        return count(*range(4)) + 1000 * len(numbers) + 10000 * (a + b)

    assert counted(1) == 14034
