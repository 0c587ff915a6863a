"""Iterations of loops within parallel iterations as vector lanes: what one item of the parallel loop adds up over its
neighbours is added up by several lanes, and the lanes' sums are added behind.

Loops take whole vectors; in the last one the lanes behind the end are off. Sums that go on through several loops stay
in lanes from the first to the last of them. Which loops: `inner_loops`.
"""

from __future__ import annotations

import math
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ScalarType, i32, i64, lane_type, lanes_of, scalar_of
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.cost import most_trips
from quadrants.passes.inner_loops import InnerLoop, find_inner_loops
from quadrants.passes.lane_callees import Callees
from quadrants.passes.lane_choice import asked_lanes
from quadrants.passes.lane_values import Linear
from quadrants.passes.lanes import LaneWriter
from quadrants.passes.nest import Nest
from quadrants.passes.reductions import Chain
from quadrants.passes.uniformity import Uniformity
from quadrants.passes.vectorise import combined, identity, parallel_loops

__all__ = ["run"]

_MOST_LANES = 16
_LONG = 512
_REASON = "its loops within add up neighbouring elements"


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`, in front of `vectorise`. Sets `lanes_inside` on the parallel loops whose inner loops it took."""
    kernel = module.kernel
    for loop in [loop for _, loop in parallel_loops(kernel.body)]:
        if loop.attribute("lanes_inside") or not _carries(loop.regions[0]) or not _may_choose(loop, context):
            continue
        nest = Nest(kernel)
        forms = Forms(nest)
        found = find_inner_loops(loop, nest, forms)
        if any(_is_long(inner.loop, forms) for inner in found):
            continue  # a block of a long sum: LLVM's vectors need no masks there
        if found and _are_better(loop, found, Callees(module)) and context.permit():
            lanes = _width(found, context)
            _Rewriter(nest, found, lanes).run()
            loop.attributes = {**(loop.attributes or {}), "lanes_inside": lanes, "lanes_reason": _REASON}
            context.count("inner loops in lanes", len(found))


def _carries(block: Block) -> bool:
    """Whether a loop in a block carries values."""
    return any((op.kind == "for" and op.results) or any(map(_carries, op.regions)) for op in block.ops)


def _is_long(loop: Op, forms: Forms) -> bool:
    """Whether a loop is a straight line that is known to go on for long, in most of its runs."""
    if any(op.regions for op in loop.regions[0].ops):
        return False
    trips = loop.attribute("expected_trips") or most_trips(loop, forms)
    return trips is not None and trips >= _LONG


def _may_choose(loop: Op, context: PassContext) -> bool:
    """Whether lanes are possible, and the user has not said which iterations they are to be."""
    asked = asked_lanes(loop, context)
    if asked is None:
        return context.record is not None and context.record.vector_bits > 0
    config: dict[str, Any] = loop.attribute("config") or {}
    return asked > 1 and not config.get("vectorize")


def _are_better(parallel: Op, found: list[InnerLoop], callees: Callees) -> bool:
    """Whether lanes within an iteration are better than iterations as lanes: where those would leave a loop one by one, and
    reach apart what lies side by side within an iteration."""
    counters = parallel.regions[0].arguments[parallel.attribute("rank") - 1 :]
    facts = Uniformity(parallel.regions[0], counters, callees)
    return any(inner.loop in facts.divergent for inner in found)


def _width(found: list[InnerLoop], context: PassContext) -> int:
    """Two vectors of the widest number: loops are short, and two hide latency."""
    if context.options.lanes:
        return context.options.lanes
    return min(2 * context.record.vector_bits // max(inner.bits for inner in found), _MOST_LANES)


class _Rewriter:
    """Rewrites loops into lanes. `wide`: values that become lanes outside the loops, since loops around hand them on."""

    def __init__(self, nest: Nest, found: list[InnerLoop], lanes: int) -> None:
        self.nest = nest
        self.found = found
        self.lanes = lanes
        self.wide: set[Value] = set()
        self._within = {op for inner in found for op in walk(inner.loop.regions[0])}
        self._arguments = {value for inner in found for value in inner.loop.regions[0].arguments}

    def run(self) -> None:
        chains = {chain.argument: chain for inner in self.found for chain in inner.chains}
        loops = {inner.loop for inner in self.found}
        for chain in chains.values():
            if chain.loops[0] not in loops:
                self._widen(chain)
        for inner in self.found:
            self._loop(inner)

    def _widen(self, chain: Chain) -> None:
        """A reduction that goes on through several loops is in lanes from the outermost one on."""
        for value in chain.values:
            if value in self._arguments or (isinstance(value.owner, Op) and value.owner in self._within):
                continue
            self.wide.add(value)
            value.type = lane_type(scalar_of(value.type), self.lanes)
            owner = value.owner
            if isinstance(owner, Op) and owner.kind == "if":
                types = tuple([result.type for result in owner.results])
                owner.attributes = {**(owner.attributes or {}), "types": types}
        outer = chain.loops[0]
        before, behind = Block(), Block()
        start = Builder(before, outer.location)
        rank: int = outer.attribute("rank", 0)
        place = 2 * rank + chain.position
        init, narrow = outer.operands[place], outer.results[chain.position]
        operands = list(outer.operands)
        operands[place] = self._start(chain, scalar_of(init.type), start)
        outer.operands = tuple(operands)
        wide = Value(lane_type(scalar_of(init.type), self.lanes), outer, narrow.name)
        outer.results[chain.position] = wide
        self._give(Builder(behind, outer.location), chain, init, wide, narrow)
        self._splice(outer, [*before.ops, outer, *behind.ops])

    def _start(self, chain: Chain, scalar: ScalarType, builder: Builder) -> Value:
        """Law: where a value is kept unless another is greater, a start of NaN would never be left."""
        number: float | int = identity(chain.combiner, scalar)
        if chain.extremes and scalar.is_float:
            number = math.inf if chain.combiner == "min" else -math.inf
        return builder.constant(number, lane_type(scalar, self.lanes))

    def _give(self, builder: Builder, chain: Chain, init: Value, wide: Value, narrow: Value) -> None:
        """Makes `narrow` what a reduction's start and all lanes come to."""
        total = combined(builder, chain.combiner, init, wide)
        if chain.keeps_nan:
            total = builder.select(builder.is_nan(init), init, total)
        last = total.owner
        assert isinstance(last, Op)
        narrow.owner = last
        last.results = [narrow]

    def _splice(self, op: Op, new: list[Op]) -> None:
        parent = self.nest.parent[op]
        regions = parent.regions if parent is not None else (self.nest.function.body,)
        block = next(region for region in regions if op in region.ops)
        at = block.ops.index(op)
        block.ops[at : at + 1] = new

    def _loop(self, inner: InnerLoop) -> None:
        """`for k` becomes `for block`, with a block's iterations in lanes."""
        loop, lanes = inner.loop, self.lanes
        before, behind, region = Block(), Block(), Block()
        builder, end = Builder(before, loop.location), Builder(behind, loop.location)
        low, high, *inits = loop.operands
        last = builder.add(builder.sub(high, low, exact=True), builder.index(lanes - 1), exact=True)
        blocks = builder.shr(last, builder.index(lanes.bit_length() - 1))
        number = region.add_argument(i64, "block")
        starts: list[Value] = []
        for chain, init in zip(inner.chains, inits):
            starts.append(init if lanes_of(init.type) > 1 else self._start(chain, scalar_of(init.type), builder))
        own = [
            region.add_argument(start.type, argument.name)
            for start, argument in zip(starts, loop.regions[0].arguments[1:])
        ]
        _Body(inner, lanes, region, number, own).write(low, high)
        new = Op("for", (builder.index(0), blocks, *starts), (), {"rank": 1, "short": True}, (region,), loop.location)
        for chain, init, result in zip(inner.chains, inits, loop.results):
            if result in self.wide:
                result.owner = new
                new.results.append(result)
                continue
            wide = Value(lane_type(scalar_of(init.type), lanes), new, result.name)
            new.results.append(wide)
            self._give(end, chain, init, wide, result)
        self._splice(loop, [*before.ops, new, *behind.ops])


class _Body:
    """The body of a loop over blocks: lane k makes iteration low + block * lanes + k if there is one."""

    def __init__(self, inner: InnerLoop, lanes: int, region: Block, number: Value, own: list[Value]) -> None:
        self.inner = inner
        self.lanes = lanes
        self.region = region
        self.number = number
        self.own = own

    def write(self, low: Value, high: Value) -> None:
        body = self.inner.loop.regions[0]
        builder = Builder(self.region, self.inner.loop.location)
        first = builder.shl(self.number, builder.index(self.lanes.bit_length() - 1))
        start = builder.add(low, first, exact=True)
        mask = _on(builder, builder.sub(high, start, exact=True), self.lanes)
        counter, *carried = body.arguments
        writer = _TailWriter(self.lanes, self.inner.facts, self.region)
        writer.values.set_linear(counter, Linear(start, 1))
        writer.mask = writer.tail = mask
        results = writer.body(body, carried, self.own)
        end = writer.builder
        end.location = self.inner.loop.location
        end.op("yield", *[end.select(mask, result, own) for result, own in zip(results, self.own)])


def _on(builder: Builder, left: Value, lanes: int) -> Value:
    """The lanes below a number, compared in 32 bits."""
    few = builder.cast(builder.min(left, builder.index(lanes)), i32)
    numbers = builder.emit("lane_index", type=lane_type(i64, lanes))
    numbers = builder.emit("cast", numbers, type=lane_type(i32, lanes))
    return builder.lt(numbers, builder.emit("broadcast", few, type=lane_type(i32, lanes)))


class _TailWriter(LaneWriter):
    """Lanes of which those in `tail` are on, the first one for sure."""

    tail: Value

    def load_mask(self, op: Op, steps: tuple[int, ...]) -> Value:
        """Law: behind the element of the first lane, which is on where all of the tail are, a temporary array has its
        padding; what lanes that are off read there goes nowhere."""
        owner = op.operands[0].owner
        padding = owner.attribute("padding", 0) if isinstance(owner, Op) else 0
        is_row = steps[-1] == 1 and not any(steps[:-1])
        if self.mask is self.tail and is_row and self.lanes <= padding and self._is_linear(op):
            return self.values.all_on()
        return self.full_mask()

    def _is_linear(self, op: Op) -> bool:
        return all(index in self.values.linear or index not in self.facts.varying for index in op.operands[1:])
