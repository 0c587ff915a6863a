"""Dead code: drops what neither results nor memory depend on, values carried by loops and yielded by branches included.

Liveness is optimistic: a carried value that is used just to compute its own next value is dead. The live set only
grows, so that marking a loop again where its carried values grew ends soon. Then one sweep rebuilds the blocks.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.passes.context import PassContext
from quadrants.passes.memory import MemoryEffects, memory_effects
from quadrants.passes.structure import functions_to_do, settle

__all__ = ["run"]

_DROPPABLE = frozenset(row.name for row in OPS.values() if row.effects in ("pure", "reads")) | {"slot", "shared"}
_JUMPS = ("break", "continue")

Needed = list[bool]


def run(module: Module, context: PassContext) -> None:
    """Drops dead operations, carried values and results in every function, in place; any stage."""
    effects = memory_effects(module, context)
    for function in functions_to_do(module, context):
        if context.permit():
            marker = _Marker(effects)
            marker.mark(function.body, [], [])
            marker.sweep(function.body, None, None)
        settle(function, context)


class _Marker:
    """The live values of a function."""

    __slots__ = ("effects", "live")

    def __init__(self, effects: MemoryEffects) -> None:
        self.effects = effects
        self.live: set[Value] = set()

    def _stays(self, op: Op) -> bool:
        """Whether an operation that does more than to compute has effects, or a live result."""
        kind = op.kind
        if op.regions:
            if not self.live.isdisjoint(op.results):
                return True
            for region in op.regions:
                effects = self.effects.block(region)
                if not effects.none or effects.returns or (effects.jumps and kind == "if"):
                    return True
            return False
        return kind != "call" or not self.live.isdisjoint(op.results) or not self.effects.call(op).none

    # Marking, backwards. `yields` and `carried` say which values of a `yield`, and of a jump, are needed.

    def mark(self, block: Block, yields: Needed, carried: Needed) -> None:
        """Adds to the live set what the block needs, given what is live after it."""
        live, ops = self.live, block.ops
        last = ops[-1]
        kind = last.kind
        if kind == "return":
            live.update(last.operands)
        else:
            needed = yields if kind == "yield" else carried
            live.update([operand for operand, need in zip(last.operands, needed) if need])
        for op in ops[-2::-1]:
            kind = op.kind
            if kind in _DROPPABLE:
                if op.results[0] in live:
                    live.update(op.operands)
            elif op.regions:
                if self._stays(op):
                    _MARK[kind](self, op, carried)
            elif self._stays(op):
                live.update(op.operands)

    def mark_if(self, op: Op, carried: Needed) -> None:
        live = self.live
        live.add(op.operands[0])
        yields = [result in live for result in op.results]
        for region in op.regions:
            self.mark(region, yields, carried)

    def mark_for(self, op: Op, carried: Needed) -> None:
        self.live.update(op.operands[: len(op.operands) - len(op.results)])
        body = op.regions[0]
        needed = self.needed(op)
        while True:
            self.mark(body, needed, needed)
            before, needed = needed, self.needed(op)
            if needed == before:
                break
        self._mark_inits(op, needed)

    def mark_while(self, op: Op, carried: Needed) -> None:
        condition, body = op.regions
        needed = self.needed(op)
        while True:
            self.mark(body, needed, needed)
            self.mark(condition, [True], needed)
            before, needed = needed, self.needed(op)
            if needed == before:
                break
        self._mark_inits(op, needed)

    def _mark_inits(self, op: Op, needed: Needed) -> None:
        inits = op.operands[len(op.operands) - len(op.results) :]
        self.live.update([init for init, need in zip(inits, needed) if need])

    def needed(self, op: Op) -> Needed:
        """Which results of an operation with regions are needed; of a loop, which carried values."""
        live = self.live
        needed = [result in live for result in op.results]
        if op.kind != "if" and needed:
            count = len(needed)
            for region in op.regions:
                carried = region.arguments[len(region.arguments) - count :]
                needed = [need or argument in live for need, argument in zip(needed, carried)]
        return needed

    # Sweeping.

    def sweep(self, block: Block, yields: Needed | None, carried: Needed | None) -> None:
        """Rebuilds a block of what is live; None stands for all values of a `yield` or a jump."""
        live = self.live
        kept: list[Op] = []
        for op in block.ops:
            kind = op.kind
            if kind in _DROPPABLE:
                if op.results[0] in live:
                    kept.append(op)
            elif op.regions:
                if self._stays(op):
                    self._sweep_regions(op, carried)
                    kept.append(op)
            elif self._stays(op):
                kept.append(op)
        block.ops = kept
        last = kept[-1]
        keep = yields if last.kind == "yield" else carried if last.kind in _JUMPS else None
        if keep is not None:
            last.operands = tuple(_those(last.operands, keep))

    def _sweep_regions(self, op: Op, carried: Needed | None) -> None:
        needed = self.needed(op)
        keep = None if all(needed) else needed
        if op.kind == "if":
            for region in op.regions:
                self.sweep(region, keep, carried)
        elif op.kind == "for":
            self.sweep(op.regions[0], keep, keep)
        else:
            self.sweep(op.regions[0], None, keep)
            self.sweep(op.regions[1], keep, keep)
        if keep is not None:
            _prune(op, keep)


def _those(values: Any, keep: Needed) -> list[Any]:
    return [value for value, need in zip(values, keep) if need]


def _prune(op: Op, keep: Needed) -> None:
    """Leaves out results of an operation with regions; of a loop, what it carries for them."""
    count = len(keep)
    op.results = _those(op.results, keep)
    attributes = dict(op.attributes)
    if op.kind == "if":
        attributes["types"] = tuple(_those(attributes["types"], keep))
    else:
        first = len(op.operands) - count
        op.operands = (*op.operands[:first], *_those(op.operands[first:], keep))
        for region in op.regions:
            first = len(region.arguments) - count
            region.arguments = region.arguments[:first] + _those(region.arguments[first:], keep)
        if "reductions" in attributes:
            attributes["reductions"] = tuple(_those(attributes["reductions"], keep))
    op.attributes = attributes


_MARK = {"if": _Marker.mark_if, "for": _Marker.mark_for, "while": _Marker.mark_while}
