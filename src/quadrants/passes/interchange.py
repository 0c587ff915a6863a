"""Columns in blocks: a parallel loop whose iterations each walk down a column of an array goes down a block of columns
together, row by row, so that memory is read along its lines.

What the walks carry stays in private memory. Each column's values are combined in the order of its own walk: nothing is
rounded in another way. Few columns keep their loop: their lines are short, and blocks would leave threads without work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.types import ScalarType, i64, matrix_type
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.plain_nests import inner_range, is_quiet
from quadrants.passes.vectorise import parallel_loops

__all__ = ["run"]

# Columns of a block, columns from which blocks pay, rows that are taken in one step, operations of a row.
_BLOCK = 256
_SHIFT = 8
_LEAST = 1024
_ROWS = 4
_MOST_OPS = 12


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`, behind `jam`. The kernel's parallel loops, where the options leave the lanes to the compiler."""
    if context.record is None or not context.record.vector_bits or context.options.lanes:
        return
    for block, loop in list(parallel_loops(module.kernel.body)):
        walk = None if module.kernel.attributes.get("may_alias") else _walk_of(loop)
        if walk is not None and context.permit():
            _Blocks(loop, walk).replace(block)
            context.count("columns in blocks")


def _walk_of(loop: Op) -> Op | None:
    """The loop down a column within one over columns; None where it is another nest."""
    walk = inner_range(loop, _MOST_OPS) if loop.attribute("rank") == 1 else None
    if walk is None or not all(type(value.type) is ScalarType for value in walk.results):
        return None
    ops = loop.regions[0].ops
    if not all(map(is_quiet, ops[: ops.index(walk)])):  # what is in front of the walk is computed twice
        return None
    return walk if _goes_down(loop, walk) else None


def _goes_down(loop: Op, walk: Op) -> bool:
    """Whether every load that differs between columns takes neighbours there and lines apart down the walk, which is
    equally long in all."""
    (column,) = loop.regions[0].arguments
    row = walk.regions[0].arguments[0]
    own = {column}
    for op in loop.regions[0].ops:
        if not own.isdisjoint(op.operands):
            own.update(op.results)
    if not own.isdisjoint(walk.operands[:2]):
        return False
    computed = own - {column}  # in front of the walk: it would be computed for each row
    if any(not computed.isdisjoint(op.operands) for op in walk.regions[0].ops):
        return False
    down = 0
    for op in walk.regions[0].ops:
        if not own.isdisjoint(op.operands) and op.kind != "load":
            own.update(op.results)
        elif op.kind == "load" and not own.isdisjoint(op.operands):
            *lines, last = op.operands[1:]
            if last is not column or row not in lines or not own.isdisjoint(lines):
                return False
            own.update(op.results)
            down += 1
    return down > 0


