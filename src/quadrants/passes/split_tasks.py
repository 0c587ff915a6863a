"""Parallel loops that are too large for a device's compiler become several, one after the other: what one computes for the next
lies in temporary arrays, with a row for each value.

The compilers behind some devices take all of a task at once, in a time that grows faster than the task. The iterations of a
parallel loop may run in any order, so all may run their first part before any runs its second. Loops of many iterations are
split piece by piece, so that the temporary arrays stay small.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.threads import TEAM_OPS
from quadrants.ir.types import ArrayType, array_type, i64, scalar_of, u1
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cuts import is_made_anew, is_slot, parts_of
from quadrants.passes.nest import counters, highs, lows
from quadrants.passes.open_branches import open_branches
from quadrants.passes.structure import loop_jumps, with_inner
from quadrants.passes.task_size import TaskSizes, tell_if_large

__all__ = ["run"]

_ITERATIONS = 1 << 18
"""Iterations at a time: what the temporary arrays have room for."""


def run(module: Module, context: PassContext) -> None:
    """In place; stage `lowered`. Law: each iteration computes what it did, from memory as it would have found it."""
    record = context.record
    if record is None or not record.task_operations:
        return
    _block(module.kernel.body, TaskSizes(module), context)


def _block(block: Block, sizes: TaskSizes, context: PassContext) -> None:
    ops: list[Op] = []
    for op in block.ops:
        if not op.attribute("parallel"):
            for region in op.regions:
                _block(region, sizes, context)
            ops.append(op)
            continue
        ops += _split(op, sizes, context)
    block.ops = ops


def _split(loop: Op, sizes: TaskSizes, context: PassContext) -> list[Op]:
    most: int = context.record.task_operations
    size = sizes.of(loop)
    if size <= most or loop.results:
        return [loop]
    made: list[Op] = [loop]
    if _may_be_split(loop) and context.permit():
        open_branches(loop.regions[0], sizes, most)
        parts = parts_of(loop.regions[0].ops[:-1], sizes, most)
        if len(parts) > 1:
            context.count("loops split for a device's compiler")
            made = _Splitter(loop, parts).run()
    tell_if_large(context, max([sizes.of(op) for op in _parallel(made)]), loop.location)
    return made


def _parallel(ops: list[Op]) -> list[Op]:
    found = [op for op in ops if op.attribute("parallel")]
    for op in ops:
        if not op.attribute("parallel"):
            found += [inner for region in op.regions for inner in walk(region) if inner.attribute("parallel")]
    return found


def _may_be_split(loop: Op) -> bool:
    """Not where threads meet, and not where an iteration ends more than itself."""
    region = loop.regions[0]
    if any(jump.kind != "continue" for jump in loop_jumps(region)):
        return False
    return not any(op.kind in TEAM_OPS or op.kind == "shared" or "threads" in op.attributes for op in walk(region))


class _Splitter:
    """Makes the loops of one loop's parts. `places`: the temporary array of each value that goes from one part to another."""

    def __init__(self, loop: Op, parts: list[list[Op]]) -> None:
        self._loop = loop
        self._parts = parts
        self._made = Block()
        self._builder = Builder(self._made, loop.location)
        self._places: dict[Value, Value] = {}
        self._part_of = {value: k for k, part in enumerate(parts) for op in part for value in op.results}

    def run(self) -> list[Op]:
        builder = self._builder
        zero, always = builder.index(0), builder.constant(True, u1)
        extents = [
            builder.max(builder.sub(high, low, exact=True), zero)
            for low, high in zip(lows(self._loop), highs(self._loop))
        ]
        row = builder.index(1)
        for extent in extents[1:]:
            row = builder.mul(row, extent, exact=True)
        rows = builder.max(
            builder.truncdiv(builder.index(_ITERATIONS), builder.max(row, builder.index(1))), builder.index(1)
        )
        rows = builder.min(rows, builder.max(extents[0], builder.index(1)))
        room = builder.mul(rows, row, exact=True)
        temporaries = self._make_places(always, room)
        alive = [
            builder.op("temporary", always, room, type=array_type(u1, 1)).results[0]
            if any(op.kind == "if" and _ends_iteration(op) for op in part)
            else None
            for part in self._parts
        ]
        pieces = builder.truncdiv(
            builder.add(extents[0], builder.sub(rows, builder.index(1), exact=True), exact=True), rows
        )
        body = Block()
        piece = body.add_argument(i64)
        inner = Builder(body, self._loop.location)
        low = inner.add(lows(self._loop)[0], inner.mul(piece, rows, exact=True), exact=True)
        high = inner.min(inner.add(low, rows, exact=True), highs(self._loop)[0])
        for k in range(len(self._parts)):
            self._loop_of(inner, k, (low, high), extents, alive)
        inner.op("yield")
        builder.op("for", zero, pieces, regions=(body,), rank=1)
        for memory in [*temporaries, *[flag for flag in alive if flag is not None]]:
            builder.op("release", memory)
        return self._made.ops

    def _make_places(self, always: Value, room: Value) -> list[Value]:
        """Temporary arrays for what a later part uses: the values of neighbouring iterations lie next to each other."""
        for k, part in enumerate(self._parts):
            for op in part:
                for inner in with_inner(op):
                    for value in inner.operands:
                        if self._part_of.get(value, k) == k or value in self._places or is_made_anew(value):
                            continue
                        trailing = value.type.trailing if type(value.type) is ArrayType else ()
                        sizes = [*[self._builder.index(size) for size in trailing], room]
                        type_ = array_type(scalar_of(value.type), len(sizes))
                        self._places[value] = self._builder.op("temporary", always, *sizes, type=type_).results[0]
                        self._places[value].name = value.name
        return list(self._places.values())

    def _loop_of(
        self, builder: Builder, k: int, bounds: tuple[Value, Value], extents: list[Value], alive: list[Value | None]
    ) -> None:
        loop, part = self._loop, self._parts[k]
        region = Block()
        values: dict[Value, Value] = {}
        for counter in counters(loop):
            values[counter] = region.add_argument(i64, counter.name)
        inner = Builder(region, loop.location)
        place = inner.sub(values[counters(loop)[0]], bounds[0], exact=True)
        for extent, counter, low in list(zip(extents, counters(loop), lows(loop)))[1:]:
            place = inner.add(
                inner.mul(place, extent, exact=True), inner.sub(values[counter], low, exact=True), exact=True
            )
        own = alive[k]
        if own is not None:
            inner.op("store", inner.constant(False, u1), own, place)
        for flag in alive[:k]:
            if flag is not None:
                ended = Block()
                Builder(ended, loop.location).op("continue")
                going = Block()
                Builder(going, loop.location).op("yield")
                inner.op("if", inner.load(flag, place), regions=(going, ended))
        self._fill(inner, part, place, values)
        if own is not None:
            inner.op("store", inner.constant(True, u1), own, place)
        inner.op("yield")
        low, high = [bounds[0], *lows(loop)[1:]], [bounds[1], *highs(loop)[1:]]
        builder.op("for", *low, *high, regions=(region,), **loop.attributes)

    def _fill(self, builder: Builder, part: list[Op], place: Value, values: dict[Value, Value]) -> None:
        """The operations of a part, with what came from earlier ones in front and what goes to later ones behind."""
        own = {value for op in part for value in op.results}
        for op in part:
            for inner in with_inner(op):
                for value in inner.operands:
                    if value in values or value in own or value not in self._part_of:
                        continue
                    if is_made_anew(value):
                        assert isinstance(value.owner, Op)
                        builder.block.ops += clone_ops([value.owner], values)
                    elif not is_slot(value):
                        values[value] = builder.load(self._places[value], place)
        kept = [op for op in part if not (op.kind == "slot" and op.results[0] in self._places)]
        for op in clone_ops(kept, values):
            self._reach_places(op, place)
            builder.block.ops.append(op)
        for op in part:
            for value in op.results:
                if value in self._places and not is_slot(value):
                    builder.op("store", values[value], self._places[value], place)

    def _reach_places(self, op: Op, place: Value) -> None:
        """Accesses to private memory that has a temporary array reach the iteration's part of it."""
        for inner in with_inner(op):
            if not any(is_slot(operand) and operand in self._places for operand in inner.operands):
                continue
            reached = [
                self._places[operand] if is_slot(operand) and operand in self._places else operand
                for operand in inner.operands
            ]
            inner.operands = (*reached, place) if inner.kind in _ACCESSES else tuple(reached)
            if inner.kind == "update":
                inner.attributes = {**inner.attributes, "atomic": False}


_ACCESSES = ("load", "store", "update", "compare_exchange")


def _ends_iteration(op: Op) -> bool:
    return any(loop_jumps(region) for region in op.regions)
