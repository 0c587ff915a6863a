"""The forms of functions whose calls run side by side, a lane each. A form is a function of its own, made once for all
calls that pass their arguments alike; its name says how."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Function, Module, Op, Value
from quadrants.ir.types import ArrayType, Type, lane_type, matrix_type, scalar_of, slot_type, u1
from quadrants.passes.lane_callees import Callees, Varying
from quadrants.passes.lane_calls import Passed
from quadrants.passes.lane_values import Linear
from quadrants.passes.lanes import LaneWriter
from quadrants.passes.structure import callee_of

__all__ = ["LaneFunctions"]

# From so many forms of one function on, numbers that grow evenly are passed as any others are.
_MANY = 4


class LaneFunctions:
    """Makes forms as calls ask for them, and adds them to the module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.callees = Callees(module)
        self._counts: dict[str, int] = {}

    def takes_steps(self, callee: str) -> bool:
        return self._counts.get(callee, 0) < _MANY

    def form(self, call: Op, varying: Varying, passed: Sequence[Passed], masked: bool, lanes: int) -> Function:
        callee = callee_of(call)
        name = f"{callee}.lanes{lanes}{'m' if masked else ''}.{''.join(map(_letter, passed))}"
        found = self.module.functions.get(name)
        if found is None:
            self._counts[callee] = self._counts.get(callee, 0) + 1
            found = self._form(name, self.module.functions[callee], varying, passed, masked, lanes)
        return found

    def _form(
        self, name: str, old: Function, varying: Varying, passed: Sequence[Passed], masked: bool, lanes: int
    ) -> Function:
        facts = self.callees.facts(old.name, varying)
        assert facts is not None
        last = old.body.ops[-1]
        # Numbers that lanes share come back as lanes, too, where they are floats: conventions have registers for those.
        varies = [value in facts.varying or scalar_of(value.type).is_float for value in last.operands]
        results = [
            lane_type(scalar_of(type_), lanes) if differs else type_ for type_, differs in zip(old.result_types, varies)
        ]
        types = [_type(value, kind, lanes) for value, kind in zip(old.parameters, passed)]
        if masked:
            types.append(lane_type(u1, lanes))
        new = self.module.add(Function(name, tuple(types), tuple(results)))
        new.location, new.attributes = old.location, dict(old.attributes)
        names = old.attributes.get("parameter_names")
        if names is not None and masked:
            new.attributes["parameter_names"] = (*names, "lanes")
        writer = LaneWriter(lanes, facts, new.body, self)
        for value, own, kind in zip(old.parameters, new.parameters, passed):
            own.name = value.name
            _bind(writer, value, own, kind)
        if masked:
            writer.mask = new.parameters[-1]
        yielded = writer.region(old.body)
        assert yielded is not None
        values = [
            writer.values.wide(value) if differs else writer.values.scalar(value)
            for value, differs in zip(yielded, varies)
        ]
        writer.builder.op("return", *values)
        return new


def _letter(passed: Passed) -> str:
    if passed.kind != "l":
        return passed.kind
    return f"{'w' if passed.weak else 'l'}{str(passed.step).replace('-', 'n')}"


def _type(value: Value, passed: Passed, lanes: int) -> Type:
    if passed.kind == "v":
        return lane_type(scalar_of(value.type), lanes)
    if passed.kind == "s":
        assert type(value.type) is ArrayType
        return slot_type(matrix_type(value.type.scalar, (*value.type.trailing, lanes)))
    return value.type


def _bind(writer: LaneWriter, value: Value, own: Value, passed: Passed) -> None:
    if passed.kind == "v":
        writer.values.set_wide(value, own)
    elif passed.kind == "l":
        writer.values.set_linear(value, Linear(own, passed.step, passed.weak))
    else:
        writer.values.set_scalar(value, own)
