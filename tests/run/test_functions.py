"""Functions, tuples, static evaluation and results on every target, against Python itself."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import FieldOf, Program, TargetExecutor, disagreement, program

PROGRAMS: list[Program] = []
runs = partial(program, PROGRAMS)
TABLE = ((1, 2, 3), (4, 5, 6))
STENCIL = {(0, 0): -4.0, (0, 1): 1.0, (1, 0): 1.0}
LIMIT = 10


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def quadratic(a, b, c):
    d = b * b - 4 * a * c
    if d < 0:
        return False, 0.0, 0.0
    root = math.sqrt(d)
    return True, (-b - root) / (2 * a), (-b + root) / (2 * a)


def with_defaults(x, scale=2, *, shift=1):
    return x * scale + shift


def smallest_divisor(n):
    for d in range(2, n):
        if n % d == 0:
            return d
    return n


def bump(x: qd.template()):
    x += 1
    return x * 2


def both(x: qd.template(), y: qd.template()):
    x, y = y, x + y


def add_row(a, i, by):
    for j in range(a.shape[1]):
        a[i, j] += by


@qd.func
def saxpy_element(a, x, y):
    return a * x + y


@runs(args=(12,))
def recursive_fibonacci(n):
    return fibonacci(n)


@runs(args=(2, 3))
def recursive_ackermann(m, n):
    return ackermann(m, n)


@runs(args=(np.zeros(20, np.int32),))
def recursion_in_a_parallel_loop(out):
    for i in range(20):
        out[i] = fibonacci(i % 10)


@runs(args=(1.0, -3.0, 2.0), tolerance=1e-15)
def tuple_with_a_truth_value(a, b, c):
    found, low, high = quadratic(a, b, c)
    return found, low, high


@runs(args=(1.0, 0.0, 2.0))
def early_return_of_a_tuple(a, b, c):
    found, low, high = quadratic(a, b, c)
    return found, low, high


@runs(args=(5,))
def keywords_and_defaults(n):
    return with_defaults(n), with_defaults(n, 3), with_defaults(x=n, shift=7), with_defaults(n, scale=0, shift=n)


@runs(args=(np.arange(2, 40, dtype=np.int32),))
def function_with_a_loop_and_early_return(a):
    for i in range(len(a)):
        a[i] = smallest_divisor(a[i])


@runs(args=(10,))
def template_parameters(n: qd.i32):
    x = n
    y = bump(x)
    z = bump(x)
    both(x, y)
    return x, y, z


@runs(args=(np.zeros((3, 4), np.int32),))
def function_that_writes_an_array(a):
    for i in range(3):
        add_row(a, i, 10 * i)


@runs(args=(FieldOf("f32", np.arange(5.0)), FieldOf("f32", np.ones(5))))
def decorated_function_over_fields(x, y):
    for i in x:
        y[i] = saxpy_element(2.0, x[i], y[i])


@runs(args=(4,))
def nested_functions(n):
    offset = 100

    def outer(x):
        def inner(y):
            return y * y + offset

        return inner(x) + inner(x + 1)

    return outer(n)


@runs(args=(5,))
def nested_function_sees_the_latest_value(n):
    k = 1

    def scaled(x):
        return k * x

    first = scaled(n)
    k = 10
    return first, scaled(n)


@runs(args=(3,))
def functions_in_a_tuple(n):
    total = 0
    for f in qd.static((fibonacci, smallest_divisor)):
        total += f(n + 4)
    return total


@runs(args=(1, 2))
def table_of_constants(i, j):
    total = 0
    for row in qd.static(range(2)):
        for column in qd.static(range(3)):
            if row == i and column == j:
                total = TABLE[row][column]
    return total


@runs(args=(2.0,))
def static_items_of_a_dictionary(x: qd.f32):
    total = 0.0
    for key, weight in qd.static(STENCIL.items()):
        total += weight * x + key[0]
    return total


@runs(args=(np.zeros(3, np.int32),))
def tuples_unpack_and_nest(out):
    pair = (1, (2, 3))
    a, (b, c) = pair
    out[0], out[1], out[2] = c, b, a


@runs(args=(7, 3))
def tuple_elements_by_index(a, b):
    t = (a + b, a - b, a * b)
    s = 0
    for k in qd.static(range(len(t))):
        s += t[k]
    return s, t[-1]


@runs(args=(4,))
def comprehension_over_a_static_range(n):
    squares = [k * n for k in range(4)]
    return squares[0] + squares[3]


@runs(args=(np.arange(6, dtype=np.float32),), tolerance=1e-6)
def builtins_on_elements(a):
    for i in range(len(a)):
        a[i] = max(min(a[i], 4.0), 1.0) + abs(a[i] - 3.0) + pow(a[i], 2)


@runs(args=(2.5, -7))
def conversions(x: qd.f32, n: qd.i32):
    return int(x), float(n), bool(n), int(-x), qd.i8(n), qd.u8(n), qd.f64(x)


@runs(args=(0.3,), tolerance=1e-6)
def functions_of_math_and_numpy(x: qd.f32):
    return math.sin(x) + np.cos(x), math.atan2(x, 1.0), np.exp(x) - math.log(x), np.hypot(x, 4.0), math.fabs(-x)


@runs(args=(0.3,), tolerance=1e-12)
def more_functions_of_math(x: qd.f64):
    return math.degrees(x), math.radians(x), math.log(x, 2), math.log2(x), math.log1p(x), math.sinh(x), math.erf(x)


@runs(args=(5, 3), tolerance=1e-12)
def functions_of_math_on_integers(n, m):
    return math.sqrt(n), math.pow(n, m), math.log(n, m), math.hypot(n, m), math.floor(n * 0.7), math.ceil(n * 0.7)


@runs(args=(5,))
def nested_function_that_returns_from_a_loop(n):
    def first_above(x):
        for k in range(5):
            if k > x:
                return k
        return -1

    return first_above(n - 3), first_above(n)


@runs(args=(1.5, 3))
def nested_function_with_keyword_parameters(x, n):
    def scaled(v, *, k=2):
        return v * k

    return scaled(x), scaled(x, k=n)


@runs(args=(10.75, 3))
def divmod_and_remainders(x: qd.f64, n: qd.i32):
    q, r = divmod(x, n)
    return q, r, x // n, x % n, -x // n, -x % n


@runs(args=(np.zeros(4, np.int64), 5))
def zip_and_enumerate(out, n):
    for k, (a, b) in qd.static(enumerate(zip((1, 2, 3), (4, 5, 6)))):
        out[k] = a * b * n


@runs(args=(3,))
def captured_numbers(n):
    return n + LIMIT, LIMIT * 0.5


@runs(args=(1, 2.5))
def result_with_many_parts(n, x: qd.f32):
    return n, x, n < 2, qd.Vector([x, x]), n * 3, x * 0.5


@runs(args=(np.zeros(2, np.int32), 3))
def call_as_a_statement(out, n):
    fibonacci(n)
    add_one(out)


def add_one(a):
    a[0] += 1


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_functions(item: Program, executor: TargetExecutor) -> None:
    assert disagreement(item, executor) is None


# What Python takes for equal, and code tells apart.
ALIKE = [
    (0.0, -0.0),
    ((1, 0.0), (1, -0.0)),
    ((1,), (True,)),
    ((1, (2, 2.0)), (1, (2.0, 2))),
    (np.float32(0), -np.float32(0)),
]


def _told(x) -> tuple[float, float]:
    """Of what is known at compile time: the signs of all numbers, and their classes."""
    parts = x if isinstance(x, tuple) else (x,)
    flat = [number for part in parts for number in (part if isinstance(part, tuple) else (part,))]
    classes = [1 + isinstance(number, bool) + 2 * isinstance(number, float) for number in flat]
    return sum(math.copysign(1.0, number) for number in flat), sum(10.0**k * kind for k, kind in enumerate(classes))


def _told_by_a_function(x: qd.template()):
    return qd.static(_told(x))


@pytest.mark.parametrize("alike", ALIKE, ids=repr)
def test_templates_that_are_equal_are_not_taken_for_one_another(alike, executor: TargetExecutor) -> None:
    def tells(x: qd.template(), out):
        for _ in range(1):
            out[0], out[1] = qd.static(_told(x))

    def tells_of_both(out):
        for _ in range(1):
            out[0], out[1] = _told_by_a_function(one)
            out[2], out[3] = _told_by_a_function(other)

    one, other = alike
    kernel = executor.launcher(tells)
    for x in alike:
        out = np.zeros(2, np.float32)
        kernel(x, out)
        assert tuple(out) == _told(x)
    out = np.zeros(4, np.float32)
    executor.launcher(tells_of_both)(out)
    assert tuple(out) == (*_told(one), *_told(other))
