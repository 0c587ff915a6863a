"""The algebra that `simplify` applies: tables from an operation's kind to its laws.

A law looks at one operation and gives None (it does not apply), a value (it is equal to the result) or a new operation
(to be taken instead; laws are tried on it again). Laws on floats hold for every IEEE value, infinities, NaN and signed
zeros included; only the sign and payload of a NaN may differ. "Narrow" laws that trade an operation for cheaper bits
wait for the lowered stage, because range and dependence analysis read the arithmetic form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from quadrants.ir import evaluate as ev
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import MatrixType, ScalarType, Type, scalar_of, u1
from quadrants.passes.fold import element_of

__all__ = ["LEFT", "PLAIN", "RIGHT", "Rewriter"]

Found = Value | Op | None


class Rewriter(Protocol):
    """What a law may use: the known numbers (scalars and matrices that hold one number), and new operations."""

    numbers: dict[Value, Any]

    def may_narrow(self) -> bool: ...
    def emit(self, like: Op, kind: str, operands: tuple[Value, ...], type_: Type, attributes: Any = None) -> Value: ...
    def constant(self, like: Op, type_: Type, number: Any) -> Value: ...


RightLaw = Callable[[Rewriter, Op, Value, Value, Any], Found]
PlainLaw = Callable[[Rewriter, Op], Found]

RIGHT: dict[str, RightLaw] = {}
"""Laws of operations whose second operand is a known number; commutative operations have it there."""
LEFT: dict[str, RightLaw] = {}
"""Laws of operations whose first operand alone is a known number."""
PLAIN: dict[str, PlainLaw] = {}
"""Laws that ask for no known number."""


def _right(*kinds: str) -> Callable[[RightLaw], RightLaw]:
    def register(law: RightLaw) -> RightLaw:
        RIGHT.update(dict.fromkeys(kinds, law))
        return law

    return register


def _left(*kinds: str) -> Callable[[RightLaw], RightLaw]:
    def register(law: RightLaw) -> RightLaw:
        LEFT.update(dict.fromkeys(kinds, law))
        return law

    return register


def _plain(*kinds: str) -> Callable[[PlainLaw], PlainLaw]:
    def register(law: PlainLaw) -> PlainLaw:
        PLAIN.update(dict.fromkeys(kinds, law))
        return law

    return register


def instead(op: Op, kind: str, *operands: Value, **attributes: Any) -> Op:
    """A new operation for `op`, of its result type and location."""
    return Op(kind, operands, (op.results[0].type,), attributes or None, (), op.location)


def _is_float(type_: Type) -> bool:
    return (type_ if type(type_) is ScalarType else type_.scalar).kind == "f"  # type: ignore[attr-defined]


def _defined_by(value: Value, kind: str) -> Op | None:
    """The operation that defines a value, if it is of that kind."""
    owner = value.owner
    return owner if type(owner) is Op and owner.kind == kind else None


def _negative_zero(number: Any) -> bool:
    return number == 0 and math.copysign(1.0, number) < 0


# Addition and subtraction.


@_right("add")
def add_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if _is_float(a.type):
        return a if _negative_zero(n) else None  # x + -0.0 = x
    if n == 0:
        return a  # x + 0 = x
    inner = _defined_by(a, "add")
    if inner is not None and (m := s.numbers.get(inner.operands[1])) is not None:
        total = ev.wrap(scalar_of(a.type), n + m)  # (x + m) + n = x + (m + n)
        return instead(op, "add", inner.operands[0], s.constant(op, a.type, total))
    inner = _defined_by(a, "sub")
    if inner is not None and (m := s.numbers.get(inner.operands[0])) is not None:
        total = ev.wrap(scalar_of(a.type), n + m)  # (m - x) + n = (m + n) - x
        return instead(op, "sub", s.constant(op, a.type, total), inner.operands[1])
    return None


@_plain("add")
def add_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if (negated := _defined_by(b, "neg")) is not None:
        return instead(op, "sub", a, negated.operands[0])  # x + -y = x - y
    if (negated := _defined_by(a, "neg")) is not None:
        return instead(op, "sub", b, negated.operands[0])  # -x + y = y - x
    if _is_float(a.type):
        return None
    inner = _defined_by(a, "sub")
    if inner is not None and inner.operands[1] is b:
        return inner.operands[0]  # (x - y) + y = x
    inner = _defined_by(b, "sub")
    return inner.operands[0] if inner is not None and inner.operands[1] is a else None  # y + (x - y) = x


@_right("sub")
def sub_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if _is_float(a.type):
        return a if n == 0 and not _negative_zero(n) else None  # x - 0.0 = x
    if n == 0:
        return a  # x - 0 = x
    scalar = scalar_of(a.type)
    return instead(op, "add", a, s.constant(op, a.type, ev.wrap(scalar, -n))) if scalar.is_signed else None  # x + -n


@_left("sub")
def number_sub(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0 and (not _is_float(a.type) or _negative_zero(n)):
        return instead(op, "neg", b)  # 0 - x = -x; -0.0 - x = -x
    return None


@_plain("sub")
def sub_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if (negated := _defined_by(b, "neg")) is not None:
        return instead(op, "add", a, negated.operands[0])  # x - -y = x + y
    if _is_float(a.type):
        return None
    if a is b:
        return s.constant(op, a.type, 0)  # x - x = 0
    inner = _defined_by(a, "add")
    if inner is not None and b in inner.operands:
        x, y = inner.operands
        return x if b is y else y  # (x + y) - y = x
    inner = _defined_by(b, "add")
    if inner is not None and a in inner.operands:
        x, y = inner.operands
        return instead(op, "neg", x if a is y else y)  # y - (x + y) = -x
    inner = _defined_by(a, "sub")
    if inner is not None and inner.operands[0] is b:
        return instead(op, "neg", inner.operands[1])  # (x - y) - x = -y
    return None


@_plain("neg")
def neg_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if (negated := _defined_by(a, "neg")) is not None:
        return negated.operands[0]  # -(-x) = x
    if not _is_float(a.type) and (difference := _defined_by(a, "sub")) is not None:
        return instead(op, "sub", difference.operands[1], difference.operands[0])  # -(x - y) = y - x
    return None


# Multiplication, division, powers.


@_right("mul")
def mul_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 1:
        return a  # x * 1 = x
    if n == -1:
        return instead(op, "neg", a)  # x * -1 = -x
    if _is_float(a.type):
        return None
    if n == 0:
        return b  # x * 0 = 0
    inner = _defined_by(a, "mul")
    if inner is not None and (m := s.numbers.get(inner.operands[1])) is not None:
        product = ev.wrap(scalar_of(a.type), n * m)  # (x * m) * n = x * (m * n)
        return instead(op, "mul", inner.operands[0], s.constant(op, a.type, product))
    return None


@_plain("mul")
def mul_plain(s: Rewriter, op: Op) -> Found:
    a = _defined_by(op.operands[0], "neg")
    if a is not None and (b := _defined_by(op.operands[1], "neg")) is not None:
        return instead(op, "mul", a.operands[0], b.operands[0])  # -x * -y = x * y
    return None


@_right("div")
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


@_plain("div")
def div_plain(s: Rewriter, op: Op) -> Found:
    a = _defined_by(op.operands[0], "neg")
    if a is not None and (b := _defined_by(op.operands[1], "neg")) is not None:
        return instead(op, "div", a.operands[0], b.operands[0])  # -x / -y = x / y
    return None


@_right("floordiv", "truncdiv")
def integer_division_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if _is_float(a.type):
        return None
    if n == 1:
        return a  # x // 1 = x
    if n == 0:
        return b  # x // 0 = 0, as the table says
    if n > 0 and n & (n - 1) == 0 and (op.kind == "floordiv" or not scalar_of(a.type).is_signed) and s.may_narrow():
        return instead(op, "shr", a, s.constant(op, a.type, n.bit_length() - 1))  # the floor of x / 2**k = x >> k
    return None


@_right("mod", "truncmod")
def remainder_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if _is_float(a.type):
        return None
    if n in (0, 1):
        return s.constant(op, a.type, 0)  # x % 1 = 0; x % 0 = 0, as the table says
    if n > 0 and n & (n - 1) == 0 and (op.kind == "mod" or not scalar_of(a.type).is_signed) and s.may_narrow():
        return instead(op, "bit_and", a, s.constant(op, a.type, n - 1))  # x mod 2**k = the low k bits
    return None


@_left("floordiv", "truncdiv", "mod", "truncmod")
def zero_divided(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 and not _is_float(a.type) else None  # 0 // x = 0 % x = 0, for x = 0 too


@_plain("mod", "truncmod")
def remainder_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return s.constant(op, a.type, 0) if a is b and not _is_float(a.type) else None  # x % x = 0, for x = 0 too


@_right("pow")
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
    if n == -1 and _is_float(a.type):
        return instead(op, "div", s.constant(op, a.type, 1), a)  # x ** -1 = 1 / x, rounded once
    return None


# Magnitudes and extremes.


@_plain("abs")
def abs_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if _defined_by(a, "abs") is not None or not (_is_float(a.type) or scalar_of(a.type).is_signed):
        return a  # ||x|| = |x|; |x| = x for unsigned
    if (negated := _defined_by(a, "neg")) is not None:
        return instead(op, "abs", negated.operands[0])  # |-x| = |x|
    return None


@_right("min")
def min_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    scalar = scalar_of(a.type)
    if scalar.is_float:
        return None
    return a if n == scalar.maximum else b if n == scalar.minimum else None  # min(x, top) = x; min(x, bottom) = bottom


@_right("max")
def max_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    scalar = scalar_of(a.type)
    if scalar.is_float:
        return None
    return a if n == scalar.minimum else b if n == scalar.maximum else None  # max(x, bottom) = x; max(x, top) = top


@_plain("min", "max")
def extreme_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return a if a is b else None  # min(x, x) = max(x, x) = x


@_plain("floor", "ceil", "trunc", "round")
def rounding_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    owner = a.owner
    return a if type(owner) is Op and owner.kind in ("floor", "ceil", "trunc", "round") else None  # whole already


# Bits.


@_right("bit_and")
def and_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return b  # x & 0 = 0
    return a if n == -1 or n == _all_bits(a.type) else None  # x & ~0 = x


@_right("bit_or")
def or_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return a  # x | 0 = x
    return b if n == -1 or n == _all_bits(a.type) else None  # x | ~0 = ~0


@_right("bit_xor")
def xor_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    if n == 0:
        return a  # x ^ 0 = x
    return instead(op, "bit_not", a) if n == -1 or n == _all_bits(a.type) else None  # x ^ ~0 = ~x


def _all_bits(type_: Type) -> int:
    scalar = scalar_of(type_)
    return -1 if scalar.is_signed else scalar.maximum


@_plain("bit_and", "bit_or")
def same_bits(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return a if a is b else None  # x & x = x | x = x


@_plain("bit_xor")
def xor_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    return s.constant(op, a.type, 0) if a is b else None  # x ^ x = 0


_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@_plain("bit_not")
def not_plain(s: Rewriter, op: Op) -> Found:
    owner = op.operands[0].owner
    if type(owner) is not Op:
        return None
    if owner.kind == "bit_not":
        return owner.operands[0]  # ~~x = x
    opposite = _OPPOSITE.get(owner.kind)
    if opposite is not None and (owner.kind in ("eq", "ne") or not _is_float(owner.operands[0].type)):
        return instead(op, opposite, *owner.operands)  # not (x < y) is x >= y; with NaN just for == and !=
    return None


@_right("shl", "shr", "ushr")
def shift_number(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 else None  # x << 0 = x >> 0 = x


@_left("shl", "shr", "ushr")
def zero_shifted(s: Rewriter, op: Op, a: Value, b: Value, n: Any) -> Found:
    return a if n == 0 else None  # 0 << x = 0 >> x = 0


# Comparisons.


@_right("eq", "ne", "lt", "le", "gt", "ge")
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
        inner = _defined_by(a, "add")
        if inner is not None and (m := s.numbers.get(inner.operands[1])) is not None:
            shifted = ev.wrap(scalar, n - m)  # x + m == n is x == n - m
            return instead(op, kind, inner.operands[0], s.constant(op, a.type, shifted))
        return None
    low = max(scalar.minimum, 0) if _defined_by(a, "dim") is not None else scalar.minimum
    return _outside(s, op, kind, n, low, scalar.maximum)


def _outside(s: Rewriter, op: Op, kind: str, n: int, low: int, high: int) -> Found:
    """A comparison of a value in [low, high] with n, where that decides it."""
    always = {"lt": high < n, "le": high <= n, "gt": low > n, "ge": low >= n}[kind]
    never = {"lt": low >= n, "le": low > n, "gt": high <= n, "ge": high < n}[kind]
    return s.constant(op, op.results[0].type, always) if always or never else None


@_plain("eq", "ne", "lt", "le", "gt", "ge")
def compare_plain(s: Rewriter, op: Op) -> Found:
    a, b = op.operands
    if a is b and not _is_float(a.type):
        return s.constant(op, op.results[0].type, op.kind in ("eq", "le", "ge"))  # x == x, but for NaN
    return None


# Selection.


@_plain("select")
def select_plain(s: Rewriter, op: Op) -> Found:
    condition, yes, no = op.operands
    if yes is no:
        return yes  # select(c, x, x) = x
    known = s.numbers.get(condition)
    if known is not None:
        return yes if known else no  # select(true, x, y) = x
    if (negated := _defined_by(condition, "bit_not")) is not None:
        return instead(op, "select", negated.operands[0], no, yes)  # select(not c, x, y) = select(c, y, x)
    if yes.type is u1:
        return _select_truth(s, op, condition, yes, no)
    if (inner := _defined_by(yes, "select")) is not None and inner.operands[0] is condition:
        return instead(
            op, "select", condition, inner.operands[1], no
        )  # select(c, select(c, x, y), z) = select(c, x, z)
    if (inner := _defined_by(no, "select")) is not None and inner.operands[0] is condition:
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
    if type(owner) is not Op or _is_float(yes.type) or owner.kind not in ("lt", "le", "gt", "ge"):
        return None
    if owner.operands == (yes, no):
        return instead(op, "min" if owner.kind in ("lt", "le") else "max", yes, no)
    if owner.operands == (no, yes):
        return instead(op, "max" if owner.kind in ("lt", "le") else "min", yes, no)
    return None


# Conversions.


def lossless(source: ScalarType, target: ScalarType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source is target:
        return True
    if source.kind == "f":
        return target.kind == "f" and target.bits > source.bits
    if target.kind == "f":
        digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[target.name]
        return source.bits - (source.kind == "i") <= digits
    if target.bits == 1:
        return False
    return target.bits > source.bits and (source.kind == "u" or target.kind == "i")


@_plain("cast")
def cast_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if a.type is op.results[0].type:
        return a  # x as its own type
    inner = _defined_by(a, "cast")
    if inner is None:
        return None
    origin = inner.operands[0]
    first, middle, last = scalar_of(origin.type), scalar_of(a.type), scalar_of(op.results[0].type)
    if (lossless(first, middle) and _same_number(first, middle, last)) or _exactly_back(inner, first, middle, last):
        if origin.type is op.results[0].type:
            return origin  # widened and narrowed again
        return instead(op, "cast", origin, **(op.attributes or {}))  # widened on the way
    if last.kind != "f" and middle.kind != "f" and first.kind != "f" and 1 < last.bits <= middle.bits:
        return instead(op, "cast", origin, type=op.results[0].type)  # the low bits of the low bits
    return None


def _same_number(first: ScalarType, middle: ScalarType, last: ScalarType) -> bool:
    """Whether a number converts to `last` alike as `first` and as `middle`: integers wrap where floats saturate."""
    return middle.kind != "f" or first.kind == "f" or last.kind == "f" or last.bits == 1 or lossless(first, last)


def _exactly_back(inner: Op, first: ScalarType, middle: ScalarType, last: ScalarType) -> bool:
    """Whether an integer that is known to fit its narrow type is only made wide again."""
    if not inner.attribute("exact") or first.kind == "f" or last.kind == "f" or last.bits < first.bits:
        return False
    return last.kind == first.kind and middle.kind == first.kind


@_plain("bitcast")
def bitcast_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if a.type is op.results[0].type:
        return a  # the bits of x as x's type
    if (inner := _defined_by(a, "bitcast")) is not None:
        return instead(op, "bitcast", inner.operands[0], type=op.results[0].type)  # the bits of the bits
    return None


# Matrices and arrays.


def _known_indices(s: Rewriter, indices: tuple[Value, ...]) -> tuple[int, ...] | None:
    known: tuple[Any, ...] = tuple([s.numbers.get(index) for index in indices])
    return None if None in known else known


def _flat(type_: MatrixType, indices: tuple[int, ...]) -> int:
    return indices[0] if len(indices) == 1 else indices[0] * type_.shape[1] + indices[1]


@_plain("extract")
def extract_plain(s: Rewriter, op: Op) -> Found:
    matrix, indices = op.operands[0], op.operands[1:]
    owner = matrix.owner
    if type(owner) is not Op:
        return None
    if owner.kind == "splat":
        return owner.operands[0]  # splat(x)[i] = x
    if owner.kind == "insert" and owner.operands[2:] == indices:
        return owner.operands[1]  # insert(m, x, i)[i] = x
    at = _known_indices(s, indices)
    if at is None:
        return None
    if owner.kind == "construct":
        return owner.operands[_flat(matrix.type, at)]  # type: ignore[arg-type]  # construct(x, y, …)[1] = y
    if owner.kind == "constant":
        assert owner.attributes is not None
        element = element_of(matrix.type, owner.attributes["value"], at)  # type: ignore[arg-type]
        return s.constant(op, op.results[0].type, element)  # a constant's element
    if owner.kind == "insert" and (inserted := _known_indices(s, owner.operands[2:])) is not None:
        if inserted == at:
            return owner.operands[1]  # insert(m, x, i)[i] = x
        return instead(op, "extract", owner.operands[0], *indices)  # insert(m, x, i)[j] = m[j]
    return None


@_plain("insert")
def insert_plain(s: Rewriter, op: Op) -> Found:
    matrix, value, *indices = op.operands
    constructed = _defined_by(matrix, "construct")
    at = _known_indices(s, tuple(indices))
    if constructed is None or at is None:
        return None
    elements = list(constructed.operands)
    elements[_flat(matrix.type, at)] = value  # type: ignore[arg-type]
    return instead(op, "construct", *elements, type=matrix.type)  # insert(construct(x, y), z, 1) = construct(x, z)


@_plain("transpose")
def transpose_plain(s: Rewriter, op: Op) -> Found:
    inner = _defined_by(op.operands[0], "transpose")
    return inner.operands[0] if inner is not None else None  # the transpose of the transpose


@_plain("dim")
def dim_plain(s: Rewriter, op: Op) -> Found:
    array = op.operands[0].type
    assert op.attributes is not None
    axis = op.attributes["axis"] - (array.rank - len(array.trailing))  # type: ignore[attr-defined]
    return s.constant(op, op.results[0].type, array.trailing[axis]) if axis >= 0 else None  # type: ignore[attr-defined]
