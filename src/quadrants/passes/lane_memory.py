"""Memory accesses of a loop whose iterations run side by side."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, MatrixType, matrix_type, scalar_of, shape_of
from quadrants.passes.lane_masks import LaneMasks
from quadrants.passes.lane_scratch import Scratch
from quadrants.passes.ranges import Ranges
from quadrants.records import Record

__all__ = ["LaneMemory"]


class _Private(Record):
    """Where an access reaches private memory: slot, indices with steps, mask; `is_whole`: all lanes reach one row, which
    is there."""

    slot: Value
    places: list[Value]
    steps: tuple[int, ...]
    mask: Value
    is_whole: bool


class LaneMemory(LaneMasks):
    """Accesses by lanes: one scalar access where all lanes make the same one, else each lane its own; in private memory
    they are vectors. `scratches` are the private copies of arrays."""

    scratches: dict[Value, Scratch]
    ranges: Ranges

    def place(self, indices: Sequence[Value]) -> tuple[list[Value], tuple[int, ...]]:
        """Indices as the lane accesses take them, with the steps; indices that all lanes share are plain."""
        values = self.values
        places: list[Value] = []
        steps: list[int] = []
        for index in indices:
            linear = values.linear.get(index)
            if linear is not None:
                places.append(linear.base)
                steps.append(linear.step)
            else:
                places.append(values.own(index))
                steps.append(0)
        return places, tuple(steps)

    def is_shared(self, indices: Sequence[Value]) -> bool:
        return not any(index in self.facts.varying for index in indices)

    def full_mask(self) -> Value:
        return self.mask if self.mask is not None else self.values.all_on()

    def load_mask(self, op: Op, steps: tuple[int, ...]) -> Value:
        """The lanes that a load reads: at least those that are on, and no memory that is not there."""
        return self.full_mask()

    def load(self, op: Op) -> None:
        array, *indices = op.operands
        result = op.results[0]
        if self.is_private(array):
            self.values.set_wide(result, self._load_private(array, indices))
        elif self.is_shared(indices):
            self._load_shared(op)
        else:
            places, steps = self.place(indices)
            mask = self.load_mask(op, steps)
            loaded = self.builder.emit("lane_load", self.values.scalar(array), *places, mask, steps=steps)
            self.values.set_wide(result, loaded)

    def _load_shared(self, op: Op) -> None:
        operands = [self.values.scalar(operand) for operand in op.operands]
        (loaded,) = self.guarded(
            lambda: [self.builder.emit("load", *operands)],
            lambda: [self.builder.constant(0, op.results[0].type)],
        )
        self.values.set_scalar(op.results[0], loaded)

    def store(self, op: Op) -> None:
        value, array, *indices = op.operands
        if self.is_private(array):
            self._store_private(self.values.wide(value), array, indices)
        elif self.is_shared(indices) and value not in self.facts.varying:
            operands = [self.values.scalar(operand) for operand in op.operands]
            self.guarded(lambda: self.builder.op("store", *operands).results, list)
        else:
            places, steps = self.place(indices)
            self.builder.op(
                "lane_store",
                self.values.wide(value),
                self.values.scalar(array),
                *places,
                self.full_mask(),
                steps=steps,
            )

    def update(self, op: Op) -> None:
        value, array, *indices = op.operands
        if self.is_private(array):
            self._update_private(op)
            return
        places, steps = self.place(indices)
        attributes = {**(op.attributes or {}), "steps": steps}
        old = self.builder.emit(
            "lane_update",
            self.values.wide(value),
            self.values.scalar(array),
            *places,
            self.full_mask(),
            **attributes,
        )
        self.values.set_wide(op.results[0], old)

    # Private memory has one more axis, the lanes'.

    def slot(self, op: Op) -> None:
        element = op.attribute("type")
        wide: MatrixType = matrix_type(scalar_of(element), (*shape_of(element), self.lanes))
        self.values.set_scalar(op.results[0], self.builder.emit("slot", type=wide))

    def is_private(self, array: Value) -> bool:
        """Whether each lane has memory of its own there: a slot, or a copy."""
        return array in self.facts.slots or array in self.scratches

    def _private(self, array: Value, indices: Sequence[Value]) -> _Private:
        scratch = self.scratches.get(array)
        if scratch is not None:
            assert scratch.slot is not None
            own = [indices[axis] for axis in scratch.axes]
            is_even = self.is_shared(own)
            row = scratch.row(self.builder, [self.values.scalar(i) if is_even else self.values.wide(i) for i in own])
            slot, places, steps = scratch.slot, [self.builder.index(0) if row is None else row], (0,)
            extents = [(scratch.copy.lows[axis], scratch.copy.sizes[axis]) for axis in scratch.axes]
        else:
            is_even = self.is_shared(indices)
            slot = self.values.scalar(array)
            places, steps = self.place(indices)
            own, extents = indices, [(0, size) for size in _slot_sizes(array)]
        whole = is_even and (self.some or all(map(self._is_within, own, extents)))
        mask = self.values.all_on() if whole else self.full_mask()
        if is_even:
            return _Private(slot, [*places, self.builder.index(0)], (*steps, 1), mask, whole)
        return _Private(slot, [*places, self.values.index()], (*steps, 0), mask, False)

    def _is_within(self, index: Value, extent: tuple[Value | int, int | None]) -> bool:
        """Whether an index is in range even where no lane is on."""
        (least, most), (low, size) = self.ranges.of(index), extent
        if least is None or most is None or size is None or not isinstance(low, int):
            return False
        return low <= least and most < low + size

    def _load_private(self, array: Value, indices: Sequence[Value]) -> Value:
        return self._load_at(self._private(array, indices))

    def _load_at(self, at: _Private) -> Value:
        return self.builder.emit("lane_load", at.slot, *at.places, at.mask, steps=at.steps)

    def _store_private(self, wide: Value, array: Value, indices: Sequence[Value]) -> None:
        self._store_at(wide, self._private(array, indices))

    def _store_at(self, wide: Value, at: _Private) -> None:
        """Law: where all lanes reach one row, and there is such a row, all of it may be written."""
        if self.mask is not None and at.is_whole:
            wide = self.builder.select(self.mask, wide, self._load_at(at))
        self.builder.op("lane_store", wide, at.slot, *at.places, at.mask, steps=at.steps)

    def _update_private(self, op: Op) -> None:
        """No other lane, and no other thread, sees it."""
        value, array, *indices = op.operands
        by, operand = op.attribute("by"), self.values.wide(value)
        at = self._private(array, indices)
        old = self._load_at(at)
        new = operand if by == "exchange" else self.builder.emit(by, old, operand)
        self._store_at(new, at)
        self.values.set_wide(op.results[0], old)


def _slot_sizes(array: Value) -> tuple[int, ...]:
    assert type(array.type) is ArrayType
    return array.type.trailing
