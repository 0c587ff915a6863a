"""Values and views: what assignment copies, what a partial index shares, how vectors and matrices compute."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Executor, FieldOf, Program, mismatch, program

PROGRAMS: list[Program] = []
values = partial(program, PROGRAMS, section="Values and views")


def f32(rows: list) -> np.ndarray:
    return np.array(rows, np.float32)


def f64(rows: list) -> np.ndarray:
    return np.array(rows, np.float64)


def i32(rows: list) -> np.ndarray:
    return np.array(rows, np.int32)


# Values copy.


@values(args=(1.0,), result=(("f32", [1.0, 2.0]), ("f32", [9.0, 2.0])))
def assignment_copies_a_vector(x: qd.f32):
    a = qd.Vector([x, 2.0])
    b = a
    b[0] = 9.0
    return a, b


@values(args=(1.0,), result=("f32", [[1.0, 0.0], [0.0, 1.0]]))
def assignment_copies_a_matrix(x: qd.f32):
    a = qd.Matrix([[x, 0.0], [0.0, x]])
    b = a
    b[0, 1] = 5.0
    return a


@values(args=(1.0,), result=("f32", [1.0, 2.0]))
def augmented_assignment_does_not_reach_the_copy(x: qd.f32):
    a = qd.Vector([x, 2.0])
    b = a
    b += 1.0
    return a


@values(args=(FieldOf("f32", [[1.0, 2.0], [3.0, 4.0]], elements=1),), after={0: f32([[1.0, 2.0], [3.0, 4.0]])})
def element_of_a_vector_field_is_a_value(f):
    w = f[0]
    w *= 0.5
    w[1] = 7.0


@values(args=(FieldOf("f32", [[1.0, 2.0]], elements=1, kind="ndarray"),), after={0: f32([[1.0, 2.0]])})
def element_of_a_vector_ndarray_is_a_value(a):
    w = a[0]
    w *= 0.5


@values(args=(FieldOf("f32", [[1.0, 2.0], [3.0, 4.0]], elements=1),), after={0: f32([[5.0, 2.0], [3.0, 0.5]])})
def store_to_a_component_reaches_the_field(f):
    f[0].x = 5.0
    f[1][1] = 0.5


@values(args=(FieldOf("f32", [[1.0, 2.0], [3.0, 4.0]], elements=1),), after={0: f32([[2.0, 4.0], [3.0, 3.0]])})
def update_of_an_element_reaches_the_field(f):
    f[0] += [1.0, 2.0]
    f[1].y -= 1.0


@values(args=(FieldOf("f32", [[[1.0, 2.0], [3.0, 4.0]]], elements=2),), after={0: f32([[[1.0, 9.0], [3.0, 4.0]]])})
def store_to_an_entry_reaches_the_matrix_field(f):
    m = f[0]
    m[1, 1] = 100.0
    f[0][0, 1] = 9.0


@values(args=(FieldOf("f32", [[1.0, 2.0], [3.0, 4.0]], elements=1),), after={0: f32([[3.0, 4.0], [1.0, 2.0]])})
def elements_of_a_field_swap(f):
    f[0], f[1] = f[1], f[0]


@values(args=(FieldOf("i32", 5),), after={0: i32(12)})
def field_without_axes(f):
    f[None] = f[None] + 1
    f[None] *= 2


# Views of NumPy arrays.


@values(args=(f32([[2.0, 4.0], [6.0, 8.0]]), 1), after={0: f32([[2.0, 4.0], [3.0, 4.0]])})
def row_is_a_view(v, i):
    w = v[i]
    w *= 0.5


@values(args=(f32([[2.0, 4.0], [6.0, 8.0]]),), after={0: f32([[2.0, 7.0], [6.0, 8.0]])})
def store_through_a_row(v):
    w = v[0]
    w[1] = 7.0


@values(args=(f32([[2.0, 4.0], [6.0, 8.0]]),), result=("f32", [3.0, 6.0]), after={0: f32([[2.0, 4.0], [6.0, 8.0]])})
def arithmetic_on_a_row_gives_a_value(v):
    w = v[0] * 1.0
    w *= 1.5
    return w


@values(args=(f32([[2.0, 4.0], [6.0, 8.0]]),), after={0: f32([[6.0, 8.0], [6.0, 8.0]])})
def store_of_a_row_copies_it(v):
    v[0] = v[1]


@values(args=(f64([[[1.0, 2.0], [3.0, 4.0]]]),), after={0: f64([[[1.0, 5.0], [30.0, 40.0]]])})
def matrix_and_its_rows_are_views(v):
    m = v[0]
    m[0, 1] = 5.0
    r = m[1]
    r *= 10.0


@values(args=(f32([[1.0, 2.0, 3.0]]),), after={0: f32([[0.0, 0.0, 0.0]])})
def number_stored_to_a_row_fills_it(v):
    v[0] = 0


@values(args=(f32([[3.0, 4.0], [0.0, 0.0]]),), result=("f32", 5.0), after={0: f32([[3.0, 4.0], [6.0, 8.0]])})
def rows_take_part_in_vector_arithmetic(v):
    v[1] = v[0] + v[0]
    return v[0].norm()


@values(args=(lambda: (np.arange(8, dtype=np.int32)[::2],)), result=(("i32", 4), ("i64", 4)))
def strided_array(a):
    return a[2], len(a)


@values(args=(lambda: (np.arange(4, dtype=np.int32)[::-1],)), result=("i32", 3), after={0: [3, 2, 1, 7]})
def reversed_array(a):
    a[3] = 7
    return a[0]


@values(args=(lambda: (np.arange(6, dtype=np.float32).reshape(2, 3).T,)), result=("f32", [1.0, 4.0]))
def transposed_array(a):
    return a[1] * 1.0


@values(args=(i32([[1, 2, 3], [4, 5, 6]]),), result=(("i64", 2), ("i64", 3), ("i64", 2)))
def sizes_of_an_array(a):
    return a.shape[0], a.shape[1], len(a)


@values(args=(i32([1, 2, 3]),), after={0: i32([2, 1, 2])})
def float_stored_to_an_integer_array_truncates(a):
    a[0] = 2.9
    a[1] += 0.0
    a[1] -= 1
    a[2] = a[2] * 0.9


# Negative indices.


@values(args=(i32([10, 20, 30]), -2), result=(("i32", 30), ("i32", 20)))
def negative_indices_count_from_the_end(a, i):
    return a[-1], a[i]


@values(args=(f32([1.0, 2.0, 3.0]), f32([0.0, 0.0, 0.0])), after={1: f32([2.0, -1.0, -1.0])})
def periodic_difference(u, out):
    for i in range(3):
        out[i] = u[i - 1] - u[i]


@values(args=(FieldOf("i32", [10, 20, 30], kind="ndarray"), -1), result=("i32", 30))
def negative_index_of_an_ndarray(a, i):
    return a[i]


@values(args=(i32([10, 20, 30]), -1), after={0: i32([10, 20, 5])})
def store_at_a_negative_index(a, i):
    a[i] = 5


# Calls.


def _overwrites_vector(v):
    v[0] = 100.0
    v += 1.0
    return v


def _overwrites_number(n):
    n = n + 1
    return n


def _fills(a, value):
    for i in range(len(a)):
        a[i] = value


def _advance(x: qd.template(), by):
    x += by


@values(args=(1.0,), result=(("f32", [1.0, 2.0]), ("f32", [101.0, 3.0])))
def vector_argument_is_by_value(x: qd.f32):
    a = qd.Vector([x, 2.0])
    b = _overwrites_vector(a)
    return a, b


@values(args=(1,), result=(("i64", 1), ("i64", 2)))
def number_argument_is_by_value(n):
    m = _overwrites_number(n)
    return n, m


@values(args=(f32([1.0, 2.0]),), after={0: f32([3.0, 3.0])})
def array_argument_is_by_reference(a):
    _fills(a, 3.0)


@values(args=(FieldOf("f32", [1.0, 2.0]),), after={0: f32([3.0, 3.0])})
def field_argument_is_by_reference(f):
    for i in range(2):
        f[i] = 3.0


@values(args=(10,), result=("i32", 16))
def template_parameter_is_by_reference(n: qd.i32):
    x = n
    _advance(x, 2)
    _advance(x, 4)
    return x


# What is written is named by indices that are computed once, whatever they do.


@values(
    args=(FieldOf("f32", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], elements=1), i32([0])),
    after={0: f32([[7.0, 2.0], [3.0, 14.0], [6.0, 6.0]]), 1: i32([3])},
)
def indices_of_components_are_computed_once(f, c):
    f[qd.atomic_add(c[0], 1)].x = 7.0
    f[qd.atomic_add(c[0], 1)].y += 10.0
    qd.atomic_add(f[qd.atomic_add(c[0], 1)][0], 1.0)


@values(
    args=(i32([0]),),
    after={0: i32([2])},
    result=(("f32", [30.0, 2.0]), ("f32", [3.0, 9.0]), ("f32", [5.0, 6.0])),
)
def indices_of_local_elements_are_computed_once(c):
    one = qd.f32(1)
    m = [qd.Vector([one, 2.0]), qd.Vector([3.0 * one, 4.0]), qd.Vector([5.0 * one, 6.0])]
    m[qd.atomic_add(c[0], 1)][0] = 30.0
    m[qd.atomic_add(c[0], 1)][1] += 5.0
    return m[0], m[1], m[2]


# Vectors and matrices.


@values(args=(2.0,), result=(("f32", [1.0, 2.0]), ("f32", [2.0, 4.0]), ("f32", [3.0, 4.0])))
def numbers_meet_every_element(x: qd.f32):
    v = qd.Vector([1.0, 2.0])
    return v * qd.f32(1), x * v, v + x


@values(result=("f64", [1.0, 2.5]))
def elements_of_a_vector_have_one_dtype():
    return qd.Vector([1, 2.5])


@values(result=("i64", [1, 2]))
def vector_of_weak_integers_is_i64():
    return qd.Vector([1, 2])


@values(result=("f32", [1.0, 2.0]))
def vector_with_a_dtype():
    return qd.Vector([1, 2], qd.f32)


@values(args=(0.5,), result=("f32", [0.5, 2.0]))
def weak_elements_take_the_typed_ones_dtype(x: qd.f32):
    return qd.Vector([x, 2])


@values(args=(f32([1.0, 2.0, 3.0]), f32([4.0, 5.0, 6.0])), result=(("f32", 32.0), ("f32", [-3.0, 6.0, -3.0])))
def dot_and_cross(a, b):
    v = qd.Vector([a[0], a[1], a[2]])
    w = qd.Vector([b[0], b[1], b[2]])
    return v.dot(w), v.cross(w)


@values(args=(3.0, 4.0), result=(("f64", 5.0), ("f64", 25.0), ("f64", 7.0), ("f64", 12.0)))
def norm_and_sums(x: qd.f64, y: qd.f64):
    v = qd.Vector([x, y])
    m = qd.Matrix([[x, 0.0], [1.0, y]])
    return v.norm(), v.norm_sqr(), v.sum(), m.determinant()


@values(args=(2.0,), result=(("f32", [[3.0, 6.0], [4.0, 8.0]]), ("f32", [[3.0, 4.0], [6.0, 8.0]])))
def outer_product_and_transpose(x: qd.f32):
    a = qd.Vector([3.0, 4.0])
    m = a.outer_product(qd.Vector([1.0, x]))
    return m, m.transpose()


@values(args=(2.0,), result=(("f32", [5.0, 11.0]), ("f32", [[7.0, 10.0], [15.0, 22.0]]), ("f32", 5.0)))
def matrix_products(x: qd.f32):
    m = qd.Matrix([[1.0, x], [3.0, 4.0]])
    v = qd.Vector([1.0, x])
    return m @ v, m @ m, m.trace()


@values(args=(4.0,), result=("f64", [[0.25, 0.0], [0.0, 0.5]]), tolerance=1e-15)
def inverse_of_a_matrix(x: qd.f64):
    return qd.Matrix([[x, 0.0], [0.0, 2.0]]).inverse()


@values(args=(1.0,), result=(("f32", [2.0, 1.0]), ("f32", [2.0, 1.0, 3.0]), ("f32", 3.0)))
def swizzles(x: qd.f32):
    v = qd.Vector([x, 2.0, 3.0])
    a = v.yx
    v.xy = a
    return a, v, v.z


@values(args=(2,), result=(("i64", 3), ("i64", [1, 2, 7])))
def run_time_index_of_a_vector(k):
    v = qd.Vector([1, 2, 3])
    old = v[k]
    v[k] = 7
    return old, v


@values(args=(i32([[1, 2], [3, 4]]),), result=("i32", 3))
def vector_as_an_index(a):
    p = qd.Vector([1, 0])
    return a[p]


@values(args=(FieldOf("i32", [[1, 2], [3, 4]]),), result=("i32", 4))
def sum_of_vectors_as_an_index(f):
    base = qd.Vector([0, 1])
    return f[base + qd.Vector([1, 0])]


@values(args=(0.5,), result=("f32", 0.75))
def list_of_vectors(x: qd.f32):
    w = [qd.Vector([x, 1.0]), qd.Vector([0.25, x])]
    return w[0].x + w[1].x


@values(args=(2.0,), result=(("u1", [False, True]), ("f32", [1.0, 2.0])))
def comparison_of_vectors_is_elementwise(x: qd.f32):
    v = qd.Vector([1.0, 3.0])
    return v > x, qd.min(v, x)


@values(args=(5,), result=(("i32", [2, -3]), ("i32", [1, 1])))
def integer_vectors_divide_as_numbers_do(n: qd.i32):
    v = qd.Vector([n, -n])
    return v // 2, v % 2


@values(args=(2.6,), result=("i32", [2, -2]))
def cast_of_a_vector(x: qd.f32):
    return qd.cast(qd.Vector([x, -x]), qd.i32)


@values(result=(("f32", [[1.0, 0.0], [0.0, 1.0]]), ("i32", [0, 0, 0])))
def constant_matrices():
    return qd.Matrix.identity(qd.f32, 2), qd.Vector.zero(qd.i32, 3)


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_values(item: Program, executor: Executor) -> None:
    assert mismatch(item, executor.run(item)) is None
