"""Debug mode: what goes wrong in a kernel is told in the same words on every target, with the line and the kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError

LARGE = 2**62


# Checks are of the IR, alike on both; races, which the reference alone finds, have files of their own.
@pytest.fixture(autouse=True, params=[pytest.param("reference", marks=pytest.mark.slow), "cpu"])
def _debug_mode(request: pytest.FixtureRequest) -> Any:
    qd.init(arch=getattr(qd, request.param), debug=True, default_ip=qd.i64, default_fp=qd.f64, cpu_max_num_threads=2)
    yield
    qd.reset()


def fails(kind: type[Exception], text: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Runs a kernel that must fail, with this text, at the line of its source that is marked `# !`."""
    lines, first = inspect.getsourcelines(function)
    marked = [first + number for number, line in enumerate(lines) if "# !" in line]
    where = f"({inspect.getsourcefile(function)}:{marked[0]})"
    kernel = qd.kernel(function)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            kernel(*arguments)
        assert str(caught.value) == f"{text}\n  in kernel {function.__name__} {where}"


def out_of_range(name: str, index: str, shape: tuple[int, ...]) -> str:
    return f"{name}[{index}] is out of range: the shape of {name} is {shape}"


def store(a, i):
    a[i] = 1  # !


def load(a, i):
    return a[i]  # !


def update(a, i):
    a[i] += 1  # !


def atomic(a, i):
    return qd.atomic_add(a[i], 1)  # !


def store_2d(m, i, j):
    m[i, j] = 1  # !


def row(m, i):
    w = m[i]
    w *= 2  # !


def element_of_row(m, i, j):
    w = m[i]
    return w[j]  # !


def component(v, i, j):
    v[i][j] = 1  # !


ARRAYS = {
    "NumPy": lambda: np.zeros(5, np.int32),
    "NumPy backwards": lambda: np.zeros(5, np.int32)[::-1],
    "ndarray": lambda: qd.ndarray(qd.i32, (5,)),
    "field": lambda: qd.field(qd.i32, 5),
}


@pytest.mark.parametrize("function", [store, load, update, atomic], ids=lambda f: f.__name__)
@pytest.mark.parametrize("array", ARRAYS)
def test_index_of_an_array(array: str, function: Callable[..., Any]) -> None:
    first = -1 if array == "field" else -6
    for index in (5, first, 2**40, -(2**40)):
        fails(QuadrantsBoundsError, out_of_range("a", str(index), (5,)), function, ARRAYS[array](), index)
    for index in (0, 4, first + 1):
        qd.kernel(function)(ARRAYS[array](), index)


@pytest.mark.parametrize("index", [(4, 0), (0, 3), (0, -4), (-5, 2)])
def test_two_axes(index: tuple[int, int]) -> None:
    text = out_of_range("m", f"{index[0]}, {index[1]}", (4, 3))
    fails(QuadrantsBoundsError, text, store_2d, np.zeros((4, 3)), *index)


def test_rows_of_an_array() -> None:
    fails(QuadrantsBoundsError, out_of_range("m", "4", (4, 3)), row, np.zeros((4, 3)), 4)
    fails(QuadrantsBoundsError, out_of_range("m", "1, 3", (4, 3)), element_of_row, np.zeros((4, 3)), 1, 3)
    assert qd.kernel(element_of_row)(np.ones((4, 3)), 1, -3) == 1


@pytest.mark.parametrize("make", [qd.Vector.field, qd.Vector.ndarray], ids=["field", "ndarray"])
def test_elements_that_are_vectors(make: Callable[..., Any]) -> None:
    fails(QuadrantsBoundsError, out_of_range("v", "5, 0", (5, 3)), component, make(3, qd.f32, 5), 5, 0)
    fails(QuadrantsBoundsError, out_of_range("v", "1, 3", (5, 3)), component, make(3, qd.f32, 5), 1, 3)


def vector_element(v, i):
    return v[i]  # !


def vector_store(i):
    v = qd.Vector([1.0, 2.0, 3.0])
    v[i] = 7.0  # !
    return v


def vector_update(i):
    v = qd.Vector([1.0, 2.0, 3.0])
    v[i] += 7.0  # !
    return v


def matrix_element(m, i, j):
    return m[i, j]  # !


def test_vectors_and_matrices() -> None:
    v, m = qd.Vector([1, 2, 3]), qd.Matrix([[1, 2], [3, 4], [5, 6]])
    for index in (3, -4):
        fails(QuadrantsBoundsError, out_of_range("v", str(index), (3,)), vector_element, v, index)
        fails(QuadrantsBoundsError, out_of_range("v", str(index), (3,)), vector_store, index)
        fails(QuadrantsBoundsError, out_of_range("v", str(index), (3,)), vector_update, index)
    for i, j in ((3, 0), (0, 2), (-4, 0), (0, -3)):
        fails(QuadrantsBoundsError, out_of_range("m", f"{i}, {j}", (3, 2)), matrix_element, m, i, j)


