"""Private memory that one iteration of a loop fills before it reads it belongs to that iteration: its slot moves into
the loop, so that the iterations do not share it."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Moves each slot into the innermost loop that it can move into."""
    for function in context.functions(module):
        slots = _slots(function.body)
        if slots:
            nest = Nest(function)
            for block, op in slots:
                if _sink(block, op, nest):
                    context.count("slots sunk")


def _slots(block: Block) -> list[tuple[Block, Op]]:
    found: list[tuple[Block, Op]] = []
    for op in block.ops:
        if op.kind == "slot":
            found.append((block, op))
        for region in op.regions:
            found += _slots(region)
    return found


def _sink(block: Block, op: Op, nest: Nest) -> bool:
    slot = op.results[0]
    target: Block | None = None
    while (inner := _next_inside(slot, target or block, nest)) is not None:
        target = inner
    if target is None:
        return False
    block.ops.remove(op)
    target.ops.insert(0, op)
    return True


def _next_inside(slot: Value, block: Block, nest: Nest) -> Block | None:
    """The body of the only loop in `block` that uses the slot, where each iteration fills it first."""
    places = {id(place): place for user, _ in nest.users.get(slot, ()) if (place := _within(user, block, nest))}
    if len(places) != 1:
        return None
    (loop,) = places.values()
    if loop.kind != "for" or slot in loop.operands:
        return None
    body = loop.regions[0]
    for user in body.ops:
        if _within_any(slot, user, nest):
            fills = user.kind == "store" and user.operands[1:] == (slot,)
            return body if fills else None
    return None


def _within(user: Op, block: Block, nest: Nest) -> Op | None:
    """The operation of `block` that is, or has within it, a user."""
    members = set(block.ops)
    place: Op | None = user
    while place is not None and place not in members:
        place = nest.parent[place]
    return place


def _within_any(slot: Value, op: Op, nest: Nest) -> bool:
    for user, _ in nest.users.get(slot, ()):
        place: Op | None = user
        while place is not None:
            if place is op:
                return True
            place = nest.parent[place]
    return False
