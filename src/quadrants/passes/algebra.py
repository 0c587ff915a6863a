"""Laws of arithmetic: sums, products, quotients, powers, extremes."""

from __future__ import annotations

import math
from typing import Any

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import scalar_of
from quadrants.passes.fold import fitting
from quadrants.passes.laws import Found, Rewriter, defined_by, instead, is_float, is_negative_zero, left, plain, right

# Addition and subtraction.


@right("add")
def add_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if is_float(a.type):
        return a if is_negative_zero(n) else None  # x + -0.0 = x
    if n == 0:
        return a  # x + 0 = x
    for kind, place in (("add", 1), ("sub", 0)):
        inner = defined_by(a, kind)
        m = s.numbers.get(inner.operands[place]) if inner is not None else None
        total = fitting(scalar_of(a.type), n + m) if m is not None else None
        if inner is not None and total is not None:
            number = s.constant(op, a.type, total)
            if kind == "add":
                return instead(op, "add", inner.operands[0], number)  # (x + m) + n = x + (m + n)
            return instead(op, "sub", number, inner.operands[1])  # (m - x) + n = (m + n) - x
    return None


@plain("add")
def add_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if (negated := defined_by(b, "neg")) is not None:
        return instead(op, "sub", a, negated.operands[0])  # x + -y = x - y
    if (negated := defined_by(a, "neg")) is not None:
        return instead(op, "sub", b, negated.operands[0])  # -x + y = y - x
    if is_float(a.type):
        return None
    inner = defined_by(a, "sub")
    if inner is not None and inner.operands[1] is b:
        return inner.operands[0]  # (x - y) + y = x
    inner = defined_by(b, "sub")
    return inner.operands[0] if inner is not None and inner.operands[1] is a else None  # y + (x - y) = x


@right("sub")
def sub_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if is_float(a.type):
        return a if n == 0 and not is_negative_zero(n) else None  # x - 0.0 = x
    if n == 0:
        return a  # x - 0 = x
    negative = fitting(scalar_of(a.type), -n) if scalar_of(a.type).is_signed else None
    return instead(op, "add", a, s.constant(op, a.type, negative)) if negative is not None else None  # x + -n