@pytest.mark.slow
@pytest.mark.parametrize("debug", [True, False])
def test_indices_of_vectors_may_count_from_the_end(debug: bool, request: pytest.FixtureRequest) -> None:
    arch = request.node.callspec.params["_debug_mode"]
    qd.init(arch=getattr(qd, arch), debug=debug, default_ip=qd.i64, default_fp=qd.f64)
    v, m = qd.Vector([1, 2, 3]), qd.Matrix([[1, 2], [3, 4], [5, 6]])
    for i in range(-3, 3):
        assert qd.kernel(vector_element)(v, i) == [1, 2, 3][i]
        expected = [1.0, 2.0, 3.0]
        expected[i] = 7.0
        assert list(qd.kernel(vector_store)(i)) == expected
        for j in range(-2, 2):
            assert qd.kernel(matrix_element)(m, i, j) == [[1, 2], [3, 4], [5, 6]][i][j]


grid = None


def store_in_a_global(i):
    grid[i] = 1.0  # !


class Body:
    def __init__(self) -> None:
        self.mass = qd.field(qd.f32, 3)


body = None


def store_in_an_attribute(i):
    body.mass[i] = 1.0  # !


def test_names_of_fields() -> None:
    global grid, body
    grid, body = qd.field(qd.f32, 5), Body()
    fails(QuadrantsBoundsError, out_of_range("grid", "5", (5,)), store_in_a_global, 5)
    fails(QuadrantsBoundsError, out_of_range("mass", "3", (3,)), store_in_an_attribute, 3)


def all_of(a, n):
    for i in range(n):
        a[i] = a[i] * 3  # !


def through_indices(a, index):
    for i in range(len(index)):
        a[index[i]] = i  # !


def inner_loop(m, n):
    for i in range(m.shape[0]):
        for j in range(n):
            m[i, j] = i * 10 + j  # !


def scattered(a, index):
    for i in range(len(index)):
        a[index[i]] += 1  # !


@pytest.mark.slow
def test_in_parallel_loops() -> None:
    fails(QuadrantsBoundsError, out_of_range("a", "20000", (20_000,)), all_of, np.zeros(20_000), 20_001)
    index = np.arange(9_000)
    index[3_333] = -9_001
    for function in (through_indices, scattered):
        text = out_of_range("a", "-9001", (9_000,))
        fails(QuadrantsBoundsError, text, function, np.zeros(9_000, np.int64), index)
    fails(QuadrantsBoundsError, out_of_range("m", "0, 7", (1, 7)), inner_loop, np.zeros((1, 7)), 8)


def element(a, i):
    return a[i] * 2


def through_a_function(a, i):
    return element(a, i) + 1


def test_in_a_function() -> None:
    with pytest.raises(QuadrantsBoundsError) as caught:
        qd.kernel(through_a_function)(np.zeros(3), 5)
    line = inspect.getsourcelines(element)[1] + 1
    assert str(caught.value).endswith(f"in kernel through_a_function ({__file__}:{line})")
    assert out_of_range("a", "5", (3,)) in str(caught.value)


def quotient(a, b):
    return a // b  # !


def remainder(a, b):
    return a % b  # !


def quotients(a, b):
    for i in range(len(a)):
        a[i] = a[i] // b[i]  # !


def test_division_by_zero() -> None:
    for function in (quotient, remainder):
        fails(QuadrantsAssertionError, "integer division of 7 by zero", function, 7, 0)
        assert qd.kernel(function)(7.0, 2.0) == function(7.0, 2.0)
    b = np.ones(3000, np.int32)
    b[1234] = 0
    fails(QuadrantsAssertionError, "integer division of 5 by zero", quotients, np.full(3000, 5, np.int32), b)
    qd.kernel(quotient)(7.0, 0.0)


def total(a, b):
    return a + b  # !


def difference(a, b):
    return a - b  # !


def product(a, b):
    return a * b  # !


def power(a, b):
    return a**b  # !


def negated(a):
    return -a  # !


def magnitude(a):
    return abs(a)  # !


