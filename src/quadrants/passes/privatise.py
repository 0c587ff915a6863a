"""Updates of an element that a loop's iterations share become a carried value, and one update behind the loop.

In a parallel loop the carried value is a reduction; in any other it is a register. The loop must not touch the element in
another way; a loop in order must not call what may look at it.
"""

from __future__ import annotations

import math

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.threads import has_meetings, is_threads_loop, threads_loop_of
from quadrants.ir.types import ArrayType, MatrixType, Type, scalar_of, shape_of
from quadrants.passes.accesses import Access, accesses_of
from quadrants.passes.affine import Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cost import trip_count
from quadrants.passes.dependence import Space, never_equal, proper
from quadrants.passes.memory import MemoryEffects
from quadrants.passes.nest import Nest, highs, lows
from quadrants.passes.parallelise import CHUNK
from quadrants.passes.reductions import COMBINERS
from quadrants.passes.rewrite import add_carried, computed_from
from quadrants.passes.structure import loop_jumps
from quadrants.passes.summaries import Summaries
from quadrants.records import Record

__all__ = ["identity", "run"]

_LARGEST_MATRIX = 16


def run(module: Module, context: PassContext) -> None:
    """Privatises updates in the loops of all functions, outer loops first; stage `tasks`."""
    summaries, effects = Summaries(module), MemoryEffects(module)
    unknown = effects if effects.somebody_does_anything() else None
    for function in module.functions.values():
        if _has_updates(function.body, False):
            _Privatiser(function, summaries, unknown, context).block(function.body)


def identity(combiner: str, type_: Type) -> float | int | bool:
    """What combines with any value of a type to that value (for sums +0.0: only -0.0 + +0.0 is not -0.0; the minimum and
    the maximum of NaN and a number are the number)."""
    scalar = scalar_of(type_)
    if combiner in ("min", "max"):
        if scalar.is_float:
            return math.nan
        return scalar.maximum if combiner == "min" else scalar.minimum
    if combiner == "bit_and":
        return -1 if scalar.is_signed else scalar.maximum
    found = OPS[combiner].identity
    assert found is not None
    return found


def _has_updates(block: Block, in_loop: bool) -> bool:
    for op in block.ops:
        if op.regions:
            if any(_has_updates(region, in_loop or op.kind == "for") for region in op.regions):
                return True
        elif in_loop and op.kind == "update":
            return True
    return False


class _Element(Record):
    """Updates of one element: how they combine, the operations, whether every iteration makes one of them."""

    combiner: str
    ops: list[Op]
    certain: bool


class _Privatiser:
    """Privatises in one function. `unknown`: the module's effects, where some of its code may touch any memory."""

    def __init__(
        self, function: Function, summaries: Summaries, unknown: MemoryEffects | None, context: PassContext
    ) -> None:
        self.function = function
        self.summaries = summaries
        self.unknown = unknown
        self.context = context
        self._look()

    def _look(self) -> None:
        self.nest = Nest(self.function)
        self.forms = Forms(self.nest)

    def block(self, block: Block) -> None:
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            if op.kind == "for" and _has_updates(op.regions[0], True):
                before, behind = Block(), Block()
                self.loop(op, Builder(before, op.location), Builder(behind, op.location))
                if behind.ops:
                    block.ops[position : position + 1] = [*before.ops, op, *behind.ops]
                    position += len(before.ops) + len(behind.ops)
                    self._look()
            for region in op.regions:
                self.block(region)
            position += 1

    def loop(self, loop: Op, before: Builder, behind: Builder) -> None:
        """Privatises what can be in one loop; what belongs before and behind it goes to the builders."""
        if any(jump.kind == "return" for jump in loop_jumps(loop.regions[0])):
            return
        if is_threads_loop(loop) or threads_loop_of(loop) is not None or has_meetings(loop.regions[0]):
            return  # other threads look at the element, and update it
        if self.unknown is not None and not loop.attribute("parallel") and self.unknown.block(loop.regions[0]).anything:
            return
        for element in self.elements(loop):
            if self.context.permit():
                self._privatise(loop, element, before, behind)
                self.context.count("updates privatised")

    def elements(self, loop: Op) -> list[_Element]:
        """The elements that a loop only updates, all in one way, and that are the same in all its iterations."""
        accesses = accesses_of(loop, self.nest, self.forms, self.summaries.of)
        space = Space(loop, self.forms)
        by_element: dict[object, list[Access]] = {}
        for access in accesses:
            if self._is_fixed(access, loop):
                by_element.setdefault((access.array, access.dims, access.wraps), []).append(access)
        found: list[_Element] = []
        numbers = {access: _numbers(access) for access in accesses}
        for same in by_element.values():
            if len({access.group for access in same}) > 1:
                continue
            mine = numbers[same[0]]
            others = [
                other
                for other in accesses
                if (numbers[other] in (None, mine) or mine is None or other.array is not same[0].array)
                and other not in same
                and self._may_share(other, same[0])
            ]
            if all(_apart(same[0], other, space) for other in others):
                ops = [op for access in same for op in access.origins]
                found.append(_Element(same[0].group, ops, any(access.certain for access in same)))
        return found

    def _is_fixed(self, access: Access, loop: Op) -> bool:
        if access.kind != "update" or access.used or access.group not in COMBINERS or access.loops:
            return False
        if any(op not in self.nest.parent or op.kind != "update" for op in access.origins):
            return False
        if not all(dim is not None and all(self.forms.invariant(a, loop) for a in dim.atoms()) for dim in access.dims):
            return False
        return all(self._can_move(op, loop) for op in access.origins)

    def _can_move(self, op: Op, loop: Op) -> bool:
        type_ = op.operands[0].type
        if type(type_) is MatrixType and type_.count > _LARGEST_MATRIX:
            return False
        if any(computed_from(index, loop, self.nest) is None for index in op.operands[2:]):
            return False
        inner: Op | None = op
        for around in self.nest.around(op):
            if around is loop:
                return True
            if around.kind == "while" and inner in around.regions[0].ops:
                return False
            inner = around
        return False

    def _may_share(self, other: Access, access: Access) -> bool:
        """Whether two accesses may be to one array."""
        if other.array is access.array:
            return True
        one, another = other.array.type, access.array.type
        assert type(one) is ArrayType and type(another) is ArrayType
        overlap = self.function.attributes.get("may_alias") and not (one.is_slot or another.is_slot)
        return bool(overlap) and one.scalar is another.scalar

    def _privatise(self, loop: Op, element: _Element, before: Builder, behind: Builder) -> None:
        first = element.ops[0]
        type_ = first.operands[0].type
        start = before.constant(identity(element.combiner, type_), type_)
        threading = _Threading(element, loop, self.nest, type_)
        result = threading.loop(loop, start)
        guard = self._guard(loop, element, result, behind)
        target = behind
        if guard is not None:
            then, otherwise = Block(), Block()
            behind.op("if", guard, regions=(then, otherwise), types=())
            Builder(otherwise).op("yield")
            target = Builder(then, first.location)
        values: dict[Value, Value] = {}
        for index in first.operands[2:]:
            needed = computed_from(index, loop, self.nest) or []
            target.block.ops += clone_ops([op for op in needed if op.results[0] not in values], values)
        place = [first.operands[1], *[values.get(index, index) for index in first.operands[2:]]]
        update = target.op("update", result, *place, by=element.combiner)
        update.location = first.location
        if first.attribute("wrap"):
            update.attributes = {**(update.attributes or {}), "wrap": True}
        if guard is not None:
            target.op("yield")

    def _guard(self, loop: Op, element: _Element, result: Value, behind: Builder) -> Value | None:
        """The condition under which the element was updated at all, None if it surely was: one that never was might not
        exist."""
        if element.certain and all(self.nest.parent[op] is loop for op in element.ops):
            trips = trip_count(loop, self.forms)
            if trips is not None and trips > 0:
                return None
            runs = [behind.lt(low, high) for low, high in zip(lows(loop), highs(loop))]
            condition = runs[0]
            for more in runs[1:]:
                condition = behind.bit_and(condition, more)
            return condition
        start = identity(element.combiner, result.type)
        if math.isnan(start):
            changed = behind.eq(result, result)
        else:
            changed = behind.ne(result, behind.constant(start, result.type))
        return behind.reduce_or(changed) if shape_of(result.type) else changed


