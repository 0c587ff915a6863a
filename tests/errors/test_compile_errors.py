"""Programs that must be refused: with this kind of error, these words, at the line marked `# <--`.

`kinds` are the exceptions, `says` the words that the message must hold.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsCompilationError, QuadrantsNameError, QuadrantsTypeError

MARK = "# <--"


@dataclass(frozen=True)
class Refused:
    """A function, its arguments, and how compiling it must fail. The marked line is in `function`, or in `inside`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    says: tuple[str, ...]
    kind: type[QuadrantsCompilationError]
    inside: Callable[..., Any] | None


NUMBERS = np.array([0, 1])
REFUSED: list[Refused] = []


def refused(
    *arguments: Any,
    says: str | tuple[str, ...],
    kind: type[QuadrantsCompilationError] = QuadrantsCompilationError,
    inside: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function that must not compile."""
    words = (says,) if isinstance(says, str) else says

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REFUSED.append(Refused(function, arguments, words, kind, inside))
        return function

    return register


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


# Names.


@refused(1, says='"missing" is not defined', kind=QuadrantsNameError)
def undefined_name(n):
    return n + missing  # noqa: F821  # <--


@refused(1, says='"x"', kind=QuadrantsNameError)
def name_that_no_path_assigned(n):
    if n > 0:
        n = 2
    return n + x  # noqa: F821  # <--


@refused(1, says='"x"', kind=QuadrantsNameError)
def name_used_before_its_assignment(n):
    y = x + n  # noqa: F821  # <--
    x = 1
    return y + x


@refused(1, says="no single type")
def join_of_a_number_and_a_vector(n):
    if n > 0:
        x = 1.0
    else:
        x = qd.Vector([1.0, 2.0])
    return x  # <--


@refused(1, says="no single type")
def join_of_different_shapes(n):
    if n > 0:
        x = qd.Vector([1.0, 2.0, 3.0])
    else:
        x = qd.Vector([1.0, 2.0])
    return x  # <--


@refused(3, says="global")
def assignment_to_a_global(n):
    global COUNTER  # <--
    COUNTER = n


# Types.


@refused(1.5, 2, says="integers", kind=QuadrantsTypeError)
def bits_of_a_float(x: qd.f32, n: qd.i32):
    return x & n  # <--


@refused(1.5, says="integers", kind=QuadrantsTypeError)
def shift_of_a_float(x: qd.f64):
    return x << 2  # <--


@refused(1.0, says="shapes", kind=QuadrantsTypeError)
def sum_of_different_shapes(x: qd.f32):
    a = qd.Vector([x, x])
    b = qd.Vector([x, x, x])
    return a + b  # <--


@refused(1.0, says="multiply as matrices", kind=QuadrantsTypeError)
def product_of_unfit_matrices(x: qd.f32):
    a = qd.Matrix([[x, x], [x, x]])
    b = qd.Vector([x, x, x])
    return a @ b  # <--


@refused(1.0, says=("truth of a vector", ".any()"))
def truth_of_a_vector(x: qd.f32):
    v = qd.Vector([x, x])
    if v > 0.0:  # <--
        x = 2.0
    return x


@refused(2.5, says="range")
def range_of_a_float(x: qd.f32):
    s = 0
    for i in range(x):  # <--
        s += i
    return s


@refused(ones(4), 1.5, says="index must be an integer")
def float_as_an_index(a, x):
    return a[x]  # <--


@refused(5, says="step")
def step_of_zero(n):
    s = 0
    for i in range(0, n, 0):  # <--
        s += i
    return s


@refused(1.0, says="component")
def component_that_does_not_exist(x: qd.f32):
    v = qd.Vector([x, x])
    return v.z  # <--


@refused(1.0, says="out of range")
def static_index_out_of_range(x: qd.f32):
    v = qd.Vector([x, x])
    return v[2]  # <--


@refused(ones(4), says="indices")
def too_many_indices(a):
    return a[0, 1]  # <--


@refused(1.0, says="attribute")
def unknown_attribute(x: qd.f32):
    v = qd.Vector([x, x])
    return v.magnitude()  # <--


@refused(1, says="not callable")
def call_of_a_number(n):
    return n(3)  # <--


@refused(1, says="unpack")
def unpacking_a_number(n):
    a, b = n  # <--
    return a + b


@refused(1, says="3 values")
def unpacking_the_wrong_number(n):
    a, b = n, n, n  # <--
    return a + b


# Python that kernels do not have.


@refused(3, says="not supported in a kernel")
def exception_handling(n):
    try:  # <--
        n = n + 1
    except ValueError:
        n = 0
    return n


@refused(3, says="not supported in a kernel")
def raising(n):
    if n > 2:
        raise ValueError("n")  # <--
    return n


@refused(3, says="kernel")
def generator(n):
    for i in range(n):
        yield i  # <--


@refused(3, says="kernel")
def set_display(n):
    s = {n, 2}  # <--
    return 2 in s


@refused(3, says="string")
def string_at_run_time(n):
    s = f"{n}"
    return len(s)  # <--


@refused(3, says="kernel")
def importing(n):
    import math  # noqa: F401  # <--

    return n


@refused(3, says="not supported in a kernel")
def deleting(n):
    x = n
    del x  # <--


@refused(3, says="kernel")
def class_definition(n):
    class Inner:  # <--
        pass

    return n


@refused(3, says="complex")
def complex_number(n):
    return n * 2j  # <--


@refused(3, says="comprehension")
def comprehension_of_run_time_length(n):
    return len([i for i in range(n)])  # <--


@refused(3, says="loop over")
def loop_over_a_number(n):
    for i in n:  # <--
        pass


@refused(3, says="is")
def identity_at_run_time(n):
    return n is n  # <--


# Arrays.


@refused(ones(4), 3, says="slice")
def slice_of_a_whole_array(a, n):
    b = a[1:n]  # <--
    return b[0]


@refused(ones(4), ones(4), says="whole-array")
def whole_array_arithmetic(a, b):
    a += 2.0 * b  # <--


@refused(1, says="writable")
def atomic_on_an_expression(n):
    return qd.atomic_add(n + 1, 2)  # <--


# Functions: the error is where it happens, in the function called.


def _adds_vectors(a, b):
    return a + b  # <--


def _takes_two(a, b):
    return a * b


@refused(1.0, says="shapes", kind=QuadrantsTypeError, inside=_adds_vectors)
def error_in_a_called_function(x: qd.f32):
    return _adds_vectors(qd.Vector([x, x]), qd.Vector([x, x, x]))


@refused(1, says="argument")
def missing_argument(n):
    return _takes_two(n)  # <--


@refused(1, says="argument")
def too_many_arguments(n):
    return _takes_two(n, n, n)  # <--


@refused(1, says="argument")
def unknown_keyword(n):
    return _takes_two(n, c=n)  # <--


@refused(1, says="static")
def static_of_a_run_time_value(n):
    if qd.static(n > 2):  # <--
        return 1
    return 0


def marked_line(function: Callable[..., Any]) -> int:
    """The line of the file that holds the mark."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if MARK in line)


# What a newcomer tries.


@refused(ones(3), says=("no strings at run time", "print"))
def text_as_a_result(a):
    s = f"{a[0]}"
    return s  # <--


@refused(1, says="more than 64 bits", kind=QuadrantsTypeError)
def integer_beyond_64_bits(n):
    return 2**100  # <--


@refused(ones(3), says=("random cannot be called", "qd.random(float)"), kind=QuadrantsTypeError)
def random_numbers_of_python(a):
    a[0] = random.random()  # <--


@refused(ones(3), says=("rand cannot be called", "qd.randn()"), kind=QuadrantsTypeError)
def random_numbers_of_numpy(a):
    a[0] = np.random.rand()  # noqa: NPY002  # <--


@refused(ones(3), says="dictionary is read at compile time")
def dictionary_that_changes(a):
    d = {}
    d["x"] = a[0]  # <--
    return d["x"]


@refused(ones(3), says=("zeros cannot be called", "qd.Vector([0.0] * 3)"), kind=QuadrantsTypeError)
def arrays_made_inside(a):
    b = np.zeros(3)  # <--
    b[0] = a[0]


@refused(ones(3, 3), says=("whole-array arithmetic", "loop over"))
def functions_of_whole_arrays(a):
    return np.linalg.inv(a)  # <--


# Configuration of loops.


@refused(ones(3), says=("no such keyword", "vectorise", "vectorize"), kind=QuadrantsTypeError)
def configuration_that_there_is_not(x):
    qd.loop_config(vectorise=8)  # <--
    for i in range(len(x)):
        x[i] += 1


@refused(ones(3), says=("vectorize takes no such value", "3", "a power of two up to 64"), kind=QuadrantsTypeError)
def lanes_that_are_no_power_of_two(x):
    qd.loop_config(vectorize=3)  # <--
    for i in range(len(x)):
        x[i] += 1


@refused(ones(3), says=("vectorize takes no such value", "'8'"), kind=QuadrantsTypeError)
def lanes_that_are_a_text(x):
    qd.loop_config(vectorize="8")  # <--
    for i in range(len(x)):
        x[i] += 1


@refused(ones(3), says=("serialize takes no such value", "True or False"), kind=QuadrantsTypeError)
def order_that_is_a_text(x):
    qd.loop_config(serialize="no")  # <--
    for i in range(len(x)):
        x[i] += 1


# Records.


@dataclass
class Point:
    x: float
    y: float = 1.0


@dataclass(frozen=True)
class Fixed:
    x: float


@dataclass
class Checked:
    x: float

    def __post_init__(self) -> None:
        self.x = abs(self.x)


class Pair(NamedTuple):
    x: float


@refused(2.0, says=("Point has no such operator", "__add__"), kind=QuadrantsTypeError)
def operator_that_a_class_lacks(x):
    return Point(x) + Point(x)  # <--


@refused(2.0, says=("Point has no such operator", "__lt__"), kind=QuadrantsTypeError)
def order_that_a_class_lacks(x):
    return Point(x) < Point(x)  # <--


@refused(2.0, says=("Point has no member 'z'", "members x, y"))
def member_that_a_class_lacks(x):
    p = Point(x)
    p.z = 3.0  # <--


@refused(2.0, says="an object of Point has no attribute 'norm'")
def method_that_a_class_lacks(x):
    return Point(x).norm()  # <--


@refused(2.0, says="Point(): missing a required argument: 'x'", kind=QuadrantsTypeError)
def member_that_is_not_given(x):
    return Point(y=x).x  # <--


@refused(2.0, says=("Fixed.x cannot be assigned", "dataclasses.replace(p, x=…)"), kind=QuadrantsTypeError)
def change_of_a_frozen_object(x):
    p = Fixed(x)
    p.x = 3.0  # <--


@refused(2.0, says=("Pair.x cannot be assigned", "p._replace(x=…)"), kind=QuadrantsTypeError)
def change_of_a_named_tuple(x):
    p = Pair(x)
    p.x += 3.0  # <--


@refused(Point(2.0), says=("the kernel's caller", "dataclasses.replace(p)"))
def change_of_the_callers_object(p):
    p.x = 3.0  # <--


@refused(2.0, says="__post_init__")
def class_with_an_initialiser_of_its_own(x):
    return Checked(x).x  # <--


@refused(2.0, says=("no single type", "an object of Fixed and an object of Point"), kind=QuadrantsTypeError)
def join_of_objects_of_two_classes(x):
    p = Point(x)
    if x > 3:
        p = Fixed(x)
    return p.x  # <--


@refused(2.0, says=("changes the object", "top of the file"))
def object_that_a_nested_function_changes(x):
    def move(p):
        p.x += 1.0  # <--

    p = Point(x)
    move(p)
    return p.x


def moved(p):
    p.x += 1.0
    return p.x


@refused(2.0, says=('changes the object "p"', "top of the file"))
def object_that_a_lambda_changes(x):
    return (lambda p: moved(p))(Point(x))  # <--


@refused(2.0, says=('"p" belongs to the function around', "top of the file"))
def object_of_the_function_around(x):
    p = Point(x)
    return (lambda: moved(p) if x > 1 else 0.0)()  # <--


@refused(2.0, says=("belongs to the function around", "top of the file"))
def list_of_the_function_around(x):
    values = [x]

    def grow():
        values.append(x)  # <--

    if x > 1:
        grow()
    return len(values)


@dataclass
class Movable:
    x: float

    def move(self):
        self.x += 1.0
        return self.x


@refused(2.0, says=("with a name of its own changes its object", "x.move(…)"))
def method_with_a_name(x):
    move = Movable(x).move
    return move() + move()  # <--


def raised_and_replaced(p):
    p.x += 1.0  # <--
    p = Point(3.0)
    return p.x


@refused(2.0, says=('"p" is bound to something else', "another name"), inside=raised_and_replaced)
def parameter_that_is_changed_and_bound(x):
    return raised_and_replaced(Point(x))


def replaced_or_raised(values, x):
    if x > 3.0:
        values = [1.0, 2.0]
    values[0] += x  # <--
    return values[0]


@refused(2.0, says=('"values" is bound to something else', "another name"), inside=replaced_or_raised)
def list_that_may_be_the_callers(x):
    return replaced_or_raised([x, x], x)


@refused(2.0, says=('"a" may be or hold', "an object of its own"))
def comprehension_that_changes_what_it_runs_over(x):
    a, b = Point(x), Point(x)
    return sum([moved(p) for p in (a, b)])  # <--


@refused(ones(3), says=("has no attribute 'mean' in a kernel", "loop over it"))
def method_of_an_array(x):
    return x.mean()  # <--


@refused(ones(3), ones(3), says=("not copied by assignment", "qd.grouped"))
def copy_of_a_whole_array(x, y):
    x[:] = y  # <--


@refused(ones(3), says="of type ndarray is not a number")
def captured_array_as_an_index(x):
    x[NUMBERS] = 1.0  # <--


@dataclass
class Doubling:
    x: float

    def __setattr__(self, name, value):
        object.__setattr__(self, name, 2 * value)


@refused(1.0, says=("Doubling", "__setattr__ of its own"))
def object_that_assigns_its_own_way(x):
    d = Doubling(x)  # <--
    return d.x


@dataclass
class HolderOfOne:
    d: Doubling = field(default_factory=lambda: Doubling(1.0))


@refused(1.0, says=("Doubling", "__setattr__ of its own", "by a method"))
def object_that_a_default_has_made(x):
    holder = HolderOfOne()
    holder.d.x = x  # <--
    return holder.d.x


@refused(Checked(2.0), says=("Checked", "__post_init__", "by a function"))
def copy_of_an_object_with_an_initialiser(p):
    return dataclasses.replace(p, x=3.0).x  # <--


class Turned(NamedTuple):
    x: float

    def __iter__(self):
        return iter((-self[0],))


@refused(1.0, says=("Turned holds no values", "__contains__"), kind=QuadrantsTypeError)
def search_in_a_tuple_that_iterates_its_own_way(x):
    return x in Turned(x)  # <--


@refused(1.0, says=("holds no values that `in` could look for", "__contains__"), kind=QuadrantsTypeError)
def search_in_an_object(x):
    return x in Point(x)  # <--


@refused(1.0, says=("an object of Point is not assigned by element", "__setitem__"), kind=QuadrantsTypeError)
def element_of_an_object(x):
    p = Point(x)
    p[0] = 2.0  # <--
    return p.x


@refused(1.0, says=("a tuple and a list have no order", "tuple(…)"), kind=QuadrantsTypeError)
def order_of_a_tuple_and_a_list(x):
    return (x, 1) < [x, 2]  # <--


@refused(ones(3), says=("isinstance cannot tell", "a.dtype"))
def class_of_a_computed_number(x):
    y = x[0] * 2
    return isinstance(y, (int, np.floating))  # <--


@refused(1.0, says=("changes a list", '"b" may be or hold'))
def update_of_a_list_with_two_names(x):
    a = [x, 1.0]
    b = (a, 1)
    a += [2.0]  # <--
    return len(b[0])


@refused(ones(3), says=("`yield` is not supported", "into an array"))
def generator_over_an_array(x):
    for v in x:
        yield v  # <--


@refused(ones(3), says=("a range takes integers", "range(a.shape[0])"))
def range_of_a_shape(x):
    for i in range(x.shape):  # <--
        x[i] = 0


@refused(2.0, says=("the class set cannot be made", "an array of flags"))
def set_of_numbers(x):
    s = set()  # <--
    s.add(x)


@refused(None, says=("is not a number", "argument 'x' is None"))
def argument_that_is_none(x):
    return x + 1  # <--


@refused(2.0, says="an object of Point cannot be unpacked", kind=QuadrantsTypeError)
def an_object_is_no_tuple(x):
    a, b = Point(x)  # <--
    return a + b


@refused(2.0, says="an object of Point is not a number or vector", kind=QuadrantsTypeError)
def an_object_is_no_vector(x):
    return qd.sqrt(Point(x))  # <--


@refused(3, says=("repeats a list of 2", "n * qd.Vector"), kind=QuadrantsTypeError)
def list_repeated_at_run_time(n):
    return len(n * [1.0, 2.0])  # <--


@refused(3, says=("max of whole tuples or lists", "`a if a > b else b`"), kind=QuadrantsTypeError)
def largest_of_tuples(n):
    return max((n, 5), (2, 7))  # <--


@refused(3, says=("no order", "compare its items"), kind=QuadrantsTypeError)
def list_above_a_number(n):
    return [1, 2] > n  # <--


@refused(3, says=("max takes no key=", "write the comparison"), kind=QuadrantsTypeError)
def largest_by_a_key(n):
    return max(n, 2, key=abs)  # <--


@refused(3, says=('last value of the comprehension\'s "i"', "lambda …, i=i"))
def functions_of_a_comprehension(n):
    functions = [lambda x: x + i for i in range(3)]  # <--
    return functions[0](n)


def adder(k):
    return lambda x: x + k  # <--


@refused(3, says=("cannot be its result", "define the function where it is called"), inside=adder)
def function_made_by_a_function(n):
    return adder(n)(1)


def row_of(a, i):
    return a[i]


@refused(ones(2, 2), says=("would be a part of an array", "make a value of it first"))
def row_that_a_function_gives_changed_in_place(a):
    row = row_of(a, 1)
    row *= 2.0  # <--


@dataclass
class Cell:
    x: float


def move(cell):
    cell.x += 1.0


@refused(1, says=("one name in a kernel", "with a call for the other"))
def one_of_two_objects_changed(n):
    p, q = Cell(1.0), Cell(2.0)
    move(p if n else q)  # <--
    return p.x


@pytest.mark.parametrize("item", REFUSED, ids=lambda item: item.function.__name__)
def test_refused(item: Refused) -> None:
    with pytest.raises(item.kind) as caught:
        qd.kernel(item.function)(*item.arguments)
    message = str(caught.value)
    for words in item.says:
        assert words in message
    assert caught.value.location is not None
    assert caught.value.location.line == marked_line(item.inside or item.function)
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("item", REFUSED[:3], ids=lambda item: item.function.__name__)
def test_source_line_has_a_caret(item: Refused) -> None:
    with pytest.raises(QuadrantsCompilationError) as caught:
        qd.kernel(item.function)(*item.arguments)
    lines = str(caught.value).splitlines()
    shown = next(number for number, line in enumerate(lines) if "# <--" in line)
    assert lines[shown + 1].strip().startswith("^")


def test_join_names_both_lines() -> None:
    with pytest.raises(QuadrantsCompilationError) as caught:
        qd.kernel(join_of_a_number_and_a_vector)(1)
    first = inspect.getsourcelines(join_of_a_number_and_a_vector)[1]
    message = str(caught.value)
    assert f":{first + 3}:" in message and f":{first + 5}:" in message


def test_false_static_assertion() -> None:
    with pytest.raises(AssertionError, match="two is not above three") as caught:
        qd.kernel(_asserts)(1)
    assert f":{marked_line(_asserts)}:" in str(caught.value)


def _asserts(n):
    qd.static_assert(2 > 3, "two is not above three")  # <--
    return n


def test_failed_compile_leaves_no_half_state() -> None:
    """A kernel refused for one type of argument works for another."""
    kernel = qd.kernel(_masked)
    with pytest.raises(QuadrantsTypeError):
        kernel(np.float32(1.5))
    assert kernel(6) == 2
    with pytest.raises(QuadrantsTypeError):
        kernel(np.float32(1.5))
    assert kernel(7) == 3


def _masked(x):
    return x & 3
