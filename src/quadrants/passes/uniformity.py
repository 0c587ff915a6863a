"""Which values differ between the lanes of a loop, and which control flow does.

The iterations of a loop run side by side, a lane each. A value is uniform where all lanes that reach it hold the same
number; else it varies. An `if` is masked where its lanes part: its condition varies, or it holds a jump of a loop that
lanes leave or go on with one by one. A loop diverges where lanes leave it one by one; it is skipped where lanes only
`continue` one by one.

Law: within a diverging loop a carried value may still be uniform, since the lanes that are left have made the same
number of iterations; its result varies.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import ArrayType
from quadrants.passes.structure import loop_jumps

__all__ = ["Calls", "Uniformity"]

_ALWAYS_VARY = frozenset({"update", "compare_exchange", "random", "external", "shuffle", "ballot", "team_scan"})


class Calls(Protocol):
    """What knows the functions that are called."""

    def results_vary(self, call: Op, varying: tuple[bool, ...], /) -> tuple[bool, ...]:
        """Which results of a call differ between lanes, where some arguments do."""
        ...


class Uniformity:
    """The facts of one loop's region, or of a function's body: `seeds` are the arguments that differ from lane to lane,
    `slots` those that are private memory; without `callees` every result of a call differs.

    varying: values; masked: `if` operations; divergent, skipped: loops; slots: private memory, one copy a lane; used: values
    that an operation in the region takes.
    """

    def __init__(
        self, region: Block, seeds: list[Value], callees: Calls | None = None, slots: Collection[Value] = ()
    ) -> None:
        self.varying: set[Value] = set(seeds)
        self.masked: set[Op] = set()
        self.divergent: set[Op] = set()
        self.skipped: set[Op] = set()
        self.slots: set[Value] = set(slots)
        self.used: set[Value] = {operand for op in walk(region) for operand in op.operands}
        self._root_jumps = {id(jump) for jump in loop_jumps(region)}
        self._jumps: dict[Op, list[Op]] = {}
        self._leaving: dict[Op, bool] = {}
        self._callees = callees
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(region, None)

    def varies(self, value: Value) -> bool:
        return value in self.varying

    def arguments_vary(self, call: Op) -> tuple[bool, ...]:
        """Which arguments of a call differ from lane to lane, or are private memory."""
        return tuple([operand in self.varying or operand in self.slots for operand in call.operands])

    def _vary(self, value: Value) -> None:
        if value not in self.varying:
            self.varying.add(value)
            self._changed = True

    def _mark(self, found: set[Op], op: Op) -> None:
        if op not in found:
            found.add(op)
            self._changed = True

    def _any(self, values: tuple[Value, ...] | list[Value]) -> bool:
        return any(value in self.varying for value in values)

    def _block(self, block: Block, loop: Op | None) -> None:
        for op in block.ops:
            kind = op.kind
            if kind == "if":
                self._if(op, loop)
            elif kind == "for":
                self._for(op)
            elif kind == "while":
                self._while(op)
            elif kind == "slot":
                self.slots.add(op.results[0])
            elif kind == "call" and self._callees is not None:
                vary = self._callees.results_vary(op, self.arguments_vary(op))
                for result, varies in zip(op.results, vary):
                    if varies:
                        self._vary(result)
            elif kind == "team_reduce":
                if op.attributes["width"]:  # else it is of the whole block
                    self._vary(op.results[0])
            elif op.results and (
                kind in _ALWAYS_VARY
                or kind == "call"
                or self._any(op.operands)
                or any(type(operand.type) is ArrayType and operand in self.slots for operand in op.operands)
            ):
                for result in op.results:
                    self._vary(result)

    def _jumps_of(self, loop: Op) -> list[Op]:
        found = self._jumps.get(loop)
        if found is None:
            found = self._jumps[loop] = loop_jumps(loop.regions[-1])
        return found

    def _parts(self, loop: Op) -> None:
        """Notes that lanes take a loop's jumps one by one."""
        only_continues = all(jump.kind == "continue" for jump in self._jumps_of(loop))
        self._mark(self.skipped if only_continues else self.divergent, loop)

    def _if(self, op: Op, loop: Op | None) -> None:
        for region in op.regions:
            self._block(region, loop)
        leaves = self._leaves_iteration(op, loop)
        parts = loop is None or loop in self.divergent or loop in self.skipped
        if op.operands[0] in self.varying or (leaves and parts):
            self._mark(self.masked, op)
            if leaves and loop is not None:
                self._parts(loop)
        yields = [region.ops[-1].operands for region in op.regions if region.ops[-1].kind == "yield"]
        for k, result in enumerate(op.results):
            if op in self.masked or any(values[k] in self.varying for values in yields):
                self._vary(result)

    def _leaves_iteration(self, op: Op, loop: Op | None) -> bool:
        """Whether a branch of an `if`, or of one within it, ends the iteration of the loop around it. Those within have been
        looked at before."""
        found = self._leaving.get(op)
        if found is None:
            targets = self._root_jumps if loop is None else {id(jump) for jump in self._jumps_of(loop)}
            found = self._leaving[op] = any(
                id(region.ops[-1]) in targets
                or any(inner.kind == "if" and self._leaving[inner] for inner in region.ops)
                for region in op.regions
            )
        return found

    def _carried(self, loop: Op, arguments: list[Value], inits: tuple[Value, ...]) -> None:
        """The carried arguments of a loop's last region and its results."""
        jumps = self._jumps_of(loop)
        edges = [jump.operands for jump in jumps if jump.kind == "continue"]
        last = loop.regions[-1].ops[-1]
        if last.kind == "yield":
            edges.append(last.operands)
        leaves = [jump.operands for jump in jumps if jump.kind == "break"]
        diverges = loop in self.divergent
        parts = diverges or loop in self.skipped
        for k, (argument, init, result) in enumerate(zip(arguments, inits, loop.results)):
            following = [values[k] for values in edges]
            if not diverges:
                following += [values[k] for values in leaves]
            if init in self.varying or self._any(following) or (parts and len(set(following)) > 1):
                self._vary(argument)
            if diverges or argument in self.varying:
                self._vary(result)

    def _for(self, op: Op) -> None:
        rank = op.attribute("rank")
        lows, highs, inits = op.operands[:rank], op.operands[rank : 2 * rank], op.operands[2 * rank :]
        arguments = op.regions[0].arguments
        if self._any(lows) or self._any(highs):
            self._mark(self.divergent, op)
        for argument, low in zip(arguments, lows):
            if low in self.varying:
                self._vary(argument)
        self._block(op.regions[0], op)
        self._carried(op, arguments[rank:], inits)

    def _while(self, op: Op) -> None:
        condition, body = op.regions
        self._block(condition, op)
        if condition.ops[-1].operands[0] in self.varying:
            self._mark(self.divergent, op)
        self._block(body, op)
        self._carried(op, body.arguments, op.operands)
        for outer, inner in zip(body.arguments, condition.arguments):
            if outer in self.varying:
                self._vary(inner)
