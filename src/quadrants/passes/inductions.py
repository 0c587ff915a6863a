"""Inductions: values that a loop carries but that its counter alone tells are computed from the counter.

`k += 2` is k's start plus twice the iterations so far; what a loop only leaves behind (a loop variable's last value) is
computed behind the loop. What is left carried is really handed from iteration to iteration.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ScalarType
from quadrants.passes.check_values import CHECKED
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest, carried_arguments, counters, highs, inits, lows
from quadrants.passes.rewrite import computed_from, drop_carried, replace_uses
from quadrants.passes.structure import loop_jumps

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Replaces inductions and last values of the `for`s of all functions."""
    for function in context.functions(module):
        loops: list[Op] = []
        used: set[Value] = set()
        _look(function.body, loops, used)
        if any(_is_candidate(loop, used) for loop in loops):
            _Inductions(function, context).block(function.body)


def _look(block: Block, loops: list[Op], used: set[Value]) -> None:
    """Collects the loops that carry values, and all values that something uses."""
    for op in block.ops:
        used.update(op.operands)
        if op.regions:
            if op.kind == "for" and op.results:
                loops.append(op)
            for region in op.regions:
                _look(region, loops, used)


def _is_candidate(loop: Op, used: set[Value]) -> bool:
    """Whether a loop may carry an induction: what is not used, or is handed on with something added."""
    end = loop.regions[0].ops[-1]
    if end.kind != "yield":
        return False
    for argument, value in zip(carried_arguments(loop), end.operands):
        owner = value.owner
        if argument not in used or (type(owner) is Op and owner.kind in ("add", "sub") and argument in owner.operands):
            if argument not in used or _is_whole(argument):
                return True
    return False


def _is_whole(value: Value) -> bool:
    return type(value.type) is ScalarType and value.type.is_integer


class _Inductions:
    def __init__(self, function: Function, context: PassContext) -> None:
        self.context = context
        self.nest = Nest(function)

    def block(self, block: Block) -> None:
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            behind: list[Op] = []
            if op.kind == "for" and op.results:
                behind = self.loop(op, block)
            block.ops[position + 1 : position + 1] = behind
            self.nest.adopt(behind, self.nest.parent[op])
            for region in op.regions:
                self.block(region)
            position += 1 + len(behind)

    def loop(self, loop: Op, block: Block) -> list[Op]:
        """Treats the values that a loop carries; gives the operations to stand behind it."""
        behind = Block()
        end = loop.regions[0].ops[-1]
        if end.kind != "yield" or loop_jumps(loop.regions[0]):
            return []
        left = -1
        while left != len(loop.results):
            left = len(loop.results)
            for position in range(left - 1, -1, -1):
                result = self._closed(loop, position, end, Builder(behind, loop.location))
                if result is not None:
                    replace_uses(self.nest, loop.results[position], result)
                    drop_carried(loop, position, (end,))
                    self.context.count("inductions")
        return behind.ops

    def _closed(self, loop: Op, position: int, end: Op, behind: Builder) -> Value | None:
        """The final value of what is carried at a position, computed by `behind`; None where the loop must carry it."""
        argument = carried_arguments(loop)[position]
        handed_on = end.operands[position]
        if not self.nest.users.get(argument):
            steps = computed_from(handed_on, loop, self.nest, counters(loop))
            if steps is not None and not self._checks(steps) and self.context.permit():
                return _last(loop, position, handed_on, steps, behind)
            return None
        step = self._step(loop, argument, handed_on)
        if step is None or not self.context.permit():
            return None
        self._replace_argument(loop, position, argument, step)
        (low,), (high,) = lows(loop), highs(loop)
        trips = behind.max(behind.sub(high, low), behind.index(0))
        return _advance(inits(loop)[position], trips, step, behind)

    def _checks(self, steps: list[Op]) -> bool:
        """Whether operations of the last iteration would be checked though there may be none."""
        return self.context.options.debug and any(op.kind in CHECKED for op in steps)

    def _step(self, loop: Op, argument: Value, handed_on: Value) -> tuple[str, Value, list[Op]] | None:
        """The invariant that an integer is advanced by: (operation, invariant, what computes it within the loop)."""
        op = handed_on.owner
        fits = _is_whole(argument) and loop.attribute("rank") == 1
        if not fits or type(op) is not Op or op.kind not in ("add", "sub") or argument not in op.operands:
            return None
        place = op.operands.index(argument)
        other = op.operands[1 - place]
        if other is argument or (op.kind == "sub" and place == 1):
            return None
        needed = computed_from(other, loop, self.nest)
        return None if needed is None else (op.kind, other, needed)

    def _replace_argument(self, loop: Op, position: int, argument: Value, step: tuple[str, Value, list[Op]]) -> None:
        start = Block()
        builder = Builder(start, loop.location)
        done = builder.sub(counters(loop)[0], lows(loop)[0])
        value = _advance(inits(loop)[position], done, step, builder)
        value.name = argument.name
        body = loop.regions[0]
        body.ops[:0] = start.ops
        self.nest.adopt(start.ops, loop)
        replace_uses(self.nest, argument, value)


def _advance(start: Value, times: Value, step: tuple[str, Value, list[Op]], builder: Builder) -> Value:
    """start + times * step, or start - times * step, in the integers of start's type."""
    kind, amount, needed = step
    values: dict[Value, Value] = {}
    builder.block.ops += clone_ops(needed, values)
    product = builder.mul(builder.cast(times, start.type), values.get(amount, amount))
    return builder.emit(kind, start, product)


def _last(loop: Op, position: int, handed_on: Value, steps: list[Op], behind: Builder) -> Value:
    """What the last iteration hands on, or the start where there is none."""
    one = behind.index(1)
    values: dict[Value, Value] = {}
    runs: Value | None = None
    for counter, low, high in zip(counters(loop), lows(loop), highs(loop)):
        values[counter] = behind.sub(high, one)
        some = behind.lt(low, high)
        runs = some if runs is None else behind.bit_and(runs, some)
    behind.block.ops += clone_ops(steps, values)
    assert runs is not None
    return behind.select(runs, values.get(handed_on, handed_on), inits(loop)[position])
