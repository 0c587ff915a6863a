"""What a call changes of a list or an object is changed wherever the call stands: in a lazy operand, in the test of a loop, in
a comprehension, in a chain of comparisons. The plain function is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor


@dataclass
class Counter:
    count: float

    def next(self) -> float:
        self.count += 1.0
        return self.count


def raised(numbers):
    numbers[0] += 1.0
    return numbers[0]


def lazily(counter, limit):
    return limit > 0 and counter.next() > 2 and counter.next() > 0


def operands(out):
    for i in range(len(out)):
        counter, numbers = Counter(i), [float(i)]
        if i > 1 or counter.next() > 1:
            out[i] += counter.count
        out[i] += 10 * (counter.next() if counter.next() > 2 else 7.0)
        if counter.next() > 0 and counter.next() > 5:
            out[i] += 100
        out[i] += 1000 * (raised(numbers) if i == 1 else 5.0) + 10000 * numbers[0]
        for k in range(3):
            if lazily(counter, k - 1) or raised(numbers) > 4:
                out[i] += 0.125 * k
        named = 0.0
        if i > 0 and (named := counter.next()) > 0:
            out[i] += 0.25
        out[i] += counter.count / 64 + numbers[0] / 256 + named / 1024


def loops_that_call(out):
    for i in range(len(out)):
        counter, numbers, rounds = Counter(i), [float(i)], 0
        while counter.next() < 6:
            rounds += 1
        while raised(numbers) < 5 and raised(numbers) > 0:
            rounds += 10
            if rounds > 25:
                break
        else:
            out[i] += 1000
        while (named := counter.next()) < 11:
            rounds += 100
            if named == 9 + i:
                break
        else:
            out[i] += 2000
        out[i] += rounds + counter.count / 64 + numbers[0] / 256 + named / 1024


def comprehensions(out):
    for i in range(len(out)):
        counter, numbers, named = Counter(i), [1.0, 2.0, 4.0], 0.0
        drawn = [counter.next() for _ in range(3)]
        out[i] += drawn[0] * drawn[2] + sum(counter.next() * counter.next() for k in range(2) if k < 5)
        out[i] += 100 * sum(numbers.pop() for _ in range(2)) + 1000 * len(numbers)
        for _ in range(2):
            squares = [(named := named + k) ** 2 for k in range(3)]
        k, doubled = 3, [k * 2 for k in range(2)]
        out[i] += counter.count / 64 + named / 256 + squares[1] / 512 + (k + doubled[1]) / 1024


def chains(out):
    for i in range(len(out)):
        counter = Counter(i)
        if 1 < counter.next() < counter.next() < counter.next():
            out[i] += 10
        if out[i] < i - 1 <= counter.next():
            out[i] += 100
        out[i] += counter.count


@dataclass
class Pair:
    first: Counter
    second: float

    def doubled(self, summand: float) -> float:
        self.second *= 2
        return self.second + summand


def doubled(counter, summand):
    counter.count *= 2
    return counter.count + summand


def arguments_changed_by_later_ones(out):
    for i in range(len(out)):
        counter, pair = Counter(i), Pair(Counter(i + 1), 1.0)
        out[i] = doubled(counter, counter.next()) + 10 * doubled(pair.first, pair.first.next())
        out[i] += 100 * doubled(summand=1.0, counter=Counter(counter.next()))
        both = [counter.count, counter.next(), counter.count]
        out[i] += 1000 * (both[0] + 2 * both[2]) + counter.count / 64 + pair.first.count / 256
        out[i] += pair.doubled(raised_second(pair)) / 512


def raised_second(pair):
    pair.second += 1.0
    return pair.second


def three(out):
    out[3] += 3.0


def five(out):
    out[3] += 5.0


def statements_that_are_conditions(out):
    three(out) if out[0] > 0 else five(out)
    three(out) if out[1] > 0 else None


def functions_that_return_from_loops(out):
    counter = Counter(1.0)

    def first(limit):
        for k in range(limit):
            if counter.next() > 3:
                return k
        return 9

    out[0] = first(5)
    out[1] = counter.count


def another(counter):
    return Counter(counter.count + 1)


def replaced(counter):
    counter = Counter(counter.count)
    for _ in range(3):
        counter.next()
    return counter.count


def stepped(counter):
    while counter.count < 4:
        counter = another(counter)
        counter.count += 0.5
    return counter.count


def parameters_bound_to_others(out):
    for i in range(len(out)):
        counter = Counter(i)
        out[i] = replaced(counter) + 10 * stepped(counter) + 100 * counter.count


@pytest.mark.parametrize(
    "function",
    [
        operands,
        loops_that_call,
        comprehensions,
        chains,
        arguments_changed_by_later_ones,
        statements_that_are_conditions,
        functions_that_return_from_loops,
        parameters_bound_to_others,
    ],
)
def test_changes(executor: TargetExecutor, function: Callable[..., Any]) -> None:
    short = executor.arch == "metal"
    expected, found = np.zeros(4), np.zeros(4, "f4" if short else "f8")
    function(expected)
    executor.initialise(qd, ("i64", "f32" if short else "f64"))
    qd.kernel(function)(found)
    np.testing.assert_allclose(found, expected, 1e-6 if short else 1e-12)


def test_atomics_of_local_names(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def counted(out):
        for i in range(len(out)):
            count = 2
            if i > 0 and qd.atomic_add(count, 3) == 2:
                out[i] = qd.atomic_add(count, 1) if i > 1 else 7
            out[i] = out[i] * 10 + count

    found = np.zeros(3, np.int32)
    counted(found)
    assert found.tolist() == [2, 75, 56]


@pytest.mark.parametrize(
    "function", [operands, loops_that_call, comprehensions, chains, arguments_changed_by_later_ones]
)
def test_changes_in_debug_mode(function: Callable[..., Any]) -> None:
    expected, found = np.zeros(4), np.zeros(4)
    function(expected)
    qd.init(arch=qd.cpu, debug=True)
    qd.kernel(function)(found)
    np.testing.assert_allclose(found, expected, 1e-12)
