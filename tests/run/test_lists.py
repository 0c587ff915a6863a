"""Lists of numbers: a function that is given one changes the caller's, as in Python."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
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
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def push(stack, top, x):
    stack[top] = x
    return top + 1


def pop(stack, top):
    return stack[top - 1], top - 1


def test_a_stack_with_helpers(executor: TargetExecutor) -> None:
    def sums(out):
        for i in range(len(out)):
            stack = [0] * 8
            top = 0
            for j in range(i + 1):
                top = push(stack, top, j * j)
            s = 0
            while top > 0:
                x, top = pop(stack, top)
                s += x * top
            out[i] = s

    same_as_python(executor, sums, np.zeros(6))


def exchange(values, i, j):
    values[i], values[j] = values[j], values[i]


def sort(values):
    for _ in range(len(values)):
        for j in range(len(values) - 1):
            if values[j] > values[j + 1]:
                exchange(values, j, j + 1)


def test_functions_that_pass_a_list_on(executor: TargetExecutor) -> None:
    def sorted_triples(a, out):
        for i in range(len(out)):
            triple = [a[i], a[i + 1], a[i + 2]]
            sort(triple)
            out[i] = triple[0] + 10 * triple[1] + 100 * triple[2]

    same_as_python(executor, sorted_triples, np.random.default_rng(0).random(8), np.zeros(6))


def with_own_list(values):
    values = [x + 1 for x in values]
    values[0] = 100
    return values[0] + values[1]


def test_a_list_of_its_own(executor: TargetExecutor) -> None:
    def sums(out):
        for i in range(len(out)):
            pair = [i, 2 * i]
            out[i] = with_own_list(pair) + pair[0]

    same_as_python(executor, sums, np.zeros(4))


def scaled(v, factor):
    v[0] *= factor
    return v


def test_vectors_are_values(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def both(out: qd.types.ndarray()):
        v = qd.Vector([1.0, 2.0])
        w = scaled(v, 3.0)
        out[0] = v[0]
        out[1] = w[0]

    out = np.zeros(2)
    both(out)
    assert out.tolist() == [1.0, 3.0]


@qd.func
def set_element(v: qd.template(), i: int, x: float):
    v[i] = x


def test_templates_that_are_changed_at_an_index_of_run_time(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def fill(out: qd.types.ndarray()):
        v = qd.Vector([0.0, 0.0, 0.0])
        for i in range(3):
            set_element(v, i, i + 1.0)
        for i in range(3):
            out[i] = v[i]

    out = np.zeros(3)
    fill(out)
    assert out.tolist() == [1.0, 2.0, 3.0]


@qd.func
def add_to(x: qd.template(), v: qd.template(), by):
    x += by
    v[1] = x


def test_templates_that_begin_as_constants(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def sums(out: qd.types.ndarray(), n: int):
        for i in range(out.shape[0]):
            x = 1.0
            v = qd.Vector([0.0, 0.0])
            for j in range(n):
                add_to(x, v, j)
            out[i] = v[1] + 100 * x

    out = np.zeros(3)
    sums(out, 4)
    assert out.tolist() == [707.0] * 3


def test_iterators_made_at_compile_time(executor: TargetExecutor) -> None:
    offsets = ((1, 0), (0, 1))

    def total(out):
        for k, offset in qd.static(enumerate(offsets)):
            out[k] = offset[0] + 2 * offset[1]
        for a, b in qd.static(zip((1, 2), (3, 4))):
            out[2] += a * b

    same_as_python(executor, total, np.zeros(3))


def test_elements_of_small_rows_in_comprehensions(executor: TargetExecutor) -> None:
    def norms(rows, out):
        for i in range(len(rows)):
            out[i] = sum(x * x for x in rows[i]) + max(abs(x - 5) for x in rows[i]) + any(x > 8 for x in rows[i])

    same_as_python(executor, norms, np.arange(12.0).reshape(4, 3), np.zeros(4))


def test_pairs_that_are_counted(executor: TargetExecutor) -> None:
    def differences(a, b):
        for i, (x, y) in enumerate(zip(a, b)):
            a[i] = x - 2 * y

    same_as_python(executor, differences, np.arange(5.0), np.arange(5.0))


Pair = collections.namedtuple("Pair", "x y")


def test_elements_are_read_when_they_are_put_into_something(executor: TargetExecutor) -> None:
    def overwritten(a, out):
        changed = [0.0, 1.0]
        changed[0] = a[1]
        pair = Pair(a[1], y=a[0])
        grown = []
        grown.append(a[1])
        grown.extend([a[2], 7.0])
        a[0] = a[1] = a[2] = 50.0
        out[0] = changed[0] + 10 * pair.x + 100 * pair.y + 1000 * grown[0] + 10000 * grown[1] + len(grown)

    same_as_python(executor, overwritten, np.arange(4.0) + 1, np.zeros(1))


def test_lists_grow_on_the_path_that_is_taken(executor: TargetExecutor) -> None:
    def grown(a, out):
        for i in range(len(out)):
            values = [1.0]
            if a[i] > 1.5:
                values.append(a[i])
            else:
                values.append(-1.0)
            out[i] = values[0] + values[1]

    same_as_python(executor, grown, np.arange(4.0), np.zeros(4))


def test_two_names_for_one_list_are_refused() -> None:
    @qd.kernel
    def alias(out):
        first = [0, 1]
        second = first
        second[0] = 5
        out[0] = first[0]

    with pytest.raises(qd.QuadrantsCompilationError, match='"second" and "first" would be one list'):
        alias(np.zeros(1))


def test_a_list_that_a_nested_function_changes_is_refused() -> None:
    @qd.kernel
    def nested(out):
        pair = [0, 1]

        def put(values, x):
            values[0] = x

        put(pair, 7)
        out[0] = pair[0]

    with pytest.raises(qd.QuadrantsCompilationError, match='changes the list "values" that it is given'):
        nested(np.zeros(1))


def test_copies_of_parts_of_arrays_are_not_changed_in_place() -> None:
    @qd.kernel
    def of_two(a, b):
        for i in range(2):
            row = a[i] if i == 0 else b[i]
            row *= 0.5

    @qd.kernel
    def slice_of_row(a, b):
        for i in range(2):
            row = a[i, :2]
            for j in range(2):
                row[j] = b[i, j]

    for kernel, line in ((of_two, "row [*]= 0.5"), (slice_of_row, r"row\[j\] = ")):
        with pytest.raises(qd.QuadrantsCompilationError, match=rf'"row" would be a part of an array[^$]*{line}'):
            kernel(np.ones((2, 3)), np.ones((2, 3)))


def test_part_of_a_list_with_a_second_name_is_refused() -> None:
    @qd.kernel
    def alias(out):
        rows = [[1, 2], [3, 4]]
        last = rows[1]
        last[0] = 7
        out[0] = rows[1][0]

    with pytest.raises(qd.QuadrantsCompilationError, match=r'"last" and "rows\[1\]" would be one list'):
        alias(np.zeros(1))


def test_lists_that_change_their_length(executor: TargetExecutor) -> None:
    def lengths(out):
        numbers = [3, 1, 2]
        last = numbers.pop()
        numbers.insert(0, 5)
        first = numbers.pop(0)
        numbers.insert(len(numbers), last + 5)
        out[0] = 1000 * first + 100 * len(numbers) + 10 * last + numbers[-1]

    same_as_python(executor, lengths, np.zeros(1))


def test_containers_known_at_compile_time(executor: TargetExecutor) -> None:
    def look(out):
        table = {"weights": (2, 3), "n": 4}
        for i in range(2):
            out[i] = table["weights"][i] + table.get("other", 10) + (table["n"] in range(0, 9, 2)) * 100
            for k, v in table.items():
                out[i] += 1000 * len(k)
            out[i] += list(range(3, 9))[2]

    same_as_python(executor, look, np.zeros(2))


def test_types_of_arrays_are_those_of_numpy(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def width(a):
        if a.dtype == np.float32 or a.dtype == np.dtype("int32"):
            return 4
        if a.dtype == np.float64 and np.finfo(a.dtype).eps < 1e-12:
            return 8
        return np.iinfo(np.int8).max

    assert [width(np.zeros(1, kind)) for kind in ("f4", "f8", "i4", "i8")] == [4, 8, 4, 127]


def test_pairs_of_itertools(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def total():
        s = 0
        for a, b in qd.static(itertools.combinations((1, 2, 3), 2)):
            s += a * b
        return s

    assert total() == 11


def test_a_tuple_is_no_list(executor: TargetExecutor) -> None:
    def compares(out):
        x = out[0]
        out[0] = ((x, 2) == [x, 2]) + 2 * ((x, 2) != [x, 2]) + 4 * ((x, 2) == (x, 2)) + 8 * ([x, 2] == [x, 2])
        out[0] += 16 * (tuple([x, 2]) == (x, 2)) + 32 * (list((x, 2)) == [x, 2]) + 64 * ([1, 2] == (1, 2))
        out[0] += 128 * ((1, 2) in [(1, 2), (x, 2)]) + 256 * ([x, 2] in ((x, 2), (1, 2)))

    same_as_python(executor, compares, np.zeros(1))
