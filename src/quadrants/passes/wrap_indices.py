"""Removes `wrap`: indices that may count from the end are proved not to, or made to count from the start.

An innermost loop whose counter less a constant is an index is cut where that index stops being negative, so that the
long part needs no test and stays a plain stream of memory. What is left is a select.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.passes.affine import Form, Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.facts import Facts
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest, counters, highs, inits, lows
from quadrants.passes.structure import count_ops, loop_jumps

__all__ = ["run"]

_LARGEST_CUT = 300
_FARTHEST = 8


def run(module: Module, context: PassContext) -> None:
    """Removes the attribute `wrap` from all accesses; stage `tasks`."""
    for function in module.functions.values():
        if _wraps(function.body):
            unwrapper = _Unwrapper(function, context)
            unwrapper.block(function.body)
            function.body.ops[:0] = unwrapper.start.ops


def _wraps(block: Block) -> bool:
    for op in block.ops:
        if op.regions:
            if any(_wraps(region) for region in op.regions):
                return True
        elif op.kind in ARRAY_POSITION and op.attribute("wrap"):
            return True
    return False


class _Unwrapper:
    """The walk through a function, with what is known at the place it has reached, and the indices made there: `made`
    maps (array, axis, index) to the index that counts from the start. `start` is for the start of the function."""

    def __init__(self, function: Function, context: PassContext) -> None:
        self.context = context
        self.parameters = set(function.parameters)
        self.start = Block()
        self.sizes: dict[tuple[Value, int], Value] = {}
        self.zero: Value | None = None
        self.made: dict[tuple[Value, int, Value], Value] = {}
        self.forms = Forms(Nest(function))
        self.facts = Facts(self.forms)

    def block(self, block: Block) -> None:
        """Treats a block; what an `if` that leaves teaches holds for the rest of it."""
        mark, made = self.facts.mark(), len(self.made)
        out: list[Op] = []
        for op in block.ops:
            kind = op.kind
            if kind in ARRAY_POSITION:
                if op.attribute("wrap"):
                    self._access(op, out)
            elif kind == "for":
                out += self._loop(op)
                continue
            elif kind == "if":
                self._branch(op, self.block)
            elif op.regions:
                for region in op.regions:
                    self.block(region)
            out.append(op)
        block.ops = out
        self.facts.forget(mark)
        while len(self.made) > made:
            self.made.popitem()

    def _branch(self, op: Op, visit: Callable[[Block], None]) -> None:
        """Visits the regions of an `if`, each with what its condition says; what the ones that leave say stays known."""
        for region, holds in zip(op.regions, (True, False)):
            mark = self.facts.mark()
            self.facts.assume(op.operands[0], holds)
            visit(region)
            self.facts.forget(mark)
        for region, holds in zip(op.regions, (True, False)):
            if region.ops[-1].kind != "yield":
                self.facts.assume(op.operands[0], not holds)

    def _loop(self, loop: Op) -> list[Op]:
        """Treats a loop; gives what stands in its place."""
        before: list[Op] = []
        if _is_innermost(loop) and _wraps(loop.regions[0]):
            border = self._border(loop)
            if border is not None and self.context.permit():
                before = self._cut(loop, border)
                self.context.count("loops cut at a border")
        mark = self.facts.mark()
        self.facts.enter(loop)
        self.block(loop.regions[0])
        self.facts.forget(mark)
        return [*before, loop]

    def _border(self, loop: Op) -> int | None:
        """Where all indices made of the last counter and a constant stop being negative; None if there is no need."""
        if count_ops(loop.regions[0]) > _LARGEST_CUT or any(
            jump.kind == "break" for jump in loop_jumps(loop.regions[0])
        ):
            return None
        mark = self.facts.mark()
        self.facts.enter(loop)
        found: list[int] = []
        self._distances(loop.regions[0], counters(loop)[-1], found)
        self.facts.forget(mark)
        return max(found, default=None)

    def _distances(self, block: Block, counter: Value, found: list[int]) -> None:
        mark = self.facts.mark()
        for op in block.ops:
            if op.kind == "if":
                self._branch(op, lambda region: self._distances(region, counter, found))
            elif op.kind in ARRAY_POSITION and op.attribute("wrap"):
                array, indices = _place(op)
                for axis, index in enumerate(map(self.forms.of, indices)):
                    distance = self._distance(index, counter)
                    if distance and not self.facts.not_negative(index, array, axis):
                        found.append(distance)
        self.facts.forget(mark)

    def _distance(self, index: Form, counter: Value) -> int:
        """The counter's value from which on an index is surely not negative, 0 where that is not worth a cut."""
        factor = index.coefficient(counter)
        if factor is None or factor.constant != 1:
            return 0
        rest = self.forms.lower_bound(index.without(counter))
        return -rest if rest is not None and -_FARTHEST <= rest < 0 else 0

    def _cut(self, loop: Op, border: int) -> list[Op]:
        """Makes two loops of one: a copy up to the border, `loop` itself from there on; gives what stands before `loop`."""
        block = Block()
        builder = Builder(block, loop.location)
        rank: int = loop.attribute("rank")
        low, high = lows(loop)[-1], highs(loop)[-1]
        start = builder.max(low, builder.index(border))
        stop = builder.min(start, high)
        values: dict[Value, Value] = {}
        (first,) = clone_ops([loop], values)
        first.operands = (*lows(loop), *highs(loop)[:-1], stop, *inits(loop))
        if rank == 1 and first.attributes is not None:
            for name in ("parallel", "reductions", "chunk", "cost", "scatter"):
                first.attributes.pop(name, None)
        loop.operands = (*lows(loop)[:-1], start, *highs(loop), *first.results)
        self._forget_start(loop, first)
        mark = self.facts.mark()
        self.facts.enter(first)
        self.block(first.regions[0])
        self.facts.forget(mark)
        return [*block.ops, first]

    def _forget_start(self, loop: Op, first: Op) -> None:
        """The loop's counter starts elsewhere; the copy's counters are new."""
        self.forms.learn_loop(first)
        self.forms.learn_loop(loop)

    def _access(self, op: Op, out: list[Op]) -> None:
        """Makes the indices of one access count from the start."""
        array, indices = _place(op)
        position = ARRAY_POSITION[op.kind] + 1
        plain = [self._plain(array, axis, index, op, out) for axis, index in enumerate(indices)]
        op.operands = (*op.operands[:position], *plain)
        op.attributes = {name: value for name, value in (op.attributes or {}).items() if name != "wrap"} or None

    def _plain(self, array: Value, axis: int, index: Value, op: Op, out: list[Op]) -> Value:
        """The index that counts from the start; what computes it is put to `out`."""
        form = self.forms.of(index)
        number = form.constant
        if number is None and self.facts.not_negative(form, array, axis):
            return index
        if number is not None and number >= 0:
            return index
        key = (array, axis, index)
        found = self.made.get(key)
        if found is None:
            builder = Builder(Block(), op.location)
            builder.block.ops = out
            from_end = builder.add(index, self._size(array, axis, builder))
            found = from_end
            if number is None:
                found = builder.select(builder.lt(index, self._zero()), from_end, index)
                self.context.count("indices that may count from the end")
            self.made[key] = found
        return found

    def _zero(self) -> Value:
        if self.zero is None:
            self.zero = Builder(self.start).index(0)
        return self.zero

    def _size(self, array: Value, axis: int, builder: Builder) -> Value:
        """The size of an axis: of a parameter once for the function."""
        if array not in self.parameters:
            return builder.dim(array, axis=axis)
        found = self.sizes.get((array, axis))
        if found is None:
            found = self.sizes[array, axis] = Builder(self.start).dim(array, axis=axis)
        return found


def _place(op: Op) -> tuple[Value, tuple[Value, ...]]:
    position = ARRAY_POSITION[op.kind]
    return op.operands[position], op.operands[position + 1 :]


def _is_innermost(loop: Op) -> bool:
    pending = list(loop.regions)
    while pending:
        for op in pending.pop().ops:
            if op.kind in ("for", "while"):
                return False
            pending += op.regions
    return True