@pytest.mark.parametrize(
    "function, arguments, text",
    [
        (total, (LARGE, LARGE), f"{LARGE} + {LARGE} overflows i64"),
        (total, (-LARGE, -LARGE - 1), f"{-LARGE} + {-LARGE - 1} overflows i64"),
        (difference, (-LARGE, LARGE + 1), f"{-LARGE} - {LARGE + 1} overflows i64"),
        (product, (2**40, -(2**40)), f"{2**40} * {-(2**40)} overflows i64"),
        (product, (-(2**63), -1), f"{-(2**63)} * -1 overflows i64"),
        (power, (10, 19), "10 ** 19 overflows i64"),
        (power, (-3, 41), "-3 ** 41 overflows i64"),
        (power, (2, 200), "2 ** 200 overflows i64"),
        (negated, (-(2**63),), f"-({-(2**63)}) overflows i64"),
        (magnitude, (-(2**63),), f"abs({-(2**63)}) overflows i64"),
        (quotient, (-(2**63), -1), f"{-(2**63)} // -1 overflows i64"),
        (total, (np.int32(2**30), np.int32(2**30)), f"{2**30} + {2**30} overflows i32"),
        (product, (np.int32(2**16), np.int32(2**15)), f"{2**16} * {2**15} overflows i32"),
        (power, (np.int32(2), np.int32(31)), "2 ** 31 overflows i32"),
        (total, (np.int8(100), np.int8(28)), "100 + 28 overflows i8"),
    ],
)
def test_overflow(function: Callable[..., Any], arguments: tuple[Any, ...], text: str) -> None:
    fails(QuadrantsAssertionError, text, function, *arguments)


@pytest.mark.parametrize(
    "function, arguments",
    [
        (total, (LARGE, LARGE - 1)),
        (total, (-LARGE, -LARGE)),
        (difference, (-LARGE, LARGE)),
        (product, (2**31, -(2**32))),
        (power, (10, 18)),
        (power, (-2, 63)),
        (power, (3, 39)),
        (negated, (2**63 - 1,)),
        (quotient, (-(2**63) + 1, -1)),
    ],
)
def test_what_fits(function: Callable[..., Any], arguments: tuple[int, ...]) -> None:
    assert qd.kernel(function)(*arguments) == function(*arguments)


def square_root(a):
    return qd.sqrt(a)  # !


def ratio(a, b):
    return a / b  # !


def logarithm(a):
    return qd.log(a)  # !


def ratios(a, b):
    for i in range(len(a)):
        a[i] = a[i] / b[i]  # !


@pytest.mark.parametrize(
    "function, arguments, text",
    [
        (square_root, (-2.0,), "sqrt(-2.0) is NaN"),
        (logarithm, (-1.0,), "log(-1.0) is NaN"),
        (ratio, (0.0, 0.0), "0.0 / 0.0 is NaN"),
        (total, (np.inf, -np.inf), "inf + -inf is NaN"),
        (product, (np.inf, 0.0), "inf * 0.0 is NaN"),
        (power, (-8.0, 0.5), "-8.0 ** 0.5 is NaN"),
        (remainder, (1.0, 0.0), "1.0 % 0.0 is NaN"),
        (total, (np.float32(np.inf), np.float32(-np.inf)), "inf + -inf is NaN"),
    ],
)
def test_a_nan_is_born(function: Callable[..., Any], arguments: tuple[float, ...], text: str) -> None:
    fails(QuadrantsAssertionError, text, function, *arguments)


def test_a_nan_is_born_in_a_loop_or_a_vector() -> None:
    a, b = np.full(3000, 2.0), np.ones(3000)
    a[1000] = b[1000] = 0.0
    fails(QuadrantsAssertionError, "0.0 / 0.0 is NaN", ratios, a, b)
    v = qd.Vector([np.inf, 1.0])
    fails(QuadrantsAssertionError, "an element of a + b is NaN", vector_sum, v, qd.Vector([-np.inf, 1.0]))


def test_a_nan_is_handed_on_and_infinities_are_numbers() -> None:
    assert np.isnan(qd.kernel(total)(np.nan, 1.0))
    assert np.isnan(qd.kernel(square_root)(np.nan))
    assert qd.kernel(ratio)(1.0, 0.0) == np.inf
    a = np.array([np.nan, 1.0])
    qd.kernel(ratios)(a, np.ones(2))
    assert np.isnan(a[0]) and a[1] == 1.0


def by_a_constant(a):
    n = qd.i64(0)
    return a[0] // n  # !


def constants():
    n = qd.i32(2**30)
    return n + n  # !


def test_constants() -> None:
    fails(QuadrantsAssertionError, "integer division of 3 by zero", by_a_constant, np.full(1, 3))
    fails(QuadrantsAssertionError, f"{2**30} + {2**30} overflows i32", constants)


def conditional(a, b, n):
    s = 0
    for i in range(n):
        if b[i] != 0:
            s += a[i] // b[i]
    x = 3
    for i in range(n - 4, n - 4):
        x = 100 // i
    return s + x


