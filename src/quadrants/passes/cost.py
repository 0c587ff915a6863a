"""Estimates how long iterations take, so that short loops are not handed to other threads."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import MatrixType, i32, i64
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest, highs, lows

__all__ = ["estimate", "iteration_cost", "most_trips", "run", "trip_count"]

# Iterations of a loop whose bounds are not known; nanoseconds of one unit of `cost` in the op table.
_GUESS = 16
_UNIT = 0.25
_MOST = 1 << 40


def run(module: Module, context: PassContext) -> None:
    """Sets `cost`, the nanoseconds of one iteration of the flattened outer dimensions, on the kernel's parallel loops."""
    kernel = module.kernel
    forms = Forms(Nest(Function("")))  # bounds are looked at alone, without what is around them
    pending = [kernel.body]
    while pending:
        for op in pending.pop().ops:
            if op.attribute("parallel"):
                op.attributes = {**(op.attributes or {}), "cost": iteration_cost(op, forms, module)}
            else:
                pending += op.regions


def iteration_cost(loop: Op, forms: Forms, module: Module | None = None) -> int:
    """Nanoseconds of one iteration of a loop's outer dimensions (its only one, if it has one)."""
    inner = estimate(loop.regions[0], forms, module)
    if loop.attribute("rank") > 1:
        inner *= _trips(loop, forms, loop.attribute("rank") - 1) or _GUESS * 4
    return max(1, min(round(inner), _MOST))


def estimate(block: Block, forms: Forms, module: Module | None = None, depth: int = 0) -> float:
    """Nanoseconds that a block takes, roughly."""
    total = 0.0
    for op in block.ops:
        kind = op.kind
        if kind == "for":
            trips = most_trips(op, forms)
            total += (op.attribute("expected_trips", _GUESS) if trips is None else max(trips, 0)) * estimate(
                op.regions[0], forms, module, depth
            )
        elif kind == "while":
            total += _GUESS * sum([estimate(region, forms, module, depth) for region in op.regions])
        elif kind == "if":
            total += max([estimate(region, forms, module, depth) for region in op.regions])
        elif kind == "call":
            total += _UNIT * OPS["call"].cost + _call(op, forms, module, depth)
        else:
            total += _UNIT * OPS[kind].cost * _width(op)
    return total


def _call(op: Op, forms: Forms, module: Module | None, depth: int) -> float:
    callee = module.functions.get(op.attribute("callee")) if module is not None else None
    if callee is None or depth > 3:
        return 50.0
    return estimate(callee.body, forms, module, depth + 1)


def _width(op: Op) -> int:
    for value in op.results or op.operands[:1]:
        if type(value.type) is MatrixType:
            return value.type.count
    return 1


def trip_count(loop: Op, forms: Forms) -> int | None:
    """How many iterations a loop has, all dimensions together, if the code tells."""
    total = 1
    for dimension in range(loop.attribute("rank")):
        trips = _trips(loop, forms, dimension)
        if trips is None:
            return None
        total *= max(trips, 0)
    return total


def most_trips(loop: Op, forms: Forms) -> int | None:
    """A number that a loop's iterations do not exceed, if the code tells: from max(c - 1, 0) to min(c + 2, n) it is 3."""
    total = 1
    for dimension, (low, high) in enumerate(zip(lows(loop), highs(loop))):
        trips = _trips(loop, forms, dimension)
        if trips is None:
            starts, ends = _choices(low, "max"), _choices(high, "min")
            if len(starts) + len(ends) == 2:
                return None
            distances = [forms.of(end).plus(forms.of(start), -1).constant for start in starts for end in ends]
            trips = min([distance for distance in distances if distance is not None], default=None)
        if trips is None:
            return None
        total *= max(trips, 0)
    return total


def _choices(bound: Value, kind: str) -> tuple[Value, ...]:
    """The values of which a bound is the largest, or the smallest."""
    owner = bound.owner
    while type(owner) is Op and owner.kind == "cast":
        owner = owner.operands[0].owner
    if type(owner) is Op and owner.kind == kind and owner.results[0].type in (i32, i64):
        return owner.operands
    return (bound,)


def _trips(loop: Op, forms: Forms, dimension: int) -> int | None:
    return forms.of(highs(loop)[dimension]).plus(forms.of(lows(loop)[dimension]), -1).constant
