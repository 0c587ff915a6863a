"""Large branches become several with the same condition, so that code can be cut between them."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.clone import clone_ops
from quadrants.passes.cuts import is_made_anew, is_slot, parts_of
from quadrants.passes.structure import with_inner
from quadrants.passes.task_size import TaskSizes

__all__ = ["open_branches"]


def open_branches(block: Block, sizes: TaskSizes, most: int) -> None:
    """In place; for `if` operations of a block in which no loop is larger than `most`. What goes from one branch to another, and
    what the `if` gives, lies in slots."""
    ops: list[Op] = []
    for op in block.ops:
        if op.kind != "if" or sizes.of(op) <= most:
            ops.append(op)
            continue
        made = Block()
        for region in op.regions:
            open_branches(region, sizes, most)
        slots = [_slot(made, op, result) for result in op.results]
        for number in range(len(op.regions)):
            _Branch(made, op, number, slots).write(parts_of(op.regions[number].ops[:-1], sizes, most))
        for result, slot in zip(op.results, slots):
            load = Builder(made, op.location).load(slot).owner
            assert isinstance(load, Op)
            load.results, result.owner = [result], load
        ops += made.ops
    block.ops = ops


def _slot(block: Block, op: Op, value: Value) -> Value:
    return Builder(block, op.location).emit("slot", type=value.type)


class _Branch:
    """One region of an `if`, written as one `if` for each part."""

    def __init__(self, made: Block, op: Op, number: int, slots: Sequence[Value]) -> None:
        self._made = made
        self._op = op
        self._number = number
        self._slots = slots
        self._places: dict[Value, Value] = {}

    def write(self, parts: list[list[Op]]) -> None:
        end = self._op.regions[self._number].ops[-1]
        parts = parts or [[]]
        part_of = {value: k for k, part in enumerate(parts) for op in part for value in op.results}
        for k, part in enumerate([*parts[:-1], [*parts[-1], end]]):
            for op in part:
                for inner in with_inner(op):
                    for value in inner.operands:
                        if part_of.get(value, k) != k and not is_made_anew(value):
                            self._places[value] = value
        self._declare(parts)
        for k, part in enumerate(parts):
            self._write(part, end if k == len(parts) - 1 else None, part_of)

    def _declare(self, parts: list[list[Op]]) -> None:
        for value in self._places:
            if is_slot(value):
                type_ = value.type
                assert type(type_) is ArrayType and isinstance(value.owner, Op)
                (copy,) = clone_ops([value.owner], {})
                self._made.ops.append(copy)
                self._places[value] = copy.results[0]
            else:
                self._places[value] = _slot(self._made, self._op, value)

    def _write(self, part: list[Op], end: Op | None, part_of: dict[Value, int]) -> None:
        body = Block()
        builder = Builder(body, self._op.location)
        own = {value for op in part for value in op.results}
        values: dict[Value, Value] = {value: place for value, place in self._places.items() if is_slot(value)}
        for op in [*part, *([end] if end else [])]:
            for inner in with_inner(op):
                for value in inner.operands:
                    if value in own or value in values or value not in part_of:
                        continue
                    if is_made_anew(value):
                        assert isinstance(value.owner, Op)
                        body.ops += clone_ops([value.owner], values)
                    else:
                        values[value] = builder.load(self._places[value])
        kept = [op for op in part if not (op.kind == "slot" and op.results[0] in self._places)]
        body.ops += clone_ops(kept, values)
        for op in part:
            for value in op.results:
                if value in self._places and not is_slot(value):
                    builder.op("store", values[value], self._places[value])
        if end is None or end.kind == "yield":
            for value, slot in zip(end.operands if end else (), self._slots):
                builder.op("store", values.get(value, value), slot)
            builder.op("yield")
        else:
            body.ops += clone_ops([end], values)
        other = Block()
        Builder(other, self._op.location).op("yield")
        regions = (body, other) if self._number == 0 else (other, body)
        Builder(self._made, self._op.location).op("if", self._op.operands[0], regions=regions)
