"""Reductions under conditions made unconditional, so that vector lanes can run them.

`if c: s += x` becomes `s += x if c else 0`, and `if x > m: m = x` becomes `m = max(m, x)`: where an iteration does not
take part it contributes what changes nothing.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import MatrixType, ScalarType, Type, scalar_of
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest
from quadrants.passes.reductions import Chain, recognise
from quadrants.passes.rewrite import replace_uses

__all__ = ["run"]

_MOST_SPECULATED = 24
_KINDS = frozenset({"add", "sub", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"})


def run(module: Module, context: PassContext) -> None:
    """Straightens the reductions of the innermost loops of all functions; stage `tasks`."""
    for function in module.functions.values():
        loops = _innermost(function.body)
        if any(loop.results for loop in loops):
            straightener = _Straightener(function, context)
            for loop in loops:
                straightener.loop(loop)


def _innermost(block: Block) -> list[Op]:
    """The `for`s with no loop in them."""
    found: list[Op] = []
    for op in block.ops:
        inside = [loop for region in op.regions for loop in _innermost(region)]
        if op.kind == "for" and not inside:
            found.append(op)
        found += inside
    return found


class _Straightener:
    def __init__(self, function: Function, context: PassContext) -> None:
        self.context = context
        self.nest = Nest(function)
        self.versions: set[Value] = set()

    def loop(self, loop: Op) -> None:
        chains = [recognise(loop, position, self.nest) for position in range(len(loop.results))]
        found = [chain for chain in chains if chain is not None and chain.combiner]
        if not found or not self.context.permit():
            return
        if loop.attribute("parallel"):
            for chain in found:
                self._extremes(chain)
        self.versions = {value for chain in found for value in chain.values}
        self._block(loop.regions[0])

    def _extremes(self, chain: Chain) -> None:
        """Law: of a comparison's choice, the combiner gives the same (a NaN start is put back behind the loop)."""
        for choice, version, other in chain.extremes:
            step = Op(chain.combiner, (version, other), (version.type,), None, (), choice.location)
            around = self.nest.parent[choice]
            assert around is not None
            block = next(region for region in around.regions if choice in region.ops)
            block.ops[block.ops.index(choice)] = step
            chain.values.add(step.results[0])
            replace_uses(self.nest, choice.results[0], step.results[0])
            self.nest.adopt([step], around)

    def _block(self, block: Block) -> None:
        """Takes the conditions out of a block, inner ones first."""
        out: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self._block(region)
            if op.kind == "if" and self._can_go(op):
                out += self._without(op)
                self.context.count("conditions straightened")
            elif op.kind == "select" and op.results[0] in self.versions:
                out += self._chosen(op.operands[0], op.results[0], op.operands[1], op.operands[2], op)
            else:
                out.append(op)
        block.ops = out

    def _can_go(self, op: Op) -> bool:
        if not any(result in self.versions for result in op.results):
            return False
        bodies = [region.ops for region in op.regions]
        if any(body[-1].kind != "yield" for body in bodies) or sum(map(len, bodies)) > _MOST_SPECULATED:
            return False
        return all(inner.kind == "yield" or _is_free(inner) for body in bodies for inner in body)

    def _without(self, op: Op) -> list[Op]:
        """The operations of both branches, and the choice of each result."""
        out: list[Op] = []
        for region in op.regions:
            out += region.ops[:-1]
        yes, no = (region.ops[-1].operands for region in op.regions)
        for result, one, other in zip(op.results, yes, no):
            out += self._chosen(op.operands[0], result, one, other, op)
        return out

    def _chosen(self, condition: Value, result: Value, yes: Value, no: Value, op: Op) -> list[Op]:
        """The operations that give `result` as the choice between two values."""
        for version, step, holds in ((no, yes.owner, True), (yes, no.owner, False)):
            if type(step) is Op and self._steps_from(step, version):
                idle = Op("constant", (), (version.type,), None, (), op.location)
                idle.attributes = {"type": version.type, "value": _idle(step.kind, version.type)}
                value, none = step.operands[1 - step.operands.index(version)], idle.results[0]
                pair = (value, none) if holds else (none, value)
                part = Op("select", (condition, *pair), (version.type,), None, (), op.location)
                last = Op(step.kind, (version, part.results[0]), (), step.attributes, (), step.location)
                return [idle, part, self._giving(last, result)]
        return [self._giving(Op("select", (condition, yes, no), (), None, (), op.location), result)]

    def _steps_from(self, step: Op, version: Value) -> bool:
        """Whether an operation makes the next version of exactly this one."""
        if step.kind not in _KINDS or step.results[0] not in self.versions or version not in self.versions:
            return False
        if type(version.type) is MatrixType:
            return False
        return step.operands[0] is version or (step.kind != "sub" and step.operands[1] is version)

    def _giving(self, op: Op, result: Value) -> Op:
        result.owner = op
        op.results = [result]
        return op


def _is_free(op: Op) -> bool:
    return OPS[op.kind].effects == "pure" and OPS[op.kind].cost <= 10 and not op.regions


def _idle(kind: str, type_: Type) -> float | int | bool:
    """What an operation leaves its first operand as it is with, bit for bit. Law: a + -0.0 = a - 0.0 = a; the minimum and
    the maximum of a and NaN are a."""
    scalar = scalar_of(type_)
    if kind in ("min", "max"):
        return _idle_extreme(kind, scalar)
    if kind == "add" and scalar.is_float:
        return -0.0
    if kind == "bit_and":
        return -1 if scalar.is_signed else scalar.maximum
    return 1 if kind == "mul" else 0


def _idle_extreme(kind: str, scalar: ScalarType) -> float | int:
    if scalar.is_float:
        return float("nan")
    return scalar.maximum if kind == "min" else scalar.minimum
