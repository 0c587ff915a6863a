"""Iterations of parallel loops as vector lanes: blocks of `lanes` iterations of the innermost counter run side by side;
what is left at the end runs one by one.

Loops that are straight lines over neighbouring elements are left as they are: code generators make vectors of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ScalarType, lanes_of, scalar_of, u1
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.contract import contract
from quadrants.passes.lane_calls import Passed, call_in_one_lane
from quadrants.passes.lane_choice import choose
from quadrants.passes.lane_copies import Copy, find_copies
from quadrants.passes.lane_functions import LaneFunctions
from quadrants.passes.lane_jam import jam_loops
from quadrants.passes.lane_scratch import fits, measure
from quadrants.passes.lane_values import Linear
from quadrants.passes.lanes import LaneWriter
from quadrants.passes.uniformity import Uniformity

__all__ = ["combined", "identity", "into_lanes", "parallel_loops", "run"]

_REDUCES = frozenset({"add", "mul", "min", "max"})
_TESTS = {"bit_or": "any_lane", "bit_and": "all_lanes"}


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. Parallel loops of the kernel for which lanes pay, or for which the options ask."""
    forms = LaneFunctions(module)
    for block, loop in list(parallel_loops(module.kernel.body)):
        if loop.attribute("lanes_inside"):
            continue
        facts = _facts(loop, forms)
        copies = find_copies(loop, module.kernel, context)
        choice = choose(loop, facts, context, forms.callees, copies)
        if choice.options:
            context.lane_options.update(choice.options)
            if _fix_order(loop.regions[0], context):
                facts = _facts(loop, forms)
        loop.attributes = {**(loop.attributes or {}), "lanes": choice.lanes, "lanes_reason": choice.reason}
        if choice.hint:
            loop.attributes["lanes_hint"] = choice.hint
        if choice.lanes > 1 and context.permit():
            jammed = jam_loops(loop, facts) if copies else 0
            if jammed:
                context.count("loops with iterations side by side", jammed)
                facts = _facts(loop, forms)
            into_lanes(block, loop, facts, choice.lanes, forms, copies)
            context.count("loops in lanes")
            if copies:
                context.count("arrays copied for lanes", len(copies))
        elif choice.is_refusal:
            context.notice(
                "vectorise", f"this loop runs without lanes: {choice.reason}", choice.location or loop.location
            )


def _fix_order(block: Block, context: PassContext) -> bool:
    """Sums in a body that is to give the same bits in any number of lanes keep the order that they are written in. Whether
    there were any."""
    free = [op for op in walk(block) if op.attribute("reassociate")]
    for op in free:
        op.attributes = {**(op.attributes or {}), "reassociate": False}
    if free:
        contract(block, context)
    return bool(free)


def parallel_loops(block: Block) -> Iterator[tuple[Block, Op]]:
    """The parallel loops in a block, with the blocks where they stand, but those that are in lanes or threads already."""
    for op in block.ops:
        if op.attribute("parallel"):
            if not op.attribute("tile") and threads_loop_of(op) is None:
                yield block, op
        else:
            for region in op.regions:
                yield from parallel_loops(region)


def _facts(loop: Op, forms: LaneFunctions) -> Uniformity:
    region = loop.regions[0]
    return Uniformity(region, region.arguments[loop.attribute("rank") - 1 :], forms.callees)


def into_lanes(
    block: Block, loop: Op, facts: Uniformity, lanes: int, forms: LaneFunctions, copies: Sequence[Copy] = ()
) -> None:
    """The innermost counter of a loop that stands in `block` comes to count blocks: whole ones in lanes, the last one by
    one. `facts`: what differs from iteration to iteration of that counter; `copies`: what lanes work on copies of."""
    rank: int = loop.attribute("rank")
    writer = LaneWriter(lanes, facts, Block(), forms)
    low, high = loop.operands[rank - 1], loop.operands[2 * rank - 1]
    before = Block()
    builder = Builder(before, loop.location)
    blocks = _blocks(builder, low, high, lanes)
    scratches = measure(copies, builder)
    writer.scratches = {scratch.copy.array: scratch for scratch in scratches}
    room = fits(scratches, loop, builder)
    at = block.ops.index(loop)
    block.ops[at:at] = before.ops
    region = Block()
    for argument in loop.regions[0].arguments:
        region.add_argument(argument.type, argument.name)
    _body(region, loop, writer, (low, high), room)
    operands = list(loop.operands)
    operands[rank - 1], operands[2 * rank - 1] = before.ops[0].results[0], blocks
    loop.operands = tuple(operands)
    loop.regions = (region,)
    if rank == 1 and loop.attribute("parallel"):
        _scale(loop, lanes)


def _blocks(builder: Builder, low: Value, high: Value, lanes: int) -> Value:
    """How many blocks the iterations make; the first operation is the number 0."""
    builder.index(0)
    extent = builder.sub(high, low, exact=True)
    rounded = builder.add(extent, builder.index(lanes - 1), exact=True)
    return builder.shr(rounded, builder.index(lanes.bit_length() - 1))