def test_what_is_not_computed_is_not_checked() -> None:
    a, b = np.array([4, -(2**63), 8, 3]), np.array([2, 0, 4, 0])
    assert qd.kernel(conditional)(a, b, 4) == 7


def sum_of(a, out):
    for i in range(len(a)):
        out[0] += a[i]  # !


def vector_sum(a, b):
    return a + b  # !


def test_overflow_of_sums_and_vectors() -> None:
    with pytest.raises(QuadrantsAssertionError, match=r"overflows i32\n  in kernel sum_of"):
        qd.kernel(sum_of)(np.full(5000, 2**28, np.int32), np.zeros(1, np.int32))
    a = qd.Vector([2**62, 1])
    fails(QuadrantsAssertionError, "an element of a + b overflows i64", vector_sum, a, a)


def count(out, start):
    out[0] = start
    for i in range(3):
        out[0] += i + 1  # !


def test_overflow_of_an_update() -> None:
    qd.kernel(count)(np.zeros(1, np.int64), 2**63 - 7)
    with pytest.raises(QuadrantsAssertionError, match="overflows i64"):
        qd.kernel(count)(np.zeros(1, np.int64), 2**63 - 6)


def asserts(n):
    assert n > 3, "n is small"  # !


def asserts_with_a_value(n, x):
    assert n > 3, f"{n} and {x:.2f}"  # !


def asserts_alone(n):
    assert n > 3  # !


def asserts_with_braces(n):
    assert n > 3, f"{{n}} is {n}"  # !


def asserts_with_a_vector(v):
    assert v.sum() > 3, f"v = {v:.1f}, {v.x}"  # !


def asserts_with_format(n):
    assert n > 3, "{} of {n}".format(n, n=4)  # !


def asserts_many(v, w):
    assert v.sum() > 3, f"{v} and {w}"  # !


def asserts_too_many(m):
    assert m[0, 0] > 3, f"{m} and {m}"


def asserts_an_index(a, i):
    assert i < len(a), f"{a[i]}"  # !


def asserts_in_a_loop(a):
    for i in range(len(a)):
        assert a[i] < 10, f"a[{i}] is {a[i]}"  # !


def test_assertions() -> None:
    fails(QuadrantsAssertionError, "n is small", asserts, 3)
    fails(QuadrantsAssertionError, "2 and 1.50", asserts_with_a_value, 2, 1.5)
    fails(QuadrantsAssertionError, "n > 3", asserts_alone, 3)
    fails(QuadrantsAssertionError, "{n} is 3", asserts_with_braces, 3)
    fails(QuadrantsAssertionError, "v = [0.5, 1.0], 0.5", asserts_with_a_vector, qd.Vector([0.5, 1.0]))
    fails(QuadrantsAssertionError, "3 of 4", asserts_with_format, 3)
    a = np.zeros(20_000, np.int64)
    a[13_000] = 11
    fails(QuadrantsAssertionError, "a[13000] is 11", asserts_in_a_loop, a)
    qd.kernel(asserts)(4)


def test_messages_are_made_when_they_are_needed() -> None:
    qd.kernel(asserts_an_index)(np.zeros(3), 2)
    fails(QuadrantsBoundsError, out_of_range("a", "3", (3,)), asserts_an_index, np.zeros(3), 3)


def test_messages_with_many_values() -> None:
    v, w = qd.Vector([0] * 6), qd.Vector([1] * 6)
    fails(QuadrantsAssertionError, f"{[0] * 6} and {[1] * 6}", asserts_many, v, w)
    with pytest.raises(qd.QuadrantsCompilationError, match="50 numbers: at most 32"):
        qd.kernel(asserts_too_many)(qd.Matrix([[0] * 5] * 5))


def test_a_failed_kernel_runs_again() -> None:
    kernel = qd.kernel(store)
    array = np.zeros(3, np.int64)
    for _ in range(3):
        with pytest.raises(IndexError):
            kernel(array, 3)
        kernel(array, 2)
    assert array.tolist() == [0, 0, 1]


@pytest.mark.parametrize("option", ["check_out_of_bound", "debug"])
def test_bounds_alone(option: str, request: pytest.FixtureRequest) -> None:
    arch = getattr(qd, request.node.callspec.params["_debug_mode"])
    qd.init(arch=arch, default_ip=qd.i64, **{option: True})
    with pytest.raises(QuadrantsBoundsError):
        qd.kernel(load)(np.zeros(3), 3)
    if option == "check_out_of_bound":
        assert qd.kernel(quotient)(7, 0) == 0
        assert qd.kernel(total)(LARGE, LARGE) == -(2**63)
