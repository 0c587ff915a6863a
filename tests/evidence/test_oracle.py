"""The oracle itself: what it hands back, what it refuses, how it reaches names, and that it leaves nothing behind."""

from __future__ import annotations

import math

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence import numerics
from quadrants.evidence.arrays import FieldView
from quadrants.evidence.oracle import OracleError, dtype_of, run, to_python
from quadrants.evidence.scalar import Scalar, defaults, settle
from quadrants.ir.types import bf16, f16, f32, f64, i8, i32, i64, u1, u8

SCALE = 3


def test_result_keeps_its_dtype() -> None:
    result = run(lambda x: x * 2, np.float32(1.5))
    assert dtype_of(result) is f32
    assert to_python(result) == 3.0


def test_tuples_vectors_and_none() -> None:
    def three(x: qd.f32):
        return x, qd.Vector([x, 1]), 7

    scalar, vector, weak = run(three, 0.5)
    assert (dtype_of(scalar), dtype_of(vector), dtype_of(weak)) == (f32, f32, i64)
    assert to_python((scalar, vector, weak)) == (0.5, [0.5, 1.0], 7)
    assert run(lambda: None) is None


def test_defaults_are_those_asked_for_and_restored() -> None:
    assert dtype_of(run(lambda: 1, default_int=i32)) is i32
    assert dtype_of(run(lambda: 0.5, default_float=f32)) is f32
    assert (defaults.integer, defaults.floating) == (i64, f64)


def test_defaults_are_restored_after_an_error() -> None:
    def fails(a):
        return a[5]

    with pytest.raises(IndexError):
        run(fails, np.zeros(3), default_int=i32)
    assert defaults.integer is i64


def test_arrays_change_in_place_and_keywords_bind() -> None:
    def fill(a, value):
        for i in range(len(a)):
            a[i] = value

    array = np.zeros(3, np.int8)
    run(fill, value=300, a=array)
    assert array.tolist() == [44, 44, 44]


def test_closures_and_globals_are_reached() -> None:
    offset = 10

    def inner(x):
        return x * SCALE + offset

    def outer(x):
        return inner(x) + math.floor(2.5)

    assert to_python(run(outer, 2)) == 18


def test_original_function_is_untouched() -> None:
    def f(x):
        y = x
        return y

    before = f.__code__
    run(f, 1)
    assert f.__code__ is before
    assert f(5) == 5


def test_field_views() -> None:
    def shift(f):
        for i in f:
            f[i] += [1.0, i]

    field = FieldView.zeros(f32, (3,), (2,))
    run(shift, field)
    assert field.array.tolist() == [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]


def test_field_with_an_offset() -> None:
    def store(f):
        for i in f:
            f[i] = i

    field = FieldView(np.zeros(3, np.int32), i32, offset=(-1,))
    run(store, field)
    assert field.array.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x & 1.5,
        lambda x: qd.Vector([x, x]) + qd.Vector([x, x, x]),
        lambda x: "text" * x,
        lambda x: qd.Matrix([[x, x], [x, x]]) @ qd.Vector([x, x, x]),
        lambda x: 1 if qd.Vector([x, x]) > 0 else 2,
        lambda x: 2 ** qd.i32(x - 5),
        lambda x: qd.bit_cast(qd.f32(x), qd.i64),
        lambda x: qd.atomic_add(x + 1, 1),
    ],
)
def test_what_has_no_meaning_is_refused(function: object) -> None:
    with pytest.raises(OracleError):
        run(function, 3)


def test_atomic_operations_on_names() -> None:
    def counted(n: qd.i32):
        s = n
        old = qd.atomic_add(s, 5)
        other = qd.atomic_max(s, 100)
        return old, other, s

    assert to_python(run(counted, 2)) == (2, 7, 100)


def test_atomic_operations_see_what_their_operands_did() -> None:
    def nested(x):
        return qd.atomic_max(x[2], qd.atomic_add(x[2], 42)), qd.atomic_cas(x[0], qd.atomic_exchange(x[0], 9), 1)

    x = np.array([7, 0, 255], np.uint8)
    assert to_python(run(nested, x)) == (41, 9)
    assert x.tolist() == [9, 0, 255]


def test_narrow_floats_round_once() -> None:
    assert numerics.round_to_bf16(np.float64(1 + 2**-8 + 2**-40)) == np.float32(1 + 2**-7)
    assert numerics.round_to_bf16(np.float64(1 + 2**-8)) == np.float32(1.0)
    assert numerics.round_to_bf16(np.float64(2.0**-133)) == np.float32(2.0**-133)
    assert numerics.convert(np.int64(2**60 + 2**52 + 1), i64, bf16) == np.float32(2.0**60 + 2.0**53)
    with numerics.quiet():
        assert numerics.convert(np.float64(65520.0), f64, f16) == np.float16(np.inf)


def test_saturation_at_the_edges() -> None:
    with numerics.quiet():
        for value, target, expected in [
            (2.0**63, i64, 2**63 - 1),
            (-(2.0**63), i64, -(2**63)),
            (127.9, i8, 127),
            (128.0, i8, 127),
            (255.5, u8, 255),
            (-0.9, u8, 0),
            (math.nan, i32, 0),
            (math.inf, i32, 2**31 - 1),
        ]:
            assert int(numerics.convert(np.float64(value), f64, target)) == expected


def test_truth_values_count_as_weak_integers() -> None:
    yes = Scalar(u1, np.True_)
    assert dtype_of(settle(yes + yes)) is i64
    assert (yes + yes).item() == 2
    assert dtype_of(yes & yes) is u1
    assert dtype_of(yes * Scalar(i8, np.int8(3))) is i8
