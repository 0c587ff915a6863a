"""Recognises values that a loop carries only to combine them: sums, products, minima, maxima, bits."""

from __future__ import annotations

import math

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import scalar_of, u1
from quadrants.passes.nest import Nest, carried_arguments
from quadrants.passes.structure import loop_jumps

__all__ = ["COMBINERS", "Chain", "recognise"]

COMBINERS = frozenset({"add", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"})
# A comparison that keeps its first operand where it holds, by what it keeps.
_KEEPS = {"gt": "max", "ge": "max", "lt": "min", "le": "min"}
_OPPOSITE = {"min": "max", "max": "min"}


class Chain:
    """A recognised reduction.

    `values` are the carried value's versions: each is the one before, combined with something that does not depend on
    any of them. `steps` are the combining operations with the position of the version among their operands. `keeps_nan`:
    a start that is NaN is the result whatever comes; the combiner would lose it. `loops` are the loops within the loop
    that carry it on. `extremes` are the choices between a version and another value by their
    comparison: (choice, version, other). `argument`: the carried argument.
    """

    __slots__ = ("argument", "combiner", "extremes", "keeps_nan", "loops", "position", "steps", "values")

    def __init__(self, argument: Value, position: int) -> None:
        self.argument = argument
        self.position = position
        self.combiner = ""
        self.keeps_nan = False
        self.extremes: list[tuple[Op, Value, Value]] = []
        self.values: set[Value] = {argument}
        self.steps: list[tuple[Op, int]] = []
        self.loops: list[Op] = []


def recognise(loop: Op, position: int, nest: Nest) -> Chain | None:
    """The reduction that a `for` carries at a position, or None. A value that is carried unchanged has the combiner ''."""
    recogniser = _Recogniser(loop, position, nest)
    return recogniser.chain if recogniser.run() else None


class _Recogniser:
    def __init__(self, loop: Op, position: int, nest: Nest) -> None:
        self.loop = loop
        self.nest = nest
        self.chain = Chain(carried_arguments(loop)[position], position)
        self.pending = [self.chain.argument]
        # Values that must turn out to be versions, and operands that must not.
        self.versions: list[Value] = []
        self.others: list[Value] = []
        # Choices whose branches must all be versions, but for those that a law of their own explains.
        self.choices: list[tuple[Op, int]] = []
        self.explained: set[Op] = set()

    def run(self) -> bool:
        self._exits(self.loop, self.chain.position)
        while self.pending:
            value = self.pending.pop()
            for op, place in self.nest.users.get(value, ()):
                if not self._use(value, op, place):
                    return False
        for choice, place in self.choices:
            if choice not in self.explained:
                self.versions += choice.operands[1:] if choice.kind == "select" else _yielded(choice, place)
        values = self.chain.values
        if self.chain.keeps_nan and self.chain.steps:
            return False
        return values.issuperset(self.versions) and values.isdisjoint(self.others)

    def _version(self, value: Value) -> bool:
        if value not in self.chain.values:
            self.chain.values.add(value)
            self.pending.append(value)
        return True

    def _combines(self, combiner: str) -> bool:
        if not self.chain.combiner:
            self.chain.combiner = combiner
        return self.chain.combiner == combiner

    def _use(self, value: Value, op: Op, place: int) -> bool:
        kind = op.kind
        if kind in COMBINERS or (kind == "sub" and place == 0):
            self.others.append(op.operands[1 - place])
            self.chain.steps.append((op, place))
            return self._combines("add" if kind == "sub" else kind) and self._version(op.results[0])
        if kind == "select" and place > 0:
            self.choices.append((op, 0))
            return self._version(op.results[0])
        if kind in ("yield", "continue", "break"):
            return self._end(op, place)
        if kind in ("for", "while"):
            return self._enter(op, place)
        if kind in _KEEPS:
            return self._keeps(value, op, place)
        if kind == "if" and value.type is u1:
            return self._shortcut(value, op)
        return False

    def _end(self, op: Op, place: int) -> bool:
        owner = self.nest.loop_of(op)
        if owner is None or (owner.kind == "while" and op.kind == "yield" and owner.regions[0].ops[-1] is op):
            return False
        if owner is self.loop:
            return place == self.chain.position and op.kind != "break"
        if owner.kind == "if":
            self.choices.append((owner, place))
        else:
            self.versions.append(owner.regions[-1].arguments[place + _rank(owner)])
        return self._version(owner.results[place])

    def _enter(self, op: Op, place: int) -> bool:
        rank = _rank(op)
        position = place - 2 * rank
        if position < 0:
            return False
        for region in op.regions:
            self._version(region.arguments[rank + position])
        self.chain.loops.append(op)
        self._exits(op, position)
        return self._version(op.results[position])

    def _exits(self, loop: Op, position: int) -> None:
        """What a loop hands on at a position, wherever an iteration ends, must be a version."""
        if _yields(loop.regions[-1]):
            self.versions.append(loop.regions[-1].ops[-1].operands[position])
        self.versions += [jump.operands[position] for jump in loop_jumps(loop.regions[-1]) if jump.kind != "return"]

    def _keeps(self, value: Value, op: Op, place: int) -> bool:
        """Law: `x if x > best else best` is max(best, x), but that a NaN in `best` stays; a NaN in x is never taken."""
        users = self.nest.users.get(op.results[0], ())
        if len(users) != 1 or users[0][1] != 0 or value.type is not scalar_of(value.type):
            return False
        if not all(map(_only_computes, users[0][0].regions)):
            return False
        other = op.operands[1 - place]
        choice = users[0][0]
        branches = _branches(choice)
        if branches is None or {*branches} != {other, value} or other is value:
            return False
        largest = _KEEPS[op.kind] if branches[0] is op.operands[0] else _OPPOSITE[_KEEPS[op.kind]]
        self.others.append(other)
        self.explained.add(choice)
        self.chain.extremes.append((choice, value, other))
        self.chain.keeps_nan = not self._starts_as_number()
        return self._combines(largest) and self._version(choice.results[0])

    def _starts_as_number(self) -> bool:
        start = self.loop.operands[2 * _rank(self.loop) + self.chain.position]
        if not scalar_of(start.type).is_float:
            return True
        owner = start.owner
        return type(owner) is Op and owner.kind == "constant" and not math.isnan(owner.attribute("value"))

    def _shortcut(self, value: Value, op: Op) -> bool:
        """Law: `found or x` is found | x, `all and x` is all & x, where working out x does nothing else."""
        branches = _branches(op)
        if branches is None:
            return False
        for combiner, kept, fresh in (("bit_or", 0, 1), ("bit_and", 1, 0)):
            same = branches[kept] is value or _is_truth(branches[kept], combiner == "bit_or")
            if same and all(map(_only_computes, op.regions)):
                self.others.append(branches[fresh])
                self.explained.add(op)
                return self._combines(combiner) and self._version(op.results[0])
        return False


def _rank(loop: Op) -> int:
    return loop.attributes["rank"] if loop.kind == "for" else 0


def _yields(block: Block) -> bool:
    return block.ops[-1].kind == "yield"


def _yielded(branch: Op, place: int) -> list[Value]:
    return [region.ops[-1].operands[place] for region in branch.regions if _yields(region)]


def _branches(op: Op) -> tuple[Value, Value] | None:
    """The two values of a `select`, or of an `if` with one result; None for all else."""
    if op.kind == "select":
        return op.operands[1], op.operands[2]
    if op.kind != "if" or len(op.results) != 1 or not all(map(_yields, op.regions)):
        return None
    yielded = _yielded(op, 0)
    return yielded[0], yielded[1]


def _is_truth(value: Value, truth: bool) -> bool:
    owner = value.owner
    return type(owner) is Op and owner.kind == "constant" and bool(owner.attribute("value")) is truth


def _only_computes(block: Block) -> bool:
    return all(op.kind == "yield" or OPS[op.kind].effects in ("pure", "reads") for op in block.ops)
