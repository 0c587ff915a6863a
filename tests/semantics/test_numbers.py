"""Numbers: widths, weak literals, promotion, wrap, division, shifts, casts, IEEE floats.

Every expected dtype and value is worked out by hand from the definition of the language.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Executor, Program, mismatch, program

PROGRAMS: list[Program] = []
numbers = partial(program, PROGRAMS, section="Numbers")
AFTER_INIT = ("i32", "f32")
HALF = 0.5
SEVEN = 7
INFINITY = float("inf")
NAN = float("nan")
I32_MIN = -(2**31)


# Weak numbers.


@numbers(args=(3.0,), result=("f32", 0.30000001192092896))
def weak_float_takes_the_dtype_of_the_operand(x: qd.f32):
    return 0.1 * x


@numbers(args=(1.0,), result=("f16", 0.0999755859375))
def weak_float_with_half(x: qd.f16):
    return 0.1 * x


@numbers(args=(1.0,), result=("bf16", 0.10009765625))
def weak_float_with_bfloat(x: qd.bf16):
    return x * 0.1


@numbers(args=(1.0,), result=("f64", 0.1))
def weak_float_keeps_double_precision(x: qd.f64):
    return 0.1 * x


@numbers(args=(5,), result=("i8", 6))
def weak_integer_takes_the_width_of_the_operand(x: qd.i8):
    return x + 1


@numbers(args=(1.5,), result=("f32", 3.0))
def weak_integer_with_a_float(x: qd.f32):
    return 2 * x


@numbers(args=(5,), result=("f64", 2.5))
def weak_float_with_an_integer_gives_the_default_float(x: qd.i32):
    return x * 0.5


@numbers(args=(5,), result=("f32", 2.5), defaults=AFTER_INIT)
def weak_float_with_an_integer_after_init(x: qd.i32):
    return x * 0.5


@numbers(result=("i64", 3))
def what_stays_weak_is_i64():
    return 1 + 2


@numbers(result=("f64", 0.1))
def what_stays_weak_is_f64():
    return 0.1


@numbers(result=("i32", 3), defaults=AFTER_INIT)
def what_stays_weak_is_i32_after_init():
    return 1 + 2


@numbers(result=("f32", 0.10000000149011612), defaults=AFTER_INIT)
def what_stays_weak_is_f32_after_init():
    return 0.1


@numbers(args=(41,), result=("i64", 42))
def unannotated_integer_argument_is_weak(n):
    return n + 1


@numbers(args=(0.1, 3.0), result=("f32", 0.30000001192092896))
def unannotated_float_argument_is_weak(x, y: qd.f32):
    return x * y


@numbers(args=(3, 2.0), result=("f32", 6.0))
def weak_integer_argument_meets_a_float(n, y: qd.f32):
    return n * y


@numbers(args=(3.0,), result=("f32", 1.5))
def captured_float_is_weak(x: qd.f32):
    return HALF * x


@numbers(args=(1,), result=("u8", 8))
def captured_integer_is_weak(x: qd.u8):
    return x + SEVEN


@numbers(args=(1.0,), result=("f32", 0.30000001192092896))
def weak_arithmetic_meets_the_operand_last(x: qd.f32):
    return (0.1 + 0.2) * x


# Two typed operands.


@numbers(args=(1.5, 2), result=("f32", 3.5))
def float_beats_a_wider_integer(x: qd.f32, n: qd.i64):
    return x + n


@numbers(args=(1.5, 2), result=("f16", 3.5))
def half_beats_a_wider_integer(x: qd.f16, n: qd.i64):
    return x + n


@numbers(args=(0.5, 0.25), result=("f64", 0.75))
def wider_float_wins(x: qd.f32, y: qd.f64):
    return x + y


@numbers(args=(100, 100), result=("i32", 200))
def wider_integer_wins(a: qd.i8, b: qd.i32):
    return a + b


@numbers(args=(200, -1), result=("i32", 199))
def wider_signed_beats_unsigned(a: qd.u8, b: qd.i32):
    return a + b


@numbers(args=(-1, 0), result=("u32", 4294967295))
def unsigned_wins_at_equal_width(a: qd.i32, b: qd.u32):
    return a + b


@numbers(args=(-1, 1), result=("i64", 0))
def wider_signed_beats_narrower_unsigned(a: qd.i64, b: qd.u32):
    return a + b


@numbers(args=(16777217, 0.0), result=("f32", 16777216.0))
def integer_is_rounded_to_the_floats_own_width(n: qd.i32, x: qd.f32):
    return n + x


# Division and powers.


@numbers(args=(7, 2), result=("f64", 3.5))
def true_division_of_integers_gives_the_default_float(a: qd.i32, b: qd.i32):
    return a / b


@numbers(args=(7, 2), result=("f32", 3.5), defaults=AFTER_INIT)
def true_division_of_integers_after_init(a: qd.i64, b: qd.i64):
    return a / b


@numbers(args=(7,), result=("f64", 3.5))
def true_division_of_weak_integers(n):
    return n / 2


@numbers(args=(-7, 2), result=(("i32", -4), ("i32", 1)))
def floor_division_and_remainder_of_a_negative_number(a: qd.i32, b: qd.i32):
    return a // b, a % b


@numbers(args=(7, -2), result=(("i32", -4), ("i32", -1)))
def floor_division_and_remainder_by_a_negative_number(a: qd.i32, b: qd.i32):
    return a // b, a % b


@numbers(args=(-7.5, 2.0), result=(("f64", -4.0), ("f64", 0.5)))
def floor_division_and_remainder_of_floats(a: qd.f64, b: qd.f64):
    return a // b, a % b


@numbers(args=(7.5, -2.0), result=(("f32", -4.0), ("f32", -0.5)))
def remainder_of_floats_has_the_sign_of_the_divisor(a: qd.f32, b: qd.f32):
    return a // b, a % b


@numbers(args=(1.0, 0.1), result=("f64", 9.0))
def floor_division_of_floats_is_of_the_exact_quotient(a: qd.f64, b: qd.f64):
    return a // b


@numbers(args=(7, 0), result=(("i32", 0), ("i32", 0)))
def integer_division_by_zero_gives_zero(a: qd.i32, b: qd.i32):
    return a // b, a % b


@numbers(args=(7, 0), result=(("u64", 0), ("u64", 0)))
def unsigned_division_by_zero_gives_zero(a: qd.u64, b: qd.u64):
    return a // b, a % b


@numbers(args=(I32_MIN, -1), result=(("i32", I32_MIN), ("i32", 0)))
def the_one_quotient_that_overflows_wraps(a: qd.i32, b: qd.i32):
    return a // b, a % b


@numbers(args=(3, 4), result=("i32", 81))
def integer_power(a: qd.i32, b: qd.i32):
    return a**b


@numbers(args=(10,), result=("i8", -24))
def integer_power_wraps(a: qd.i8):
    return a**3


@numbers(args=(2,), result=("f64", 0.5))
def integer_to_a_negative_literal_power_is_a_float(a: qd.i32):
    return a**-1


@numbers(args=(0, 0), result=("i32", 1))
def zero_to_the_power_zero(a: qd.i32, b: qd.i32):
    return a**b


@numbers(args=(1.5, 2), result=(("f32", 2.25), ("f32", 2.25)))
def float_to_an_integer_power(x: qd.f32, n: qd.i32):
    return x**2, x**n


@numbers(args=(-8.0,), result=("f64", NAN))
def negative_number_to_a_fractional_power_is_nan(x: qd.f64):
    return x**0.5


# Comparisons.


@numbers(args=(1, 2), result=(("u1", True), ("u1", False), ("u1", True), ("u1", False)))
def comparisons_give_truth_values(a: qd.i32, b: qd.i32):
    return a < b, a > b, a != b, a == b


@numbers(args=(3,), result=(("u1", True), ("u1", False)))
def chained_comparisons(x: qd.i32):
    return 1 < x < 5, 1 < x < 3


@numbers(args=(1.5, 2), result=("u1", True))
def comparison_meets_in_the_common_type(x: qd.f32, n: qd.i64):
    return x < n


@numbers(args=(1, 2), result=(("u1", True), ("u1", False), ("u1", True)))
def truth_values_combine_as_bits(a: qd.i32, b: qd.i32):
    return (a < b) | (b < a), (a < b) & (b < a), (a < b) ^ (b < a)


@numbers(args=(1, 2), result=(("u1", False), ("u1", True)))
def negation_gives_a_truth_value(a: qd.i32, b: qd.i32):
    return not a < b, not a > b


# Wrap.


@numbers(args=(127, 1), result=("i8", -128))
def signed_addition_wraps(a: qd.i8, b: qd.i8):
    return a + b


@numbers(args=(0, 1), result=("u8", 255))
def unsigned_subtraction_wraps(a: qd.u8, b: qd.u8):
    return a - b


@numbers(args=(65536, 65537), result=("u32", 65536))
def multiplication_wraps(a: qd.u32, b: qd.u32):
    return a * b


@numbers(args=(2**63 - 1, 1), result=("i64", -(2**63)))
def widest_addition_wraps(a: qd.i64, b: qd.i64):
    return a + b


@numbers(args=(I32_MIN,), result=(("i32", I32_MIN), ("i32", I32_MIN)))
def negation_and_absolute_value_of_the_smallest_integer(a: qd.i32):
    return -a, abs(a)


@numbers(args=(1,), result=("u16", 65535))
def negation_of_an_unsigned_number_wraps(a: qd.u16):
    return -a


@numbers(args=(5,), result=(("i32", -6), ("u8", 250)))
def complement(a: qd.i32):
    return ~a, ~qd.u8(5)


@numbers(args=(0b1100, 0b1010), result=(("i16", 0b1000), ("i16", 0b1110), ("i16", 0b0110)))
def bit_operations(a: qd.i16, b: qd.i16):
    return a & b, a | b, a ^ b


# Shifts.


@numbers(args=(1, 31), result=("i32", I32_MIN))
def left_shift_reaches_the_sign(a: qd.i32, b: qd.i32):
    return a << b


@numbers(args=(1, 32), result=("i32", 0))
def left_shift_by_the_width_shifts_everything_out(a: qd.i32, b: qd.i32):
    return a << b


@numbers(args=(255, 8), result=(("u8", 0), ("u8", 0)))
def narrow_shifts_by_the_width(a: qd.u8, b: qd.u8):
    return a << b, a >> b


@numbers(args=(1, 64), result=("i64", 0))
def widest_left_shift_by_the_width(a: qd.i64, b: qd.i64):
    return a << b


@numbers(args=(-8, 1), result=("i32", -4))
def right_shift_of_a_signed_number_is_arithmetic(a: qd.i32, b: qd.i32):
    return a >> b


@numbers(args=(-8, 40), result=("i32", -1))
def right_shift_by_more_than_the_width_leaves_the_sign(a: qd.i32, b: qd.i32):
    return a >> b


@numbers(args=(2**32 - 1, 32), result=("u32", 0))
def right_shift_of_an_unsigned_number_by_the_width(a: qd.u32, b: qd.u32):
    return a >> b


@numbers(args=(-8, 1), result=("i32", 2147483644))
def logical_right_shift(a: qd.i32, b: qd.i32):
    return qd.bit_shr(a, b)


# Casts.


@numbers(args=(2.9, -2.9), result=(("i32", 2), ("i32", -2)))
def float_to_integer_truncates(x: qd.f64, y: qd.f64):
    return qd.cast(x, qd.i32), qd.cast(y, qd.i32)


@numbers(args=(1e20, -1e20), result=(("i32", 2**31 - 1), ("i32", I32_MIN)))
def float_to_integer_saturates(x: qd.f32, y: qd.f32):
    return qd.cast(x, qd.i32), qd.cast(y, qd.i32)


@numbers(args=(300.7, -1.5), result=(("u8", 255), ("u8", 0)))
def float_to_unsigned_saturates(x: qd.f32, y: qd.f32):
    return qd.u8(x), qd.u8(y)


@numbers(args=(INFINITY, 1e19), result=(("i64", 2**63 - 1), ("u64", 10**19)))
def float_to_the_widest_integers(x: qd.f64, y: qd.f64):
    return qd.i64(x), qd.u64(y)


@numbers(args=(NAN,), result=(("i32", 0), ("u8", 0)))
def nan_to_integer_is_zero(x: qd.f32):
    return qd.i32(x), qd.u8(x)


@numbers(args=(300, -1), result=(("u8", 44), ("u32", 2**32 - 1)))
def integer_to_a_narrower_integer_wraps(a: qd.i32, b: qd.i32):
    return qd.u8(a), qd.u32(b)


@numbers(args=(2.9,), result=("i64", 2))
def int_gives_the_default_integer(x: qd.f32):
    return int(x)


@numbers(args=(3,), result=("f64", 3.0))
def float_gives_the_default_float(n: qd.i32):
    return float(n)


@numbers(args=(0.5, 0), result=(("u1", True), ("u1", False)))
def bool_is_unequal_to_zero(x: qd.f32, n: qd.i32):
    return bool(x), bool(n)


@numbers(args=(1.0,), result=("i32", 1065353216))
def bits_of_a_float(x: qd.f32):
    return qd.bit_cast(x, qd.i32)


@numbers(args=(2.5, 3.5, -2.5), result=(("f32", 2.0), ("f32", 4.0), ("f32", -2.0)))
def round_is_half_to_even(x: qd.f32, y: qd.f32, z: qd.f32):
    return qd.round(x), qd.round(y), qd.round(z)


@numbers(args=(-2.5,), result=(("f64", -3.0), ("f64", -2.0)))
def floor_and_ceil_keep_the_type(x: qd.f64):
    return qd.floor(x), qd.ceil(x)


# IEEE floats.


@numbers(args=(1.0, 0.0), result=(("f32", INFINITY), ("f32", -INFINITY), ("f32", NAN)))
def float_division_by_zero(x: qd.f32, y: qd.f32):
    return x / y, -x / y, y / y


@numbers(args=(7, 0), result=("f64", INFINITY))
def true_division_of_integers_by_zero_is_that_of_floats(a: qd.i32, b: qd.i32):
    return a / b


@numbers(args=(NAN,), result=(("u1", True), ("u1", False), ("u1", False), ("u1", False)))
def nan_is_unequal_to_itself(x: qd.f64):
    return x != x, x == x, x < x, x >= x


@numbers(args=(NAN,), result=("u1", True))
def negated_comparison_with_nan_holds(x: qd.f32):
    return not (x < 1.0)


@numbers(args=(INFINITY,), result=(("f32", NAN), ("f32", NAN)))
def infinity_is_not_folded_away(x: qd.f32):
    return x - x, x * 0.0


@numbers(args=(-0.0,), result=(("f32", 0.0), ("f32", -0.0), ("f32", -INFINITY)))
def zeros_have_signs(x: qd.f32):
    return x + 0.0, x * 1.0, 1.0 / x


@numbers(args=(0.0,), result=(("f64", -0.0), ("f64", 0.0)))
def negation_changes_the_sign_of_zero_and_subtraction_does_not(x: qd.f64):
    return -x, 0.0 - x


@numbers(args=(2.0**-126, 4.0), result=("f32", 2.0**-128))
def denormals_are_kept(x: qd.f32, y: qd.f32):
    return x / y


@numbers(args=(1e8, 1.0), result=("f32", 0.0))
def sums_are_not_reassociated(x: qd.f32, y: qd.f32):
    return (x + y) - x


@numbers(args=(NAN, 1.0), result=(("f32", 1.0), ("f32", 1.0), ("f32", 1.0), ("f32", 1.0), ("f32", NAN)))
def extremes_of_nan_and_a_number_are_the_number(x: qd.f32, y: qd.f32):
    return min(x, y), min(y, x), max(x, y), max(y, x), max(x, x)


@numbers(args=(3, 2.5), result=(("f32", 2.5), ("f32", 3.0)))
def extremes_meet_in_the_common_type(a: qd.i32, b: qd.f32):
    return min(a, b), qd.max(a, b)


@numbers(args=(2.25, 2), result=(("f32", 1.5), ("f64", 1.4142135623730951)), tolerance=1e-15)
def square_root_of_an_integer_is_the_default_float(x: qd.f32, n: qd.i32):
    return qd.sqrt(x), qd.sqrt(n)


@numbers(args=(np.float32(0.5), np.int16(3)), result=(("f32", 1.0), ("i16", 4)))
def numpy_scalars_are_typed(x, n):
    return x + 0.5, n + 1


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_numbers(item: Program, executor: Executor) -> None:
    assert mismatch(item, executor.run(item)) is None
