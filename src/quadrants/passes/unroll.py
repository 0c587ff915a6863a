"""Unrolls short loops with few operations, so that analyses see their iterations: components of vectors above all.

`for k in range(3): low[k] = min(low[k], v[k])` becomes three updates of known elements, and run-time indices into small
vectors become static ones.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.threads import is_threads_loop, threads_loop_of
from quadrants.ir.types import i64
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.nest import counters, highs, inits, lows
from quadrants.passes.structure import count_ops, loop_jumps
from quadrants.passes.unroll_rows import unroll_rows

__all__ = ["run"]

# Iterations at most, and operations that all of them may have together.
_MOST_TRIPS = 9
_MOST_OPS = 96


def run(module: Module, context: PassContext) -> None:
    """Unrolls in all functions, inner loops first; stage `kernel`. Loops that the user configured stay."""
    for function in context.functions(module):
        for op in walk(function.body) if function.is_kernel else ():
            if op.kind == "for" and is_threads_loop(op):
                unroll_rows(op, context)
        _block(function.body, context, {})


def _block(block: Block, context: PassContext, values: dict[Value, Value]) -> None:
    out: list[Op] = []
    changed = False
    for op in block.ops:
        if values:
            op.operands = tuple([values.get(operand, operand) for operand in op.operands])
        for region in op.regions:
            _block(region, context, values)
        plain = op.kind == "for" and not is_threads_loop(op) and threads_loop_of(op) is None
        points = _points(op) if plain else None
        if points is None or not context.permit():
            out.append(op)
            continue
        changed = True
        for result, value in zip(op.results, _unrolled(op, points, out)):
            values[result] = value
        context.count("loops unrolled")
    if changed:
        block.ops = out


def _points(loop: Op) -> list[tuple[int, ...]] | None:
    """The counters of every iteration, None if the loop is to stay."""
    bounds = [(number_of(low), number_of(high)) for low, high in zip(lows(loop), highs(loop))]
    points: list[tuple[int, ...]] = [()]
    for low, high in bounds:
        if type(low) is not int or type(high) is not int or high - low > _MOST_TRIPS:
            return None
        points = [(*point, value) for point in points for value in range(low, high)]
        if len(points) > _MOST_TRIPS:
            return None
    body = loop.regions[0]
    if loop.attribute("config") or len(points) * (count_ops(body) - 1) > _MOST_OPS:
        return None
    return points if body.ops[-1].kind == "yield" and not loop_jumps(body) else None


def _unrolled(loop: Op, points: list[tuple[int, ...]], out: list[Op]) -> tuple[Value, ...]:
    """Appends the iterations to `out`; gives what the last one hands on."""
    body = loop.regions[0]
    carried = inits(loop)
    arguments = body.arguments[len(lows(loop)) :]
    for point in points:
        values = dict(zip(arguments, carried))
        for counter, number in zip(counters(loop), point):
            constant = Op("constant", (), (i64,), {"type": i64, "value": number}, (), loop.location)
            out.append(constant)
            values[counter] = constant.results[0]
        out += clone_ops(body.ops[:-1], values)
        carried = tuple([values.get(value, value) for value in body.ops[-1].operands])
    return carried
