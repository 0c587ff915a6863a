"""Small surgery that several passes share: uses replaced, carried values added and taken away."""

from __future__ import annotations

from collections.abc import Iterable

from quadrants.ir.nodes import Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import Type
from quadrants.passes.nest import Nest

__all__ = ["add_carried", "computed_from", "drop_carried", "replace_uses"]

_MOST_COPIED = 24


def replace_uses(nest: Nest, old: Value, new: Value) -> None:
    """`new` in the place of `old` wherever the snapshot knows it to be used."""
    users = nest.users.pop(old, [])
    for op, _ in users:
        op.operands = tuple([new if operand is old else operand for operand in op.operands])
    nest.users.setdefault(new, []).extend(users)


def computed_from(value: Value, loop: Op, nest: Nest, counters: Iterable[Value] = ()) -> list[Op] | None:
    """The pure operations within a loop that compute `value` from `counters` and from what is defined outside, in an
    order to be copied in; None if there is more to it."""
    needed: list[Op] = []
    allowed = set(counters)
    return needed if _gather(value, loop, nest, allowed, needed) else None


def _gather(value: Value, loop: Op, nest: Nest, allowed: set[Value], needed: list[Op]) -> bool:
    if value in allowed or not nest.defined_in(value, loop):
        return True
    op = value.owner
    if type(op) is not Op or OPS[op.kind].effects != "pure" or len(needed) > _MOST_COPIED:
        return False
    if op in needed:
        return True
    if not all(_gather(operand, loop, nest, allowed, needed) for operand in op.operands):
        return False
    needed.append(op)
    return True


def drop_carried(loop: Op, position: int, ends: Iterable[Op]) -> None:
    """Takes a carried value, that nothing uses any more, out of a `for` and out of the terminators that hand it on."""
    rank: int = loop.attribute("rank")
    place = 2 * rank + position
    loop.operands = loop.operands[:place] + loop.operands[place + 1 :]
    del loop.results[position]
    del loop.regions[0].arguments[rank + position]
    for end in ends:
        end.operands = end.operands[:position] + end.operands[position + 1 :]


def add_carried(loop: Op, init: Value, type_: Type, name: str = "") -> tuple[Value, Value]:
    """Makes a `for` or `while` carry one more value: (argument of the body, result). Its ends are the caller's."""
    loop.operands = (*loop.operands, init)
    for region in loop.regions:
        region.add_argument(type_, name)
    result = Value(type_, loop, name)
    loop.results.append(result)
    return loop.regions[-1].arguments[-1], result