def _scale(loop: Op, lanes: int) -> None:
    """Chunks and costs count blocks now. Law: chunks are whole blocks, so that their borders stay."""
    assert loop.attributes is not None
    loop.attributes["cost"] = max(loop.attribute("cost", 1) * lanes // 2, 1)
    if loop.attribute("chunk", 0):
        loop.attributes["chunk"] = loop.attribute("chunk") // lanes


def _body(region: Block, loop: Op, writer: LaneWriter, bounds: tuple[Value, Value], room: Value | None) -> None:
    """`room`: whether lanes can work on their copies at all."""
    rank: int = loop.attribute("rank")
    builder = Builder(region, loop.location)
    *outer, counter = region.arguments[:rank]
    carried = region.arguments[rank:]
    start = builder.shl(counter, builder.index(writer.lanes.bit_length() - 1))
    start = builder.add(start, bounds[0], exact=True)
    end = builder.add(start, builder.index(writer.lanes), exact=True)
    whole, rest = writer.builder.block, Block()
    _whole(writer, loop, start, outer, carried)
    last = bounds[1] if room is None else builder.min(end, bounds[1])
    _rest(rest, loop, start, last, outer, carried, writer.called)
    if writer.scratches and all(scratch.copy.known for scratch in writer.scratches.values()):
        _keep_short(rest)
    types = tuple([value.type for value in carried])
    is_whole = builder.le(end, bounds[1])
    if room is not None:
        is_whole = builder.bit_and(is_whole, room)
    made = builder.op("if", is_whole, regions=(whole, rest), types=types)
    builder.op("yield", *made.results)


def _whole(writer: LaneWriter, loop: Op, start: Value, outer: list[Value], carried: list[Value]) -> None:
    """A block in lanes. Each lane's reductions start at the identity; then they are added to what is carried."""
    old = loop.regions[0]
    rank: int = loop.attribute("rank")
    writer.values.set_linear(old.arguments[rank - 1], Linear(start, 1))
    for argument, value in zip(old.arguments, outer):
        writer.values.set_scalar(argument, value)
    writer.builder.location = loop.location
    for scratch in writer.scratches.values():
        scratch.reserve(writer.builder, writer.lanes)
        scratch.transfer("interleave", writer.builder, writer.values, start)
    combiners = loop.attribute("reductions", ())
    inits = [
        writer.values.constant(identity(kind, scalar_of(value.type)), scalar_of(value.type))
        for kind, value in zip(combiners, carried)
    ]
    results = writer.body(old, old.arguments[rank:], inits)
    builder = writer.builder
    builder.location = loop.location
    for scratch in writer.scratches.values():
        if scratch.copy.written:
            scratch.transfer("deinterleave", builder, writer.values, start)
    out = [combined(builder, kind, value, wide) for kind, value, wide in zip(combiners, carried, results)]
    builder.op("yield", *out)


def identity(kind: str, scalar: ScalarType) -> float | int:
    """The number with which a lane's part of a reduction starts."""
    if kind in ("min", "max"):
        if scalar.is_float:
            return math.nan  # the minimum and the maximum of NaN and a number are the number
        return scalar.maximum if kind == "min" else scalar.minimum
    number = OPS[kind].identity
    assert number is not None
    if kind == "add" and scalar.is_float:
        return -0.0
    return scalar.maximum if number == -1 and not scalar.is_signed else number


def combined(builder: Builder, kind: str, total: Value, wide: Value) -> Value:
    """A total combined with the numbers of all lanes."""
    if total.type is u1 and kind in _TESTS:
        return builder.emit(kind, total, builder.emit(_TESTS[kind], wide))
    facts = {"reassociate": True} if kind in ("add", "mul") and scalar_of(total.type).is_float else {}
    if kind in _REDUCES:
        return builder.emit(kind, total, builder.emit(f"reduce_{kind}", wide, **facts), **facts)
    for lane in range(lanes_of(wide.type)):
        total = builder.emit(kind, total, builder.extract_lane(wide, lane=lane))
    return total


def _keep_short(block: Block) -> None:
    """Marks loops as not worth vectors: where lanes find room for their copies for sure, few iterations are left."""
    for op in walk(block):
        if op.kind == "for":
            op.attributes = {**(op.attributes or {}), "short": True}


def _rest(
    block: Block,
    loop: Op,
    start: Value,
    high: Value,
    outer: list[Value],
    carried: list[Value],
    called: dict[Op, tuple[Function, list[Passed]]],
) -> None:
    """The iterations that make no whole block, one by one. `called`: the functions whose forms do for them, too."""
    old = loop.regions[0]
    rank: int = loop.attribute("rank")
    inner = Block()
    values: dict[Value, Value] = dict(zip(old.arguments, outer))
    for argument in old.arguments[rank - 1 :]:
        values[argument] = inner.add_argument(argument.type, argument.name)
    inner.ops = clone_ops(old.ops, values)
    if called:
        forms = dict(zip(walk(inner), [called.get(op) for op in walk(old)]))
        _call_forms(inner, {op: form for op, form in forms.items() if form is not None}, {})
    builder = Builder(block, loop.location)
    made = builder.op("for", start, high, *carried, regions=(inner,), rank=1, short=True)
    builder.op("yield", *made.results)


def _call_forms(block: Block, forms: dict[Op, tuple[Function, list[Passed]]], replaced: dict[Value, Value]) -> None:
    """Puts calls of lane forms in place of calls of the functions themselves."""
    ops, block.ops = block.ops, []
    builder = Builder(block)
    for op in ops:
        op.operands = tuple([replaced.get(operand, operand) for operand in op.operands])
        for region in op.regions:
            _call_forms(region, forms, replaced)
        if op not in forms:
            block.ops.append(op)
            continue
        builder.location = op.location
        replaced.update(zip(op.results, call_in_one_lane(builder, op.operands, *forms[op])))
