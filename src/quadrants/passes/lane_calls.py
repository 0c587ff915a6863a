"""Calls within a loop whose iterations run side by side: of a function's form in lanes, or one call for all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Function, Op, Value
from quadrants.ir.types import Type, lanes_of
from quadrants.passes.lane_callees import Callees, Varying
from quadrants.passes.lane_loops import LaneLoops
from quadrants.passes.structure import callee_of
from quadrants.records import Record

__all__ = ["Forms", "LaneCalls", "Passed", "call_in_one_lane"]


class Passed(Record):
    """How a lane form takes one parameter. `kind` is 'u': as the function itself (arrays, and numbers that all lanes
    share); 's': private memory with one more axis, the lanes'; 'v': lanes; 'l': the number of lane 0, lane k has k *
    `step` more (see lane_values.Linear for `weak`)."""

    kind: str
    step: int = 0
    weak: bool = False


class Forms(Protocol):
    """The lane forms that functions have."""

    callees: Callees

    def takes_steps(self, callee: str, /) -> bool:
        """Whether one more form of a function may be made for numbers that grow evenly."""
        ...

    def form(self, call: Op, varying: Varying, passed: Sequence[Passed], masked: bool, lanes: int, /) -> Function:
        """The form for such arguments; `masked`: it takes the lanes that are on as its last one."""
        ...


class LaneCalls(LaneLoops):
    """Law: a form that needs no mask is called with all lanes, whatever their numbers. `called` has the calls of such
    forms."""

    forms: Forms | None = None
    called: dict[Op, tuple[Function, list[Passed]]]

    def call(self, op: Op) -> None:
        assert self.forms is not None
        callees, varying, name = self.forms.callees, self.facts.arguments_vary(op), callee_of(op)
        if callees.is_shared(op, varying):
            types = tuple([result.type for result in op.results])
            self._called(op, name, types, [self.values.scalar(operand) for operand in op.operands])
            return
        masked = self.mask is not None and callees.needs_mask(name)
        steps = self.forms.takes_steps(name)
        passed = [self._passed(operand, steps) for operand in op.operands]
        form = self.forms.form(op, varying, [kind for kind, _ in passed], masked, self.lanes)
        arguments = [value for _, value in passed]
        if not callees.needs_mask(name):
            self.called[op] = form, [kind for kind, _ in passed]
        if masked:
            arguments.append(self.full_mask())
        self._called(op, form.name, form.result_types, arguments)

    def _passed(self, operand: Value, steps: bool) -> tuple[Passed, Value]:
        values = self.values
        if operand in self.facts.slots:
            return Passed("s"), values.scalar(operand)
        linear = values.linear.get(operand)
        if linear is not None and steps and linear.narrow is None:
            return Passed("l", linear.step, linear.weak), linear.base
        if operand in self.facts.varying:
            return Passed("v"), values.wide(operand)
        return Passed("u"), values.scalar(operand)

    def _called(self, op: Op, callee: str, types: tuple[Type, ...], arguments: Sequence[Value]) -> None:
        """The call, where some lane is on. Its results become what they are: numbers that lanes share, or lanes."""
        made = self.guarded(
            lambda: self.builder.op("call", *arguments, callee=callee, types=types).results,
            lambda: [self.builder.constant(0, type_) for type_ in types],
        )
        for result, new in zip(op.results, made):
            if result in self.facts.varying and lanes_of(new.type) == 1:
                new = self.values.broadcast(new)
            elif result not in self.facts.varying and lanes_of(new.type) > 1:
                new = self.builder.extract_lane(new, lane=0)
            self.values.bind(result, new)


def call_in_one_lane(
    builder: Builder, arguments: Sequence[Value], form: Function, passed: Sequence[Passed]
) -> list[Value]:
    """One call of a function by its form in lanes, of which the first counts: so the function itself is not needed."""
    given = [
        builder.emit("broadcast", value, type=parameter.type) if kind.kind == "v" else value
        for value, kind, parameter in zip(arguments, passed, form.parameters)
    ]
    made = builder.op("call", *given, callee=form.name, types=form.result_types)
    return [builder.extract_lane(value, lane=0) if lanes_of(value.type) > 1 else value for value in made.results]
