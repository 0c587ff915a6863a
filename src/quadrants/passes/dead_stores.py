"""Dead stores: drops a store that a later store of the same block overwrites before anything may read it, and the
stores to slots that nothing reads."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.threads import ORDERING
from quadrants.passes.context import PassContext
from quadrants.passes.memory import Effects, Key, MemoryEffects, element_key, may_meet, memory_effects

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Drops dead stores of every function, in place; any stage."""
    effects = memory_effects(module, context)
    for function in context.functions(module):
        found = effects.block(function.body)
        if found.writes:
            _Finder(function, effects, context).visit(function.body)
            if found.slots:
                _drop_unread_slots(function, context)


class _Finder:
    """One backward walk a block. `pending` holds the elements that are certainly overwritten later in the block, with
    nothing in between that may read them or leave."""

    __slots__ = ("context", "effects", "may_alias", "pending")

    def __init__(self, function: Function, effects: MemoryEffects, context: PassContext) -> None:
        self.effects = effects
        self.context = context
        self.may_alias = bool(function.attributes.get("may_alias"))
        self.pending: dict[Value, dict[Key, bool]] = {}

    def visit(self, block: Block) -> None:
        """Drops the dead stores of a block and its regions."""
        outer, self.pending = self.pending, {}
        dead: set[Op] = set()
        visitors = _VISITORS
        for op in reversed(block.ops):
            visitor = visitors.get(op.kind)
            if visitor is not None and visitor(self, op):
                dead.add(op)
        if dead:
            self.context.memory_effects = None
            block.ops = [op for op in block.ops if op not in dead]
        self.pending = outer

    def _read(self, array: Value, key: Key = (), wrap: bool = False) -> None:
        pending = self.pending
        elements = pending.get(array)
        if elements:
            for other in [other for other, wrapped in elements.items() if may_meet(key, other, wrap or wrapped)]:
                del elements[other]
        if self.may_alias and not array.type.is_slot:
            for another in [other for other in pending if other is not array and not other.type.is_slot]:
                del pending[another]

    # Visitors: each says whether the operation is dead.

    def visit_store(self, op: Op) -> bool:
        array, key = op.operands[1], element_key(op.operands[2:])
        wrap = bool(op.attribute("wrap"))
        elements = self.pending.setdefault(array, {})
        if elements.get(key) == wrap and self.context.permit():
            return True
        elements[key] = wrap
        return False

    def visit_load(self, op: Op) -> bool:
        self._read(op.operands[0], element_key(op.operands[1:]), bool(op.attribute("wrap")))
        return False

    def visit_update(self, op: Op) -> bool:
        position = 2 if op.kind == "compare_exchange" else 1
        self._read(op.operands[position], element_key(op.operands[position + 1 :]), bool(op.attribute("wrap")))
        return False

    def visit_call(self, op: Op) -> bool:
        self._pass(self.effects.call(op))
        return False

    def visit_regions(self, op: Op) -> bool:
        for region in op.regions:
            effects = self.effects.block(region)
            self._pass(effects)
            if effects.returns or (effects.jumps and op.kind == "if"):
                self.pending.clear()
        for region in op.regions:
            self.visit(region)
        return False

    def _pass(self, effects: Effects) -> None:
        if effects.other:
            self.pending.clear()
        for array in effects.reads:
            self._read(array)

    def visit_leave(self, op: Op) -> bool:
        self.pending.clear()
        return False


_VISITORS = {
    "store": _Finder.visit_store,
    "load": _Finder.visit_load,
    "update": _Finder.visit_update,
    "compare_exchange": _Finder.visit_update,
    "call": _Finder.visit_call,
    "external": _Finder.visit_call,
    "if": _Finder.visit_regions,
    "for": _Finder.visit_regions,
    "while": _Finder.visit_regions,
    "check": _Finder.visit_leave,
    **dict.fromkeys(ORDERING, _Finder.visit_leave),
}


def _drop_unread_slots(function: Function, context: PassContext) -> None:
    slots: set[Value] = set()
    read: set[Value] = set()
    for op in walk(function.body):
        if op.kind == "slot":
            slots.add(op.results[0])
        elif op.kind == "store":
            read.add(op.operands[0])
        elif slots:
            read.update(op.operands)
    unread = slots - read
    if unread and context.permit():
        context.memory_effects = None
        _drop_stores(function.body, unread)


def _drop_stores(block: Block, slots: set[Value]) -> None:
    block.ops = [op for op in block.ops if op.kind != "store" or op.operands[1] not in slots]
    for op in block.ops:
        for region in op.regions:
            _drop_stores(region, slots)
