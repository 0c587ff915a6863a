"""Marks the loops that the code generator shall run in vector lanes, for targets where it takes marked ones only.

These are innermost loops that walk along arrays: every element that they touch is that of the counter, a neighbour's at a
fixed distance, a component of a small vector there, or the same in all iterations; and loops that write are those of
which earlier passes know that iterations do not meet. The code generator still proves it, with tests at run time where it
needs them, and complains on the standard error stream where it cannot: so nothing is marked on the off chance.
"""

from __future__ import annotations

from collections import Counter

from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.affine import Form, Forms
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.nest import Nest, carried_arguments, counters

__all__ = ["run"]

_ACCESSES = {"load": 0, "store": 1, "update": 1}
_DIVISIONS = frozenset(["floordiv", "mod", "div"])
_TOTALS = frozenset(["add", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"])
_LARGEST_GROUP = 4  # components of a vector that one instruction takes apart


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`; sets `vectors`, the number of lanes. Law: iterations of a marked loop may be added up in any order,
    so no float is carried but where its sum may reassociate."""
    record = context.record
    if record is None or not record.marked_vectors:
        return
    for function in context.functions(module):
        forms = None
        for op in walk(function.body):
            if op.kind != "for" or op.attribute("short") or not _is_plain(op):
                continue
            if not _is_independent(op) and any(inner.kind in ("store", "update") for inner in op.regions[0].ops):
                continue
            forms = forms or Forms(Nest(function))
            lanes = _lanes(op, forms, record.vector_bits // 8)
            if lanes > 1 and context.permit():
                op.attributes = {**(op.attributes or {}), "vectors": lanes}
                context.count("loops marked for vectors")


def _is_plain(loop: Op) -> bool:
    """Whether a loop is innermost and only touches memory and computes, each iteration the same way."""
    return _computes(loop.regions[0], True) and _adds_up(loop)


def _is_independent(loop: Op) -> bool:
    known = loop.attribute("parallel") and not loop.attribute("undecided")
    return bool(known or loop.attribute("independent"))


def _computes(block: Block, touches: bool) -> bool:
    """Whether all that a block does has a vector form; `touches`: memory, too."""
    for op in block.ops:
        if op.kind == "if":
            if not all(_computes(region, False) for region in op.regions):
                return False
        elif op.kind in _ACCESSES:
            if not touches or op.attribute("atomic", op.kind == "update"):
                return False
        elif op.kind != "yield" and not _has_vectors(op):
            return False
    return True


def _has_vectors(op: Op) -> bool:
    if op.regions or OPS[op.kind].effects != "pure" or "callee" in op.attributes or op.kind.startswith("external"):
        return False
    types = [value.type for value in op.results]
    if any(type_.scalar is not type_ for type_ in types):  # lanes have been made already
        return False
    return op.kind not in _DIVISIONS or (op.kind == "div" and scalar_of(types[0]).is_float)


def _adds_up(loop: Op) -> bool:
    """Whether all that a loop carries are totals, which iterations may be added to in any order."""
    region = loop.regions[0]
    following = region.ops[-1].operands
    used = Counter([operand for op in walk(region) for operand in op.operands])
    return all(map(_is_total, carried_arguments(loop), following)) and all(
        used[value] == 1 for value in (*carried_arguments(loop), *following)
    )


def _is_total(argument: Value, following: Value) -> bool:
    owner, scalar = following.owner, scalar_of(argument.type)
    if type(owner) is not Op or argument not in owner.operands or owner.kind not in _TOTALS:
        return False
    if not scalar.is_float or scalar.bits < 32:
        return not scalar.is_float
    return owner.kind in ("min", "max") or bool(owner.attribute("reassociate"))


def _lanes(loop: Op, forms: Forms, vector_bytes: int) -> int:
    """How many lanes a loop is worth: as many as one vector has of the largest numbers in memory."""
    counter = counters(loop)[-1]
    widest = max([scalar_of(value.type).bytes for value in carried_arguments(loop)], default=1)
    walks = bool(carried_arguments(loop))
    for op in loop.regions[0].ops:
        if op.kind not in _ACCESSES:
            continue
        position = _ACCESSES[op.kind]
        array, indices = op.operands[position], op.operands[position + 1 :]
        type_ = array.type
        assert type(type_) is ArrayType
        step = _step(type_, [_moves(forms, index, counter, loop) for index in indices])
        if step is None or (step == 0 and op.kind != "load"):
            return 0
        if op.kind == "store" and type_.trailing and number_of(op.operands[0]) is not None:
            return 0  # components with one constant become a call that fills memory
        walks = walks or step == 1
        widest = max(widest, type_.scalar.bytes)
    return vector_bytes // widest if walks else 0


def _moves(forms: Forms, index: Value, counter: Value, loop: Op) -> int | None:
    """By how much an index moves from iteration to iteration; None if that is not one number."""
    form: Form = forms.of(index)
    factor = form.coefficient(counter)
    others = form.without(counter).atoms().difference(counters(loop))
    if factor is None or not all(forms.invariant(atom, loop) for atom in others):
        return None
    return factor.constant


def _step(type_: ArrayType, steps: list[int | None]) -> int | None:
    """By how many elements an access moves from iteration to iteration: 0, 1 (with all its vector), or None for others."""
    moving = [k for k, step in enumerate(steps) if step != 0]
    if type_.is_slot or len(moving) > 1 or any(steps[k] != 1 for k in moving):
        return None
    if not moving:
        return 0
    components = 1
    for size in type_.trailing:
        components *= size
    last = len(steps) - 1 - len(type_.trailing)
    return 1 if moving == [last] and (type_.layout == "S" or components <= _LARGEST_GROUP) else None