def _numbers(access: Access) -> tuple[object, ...] | None:
    """The indices of an access to one number, if these are numbers, None for others. Such accesses of one array are to
    one element or apart."""
    type_ = access.array.type
    assert type(type_) is ArrayType
    found = [dim.constant if dim is not None else None for dim in access.dims]
    return tuple(found) if None not in found and len(found) == type_.rank else None


def _apart(access: Access, other: Access, space: Space) -> bool:
    if other.array is not access.array:
        return False
    pairs = zip(proper(access, space), proper(other, space))
    return any(
        f is not None and g is not None and never_equal(f, g, access.loops, other.loops, space) for f, g in pairs
    )


class _Threading:
    """Carries a value through a loop in the place of updates: through every `if` and loop around one of them, to every
    end of an iteration."""

    def __init__(self, element: _Element, loop: Op, nest: Nest, type_: Type) -> None:
        self.element = element
        self.targets = set(element.ops)
        self.around = {around for op in element.ops for around in _between(op, loop, nest)}
        self.type = type_

    def loop(self, loop: Op, start: Value) -> Value:
        """Makes a loop carry the value from `start`; gives its result."""
        argument, result = add_carried(loop, start, self.type)
        if loop.attribute("parallel"):
            reductions = (*loop.attribute("reductions", ()), self.element.combiner)
            loop.attributes = {**(loop.attributes or {}), "reductions": reductions}
            loop.attributes.setdefault("chunk", CHUNK)
        self.block(loop.regions[-1], argument, True)
        return result

    def block(self, block: Block, value: Value, hands_on: bool) -> None:
        """`hands_on`: whether the block's `yield` gives the value."""
        out: list[Op] = []
        for op in block.ops:
            kind = op.kind
            if op in self.targets:
                step = self._combine(op, value)
                out.append(step)
                value = step.results[0]
                continue
            out.append(op)
            if op in self.around:
                value = self._branch(op, value) if kind == "if" else self.loop(op, value)
            elif kind == "if":
                for region in op.regions:
                    self.block(region, value, False)
            elif kind in ("break", "continue") or (kind == "yield" and hands_on):
                op.operands = (*op.operands, value)
        block.ops = out

    def _combine(self, op: Op, value: Value) -> Op:
        kind = "sub" if op.attribute("by") == "sub" else self.element.combiner
        return Op(kind, (value, op.operands[0]), (self.type,), None, (), op.location)

    def _branch(self, op: Op, value: Value) -> Value:
        for region in op.regions:
            self.block(region, value, True)
        op.attributes = {**(op.attributes or {}), "types": (*op.attribute("types", ()), self.type)}
        result = Value(self.type, op)
        op.results.append(result)
        return result


def _between(op: Op, loop: Op, nest: Nest) -> list[Op]:
    found: list[Op] = []
    for around in nest.around(op):
        if around is loop:
            break
        found.append(around)
    return found
