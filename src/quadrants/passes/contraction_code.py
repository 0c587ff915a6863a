"""The parts of a contraction (`contractions.py`) that all its forms in tiles write: factors and what is done with a sum, for
points of their own."""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Value
from quadrants.passes.clone import clone_ops
from quadrants.passes.contractions import Contraction, Range
from quadrants.passes.structure import count_ops

__all__ = ["ContractionCode", "rounded_up", "sum_of", "times"]


def sum_of(builder: Builder, *parts: Value) -> Value:
    """Index arithmetic that does not wrap."""
    total = parts[0]
    for part in parts[1:]:
        total = builder.add(total, part, exact=True)
    return total


def times(builder: Builder, value: Value, factor: int) -> Value:
    return value if factor == 1 else builder.mul(value, builder.index(factor), exact=True)


def rounded_up(builder: Builder, value: Value, step: Value) -> Value:
    """How many steps a positive value makes, a part of one counted as one."""
    return builder.floordiv(builder.sub(sum_of(builder, value, step), builder.index(1), exact=True), step)


class ContractionCode:
    """Writes values of a nest anew. `batch`: the counters of the batch at the place that is written."""

    def __init__(self, contraction: Contraction) -> None:
        self.contraction = contraction
        self.batch: dict[Value, Value] = {}

    def enter_batch(self, builder: Builder, number: Value, extents: list[Value]) -> None:
        """Takes the counters of the batch from the number of its point, the last one fastest."""
        self.batch = {}
        for part, extent in zip(reversed(self.contraction.batch), reversed(extents)):
            own = builder.mod(number, extent)
            number = builder.floordiv(number, extent)
            self.batch[part.counter] = sum_of(builder, part.low, own)

    def computed(self, builder: Builder, value: Value, counters: dict[Value, Value]) -> Value:
        """A value of the nest, computed for other counters."""
        values = {**self.batch, **counters}
        builder.block.ops += clone_ops(self.contraction.slices[value], values)
        return values.get(value, value)

    def runs_across(self, factor: Value, part: Range) -> bool:
        """Whether a factor's loads take neighbours in a row (or column) range, not in the depth."""
        ops = self.contraction.slices[factor]
        last = [op.operands[-1] for op in ops if op.kind == "load" and len(op.operands) > 1]
        return any(index is part.counter for index in last)

    def statement(self, builder: Builder, total: Value, row: Value, column: Value) -> None:
        """What the nest does with the sum of a row and a column."""
        found = self.contraction
        values = {**self.batch, found.row.counter: row, found.column.counter: column}
        for outside in list(found.slices)[2:]:
            if outside not in values:
                missing = [op for op in found.slices[outside] if op.results[0] not in values]
                builder.block.ops += clone_ops(missing, values)
        op = found.reduction
        if op.kind != "for":
            self._update(builder, total, values)
            return
        at = found.statement.ops.index(op)
        builder.block.ops += clone_ops(found.statement.ops[:at], values)
        assert found.start is not None
        start = values.get(found.start, found.start)
        values[op.results[0]] = builder.emit("sub" if found.negative else "add", start, total)
        builder.block.ops += clone_ops(found.statement.ops[at + 1 : -1], values)

    def statement_size(self) -> int:
        """How many operations that is."""
        found = self.contraction
        return count_ops(found.statement) - sum(map(count_ops, found.reduction.regions))

    def _update(self, builder: Builder, total: Value, values: dict[Value, Value]) -> None:
        """The element that the nest updates depth by depth is updated once; no other point has it."""
        place = [values.get(operand, operand) for operand in self.contraction.reduction.operands[1:]]
        old = builder.emit("load", *place)
        kind = "sub" if self.contraction.negative else "add"
        builder.op("store", builder.emit(kind, old, total), *place)
