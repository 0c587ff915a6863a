"""Laws of bits, comparisons and selection."""

from __future__ import annotations

from typing import Any

from quadrants.ir import evaluate as ev
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import Type, scalar_of, u1
from quadrants.passes.laws import Found, Rewriter, defined_by, instead, is_float, left, plain, right

# Bits.


@right("bit_and")
def and_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return b  # x & 0 = 0
    return a if n == -1 or n == _all_bits(a.type) else None  # x & ~0 = x


@right("bit_or")
def or_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return a  # x | 0 = x
    return b if n == -1 or n == _all_bits(a.type) else None  # x | ~0 = ~0


@right("bit_xor")
def xor_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return a  # x ^ 0 = x
    return instead(op, "bit_not", a) if n == -1 or n == _all_bits(a.type) else None  # x ^ ~0 = ~x


def _all_bits(type_: Type) -> int:
    scalar = scalar_of(type_)
    return -1 if scalar.is_signed else scalar.maximum


@plain("bit_and", "bit_or")
def same_bits(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return a if a is b else None  # x & x = x | x = x


@plain("bit_xor")
def xor_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return s.constant(op, a.type, 0) if a is b else None  # x ^ x = 0


_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@plain("bit_not")
def not_plain(s: Rewriter, op: Op) -> Found:
    owner = op.operands[0].owner
    if type(owner) is not Op:
        return None
    if owner.kind == "bit_not":
        return owner.operands[0]  # ~~x = x
    opposite = _OPPOSITE.get(owner.kind)
    if opposite is not None and (owner.kind in ("eq", "ne") or not is_float(owner.operands[0].type)):
        return instead(op, opposite, *owner.operands)  # not (x < y) is x >= y; with NaN just for == and !=
    return None


@right("shl", "shr", "ushr")
def shift_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 else None  # x << 0 = x >> 0 = x


@left("shl", "shr", "ushr")
def zero_shifted(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 else None  # 0 << x = 0 >> x = 0


# Comparisons.


@right("eq", "ne", "lt", "le", "gt", "ge")
def compare_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    scalar = scalar_of(a.type)
    if scalar.is_float:
        return None
    kind = op.kind
    if a.type is u1:
        if kind in ("eq", "ne"):
            return a if bool(n) == (kind == "eq") else instead(op, "bit_not", a)  # x == true is x
        return None
    if kind in ("eq", "ne"):
        inner = defined_by(a, "add")
        if inner is not None and (m := s.numbers.get(inner.operands[1])) is not None:
            shifted = ev.wrap(scalar, n - m)  # x + m == n is x == n - m
            return instead(op, kind, inner.operands[0], s.constant(op, a.type, shifted))
        return None
    low = max(scalar.minimum, 0) if defined_by(a, "dim") is not None else scalar.minimum
    return _outside(s, op, kind, n, low, scalar.maximum)


def _outside(s: Rewriter, op: Op, kind: str, n: int, low: int, high: int) -> Found:
    """A comparison of a value in [low, high] with n, where that decides it."""
    always = {"lt": high < n, "le": high <= n, "gt": low > n, "ge": low >= n}[kind]
    never = {"lt": low >= n, "le": low > n, "gt": high <= n, "ge": high < n}[kind]
    return s.constant(op, op.results[0].type, always) if always or never else None


@plain("eq", "ne", "lt", "le", "gt", "ge")
def compare_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if a is b and not is_float(a.type):
        return s.constant(op, op.results[0].type, op.kind in ("eq", "le", "ge"))  # x == x, but for NaN
    return None


# Selection.


@plain("select")
def select_plain(s: Rewriter, op: Op) -> Found:
    condition, yes, no = op.operands
    if yes is no:
        return yes  # select(c, x, x) = x
    known = s.numbers.get(condition)
    if known is not None:
        return yes if known else no  # select(true, x, y) = x
    if (negated := defined_by(condition, "bit_not")) is not None:
        return instead(op, "select", negated.operands[0], no, yes)  # select(not c, x, y) = select(c, y, x)
    if yes.type is u1:
        return _select_truth(s, op, condition, yes, no)
    if (inner := defined_by(yes, "select")) is not None and inner.operands[0] is condition:
        return instead(
            op, "select", condition, inner.operands[1], no
        )  # select(c, select(c, x, y), z) = select(c, x, z)
    if (inner := defined_by(no, "select")) is not None and inner.operands[0] is condition:
        return instead(
            op, "select", condition, yes, inner.operands[2]
        )  # select(c, x, select(c, y, z)) = select(c, x, z)
    return _select_extreme(op, condition, yes, no)


def _select_truth(s: Rewriter, op: Op, condition: Value, yes: Value, no: Value) -> Found:
    """select(c, x, false) = c & x; select(c, true, x) = c | x; select(c, false, true) = not c."""
    yes_known, no_known = s.numbers.get(yes), s.numbers.get(no)
    if yes_known is False and no_known is True:
        return instead(op, "bit_not", condition)
    if no_known is False or no is condition:
        return instead(op, "bit_and", condition, yes)
    if yes_known is True or yes is condition:
        return instead(op, "bit_or", condition, no)
    return None


def _select_extreme(op: Op, condition: Value, yes: Value, no: Value) -> Found:
    """select(x < y, x, y) = min(x, y), of integers."""
    owner = condition.owner
    if type(owner) is not Op or is_float(yes.type) or owner.kind not in ("lt", "le", "gt", "ge"):
        return None
    if owner.operands == (yes, no):
        return instead(op, "min" if owner.kind in ("lt", "le") else "max", yes, no)
    if owner.operands == (no, yes):
        return instead(op, "max" if owner.kind in ("lt", "le") else "min", yes, no)
    return None
