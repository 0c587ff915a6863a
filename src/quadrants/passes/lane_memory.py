"""Memory accesses of a loop whose iterations run side by side."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import MatrixType, i64, matrix_type, scalar_of, shape_of
from quadrants.passes.lane_masks import LaneMasks

__all__ = ["LaneMemory"]


class LaneMemory(LaneMasks):
    """Accesses by lanes: one scalar access where all lanes make the same one, else each lane its own."""

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
        if array in self.facts.slots:
            self.values.set_wide(result, self._load_slot(array, indices))
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
        if array in self.facts.slots:
            self._store_slot(value, array, indices)
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
        places, steps = self.place(indices)
        if array in self.facts.slots:
            places, steps = self._in_slot(indices)
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

    # Slots: private memory has one more axis, the lanes'.

    def slot(self, op: Op) -> None:
        element = op.attribute("type")
        wide: MatrixType = matrix_type(scalar_of(element), (*shape_of(element), self.lanes))
        self.values.set_scalar(op.results[0], self.builder.emit("slot", type=wide))

    def _in_slot(self, indices: Sequence[Value]) -> tuple[list[Value], tuple[int, ...]]:
        if self.is_shared(indices):
            places = [self.values.scalar(index) for index in indices]
            return [*places, self.builder.constant(0, i64)], (*[0] * len(indices), 1)
        places, steps = self.place(indices)
        return [*places, self.values.index()], (*steps, 0)

    def _slot_mask(self, indices: Sequence[Value]) -> Value:
        """Indices that some lane uses are in range, and all lanes' numbers may then be touched."""
        return self.values.all_on() if self.is_shared(indices) and self.some else self.full_mask()

    def _load_slot(self, array: Value, indices: Sequence[Value]) -> Value:
        places, steps = self._in_slot(indices)
        mask = self._slot_mask(indices)
        return self.builder.emit("lane_load", self.values.scalar(array), *places, mask, steps=steps)

    def _store_slot(self, value: Value, array: Value, indices: Sequence[Value]) -> None:
        wide, slot = self.values.wide(value), self.values.scalar(array)
        places, steps = self._in_slot(indices)
        mask = self._slot_mask(indices)
        if self.mask is not None and self.is_shared(indices) and self.some:
            old = self.builder.emit("lane_load", slot, *places, mask, steps=steps)
            wide = self.builder.select(self.mask, wide, old)
        self.builder.op("lane_store", wide, slot, *places, mask, steps=steps)
