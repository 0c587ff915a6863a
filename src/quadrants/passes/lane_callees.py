"""What is known of the functions that loops in lanes call, by which of their parameters differ from lane to lane."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.types import ArrayType
from quadrants.passes.fold import number_of
from quadrants.passes.memory import MemoryEffects
from quadrants.passes.structure import callee_of
from quadrants.passes.uniformity import Uniformity

__all__ = ["Callees"]

Varying = tuple[bool, ...]


class Callees:
    """The functions of a module as calls from lanes see them. `varying` says of each argument whether it differs from
    lane to lane (numbers), or is private memory of a lane (slots)."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._effects = MemoryEffects(module)
        self._facts: dict[tuple[str, Varying], Uniformity | None] = {}
        self._masks: dict[str, bool] = {}

    def function(self, name: str) -> Function:
        return self.module.functions[name]

    def facts(self, name: str, varying: Varying) -> Uniformity | None:
        """What differs from lane to lane in a function; None while that is being found out."""
        key = (name, varying)
        if key not in self._facts:
            self._facts[key] = None
            function = self.function(name)
            seeds = [value for value, varies in zip(function.parameters, varying) if varies]
            slots = {value for value in seeds if type(value.type) is ArrayType}
            numbers = [value for value in seeds if value not in slots]
            self._facts[key] = Uniformity(function.body, numbers, self, slots)
        return self._facts[key]

    def results_vary(self, call: Op, varying: Varying) -> Varying:
        """Which results differ from lane to lane. Of a function that is being looked at (recursion) all are taken to."""
        facts = self.facts(callee_of(call), varying)
        if facts is None:
            return (True,) * len(call.results)
        last = self.function(callee_of(call)).body.ops[-1]
        return tuple([value in facts.varying for value in last.operands])

    def is_shared(self, call: Op, varying: Varying) -> bool:
        """Whether one call does for all lanes: equal arguments, nothing written."""
        return not any(varying) and self._effects.call(call).none

    def needs_mask(self, name: str) -> bool:
        """Whether a function has to know which lanes are on: it touches memory at places that lanes that are off may get
        wrong, or loops as often as its arguments say."""
        found = self._masks.get(name)
        if found is None:
            self._masks[name] = True  # recursion ends where no lane is on
            function = self.function(name)
            own = {op.result for op in walk(function.body) if op.kind == "slot"}
            found = self._masks[name] = any(self._asks(op, own) for op in walk(function.body))
        return found

    def _asks(self, op: Op, slots: set[Value]) -> bool:
        kind = op.kind
        if kind == "call":
            return self.needs_mask(callee_of(op))
        if kind == "for":
            return any(number_of(bound) is None for bound in op.operands[: 2 * op.attribute("rank")])
        if kind in ("load", "store", "update"):
            array, *indices = op.operands[0 if kind == "load" else 1 :]
            return array not in slots or any(number_of(index) is None for index in indices)
        return kind == "while"

    def returns_early(self, name: str) -> bool:
        """Whether a `return` stands anywhere but at the end of a function."""
        return any(_has_return(region) for op in self.function(name).body.ops for region in op.regions)


def _has_return(block: Block) -> bool:
    return any(op.kind == "return" for op in walk(block))
