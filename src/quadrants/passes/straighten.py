"""Reductions under conditions made unconditional, so that vector lanes can run them.

`if c: s += x` becomes `s += x if c else 0`: where an iteration does not take part it contributes what changes nothing.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import MatrixType, ScalarType, Type, scalar_of
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest
from quadrants.passes.reductions import recognise
from quadrants.records import Record

__all__ = ["run"]

_MOST_SPECULATED = 24
_KINDS = frozenset({"add", "sub", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"})


def run(module: Module, context: PassContext) -> None:
    """Straightens the reductions of the innermost loops of all functions; stage `tasks`."""
    for function in context.functions(module):
        loops = [loop for loop in _innermost(function.body) if loop.results and _chooses(loop.regions[0])]
        if loops:
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


def _chooses(block: Block) -> bool:
    """Whether a value is chosen by a condition in a block."""
    return any(op.kind == "select" or (op.kind == "if" and op.results) for op in block.ops)


class _Idle(Record):
    """What a step of a kind leaves a version as it is with."""

    kind: str


class _Parts(Record):
    """Two versions as steps of one kind from a common version: what each branch adds, and its step if it has one."""

    version: Value
    kind: str
    values: tuple[Value | _Idle, Value | _Idle]
    steps: tuple[Op | None, Op | None]


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
        self.versions = {value for chain in found for value in chain.values}
        self._block(loop.regions[0])

    def _block(self, block: Block) -> None:
        """Takes the conditions out of a block, inner ones first."""
        out: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self._block(region)
            if op.kind == "if" and self._can_go(op):
                out += self._without(op)
                self.context.count("conditions straightened")
            elif op.kind == "if" and op.results:
                out += [op, *self._behind(op)]
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
        parts = self._parts(yes, no)
        if parts is None:
            return [self._giving(Op("select", (condition, yes, no), (), None, (), op.location), result)]
        idle: list[Op] = []
        pair = [
            value if isinstance(value, Value) else self._constant(value, result.type, op, idle)
            for value in parts.values
        ]
        part = Op("select", (condition, *pair), (result.type,), None, (), op.location)
        return [*idle, part, self._step(parts, part.results[0], result)]

    def _behind(self, op: Op) -> list[Op]:
        """The steps at the end of the branches of an `if` that must stay, moved behind it."""
        ends = [region.ops[-1] for region in op.regions]
        if any(end.kind != "yield" for end in ends):
            return []
        out: list[Op] = []
        for position, result in enumerate(op.results):
            parts = self._parts(ends[0].operands[position], ends[1].operands[position])
            if parts is None or not all(self._ends_in(step, region) for step, region in zip(parts.steps, op.regions)):
                continue
            for region, step, value in zip(op.regions, parts.steps, parts.values):
                self._yield_part(region, position, step, value, op)
            part = Value(result.type, op)
            op.results[position] = part
            out.append(self._step(parts, part, result))
            self.context.count("conditions straightened")
        return out

    def _ends_in(self, step: Op | None, region: Block) -> bool:
        """Whether a step stands in a branch itself and is but handed on by it."""
        return step is None or (step in region.ops and len(self.nest.users.get(step.results[0], ())) == 1)

    def _yield_part(self, region: Block, position: int, step: Op | None, value: Value | _Idle, op: Op) -> None:
        end = region.ops.pop()
        if step is not None:
            region.ops.remove(step)
        given = value if isinstance(value, Value) else self._constant(value, op.results[position].type, op, region.ops)
        end.operands = (*end.operands[:position], given, *end.operands[position + 1 :])
        region.ops.append(end)

    def _parts(self, yes: Value, no: Value) -> _Parts | None:
        """What two versions add to one common version, if both are it or one step from it."""
        for version in (no, yes, *self._sources(yes)):
            one, other = self._part(yes, version), self._part(no, version)
            if one is None or other is None or (one[1] is None and other[1] is None):
                continue
            kinds = {step.kind for _, step in (one, other) if step is not None}
            if len(kinds) == 1:
                kind = kinds.pop()
                values = tuple([_Idle(kind) if value is None else value for value in (one[0], other[0])])
                return _Parts(version, kind, (values[0], values[1]), (one[1], other[1]))
        return None

    def _sources(self, value: Value) -> list[Value]:
        step = value.owner
        return [operand for operand in step.operands if operand in self.versions] if type(step) is Op else []

    def _part(self, value: Value, version: Value) -> tuple[Value | None, Op | None] | None:
        """What a value adds to a version, and by which step: (None, None) if it is the version."""
        if value is version:
            return None, None
        step = value.owner
        if type(step) is not Op or not self._steps_from(step, version):
            return None
        return step.operands[1 - step.operands.index(version)], step

    def _steps_from(self, step: Op, version: Value) -> bool:
        """Whether an operation makes the next version of exactly this one."""
        if step.kind not in _KINDS or step.results[0] not in self.versions or version not in self.versions:
            return False
        if type(version.type) is MatrixType:
            return False
        return step.operands[0] is version or (step.kind != "sub" and step.operands[1] is version)

    def _step(self, parts: _Parts, part: Value, result: Value) -> Op:
        step = next(step for step in parts.steps if step is not None)
        return self._giving(Op(parts.kind, (parts.version, part), (), step.attributes, (), step.location), result)

    def _constant(self, idle: _Idle, type_: Type, op: Op, out: list[Op]) -> Value:
        constant = Op("constant", (), (type_,), {"type": type_, "value": _idle(idle.kind, type_)}, (), op.location)
        out.append(constant)
        return constant.results[0]

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
