"""The values of a loop whose iterations run side by side: each original value as a number that all lanes share, as a
number a lane, or as numbers that grow evenly from lane to lane.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ScalarType, i32, i64, lane_type, scalar_of, u1
from quadrants.records import Record

__all__ = ["LaneValues", "Linear"]


class Linear(Record):
    """Lane k holds base + k * step. `weak`: only where no lane wraps around the range of 32 bits, and a lane that does
    wrap is no index of memory: good as an index, but neither for more arithmetic nor as lanes. Where it has 64 bits, it
    extends `narrow`, whose lanes wrap as they should."""

    base: Value
    step: int
    weak: bool = False
    narrow: Value | None = None


class LaneValues:
    """What original values have become. Lanes of a value are made where first asked for, in the builder's block; scopes
    keep them from being used where that block does not reach."""

    def __init__(self, lanes: int, varying: set[Value], builder: Builder) -> None:
        self.lanes = lanes
        self.varying = varying
        self.builder = builder
        self.linear: dict[Value, Linear] = {}
        self._scalars: dict[Value, Value] = {}
        self._wide: list[dict[Value, Value]] = [{}]

    def enter(self) -> None:
        """Begins a scope: a block within the current one."""
        self._wide.append({})

    def leave(self) -> None:
        self._wide.pop()

    def set_scalar(self, value: Value, scalar: Value) -> None:
        self._scalars[value] = scalar
        self._forget(value)

    def set_wide(self, value: Value, wide: Value) -> None:
        self.linear.pop(value, None)
        self._wide[-1][value] = wide

    def set_linear(self, value: Value, linear: Linear) -> None:
        self.linear[value] = linear
        self._forget(value)

    def _forget(self, value: Value) -> None:
        """Drops lanes made of what a value was before: conditions of loops are written twice."""
        for scope in self._wide:
            scope.pop(value, None)

    def bind(self, value: Value, new: Value) -> None:
        """Sets what a value has become, in the form that its own uniformity asks for."""
        if value in self.varying:
            self.set_wide(value, new)
        else:
            self.set_scalar(value, new)

    def scalar(self, value: Value) -> Value:
        """A uniform value (one from outside the loop stands for itself)."""
        return self._scalars.get(value, value)

    def wide(self, value: Value) -> Value:
        """The lanes of a value."""
        for scope in reversed(self._wide):
            found = scope.get(value)
            if found is not None:
                return found
        linear = self.linear.get(value)
        if linear is None:
            made = self.broadcast(self.scalar(value))
        elif linear.narrow is not None:
            made = self.builder.cast(self.wide(linear.narrow), scalar_of(value.type))
        else:
            made = self._spread(linear)
        self._wide[-1][value] = made
        return made

    def own(self, value: Value) -> Value:
        """A value in the form that its uniformity asks for."""
        return self.wide(value) if value in self.varying else self.scalar(value)

    def broadcast(self, scalar: Value) -> Value:
        """One number in every lane."""
        owner = scalar.owner
        target = lane_type(scalar_of(scalar.type), self.lanes)
        if type(owner) is Op and owner.kind == "constant":
            return self.builder.constant(owner.attribute("value"), target)
        return self.builder.emit("broadcast", scalar, type=target)

    def constant(self, value: object, scalar: ScalarType) -> Value:
        return self.builder.constant(value, lane_type(scalar, self.lanes))

    def index(self) -> Value:
        """The lanes' numbers."""
        return self.builder.emit("lane_index", type=lane_type(i64, self.lanes))

    def all_on(self) -> Value:
        return self.constant(True, u1)

    def _spread(self, linear: Linear) -> Value:
        scalar = scalar_of(linear.base.type)
        offsets = self.index()
        if linear.step != 1:
            offsets = self.builder.mul(offsets, self.constant(linear.step, i64))
        offsets = self.builder.cast(offsets, scalar)
        return self.builder.add(self.broadcast(linear.base), offsets)

    def derive(self, op: Op) -> Linear | None:
        """The linear form of an operation's result, if it has one and its operands do."""
        kind, result = op.kind, op.results[0]
        if result.type is not i64 and result.type is not i32:
            return None
        known = [self.linear.get(operand) for operand in op.operands]
        if not any(known) or any(form is None and operand in self.varying for form, operand in zip(known, op.operands)):
            return None
        if kind == "cast":
            return self._cast(op, known[0])
        if any(form is not None and form.weak and result.type is i64 for form in known):
            return None
        weak = result.type is i32 and not op.attribute("exact")
        return self._sum(op, known, weak) if kind in ("add", "sub") else self._scaled(op, known, weak)

    def _cast(self, op: Op, form: Linear | None) -> Linear | None:
        """Law: lanes that are less than 2**31 apart and wrap around are below zero, where no memory is."""
        source, target = op.operands[0].type, op.results[0].type
        if form is None or (target is i32 and not op.attribute("exact")) or source not in (i32, i64):
            return None
        if form.weak and target is i64 and abs(form.step) * (self.lanes - 1) >= 1 << 31:
            return None
        narrow = (form.narrow or op.operands[0]) if form.weak and target is i64 else None
        return Linear(self._scalar_op(op, (form.base,)), form.step, form.weak, narrow)

    def _scalar_op(self, op: Op, operands: tuple[Value, ...]) -> Value:
        return self.builder.emit(op.kind, *operands, **(op.attributes or {}))

    def _sum(self, op: Op, known: list[Linear | None], weak: bool) -> Linear | None:
        bases = [form.base if form else self.scalar(operand) for form, operand in zip(known, op.operands)]
        left, right = [form.step if form else 0 for form in known]
        step = left + right if op.kind == "add" else left - right
        return Linear(self._scalar_op(op, tuple(bases)), step, weak) if step else None

    def _scaled(self, op: Op, known: list[Linear | None], weak: bool) -> Linear | None:
        if op.kind != "mul" or known[0] is None:
            return None
        factor = op.operands[1].owner
        if type(factor) is not Op or factor.kind != "constant" or not factor.attribute("value"):
            return None
        base = self._scalar_op(op, (known[0].base, self.scalar(op.operands[1])))
        return Linear(base, known[0].step * factor.attribute("value"), weak)
