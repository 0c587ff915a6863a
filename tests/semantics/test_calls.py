"""Calls, results, lazy operators, strings and assertions."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Executor, FieldOf, Program, mismatch, program

PROGRAMS: list[Program] = []
calls = partial(program, PROGRAMS, section="Calls, results, strings, exceptions")


TYPED_FLOAT = np.float32(1.5)
TYPED_INTEGER = np.int16(3)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# Functions.


def _line(x, slope=2, offset=1):
    return slope * x + offset


def _sum_of(*numbers):
    total = 0
    for n in qd.static(numbers):
        total += n
    return total


def _factorial(n):
    if n <= 1:
        return 1
    return n * _factorial(n - 1)


def _is_even(n):
    if n == 0:
        return True
    return _is_odd(n - 1)


def _is_odd(n):
    if n == 0:
        return False
    return _is_even(n - 1)


def _ordered(a, b):
    if a < b:
        return a, b
    return b, a


def _applied(function, x):
    return function(function(x))


def _plus_three(x):
    return x + 3


def _sign(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


def _clamped(x: qd.f32) -> qd.i32:
    return x


@qd.func
def _decorated(x, y):
    return x * y + 1


@calls(args=(5,), result=(("i64", 11), ("i64", 16), ("i64", 18), ("i64", 5)))
def positional_keyword_and_default_arguments(n):
    return _line(n), _line(n, 3), _line(n, offset=8), _line(slope=0, x=n, offset=5)


@calls(args=(1, 2, 3), result=(("i64", 6), ("i64", 0)))
def star_arguments(a, b, c):
    return _sum_of(a, b, c), _sum_of()


@calls(args=(10,), result=("i64", 3628800))
def recursion(n):
    return _factorial(n)


@calls(args=(7,), result=(("u1", False), ("u1", True)))
def mutual_recursion(n):
    return _is_even(n), _is_odd(n)


@calls(args=(5, 3), result=(("i64", 3), ("i64", 5)))
def tuple_result_is_unpacked(a, b):
    low, high = _ordered(a, b)
    return low, high


@calls(args=(5, 3), result=(("i64", 3), ("i64", 5)))
def tuple_result_is_returned(a, b):
    return _ordered(a, b)


@calls(args=(4,), result=("i64", 10))
def function_as_a_value(n):
    return _applied(_plus_three, n)


@calls(args=(4,), result=("i64", 25))
def nested_function(n):
    def square(x):
        return x * x

    return square(n + 1)


@calls(args=(4, 3), result=("i64", 13))
def nested_function_captures_names(n, m):
    def scaled(x):
        return n * x + 1

    return scaled(m)


@calls(args=(-2.5, 0.0, 3.0), result=(("i64", -1), ("i64", 0), ("i64", 1)))
def early_return(x: qd.f32, y: qd.f32, z: qd.f32):
    return _sign(x), _sign(y), _sign(z)


@calls(args=(2.75,), result=("i32", 2))
def result_is_converted_to_the_annotation(x: qd.f32):
    return _clamped(x)


@calls(args=(2.0,), result=("f32", 7.0))
def decorated_function(x: qd.f32):
    return _decorated(x, 3)


@calls(args=(3, 0.5), result=(("i64", 4), ("f32", 1.75)))
def function_is_specialised_on_types(n, x: qd.f32):
    return _decorated(n, 1), _decorated(x, 1.5)


# Results of kernels.


@calls(args=(2.5,), result=("i32", 2))
def kernel_result_is_converted_to_the_annotation(x: qd.f64) -> qd.i32:
    return x


@calls(args=(1, 2.5), result=(("i64", 2), ("f32", 2.5), ("u1", True)))
def tuple_of_different_dtypes(n, x: qd.f32):
    return n + 1, x, n < 2


@calls(args=(1.0,), result=(("f32", [1.0, 2.0]), ("f32", [[1.0, 0.0], [0.0, 1.0]])))
def vectors_and_matrices_as_results(x: qd.f32):
    return qd.Vector([x, 2.0]), qd.Matrix([[x, 0.0], [0.0, x]])


@calls(args=(3,), result=(("f32", 3.0), ("i32", 8)))
def tuple_result_is_converted_to_the_annotation(n) -> tuple[qd.f32, qd.i32]:
    return n, n * 2.9


@calls(result=(("f32", 3.0), ("i16", 4)))
def typed_constants_as_results():
    return TYPED_FLOAT * 2, TYPED_INTEGER + 1


@calls(args=(1,))
def no_result(n):
    m = n + 1


@calls(args=(i32(3), 5), after={0: i32(3)})
def bare_return_ends_the_kernel(a, n):
    if n > 3:
        return
    a[0] = n


@calls(args=(3,), result=("i64", 3))
def one_of_several_returns(n):
    if n > 5:
        return 5
    elif n > 2:
        return n
    else:
        return 0


# Lazy operators.


@calls(args=(i32(1, 2, 3), 3), result=(("u1", False), ("u1", True)))
def and_or_are_lazy(a, i):
    return i < len(a) and a[i] > 0, i >= len(a) or a[i] > 0


@calls(args=(i32(1, 2, 3), 3), result=("i32", -1), joins=True)
def conditional_expression_is_lazy(a, i):
    return a[i] if i < len(a) else -1


@calls(args=(1, 0.5), result=("f32", 1.0), joins=True)
def conditional_expression_joins_its_types(n, x: qd.f32):
    return x + 1.5 if n > 1 else n


def _floor_or_zero(x):
    if x > 0.0:
        return x
    return 0


@calls(args=(-1.5,), result=("f32", 0.0), joins=True)
def returns_join_their_types(x: qd.f32):
    return _floor_or_zero(x)


def _counted(a, truth):
    a[0] += 1
    return truth


@calls(args=(i32(0),), result=("u1", False), after={0: i32(1)})
def right_side_of_and_is_not_called(a):
    return _counted(a, 1 > 2) and _counted(a, 1 < 2)


@calls(args=(3,), result=("u1", True))
def chained_comparison_is_lazy(n):
    return not (n < 2 < 1 // 1)


# Builtins and mathematical functions.


@calls(args=(-3, 2.5), result=(("i64", 3), ("f32", 2.5), ("i64", 2), ("i64", 7)))
def builtin_functions(n, x: qd.f32):
    return abs(n), max(x, n), min(5, 2, 9), sum((1, 2, 4))


@calls(args=(7, 3), result=(("i64", 2), ("i64", 1), ("i64", 343)))
def divmod_and_pow(a, b):
    q, r = divmod(a, b)
    return q, r, pow(a, b)


@calls(args=(f32(1.0, 2.0, 3.0),), result=("f32", 8.0))
def enumerate_and_zip(a):
    s = qd.f32(0)
    for k, w in qd.static(enumerate((1, 2, 1))):
        s += w * a[k]
    return s


@calls(args=(0.25,), result=(("f32", 0.5), ("f32", 0.5), ("f32", 0.5)))
def square_root_by_any_name(x: qd.f32):
    return qd.sqrt(x), math.sqrt(x), np.sqrt(x)


@calls(args=(2.0,), result=(("f32", 6.2831854820251465), ("f64", 3.141592653589793)))
def constants_are_weak(x: qd.f32):
    return math.pi * x, np.pi


@calls(args=(0.0,), result=(("f64", 0.0), ("f64", 1.0), ("f64", 1.0), ("f64", 0.0)))
def elementary_functions(x: qd.f64):
    return qd.sin(x), qd.cos(x), qd.exp(x), qd.log(qd.exp(x))


@calls(args=(1.0, 3), result=("f32", 4.0))
def numpy_dtypes_cast(x: qd.f32, n: qd.i64):
    return np.float32(n) + x


@calls(args=(2.0, 5.0), result=(("f32", 5.0), ("f32", 2.0), ("f32", 5.0)))
def select_evaluates_both(x: qd.f32, y: qd.f32):
    return qd.select(x < y, y, x), qd.min(x, y), np.maximum(x, y)


# Arguments.


@calls(args=(FieldOf("i32", [1, 2, 3]),), result=("i64", 3))
def length_of_a_field(f):
    return f.shape[0]


@calls(args=(i32(1, 2), 1.5, 2), result=("f64", 4.5))
def mixed_arguments(a, x, n):
    return a[1] * x + n - 0.5


# Assertions and output.


@calls(args=(3,), result=("i64", 3))
def assertion_that_holds(n):
    assert n > 2, "n is small"
    return n


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_calls(item: Program, executor: Executor) -> None:
    assert mismatch(item, executor.run(item)) is None


def _prints(n, x: qd.f32):
    print("n =", n, f"x = {x:.2f}")


def test_print_with_formats(executor: Executor, capfd: pytest.CaptureFixture[str]) -> None:
    executor.launcher(_prints)(3, 1.5)
    if executor.name != "oracle":
        qd.sync()
    assert "n = 3 x = 1.50\n" in capfd.readouterr().out


def _prints_in_other_ways(n, x: qd.f32):
    print("a {} b {:.1f}".format(n, x), n > 2, sep=", ", end=".\n")
    print()
    print("100%", qd.Vector([n, 2]))


def test_print_with_separators_and_format_calls(executor: Executor, capfd: pytest.CaptureFixture[str]) -> None:
    executor.launcher(_prints_in_other_ways)(3, 1.5)
    assert "a 3 b 1.5, True.\n\n100% [3, 2]\n" in capfd.readouterr().out