@left("sub")
def number_sub(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0 and (not is_float(a.type) or is_negative_zero(n)):
        return instead(op, "neg", b)  # 0 - x = -x; -0.0 - x = -x
    return None


@plain("sub")
def sub_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if (negated := defined_by(b, "neg")) is not None:
        return instead(op, "add", a, negated.operands[0])  # x - -y = x + y
    if is_float(a.type):
        return None
    if a is b:
        return s.constant(op, a.type, 0)  # x - x = 0
    inner = defined_by(a, "add")
    if inner is not None and b in inner.operands:
        x, y = inner.operands
        return x if b is y else y  # (x + y) - y = x
    inner = defined_by(b, "add")
    if inner is not None and a in inner.operands:
        x, y = inner.operands
        return instead(op, "neg", x if a is y else y)  # y - (x + y) = -x
    inner = defined_by(a, "sub")
    if inner is not None and inner.operands[0] is b:
        return instead(op, "neg", inner.operands[1])  # (x - y) - x = -y
    return None


@plain("neg")
def neg_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if (negated := defined_by(a, "neg")) is not None:
        return negated.operands[0]  # -(-x) = x
    if not is_float(a.type) and (difference := defined_by(a, "sub")) is not None:
        return instead(op, "sub", difference.operands[1], difference.operands[0])  # -(x - y) = y - x
    return None


# Multiplication, division, powers.


@right("mul")
def mul_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 1:
        return a  # x * 1 = x
    if n == -1:
        return instead(op, "neg", a)  # x * -1 = -x
    if is_float(a.type):
        return None
    if n == 0:
        return b  # x * 0 = 0
    inner = defined_by(a, "mul")
    if inner is not None and (m := s.numbers.get(inner.operands[1])) is not None:
        product = fitting(scalar_of(a.type), n * m)
        if product is not None:
            return instead(op, "mul", inner.operands[0], s.constant(op, a.type, product))  # (x * m) * n = x * (m * n)
    return None


@plain("mul")
def mul_plain(s: Rewriter, op: Op) -> Found:
    a = defined_by(op.operands[0], "neg")
    if a is not None and (b := defined_by(op.operands[1], "neg")) is not None:
        return instead(op, "mul", a.operands[0], b.operands[0])  # -x * -y = x * y
    return None


@right("div")
def div_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 1:
        return a  # x / 1 = x
    if n == -1:
        return instead(op, "neg", a)  # x / -1 = -x
    scalar = scalar_of(a.type)
    if scalar.bits >= 32 and math.isfinite(n) and n != 0 and abs(math.frexp(n)[0]) == 0.5:
        exponent = math.frexp(n)[1] - 1
        if abs(exponent) <= (100 if scalar.bits == 32 else 1000):
            return instead(op, "mul", a, s.constant(op, a.type, 1 / n))  # x / 2**k = x * 2**-k
    return None


@plain("div")
def div_plain(s: Rewriter, op: Op) -> Found:
    a = defined_by(op.operands[0], "neg")
    if a is not None and (b := defined_by(op.operands[1], "neg")) is not None:
        return instead(op, "div", a.operands[0], b.operands[0])  # -x / -y = x / y
    return None


@right("floordiv", "truncdiv")
def integer_division_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if is_float(a.type):
        return None
    if n == 1:
        return a  # x // 1 = x
    if n > 0 and n & (n - 1) == 0 and (op.kind == "floordiv" or not scalar_of(a.type).is_signed) and s.may_narrow():
        return instead(op, "shr", a, s.constant(op, a.type, n.bit_length() - 1))  # the floor of x / 2**k = x >> k
    return None


@right("mod", "truncmod")
def remainder_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if is_float(a.type):
        return None
    if n == 1:
        return s.constant(op, a.type, 0)  # x % 1 = 0
    if n > 0 and n & (n - 1) == 0 and (op.kind == "mod" or not scalar_of(a.type).is_signed) and s.may_narrow():
        return instead(op, "bit_and", a, s.constant(op, a.type, n - 1))  # x mod 2**k = the low k bits
    return None


@left("floordiv", "truncdiv", "mod", "truncmod")
def zero_divided(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 and not is_float(a.type) else None  # 0 // x = 0 % x = 0, for x = 0 too


@plain("mod", "truncmod")
def remainder_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return s.constant(op, a.type, 0) if a is b and not is_float(a.type) else None  # x % x = 0, for x = 0 too


@right("pow")
def pow_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return s.constant(op, a.type, 1)  # x ** 0 = 1, for NaN too
    if n == 1:
        return a  # x ** 1 = x
    if n == 2:
        return instead(op, "mul", a, a)  # x ** 2 = x * x, rounded once
    if n in (3, 4):  # two roundings or three halves of one: within the bound of the power, and never out of range
        square = s.emit(op, "mul", (a, a), a.type)
        return instead(op, "mul", square, a if n == 3 else square)
    if n == -1 and is_float(a.type):
        return instead(op, "div", s.constant(op, a.type, 1), a)  # x ** -1 = 1 / x, rounded once
    return None


# Magnitudes and extremes.


@plain("abs")
def abs_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if defined_by(a, "abs") is not None or not (is_float(a.type) or scalar_of(a.type).is_signed):
        return a  # ||x|| = |x|; |x| = x for unsigned
    if (negated := defined_by(a, "neg")) is not None:
        return instead(op, "abs", negated.operands[0])  # |-x| = |x|
    return None


@right("min")
def min_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    scalar = scalar_of(a.type)
    if scalar.is_float:
        return None
    return a if n == scalar.maximum else b if n == scalar.minimum else None  # min(x, top) = x; min(x, bottom) = bottom


@right("max")
def max_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    scalar = scalar_of(a.type)
    if scalar.is_float:
        return None
    return a if n == scalar.minimum else b if n == scalar.maximum else None  # max(x, bottom) = x; max(x, top) = top


@plain("min", "max")
def extreme_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return a if a is b else None  # min(x, x) = max(x, x) = x


@plain("floor", "ceil", "trunc", "round")
def rounding_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    owner = a.owner
    return a if type(owner) is Op and owner.kind in ("floor", "ceil", "trunc", "round") else None  # whole already
