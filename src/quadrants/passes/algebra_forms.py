"""Laws of conversions, of matrices and their elements, and of sizes."""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, scalar_of
from quadrants.passes.fold import element_of
from quadrants.passes.laws import Found, Rewriter, defined_by, instead, plain

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


@plain("cast")
def cast_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if a.type is op.results[0].type:
        return a  # x as its own type
    inner = defined_by(a, "cast")
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


@plain("bitcast")
def bitcast_plain(s: Rewriter, op: Op) -> Found:
    a = op.operands[0]
    if a.type is op.results[0].type:
        return a  # the bits of x as x's type
    if (inner := defined_by(a, "bitcast")) is not None:
        return instead(op, "bitcast", inner.operands[0], type=op.results[0].type)  # the bits of the bits
    return None


# Matrices and arrays.


def _known_indices(s: Rewriter, indices: tuple[Value, ...]) -> tuple[int, ...] | None:
    known: tuple[Any, ...] = tuple([s.numbers.get(index) for index in indices])
    return None if None in known else known


def _flat(type_: Type, indices: tuple[int, ...]) -> int:
    """The place among a matrix's elements."""
    assert type(type_) is MatrixType
    return indices[0] if len(indices) == 1 else indices[0] * type_.shape[1] + indices[1]


@plain("extract")
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
        return owner.operands[_flat(matrix.type, at)]  # construct(x, y, …)[1] = y
    if owner.kind == "constant":
        element = element_of(matrix.type, owner.attributes["value"], at)
        return s.constant(op, op.results[0].type, element)  # a constant's element
    if owner.kind == "insert" and (inserted := _known_indices(s, owner.operands[2:])) is not None:
        if inserted == at:
            return owner.operands[1]  # insert(m, x, i)[i] = x
        return instead(op, "extract", owner.operands[0], *indices)  # insert(m, x, i)[j] = m[j]
    return None


@plain("insert")
def insert_plain(s: Rewriter, op: Op) -> Found:
    matrix, value, *indices = op.operands
    constructed = defined_by(matrix, "construct")
    at = _known_indices(s, tuple(indices))
    if constructed is None or at is None:
        return None
    elements = list(constructed.operands)
    elements[_flat(matrix.type, at)] = value
    return instead(op, "construct", *elements, type=matrix.type)  # insert(construct(x, y), z, 1) = construct(x, z)


@plain("transpose")
def transpose_plain(s: Rewriter, op: Op) -> Found:
    inner = defined_by(op.operands[0], "transpose")
    return inner.operands[0] if inner is not None else None  # the transpose of the transpose


@plain("dim")
def dim_plain(s: Rewriter, op: Op) -> Found:
    array = op.operands[0].type
    assert type(array) is ArrayType
    axis = op.attributes["axis"] - (array.rank - len(array.trailing))
    return s.constant(op, op.results[0].type, array.trailing[axis]) if axis >= 0 else None


@plain("reduce_min", "reduce_max", "reduce_and", "reduce_or")
def reduce_plain(s: Rewriter, op: Op) -> Found:
    splat = defined_by(op.operands[0], "splat")
    return splat.operands[0] if splat is not None else None  # the least of equal elements
