"""Loops of threads that run at once over the elements of their own vectors (a row of a tile): unrolled, so that each element
lies in a register of its own. Indexed at run time, a thread's private memory lies in the device's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import ArrayType, i64
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import counters, highs, inits, lows
from quadrants.passes.structure import loop_jumps

__all__ = ["unroll_rows"]

_MOST_TRIPS = 32
_MOST_OPS = 8192
"""Operations that all unrolled loops of a kernel have together, at most; a target may have less room for a task."""

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
}

_PLACES = {**ARRAY_POSITION, "extract": 0, "insert": 1}
"""Where what is indexed stands among the operands of an operation, in front of the indices."""


class _TooLarge(Exception):
    """What is unrolled has no room."""


def unroll_rows(threads: Op, context: PassContext) -> None:
    """Unrolls in a threads loop, outer loops first: inner ones may end where outer ones are."""
    room = getattr(context.record, "task_operations", 0) or _MOST_OPS
    _Unroller(context, min(room, _MOST_OPS)).block(threads.regions[0], {})


class _Unroller:
    def __init__(self, context: PassContext, room: int) -> None:
        self.context = context
        self.room = room
        self.outermost = True

    def block(self, block: Block, values: dict[Value, Value]) -> None:
        block.ops = self._ops(block.ops, values)

    def _ops(self, ops: list[Op], values: dict[Value, Value]) -> list[Op]:
        """The operations with their loops unrolled; `values`: what stands for values of before."""
        out: list[Op] = []
        for op in ops:
            op.operands = tuple([values.get(operand, operand) for operand in op.operands])
            trips = _trips(op)
            if trips is not None and self.context.permit() and self._unrolled(op, trips, values, out):
                continue
            for region in op.regions:
                self.block(region, values)
            out.append(op)
        return out

    def _unrolled(self, loop: Op, trips: range, values: dict[Value, Value], out: list[Op]) -> bool:
        """Appends the iterations; False if there is no room for them. Within another loop that fails the other one, too."""
        room, outermost, self.outermost = self.room, self.outermost, False
        try:
            made, results = self._iterations(loop, trips)
        except _TooLarge:
            if not outermost:
                raise
            self.room = room
            return False
        finally:
            self.outermost = outermost
        out += made
        values.update(zip(loop.results, results))
        self.context.count("loops over the elements of threads unrolled")
        return True

    def _iterations(self, loop: Op, trips: range) -> tuple[list[Op], tuple[Value, ...]]:
        made: list[Op] = []
        carried, body = inits(loop), loop.regions[0]
        for number in trips:
            known = dict(zip(body.arguments[1:], carried))
            constant = Op("constant", (), (i64,), {"type": i64, "value": number}, (), loop.location)
            known[counters(loop)[0]] = constant.results[0]
            copied = clone_ops(body.ops[:-1], known)
            self.room -= len(copied) + 1
            if self.room < 0:
                raise _TooLarge
            inner: dict[Value, Value] = {}
            made += [constant, *self._ops(copied, inner)]
            ends = [known.get(value, value) for value in body.ops[-1].operands]
            carried = tuple([inner.get(value, value) for value in ends])
        return made, carried


def _trips(op: Op) -> range | None:
    """The counters of a loop that is to be unrolled."""
    if op.kind != "for" or op.attribute("rank") != 1 or op.attribute("config") or op.attribute("parallel"):
        return None
    low, high = _known(lows(op)[0]), _known(highs(op)[0])
    if low is None or high is None or high - low > _MOST_TRIPS:
        return None
    body = op.regions[0]
    if body.ops[-1].kind != "yield" or loop_jumps(body) or not _indexes_private_memory(body, counters(op)[0]):
        return None
    return range(low, high)


def _known(value: Value) -> int | None:
    """An integer that is known once outer counters are."""
    found = number_of(value)
    if found is not None:
        return found if type(found) is int else None
    owner: Any = value.owner
    if type(owner) is not Op:
        return None
    parts = [_known(operand) for operand in owner.operands] if owner.kind in (*_ARITHMETIC, "cast") else [None]
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts) or not value.type.scalar.is_integer:
        return None
    number = numbers[0] if owner.kind == "cast" else _ARITHMETIC[owner.kind](*numbers)
    return number if value.type.scalar.minimum <= number <= value.type.scalar.maximum else None


def _indexes_private_memory(body: Block, counter: Value) -> bool:
    """Whether an element of a thread's own vector, in memory or not, is reached by the counter."""
    from_counter = {counter}
    for op in walk(body):
        if op.kind in (*_ARITHMETIC, "cast"):
            if not from_counter.isdisjoint(op.operands):
                from_counter.update(op.results)
            continue
        position = _PLACES.get(op.kind)
        if position is None:
            continue
        array = op.operands[position].type
        if (type(array) is not ArrayType or array.is_slot) and not from_counter.isdisjoint(op.operands[position + 1 :]):
            return True
    return False
