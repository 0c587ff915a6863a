"""Takes reductions of parallel loops apart for targets whose host launches them: a partial for each chunk of iterations, written
to a temporary array by a loop over the chunks, and a loop in order that combines the partials.

What is left of parallel loops carries nothing, so that it can be launched on a device. Where blocks of the device's threads share
memory, they combine what their threads have (`reduce_in_blocks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.types import array_type, i64, scalar_of, u1
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.nest import carried_arguments, counters, highs, inits, lows
from quadrants.passes.privatise import identity
from quadrants.passes.reduce_in_blocks import reduce_in_blocks

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """In place; stage `lowered`. Law: partials are combined in one order, which the number of iterations tells, as the law of
    reductions says."""
    if context.record is not None and context.record.launches:
        _block(module.kernel.body, context)


def _block(block: Block, context: PassContext) -> None:
    ops: list[Op] = []
    for op in block.ops:
        if op.attribute("parallel") and op.results:
            if context.record.block_threads:
                ops += reduce_in_blocks(op, context.record)
                context.count("reductions in blocks")
            else:
                ops += _split(op)
            continue
        if not op.attribute("parallel"):
            for region in op.regions:
                _block(region, context)
        ops.append(op)
    block.ops = ops


def _split(loop: Op) -> list[Op]:
    made = Block()
    builder = Builder(made, loop.location)
    zero = builder.index(0)
    extents = _outer_extents(builder, loop)
    total = extents[0]
    for extent in extents[1:]:
        total = builder.mul(total, extent, exact=True)
    chunk = builder.index(loop.attribute("chunk"))
    count = builder.floordiv(builder.add(total, builder.index(loop.attribute("chunk") - 1), exact=True), chunk)
    always = builder.constant(True, u1)
    partials = [
        builder.op("temporary", always, count, type=array_type(scalar_of(result.type), 1)).results[0]
        for result in loop.results
    ]
    _sum_chunks(builder, loop, partials, (zero, count, chunk, total), extents)
    _combine(builder, loop, partials, zero, count)
    for partial in partials:
        builder.op("release", partial)
    return made.ops


def _outer_extents(builder: Builder, loop: Op) -> list[Value]:
    rank: int = loop.attribute("rank")
    zero = builder.index(0)
    pairs = list(zip(lows(loop), highs(loop)))[: max(rank - 1, 1)]
    return [builder.max(builder.sub(high, low, exact=True), zero) for low, high in pairs]


def _sum_chunks(
    builder: Builder,
    loop: Op,
    partials: list[Value],
    bounds: tuple[Value, Value, Value, Value],
    extents: list[Value],
) -> None:
    zero, count, chunk, total = bounds
    body = Block()
    number = body.add_argument(i64)
    inner = Builder(body, loop.location)
    first = inner.mul(number, chunk, exact=True)
    end = inner.min(inner.add(first, chunk, exact=True), total)
    starts = [
        inner.constant(identity(name, scalar_of(result.type)), result.type)
        for name, result in zip(loop.attribute("reductions"), loop.results)
    ]
    sums = _iterations(inner, loop, first, end, starts, extents)
    for value, partial in zip(sums, partials):
        inner.op("store", value, partial, number)
    inner.op("yield")
    cost = int(loop.attribute("cost", 1)) * int(loop.attribute("chunk"))
    attributes = {name: loop.attributes[name] for name in ("lanes", "lanes_reason") if name in loop.attributes}
    builder.op("for", zero, count, regions=(body,), rank=1, parallel=True, cost=cost, **attributes)


def _iterations(
    builder: Builder, loop: Op, first: Value, end: Value, starts: Sequence[Value], extents: list[Value]
) -> list[Value]:
    """The iterations of one chunk in order; gives the values that they carry."""
    region, rank = loop.regions[0], loop.attribute("rank")
    flat = Block()
    place = flat.add_argument(i64)
    carried = [flat.add_argument(start.type) for start in starts]
    inner = Builder(flat, loop.location)
    values = dict(zip(counters(loop), _decoded(inner, place, lows(loop), extents)))
    if rank == 1:
        values.update(zip(carried_arguments(loop), carried))
        flat.ops += clone_ops(region.ops, values)
    else:
        row = Block()
        values[counters(loop)[-1]] = row.add_argument(i64)
        values.update((value, row.add_argument(value.type)) for value in carried_arguments(loop))
        row.ops = clone_ops(region.ops, values)
        sums = inner.op("for", lows(loop)[-1], highs(loop)[-1], *carried, regions=(row,), rank=1).results
        inner.op("yield", *sums)
    return builder.op("for", first, end, *starts, regions=(flat,), rank=1).results


def _decoded(builder: Builder, place: Value, starts: Sequence[Value], extents: list[Value]) -> list[Value]:
    """The outer counters of a flattened place, outermost first."""
    found: list[Value] = []
    for start, extent in zip(reversed(starts[: len(extents)]), reversed(extents)):
        last = len(found) == len(extents) - 1
        found.append(builder.add(start, place if last else builder.mod(place, extent), exact=True))
        place = place if last else builder.floordiv(place, extent)
    return found[::-1]


def _combine(builder: Builder, loop: Op, partials: list[Value], zero: Value, count: Value) -> None:
    body = Block()
    number = body.add_argument(i64)
    totals = [body.add_argument(result.type) for result in loop.results]
    inner = Builder(body, loop.location)
    loaded = [inner.load(partial, number) for partial in partials]
    names = loop.attribute("reductions")
    inner.op("yield", *[inner.emit(name, total, value) for name, total, value in zip(names, totals, loaded)])
    combined = builder.op("for", zero, count, *inits(loop), regions=(body,), rank=1)
    combined.results = loop.results
    for result in combined.results:
        result.owner = combined