class _Blocks:
    """Rewrites one loop over columns."""

    def __init__(self, loop: Op, walk: Op) -> None:
        self.loop = loop
        self.walk = walk
        self.column = loop.regions[0].arguments[0]
        ops = loop.regions[0].ops
        at = ops.index(walk)
        self.before, self.behind = ops[:at], ops[at + 1 : -1]

    def replace(self, block: Block) -> None:
        loop, front = self.loop, Builder(Block(), self.loop.location)
        low, high = loop.operands
        extent = front.sub(high, low)
        many, few = Builder(Block(), loop.location), Block()
        self.write(many, low, high, extent)
        many.op("yield")
        few.ops = [loop, Op("yield", location=loop.location)]
        at = block.ops.index(loop)
        front.op("if", front.ge(extent, front.index(_LEAST)), regions=(many.block, few), types=())
        block.ops[at : at + 1] = front.block.ops

    def write(self, builder: Builder, low: Value, high: Value, extent: Value) -> None:
        padded = builder.add(extent, builder.index(_BLOCK - 1), exact=True)
        blocks = builder.shr(padded, builder.index(_SHIFT))
        attributes: dict[str, Any] = {"parallel": True, "tile": (1, _BLOCK), "lanes": 1}
        attributes["lanes_reason"] = f"columns go down in blocks of {_BLOCK}: left to the code generator"
        attributes["cost"] = self.loop.attribute("cost", 1) * (_BLOCK // 8)

        def body(inner: Builder, number: Value) -> None:
            first = inner.add(inner.shl(number, inner.index(_SHIFT)), low, exact=True)
            end = inner.min(inner.add(first, inner.index(_BLOCK), exact=True), high)
            self.block(inner, first, end)

        _loop(builder, builder.index(0), blocks, body, **attributes)

    def block(self, builder: Builder, first: Value, end: Value) -> None:
        walk = self.walk
        slots = [builder.emit("slot", type=matrix_type(value.type.scalar, (_BLOCK,))) for value in walk.results]

        def start(inner: Builder, column: Value) -> None:
            values = self.computed(inner, column)
            for slot, value in zip(slots, walk.operands[2:]):
                inner.op("store", values.get(value, value), slot, inner.sub(column, first, exact=True))

        def finish(inner: Builder, column: Value) -> None:
            values = self.computed(inner, column)
            for slot, result in zip(slots, walk.results):
                values[result] = inner.emit("load", slot, inner.sub(column, first, exact=True))
            inner.block.ops += clone_ops(self.behind, values)

        _loop(builder, first, end, start)
        outside: dict[Value, Value] = {}
        low, high = [self.outside(builder, value, outside) for value in walk.operands[:2]]
        zero = builder.index(0)
        length = builder.max(builder.sub(high, low), zero)
        steps = builder.floordiv(length, builder.index(_ROWS))
        middle = builder.add(low, builder.mul(steps, builder.index(_ROWS), exact=True), exact=True)

        def rows(inner: Builder, number: Value) -> None:
            row = inner.add(low, inner.mul(number, inner.index(_ROWS), exact=True), exact=True)
            _loop(inner, first, end, lambda part, column: self.line(part, row, column, first, slots, _ROWS))

        def one(inner: Builder, row: Value) -> None:
            _loop(inner, first, end, lambda part, column: self.line(part, row, column, first, slots, 1))

        _loop(builder, zero, steps, rows)
        _loop(builder, middle, high, one)
        _loop(builder, first, end, finish)

    def computed(self, builder: Builder, column: Value) -> dict[Value, Value]:
        """What is computed in front of the walk, for a column."""
        values = {self.column: column}
        builder.block.ops += clone_ops(self.before, values)
        return values

    def outside(self, builder: Builder, value: Value, values: dict[Value, Value]) -> Value:
        """What the walk uses, and no column decides on."""
        if value not in values and type(value.owner) is Op and value.owner in self.before:
            for operand in value.owner.operands:
                self.outside(builder, operand, values)
            builder.block.ops += clone_ops([value.owner], values)
        return values.get(value, value)

    def line(self, builder: Builder, row: Value, column: Value, first: Value, slots: list[Value], count: int) -> None:
        """A column's elements in some rows."""
        region = self.walk.regions[0]
        counter, *arguments = region.arguments
        values = {self.column: column}
        for op in region.ops:
            for operand in op.operands:
                self.outside(builder, operand, values)
        place = builder.sub(column, first, exact=True)
        carried = [builder.emit("load", slot, place) for slot in slots]
        for number in range(count):
            values[counter] = row if number == 0 else builder.add(row, builder.index(number), exact=True)
            values.update(zip(arguments, carried))
            builder.block.ops += clone_ops(region.ops[:-1], values)
            carried = [values.get(value, value) for value in region.ops[-1].operands]
        for slot, value in zip(slots, carried):
            builder.op("store", value, slot, place)


def _loop(builder: Builder, low: Value, high: Value, fill: Callable[[Builder, Value], None], **attributes: Any) -> None:
    body = Block()
    counter = body.add_argument(i64)
    inner = Builder(body, builder.location)
    fill(inner, counter)
    inner.op("yield")
    builder.op("for", low, high, regions=(body,), rank=1, **attributes)
