"""Hoist: moves what does not change in a loop in front of it, out of as many loops as possible.

Pure operations never trap, so they move even where the loop might not run; expensive ones do not leave a branch. A load
moves out of a loop that does not write its array, if it is sure to run whenever the loop is reached. A value's level is
the number of loops around the place where it is known: 0 outside all loops.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.passes.context import PassContext
from quadrants.passes.memory import MemoryEffects, element_key, memory_effects

__all__ = ["run"]

_PURE = frozenset(row.name for row in OPS.values() if row.effects == "pure")
_EXPENSIVE = frozenset(row.name for row in OPS.values() if row.cost > 5)
_LEAVES = frozenset({"check", "call"})


def run(module: Module, context: PassContext) -> None:
    """Hoists in every function, in place; stage `tasks`."""
    effects = memory_effects(module, context)
    for function in context.functions(module):
        if any(op.regions for op in function.body.ops) and context.permit():
            function.body.ops = _Hoister(function, effects).walk(function.body.ops, 0)


class _Loop:
    """A loop around the current place. `out` takes what moves in front of it; `runs`: its body runs at least once;
    `straight`: it is reached in every iteration of the loop around."""

    __slots__ = ("op", "out", "runs", "straight")

    def __init__(self, op: Op, out: list[Op], runs: bool, straight: bool) -> None:
        self.op = op
        self.out = out
        self.runs = runs
        self.straight = straight


class _Hoister:
    """One walk over a function. `straight`: the current place is reached in every iteration of the innermost loop;
    `positive`: pairs of bounds (keys) of which the first is known to be less than the second."""

    __slots__ = ("effects", "ending", "leaving", "levels", "loops", "may_alias", "positive", "straight")

    def __init__(self, function: Function, effects: MemoryEffects) -> None:
        self.effects = effects
        self.may_alias = bool(function.attributes.get("may_alias"))
        self.levels: dict[Value, int] = {}
        self.loops: list[_Loop] = []
        self.positive: list[tuple[object, object]] = []
        self.straight = True
        # Regions of which it is known whether control may leave them: operations that move out do not change that.
        self.leaving: dict[Block, bool] = {}
        self.ending: dict[Block, bool] = {}

    def walk(self, ops: list[Op], floor: int) -> list[Op]:
        """The operations that stay; expensive ones do not go below level `floor`."""
        out: list[Op] = []
        levels, loops = self.levels, self.loops
        depth = len(loops)
        for op in ops:
            kind = op.kind
            if op.regions:
                _WALK[kind](self, op, out, floor)
                out.append(op)
            elif depth == 0:
                out.append(op)
                continue
            elif kind in _PURE:
                level = floor if kind in _EXPENSIVE else 0
                for operand in op.operands:
                    if levels.get(operand, 0) > level:
                        level = levels[operand]
                if level < depth:
                    loops[level].out.append(op)
                    if level:
                        levels[op.results[0]] = level
                    continue
                out.append(op)
            elif kind == "load":
                level = self._load_level(op)
                (out if level == depth else loops[level].out).append(op)
                levels[op.results[0]] = level
                continue
            else:
                if kind in _LEAVES:
                    self.straight = False
                out.append(op)
            if depth:
                for result in op.results:
                    levels[result] = depth
        return out

    def _load_level(self, op: Op) -> int:
        """The level to which a load may move."""
        depth = len(self.loops)
        lowest = max([self.levels.get(operand, 0) for operand in op.operands])
        level, straight = depth, self.straight
        while level > lowest and straight:
            loop = self.loops[level - 1]
            if not loop.runs or self._writes(loop.op, op.operands[0]):
                break
            straight = loop.straight
            level -= 1
        return level

    def _writes(self, loop: Op, array: Value) -> bool:
        """Whether a loop may write to an array."""
        for region in loop.regions:
            writes = self.effects.block(region).writes
            if array in writes:
                return True
            if self.may_alias and not array.type.is_slot and any(not other.type.is_slot for other in writes):
                return True
        return False

    def walk_if(self, op: Op, out: list[Op], floor: int) -> None:
        depth, straight = len(self.loops), self.straight
        marks = len(self.positive)
        for region, truth in zip(op.regions, (True, False)):
            self.straight = False
            if truth:
                self._learn(op.operands[0])
            region.ops = self.walk(region.ops, depth)
            del self.positive[marks:]
            if region.ops[-1].kind != "yield" or self._leaves(region):
                straight = False
        self.straight = straight

    def _learn(self, condition: Value) -> None:
        owner = condition.owner
        if type(owner) is Op and owner.kind in ("lt", "gt"):
            low, high = element_key(owner.operands)
            self.positive.append((low, high) if owner.kind == "lt" else (high, low))

    def walk_for(self, op: Op, out: list[Op], floor: int) -> None:
        rank = op.attributes["rank"]
        body = op.regions[0]
        bounds = element_key(op.operands[: 2 * rank])
        pairs = list(zip(bounds[:rank], bounds[rank:]))
        runs = all(self._is_less(low, high) for low, high in pairs)
        self._enter(op, body, out, runs)
        marks = len(self.positive)
        self.positive.extend(pairs)
        self.positive.extend(zip(body.arguments, bounds[rank:]))
        body.ops = self.walk(body.ops, floor)
        del self.positive[marks:]
        self._leave(op)

    def walk_while(self, op: Op, out: list[Op], floor: int) -> None:
        for region in op.regions:
            self._enter(op, region, out, False)
            region.ops = self.walk(region.ops, floor)
            self._leave(op)

    def _enter(self, op: Op, region: Block, out: list[Op], runs: bool) -> None:
        self.loops.append(_Loop(op, out, runs, self.straight))
        depth = len(self.loops)
        for argument in region.arguments:
            self.levels[argument] = depth
        self.straight = True

    def _leave(self, op: Op) -> None:
        loop = self.loops.pop()
        self.straight = loop.straight and not any(map(self._ends, op.regions))

    def _leaves(self, block: Block) -> bool:
        """Whether a branch may end an iteration of the loop around, or fail a check."""
        found = self.leaving.get(block)
        if found is None:
            found = self.leaving[block] = self._ends(block) or any(
                op.kind in ("break", "continue") or (op.kind == "if" and any(map(self._leaves, op.regions)))
                for op in block.ops
            )
        return found

    def _ends(self, block: Block) -> bool:
        """Whether a loop's region may leave the function, or fail a check."""
        found = self.ending.get(block)
        if found is None:
            found = self.ending[block] = any(
                op.kind == "return" or op.kind in _LEAVES or any(map(self._ends, op.regions)) for op in block.ops
            )
        return found

    def _is_less(self, low: object, high: object) -> bool:
        if type(low) is int and type(high) is int:
            return low < high
        for lower, upper in self.positive:
            if upper is high and (lower is low or (type(lower) is int and type(low) is int and low <= lower)):
                return True
        return False


_WALK = {"if": _Hoister.walk_if, "for": _Hoister.walk_for, "while": _Hoister.walk_while}
