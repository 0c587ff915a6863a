"""Wrong arguments and failures at run time: one clear error that names what is wrong, before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsAssertionError, QuadrantsRuntimeTypeError


def fill(a, value):
    for i in range(len(a)):
        a[i] = value


def shifted(n: qd.i32):
    return n + 1


def annotated(a: qd.types.ndarray(dtype=qd.f32, ndim=2)):
    a[0, 0] = 1.0


def element(a, i):
    return a[i]


def store(a, i):
    for k in range(1):
        a[i] = 1


def checked(n):
    assert n > 2, f"n is {n}"
    return n


@pytest.mark.parametrize("wrong", [[1, 2, 3], b"abc", "abc", object(), {1: 2}], ids=lambda w: type(w).__name__)
def test_argument_of_a_wrong_kind_is_named(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match="'a'") as caught:
        qd.kernel(fill)(wrong, 1.0)
    assert type(wrong).__name__ in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


def test_none_where_a_number_is_needed() -> None:
    with pytest.raises(TypeError, match="'n'"):
        qd.kernel(shifted)(None)


def test_float_for_an_integer_parameter() -> None:
    with pytest.raises(QuadrantsRuntimeTypeError, match="'n'.*i32|i32.*'n'"):
        qd.kernel(shifted)(1.5)


def test_wrong_dtype_for_an_annotated_array() -> None:
    with pytest.raises((TypeError, ValueError), match="'a'.*f64.*f32|'a'.*f32.*f64"):
        qd.kernel(annotated)(np.zeros((2, 2)))


def test_wrong_rank_for_an_annotated_array() -> None:
    with pytest.raises((TypeError, ValueError), match="'a'"):
        qd.kernel(annotated)(np.zeros(4, np.float32))


def test_complex_numbers_are_told_their_parts() -> None:
    z = np.ones(3, np.complex64)
    with pytest.raises(
        QuadrantsRuntimeTypeError, match=r"an array of dtype complex64: .* pass z.real and z.imag"
    ) as told:
        qd.kernel(fill)(z, 1.0)
    assert "byte order" not in str(told.value)
    qd.kernel(fill)(z.imag, 2.0)
    assert (z == 1 + 2j).all()


def test_more_memory_than_there_is() -> None:
    for big in (qd.field(qd.f32, shape=2**60, name="pressure"), lambda: qd.ndarray(qd.f64, (2**31 - 1, 2**31 - 1))):
        with pytest.raises(
            MemoryError, match=r"(field pressure|ndarray), \d+(x\d+)? of f\d\d, takes [\d.e+]+ GiB, which .* smaller"
        ):
            qd.kernel(fill)(big() if callable(big) else big, 1.0)


def test_array_of_an_unsupported_dtype() -> None:
    with pytest.raises((TypeError, ValueError), match="'a'.*complex128"):
        qd.kernel(fill)(np.zeros(3, complex), 1.0)


def test_array_of_foreign_byte_order() -> None:
    with pytest.raises((TypeError, ValueError), match="'a'"):
        qd.kernel(fill)(np.zeros(3, ">f4"), 1.0)


def test_read_only_array_that_the_kernel_writes() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises((TypeError, ValueError), match="'a'.*read-only|read-only.*'a'"):
        qd.kernel(fill)(array, 1.0)
    assert array.tolist() == [0.0, 0.0, 0.0]


def test_read_only_array_that_the_kernel_reads() -> None:
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    assert qd.kernel(element)(array, 2) == 2.0


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integer_beyond_every_width(value: int) -> None:
    with pytest.raises((OverflowError, TypeError, ValueError), match="'n'"):
        qd.kernel(weak)(value)


def test_integer_beyond_the_width_of_its_parameter() -> None:
    with pytest.raises((OverflowError, TypeError, ValueError), match="'n'"):
        qd.kernel(shifted)(2**31)


def weak(n):
    return n


def test_missing_argument() -> None:
    with pytest.raises((TypeError, SyntaxError), match="value"):
        qd.kernel(fill)(np.zeros(3, np.float32))


def test_too_many_arguments() -> None:
    with pytest.raises((TypeError, SyntaxError), match="argument"):
        qd.kernel(shifted)(1, 2)


def test_unknown_keyword() -> None:
    with pytest.raises((TypeError, SyntaxError), match="extra"):
        qd.kernel(shifted)(1, extra=2)


def test_wrong_call_does_not_spoil_the_kernel() -> None:
    kernel = qd.kernel(fill)
    array = np.zeros(3, np.float32)
    for _ in range(2):
        with pytest.raises(TypeError):
            kernel([1, 2, 3], 1.0)
        kernel(array, 2.0)
        assert array.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("arch", ["reference", "cpu"])
@pytest.mark.parametrize("index", [3, -4, 10**9])
def test_index_out_of_range_in_debug_mode(arch: str, index: int) -> None:
    qd.init(arch=getattr(qd, arch), debug=True)
    with pytest.raises(IndexError, match=f"{index}.*3") as caught:
        qd.kernel(store)(np.zeros(3, np.int32), index)
    assert "store" in str(caught.value)


@pytest.mark.parametrize("arch", ["reference", "cpu"])
def test_index_of_a_field_out_of_range_in_debug_mode(arch: str) -> None:
    qd.init(arch=getattr(qd, arch), debug=True)
    field = qd.field(qd.i32, (4,))
    with pytest.raises(QuadrantsAssertionError, match="4"):
        qd.kernel(store)(field, 4)


@pytest.mark.parametrize("arch", ["reference", "cpu"])
def test_assertion_is_active_in_debug_mode(arch: str) -> None:
    qd.init(arch=getattr(qd, arch), debug=True)
    kernel = qd.kernel(checked)
    assert kernel(3) == 3
    with pytest.raises(AssertionError, match="n is 1"):
        kernel(1)
    assert kernel(4) == 4


def test_assertion_is_not_active_outside_debug_mode() -> None:
    assert qd.kernel(checked)(1) == 1


def test_kernel_without_source_is_refused() -> None:
    names: dict = {}
    exec("def f(n):\n    return n + 1\n", names)
    with pytest.raises((qd.QuadrantsCompilationError, OSError), match="source"):
        qd.kernel(names["f"])(1)


FACTOR = 0.5


def scaled(x: qd.template(), a):
    a[0] = x * 2


def scaled_by_a_global(a):
    a[0] = FACTOR


def test_floats_that_code_would_be_made_for_are_refused_where_that_is_asked_for() -> None:
    a = np.zeros(1)
    for kernel, arguments, expected in ((scaled, (1.5,), 3.0), (scaled_by_a_global, (), 0.5)):
        qd.reset()
        qd.kernel(kernel)(*arguments, a)
        assert a[0] == expected
        qd.init(raise_on_templated_floats=True)
        with pytest.raises(ValueError, match="code would be made for"):
            qd.kernel(kernel)(*arguments, a)
    qd.kernel(scaled)(4, a)
    assert a[0] == 8
