"""Settle updates: `array[i] op= value` whose value may change the element becomes an update, or a load, the value, and a
store.

Python reads the element first, then computes the value. That holds wherever iterations that run in parallel do not meet
in the element: an iteration has it to itself, so it sees what Python sees. Where they may meet, the update is one
atomic step, once its value is known. Where the value cannot change the element the two are the same, and the update
stays an update, which later passes know more of.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.passes.context import PassContext
from quadrants.passes.drop_atomics import contested_updates
from quadrants.passes.memory import MemoryEffects, memory_effects

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Stage `kernel`: updates whose values leave the element alone. Stage `tasks`: these, and all others."""
    found = {id(f): [op for op in walk(f.body) if op.kind == "update_loaded"] for f in module.functions.values()}
    if not any(found.values()):
        return
    effects = memory_effects(module, context)
    decided = module.stage != "kernel"
    contested = contested_updates(module) if decided else set[Op]()
    for function in module.functions.values():
        if found[id(function)]:
            settler = _Settler(function, effects, contested, decided)
            settler.block(function.body)
            settler.drop_loads()
    context.memory_effects = None


class _Settler:
    def __init__(self, function: Function, effects: MemoryEffects, contested: set[Op], decided: bool) -> None:
        self.function = function
        self.effects = effects
        self.contested = contested
        self.decided = decided
        self.may_alias = bool(function.attributes.get("may_alias"))
        self.unused: set[Value] = set()

    def block(self, block: Block) -> None:
        out: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self.block(region)
            if op.kind != "update_loaded":
                out.append(op)
            elif op in self.contested or self._unchanged(op, out):
                out.append(self._update(op))
            elif self.decided:
                out += _in_order(op)
            else:
                out.append(op)
        block.ops = out

    def _update(self, op: Op) -> Op:
        value, before, *place = op.operands
        self.unused.add(before)
        return Op("update", (value, *place), (value.type,), op.attributes, (), op.location)

    def _unchanged(self, op: Op, in_front: list[Op]) -> bool:
        """Whether nothing between the load and the update writes to the array."""
        load, array = op.operands[1].owner, op.operands[2]
        for position in range(len(in_front) - 1, -1, -1):
            if in_front[position] is load:
                between = Block()
                between.ops = in_front[position + 1 :]
                writes = self.effects.block(between).writes
                return array not in writes and not (self.may_alias and any(not w.type.is_slot for w in writes))
        return False

    def drop_loads(self) -> None:
        """A load that only served an update would be a read of shared memory for nothing."""
        used = {operand for op in walk(self.function.body) for operand in op.operands}
        dead = {
            before.owner for before in self.unused - used if type(before.owner) is Op and before.owner.kind == "load"
        }
        if dead:
            _drop(self.function.body, dead)


def _in_order(op: Op) -> list[Op]:
    """Law: where no other iteration comes between, an update is a load, the operation and a store."""
    value, before, *place = op.operands
    attributes = {name: held for name, held in (op.attributes or {}).items() if name not in ("by", "atomic")}
    block = Block()
    builder = Builder(block, op.location)
    combined = builder.emit(op.attribute("by"), before, value)
    builder.op("store", combined, *place, **attributes)
    return block.ops


def _drop(block: Block, dead: set[Op]) -> None:
    block.ops = [op for op in block.ops if op not in dead]
    for op in block.ops:
        for region in op.regions:
            _drop(region, dead)
