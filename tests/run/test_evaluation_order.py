"""Operands are read when Python reads them: before what stands to their right runs."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(params=["x64", "reference"], autouse=True)
def target(request):
    qd.init(arch=getattr(qd, request.param), default_ip=qd.i64, default_fp=qd.f64)
    yield
    qd.reset()


def test_left_operand_is_read_before_the_right_one_writes():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[1] = a[0] + qd.atomic_add(a[0], 5)

    values = np.array([1, 0])
    run(values)
    assert values.tolist() == [6, 2]


def test_argument_is_read_before_a_later_one_writes():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[1] = max(a[0], qd.atomic_add(a[0], 5))

    values = np.array([1, 0])
    run(values)
    assert values.tolist() == [6, 1]


def test_comparison_reads_its_left_side_first():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[1] = 1 if a[0] == qd.atomic_add(a[0], 5) else 2

    values = np.array([1, 0])
    run(values)
    assert values.tolist() == [6, 1]


def test_element_of_a_field_without_axes_is_a_copy():
    x = qd.field(qd.f32, ())
    x[None] = 3.0

    @qd.kernel
    def run():
        before = x[None]
        x[None] = 7.0
        return before

    assert run() == 3.0
    assert x[None] == 7.0


def test_tuple_assignment_reads_all_before_it_writes():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[0], a[1] = a[1], a[0]

    values = np.array([1, 2])
    run(values)
    assert values.tolist() == [2, 1]


def test_value_is_read_before_the_targets_index_writes():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[qd.atomic_add(a[1], 1)] = a[1]

    values = np.array([5, 0])
    run(values)
    assert values.tolist() == [0, 1]


def test_index_of_an_augmented_target_is_computed_once_and_before_the_value():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[qd.atomic_add(a[3], 1)] += 10 * a[3]
            a[qd.atomic_add(a[3], 1)] //= a[3]

    values = np.array([100, 101, 7, 0])
    run(values)
    assert values.tolist() == [110, 50, 7, 2]


def test_index_of_a_component_is_computed_once_and_before_the_value():
    @qd.kernel
    def run(a):
        v = qd.Vector([1, 2, 3])
        for _ in range(1):
            v[qd.atomic_add(a[0], 1)] += 10 * a[0]
            v[a[0]] -= a[1]
        return v

    values = np.array([1, 9])
    assert run(values).to_list() == [1, 22, -6]
    assert values.tolist() == [2, 9]


@qd.func
def _advance(x: qd.template(), by):
    x += by


def test_index_of_what_a_call_changes_is_computed_once():
    @qd.kernel
    def run(a):
        m = qd.Matrix([[1, 2], [3, 4], [5, 6]])
        for _ in range(1):
            _advance(m[qd.atomic_add(a[0], 1), 0], 10)
            qd.atomic_add(m[qd.atomic_add(a[0], 1), 1], 20)
        return m

    values = np.array([0, 0])
    assert run(values).to_list() == [[11, 2], [3, 24], [5, 6]]
    assert values.tolist() == [2, 0]


def test_index_of_a_vector_whose_method_changes_it_is_computed_once():
    @qd.kernel
    def run(a):
        rows = [qd.Vector([1, 2]), qd.Vector([3, 4])]
        for _ in range(1):
            rows[qd.atomic_add(a[0], 1)].fill(7)
        return rows[0], rows[1]

    values = np.array([0, 0])
    first, second = run(values)
    assert (first.to_list(), second.to_list(), values.tolist()) == ([7, 7], [3, 4], [1, 0])


def _weighted(x, y):
    return 10 * x + y


def test_element_given_by_name_is_read_before_a_later_argument_writes():
    @qd.kernel
    def run(a):
        for _ in range(1):
            a[1] = _weighted(x=a[0], y=qd.atomic_add(a[0], 5))
            a[2] = _weighted(a[0], y=qd.atomic_add(a[0], 5))

    values = np.array([1, 0, 0])
    run(values)
    assert values.tolist() == [11, 11, 66]


def test_what_a_function_changes_comes_back_to_who_gave_it_by_name():
    @qd.func
    def put(numbers):
        numbers[0] = 9

    @qd.kernel
    def run(a):
        v, n, numbers = qd.Vector([1, 2]), 3, [4, 5]
        for _ in range(a[0]):
            _advance(by=10, x=v)
            _advance(x=n, by=10)
            _advance(x=v[qd.atomic_add(a[1], 1)], by=100)
            put(numbers=numbers)
        return v[0], v[1], n, numbers[0]

    values = np.array([2, 0])
    assert run(values) == (121, 122, 23, 9)
    assert values.tolist() == [2, 2]


def test_atomic_updates_take_their_arguments_by_name():
    @qd.kernel
    def run(a):
        m = qd.Matrix([[1, 2], [3, 4]])
        for _ in range(1):
            qd.atomic_add(y=5, x=a[0])
            a[1] = qd.atomic_cas(x=a[2], desired=8, expected=7)
            qd.atomic_sub(x=m[a[3], 1], y=1)
        return m

    values = np.array([1, 0, 7, 1])
    assert run(values).to_list() == [[1, 2], [3, 3]]
    assert values.tolist() == [6, 7, 8, 1]
