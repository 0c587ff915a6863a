"""Loops over ranges that may begin below zero, where the counter is an index that may count from the end.

Instead of a choice in each iteration, there is one in front of the loop, between two forms of it (`by_sign`), or the range
is cut at zero (`cut_at_zero`): `for k in low .. high` becomes a loop over its two parts,
of which the first is left out unless there is one; within a part the index is the counter plus what is the same for all
of it, so that neighbouring iterations reach neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import ArrayType, i64
from quadrants.passes.clone import clone_ops
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest
from quadrants.passes.structure import loop_jumps

__all__ = ["Axis", "axes_by_counter", "by_sign", "cut_at_zero"]

Axis = tuple[Value, int]


def axes_by_counter(loop: Op) -> list[Axis]:
    """The axes of arrays that a loop's counter indexes by itself, and may count from the end of; none where the loop cannot
    be cut."""
    if loop.attribute("rank") != 1 or loop.attribute("parallel"):
        return []
    counter = loop.regions[0].arguments[0]
    found: dict[Axis, None] = {}
    for op in walk(loop.regions[0]):
        if op.attribute("wrap") and op.kind in ARRAY_POSITION:
            position = ARRAY_POSITION[op.kind]
            array = op.operands[position]
            for axis, index in enumerate(op.operands[position + 1 :]):
                if index is counter and type(array.type) is ArrayType:
                    found[array, axis] = None
    if not found or any(jump.kind == "break" for jump in loop_jumps(loop.regions[0])):
        return []
    return list(found)


def by_sign(loop: Op, zero: Value, before: list[Op]) -> tuple[Op, Op]:
    """A choice between a loop whose range does not begin below zero, and a copy of it for one that does; and the copy. The
    condition is put to `before`."""
    front = Builder(Block(), loop.location)
    front.block.ops = before
    condition = front.ge(loop.operands[0], zero)
    (copy,) = clone_ops([loop], {})
    usual, other = Block(), Block()
    results = loop.results
    loop.results = [Value(result.type, loop, result.name) for result in results]
    for block, one in ((usual, loop), (other, copy)):
        block.ops = [one]
        Builder(block, loop.location).op("yield", *one.results)
    types = tuple([result.type for result in results])
    choice = Op("if", (condition,), (), {"types": types}, (usual, other), loop.location)
    choice.results = results
    for result in results:
        result.owner = choice
    return choice, copy


def cut_at_zero(
    loop: Op, axes: list[Axis], size_of: Callable[[Value, int, Builder], Value], before: list[Op], nest: Nest
) -> dict[tuple[Value, int, Value], Value]:
    """Cuts a loop in place: it becomes the loop over the parts. What comes in front of it is put to `before`; the nest
    learns of it. Gives the index that counts from the start by (array, axis, counter)."""
    front = Builder(Block(), loop.location)
    front.block.ops = before
    low, high, *inits = loop.operands
    zero, one, two = front.index(0), front.index(1), front.index(2)
    first = front.select(front.lt(low, zero), zero, one)
    parts, body = Block(), loop.regions[0]
    part = parts.add_argument(i64, "part")
    carried = [parts.add_argument(argument.type, argument.name) for argument in body.arguments[1:]]
    builder = Builder(parts, loop.location)
    below = builder.eq(part, zero)
    start = builder.select(below, low, builder.max(low, zero))
    end = builder.select(below, builder.min(high, zero), high)
    offsets = [builder.select(below, size_of(array, axis, builder), zero) for array, axis in axes]
    made_outside = list(parts.ops)
    types = tuple([result.type for result in loop.results])
    inner = Op("for", (start, end, *carried), types, loop.attributes, (body,), loop.location)
    parts.ops.append(inner)
    builder.op("yield", *inner.results)
    begin = Builder(Block(), loop.location)
    counter = body.arguments[0]
    indices = {
        (array, axis, counter): begin.add(counter, offset, exact=True) for (array, axis), offset in zip(axes, offsets)
    }
    body.ops[:0] = begin.block.ops
    loop.operands = (first, two, *inits)
    loop.attributes = {"rank": 1}
    loop.regions = (parts,)
    nest.adopt(before[-5:], nest.parent[loop])
    nest.adopt([*made_outside, inner], loop)
    nest.home.update(dict.fromkeys(parts.arguments, loop))
    nest.home.update(dict.fromkeys(body.arguments, inner))
    for op in body.ops:
        nest.parent[op] = inner
        nest.home.update(dict.fromkeys(op.results, inner))
    return indices
