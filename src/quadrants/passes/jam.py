"""Iterations of a parallel loop in fours, where each adds up over one inner range: what the range reads for all of them is
read once, and their sums do not wait for one another.

Taken are nests like a product of a matrix and a vector, and small products of matrices: the inner loop is a short straight
line, some of its loads are the same for all four, and the iterations are independent, so that they may be made side by
side. Of a loop of several dimensions the last one is left to the lanes.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.nest import counters
from quadrants.passes.plain_nests import inner_range, is_quiet
from quadrants.passes.vectorise import parallel_loops

__all__ = ["run"]

_FACTOR = 4
_SHIFT = 2
# Operations of an inner loop, and values that it carries, of which four fit in registers.
_MOST_OPS = 12
_MOST_CARRIED = 2


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`, behind `tile`. The kernel's parallel loops, where the options leave the lanes to the compiler."""
    if context.record is None or not context.record.vector_bits or context.options.lanes:
        return
    for block, loop in list(parallel_loops(module.kernel.body)):
        found = None if module.kernel.attributes.get("may_alias") else _candidate(loop)
        if found is not None and context.permit():
            _jam(block, loop, *found)
            context.count("loops in fours")


def _candidate(loop: Op) -> tuple[int, Op] | None:
    """The dimension to take in fours, and the inner loop; None where it does not pay or is not possible."""
    sums = inner_range(loop, _MOST_OPS)
    if sums is None or len(sums.results) > _MOST_CARRIED:
        return None
    dimension = max(loop.attribute("rank") - 2, 0)
    return (dimension, sums) if _pays(loop, dimension, sums) else None


def _pays(loop: Op, dimension: int, sums: Op) -> bool:
    """Whether the inner range is the same for all, and some of its loads are, others not. Where the dimension is the only
    one, its own loads must follow the inner range, or they are for lanes."""
    own = _depending({counters(loop)[dimension]}, loop)
    along = _depending({counters(sums)[0]}, loop)
    if not own.isdisjoint(sums.operands[:2]):
        return False
    loads = [op for op in sums.regions[0].ops if op.kind == "load" and not along.isdisjoint(op.operands[1:])]
    apart = [op for op in loads if not own.isdisjoint(op.operands[1:])]
    if not apart or len(apart) == len(loads):
        return False
    if loop.attribute("rank") > 1:
        return True
    return all(op.operands[-1] in along and op.operands[-1] not in own for op in apart)


def _depending(seeds: set[Value], loop: Op) -> set[Value]:
    """The values of a loop that are computed from some of its counters."""
    found = set(seeds)
    for op in walk(loop.regions[0]):
        if not found.isdisjoint(op.operands):
            found.update(op.results)
            for region in op.regions:
                found.update(region.arguments[op.attribute("rank", 0) :])
    return found


def _jam(block: Block, loop: Op, dimension: int, sums: Op) -> None:
    """The loop's counter comes to count fours; a second loop behind it has the iterations that make no whole four."""
    rank: int = loop.attribute("rank")
    old, region = loop.regions[0], Block()
    low, high = loop.operands[dimension], loop.operands[rank + dimension]
    rest = clone_ops([loop], {})[0]
    for argument in old.arguments:
        region.add_argument(argument.type, argument.name)
    values = dict(zip(old.arguments, region.arguments))
    builder = Builder(region, loop.location)
    number = region.arguments[dimension]
    first = builder.add(builder.shl(number, builder.index(_SHIFT)), low, exact=True)
    _Jammer(loop, sums, builder).write(values, old.arguments[dimension], first)
    builder.op("yield")
    before = Builder(Block(), loop.location)
    zero = before.index(0)
    extent = before.max(before.sub(high, low), zero)
    fours = before.shr(extent, before.index(_SHIFT))
    behind = before.add(before.shl(fours, before.index(_SHIFT)), low, exact=True)
    _bound(loop, dimension, zero, fours)
    _bound(rest, dimension, behind, high)
    loop.regions = (region,)
    loop.attributes = {**(loop.attributes or {}), "cost": loop.attribute("cost", 1) << _SHIFT}
    at = block.ops.index(loop)
    block.ops[at : at + 1] = [*before.block.ops, loop, rest]


def _bound(loop: Op, dimension: int, low: Value, high: Value) -> None:
    rank: int = loop.attribute("rank")
    operands = list(loop.operands)
    operands[dimension], operands[rank + dimension] = low, high
    loop.operands = tuple(operands)


class _Jammer:
    """Writes the bodies of four iterations side by side."""

    def __init__(self, loop: Op, sums: Op, builder: Builder) -> None:
        self.loop = loop
        self.sums = sums
        self.builder = builder
        self.written = {op.operands[1] for op in walk(loop.regions[0]) if op.kind == "store"}
        self.values: list[dict[Value, Value]] = []

    def write(self, values: dict[Value, Value], counter: Value, first: Value) -> None:
        builder, sums = self.builder, self.sums
        for number in range(_FACTOR):
            own = first if number == 0 else builder.add(first, builder.index(number), exact=True)
            self.values.append({**values, counter: own})
        ops = self.loop.regions[0].ops[:-1]
        at = ops.index(sums)
        self.clone(builder.block, ops[:at])
        self.inner()
        self.clone(builder.block, ops[at + 1 :])

    def clone(self, block: Block, ops: list[Op]) -> None:
        """Copies of operations for each of the iterations, one for all where they compute the same."""
        first = self.values[0]
        for op in ops:
            operands = tuple([first.get(operand, operand) for operand in op.operands])
            is_shared = is_quiet(op) and (op.kind != "load" or op.operands[0] not in self.written)
            for number, values in enumerate(self.values):
                same = tuple([values.get(operand, operand) for operand in op.operands]) == operands
                if number and same and is_shared:
                    values.update((result, first[result]) for result in op.results)
                else:
                    block.ops += clone_ops([op], values)

    def inner(self) -> None:
        """The loop over the inner range, which carries the sums of all."""
        sums, old, body = self.sums, self.sums.regions[0], Block()
        counter = body.add_argument(old.arguments[0].type, old.arguments[0].name)
        starts: list[Value] = []
        for values in self.values:
            values[old.arguments[0]] = counter
            for argument in old.arguments[1:]:
                values[argument] = body.add_argument(argument.type, argument.name)
            starts += [values.get(operand, operand) for operand in sums.operands[2:]]
        self.clone(body, old.ops[:-1])
        ends = [values.get(operand, operand) for values in self.values for operand in old.ops[-1].operands]
        Builder(body, sums.location).op("yield", *ends)
        bounds = [self.values[0].get(operand, operand) for operand in sums.operands[:2]]
        made = self.builder.op("for", *bounds, *starts, regions=(body,), **(sums.attributes or {}))
        found = iter(made.results)
        for values in self.values:
            for result in sums.results:
                values[result] = next(found)
