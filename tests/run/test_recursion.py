"""Functions that call themselves and each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor


def same_as_python(executor: TargetExecutor, function: Callable[..., Any], *arguments: Any) -> None:
    """The kernel gives the results of the plain function, and leaves the arrays as it does."""
    plain = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    executor.initialise(qd)
    assert qd.kernel(function)(*arguments) == function(*plain)
    for ours, theirs in zip(arguments, plain):
        np.testing.assert_array_equal(ours, theirs)


def quick(a, low, high):
    if low < high:
        pivot = a[(low + high) // 2]
        i = low
        j = high
        while i <= j:
            while a[i] < pivot:
                i += 1
            while a[j] > pivot:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        quick(a, low, j)
        quick(a, i, high)


def test_a_function_without_a_result(executor: TargetExecutor) -> None:
    def sort(a):
        quick(a, 0, len(a) - 1)

    same_as_python(executor, sort, np.random.default_rng(0).random(50))


def hanoi(n, source, spare, goal, moves):
    if n > 0:
        hanoi(n - 1, source, goal, spare, moves)
        moves[source, goal] += 1
        hanoi(n - 1, spare, source, goal, moves)


def test_counting_moves(executor: TargetExecutor) -> None:
    def play(n, moves):
        hanoi(n, 0, 1, 2, moves)

    same_as_python(executor, play, 5, np.zeros((3, 3), np.int64))


def flood(image, x, y, old, new):
    if x < 0 or y < 0 or x >= image.shape[0] or y >= image.shape[1]:
        return
    if image[x, y] != old:
        return
    image[x, y] = new
    flood(image, x + 1, y, old, new)
    flood(image, x - 1, y, old, new)
    flood(image, x, y + 1, old, new)
    flood(image, x, y - 1, old, new)


def test_early_returns_without_a_result(executor: TargetExecutor) -> None:
    def fill(image):
        flood(image, 0, 0, image[0, 0], 7)

    same_as_python(executor, fill, (np.random.default_rng(0).random((7, 6)) < 0.7).astype(np.int32))


def one(n):
    if n == 0:
        return 1
    return one(n - 1)


def test_a_result_that_is_always_the_same(executor: TargetExecutor) -> None:
    def always(n):
        return one(n)

    same_as_python(executor, always, 5)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def test_two_functions_in_turn(executor: TargetExecutor) -> None:
    def parity(n):
        return is_even(n)

    same_as_python(executor, parity, 7)


def fibonacci(n):
    if n < 2:
        return n, 1.0
    a, x = fibonacci(n - 1)
    b, y = fibonacci(n - 2)
    return a + b, x + y


def test_tuples(executor: TargetExecutor) -> None:
    def pair(n):
        return fibonacci(n)

    same_as_python(executor, pair, 9)
