"""Removes `wrap`: indices that may count from the end are proved not to, or made to count from the start.
What cannot be proved, by the loops and conditions around it, is a select.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.facts import Facts
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Removes the attribute `wrap` from all accesses; stage `tasks`."""
    for function in context.functions(module):
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
                self._loop(op)
            elif kind == "if":
                self.facts.branch(op, self.block)
            elif op.regions:
                for region in op.regions:
                    self.block(region)
            out.append(op)
        block.ops = out
        self.facts.forget(mark)
        while len(self.made) > made:
            self.made.popitem()

    def _loop(self, loop: Op) -> None:
        mark = self.facts.mark()
        self.facts.enter(loop)
        self.block(loop.regions[0])
        self.facts.forget(mark)

    def _access(self, op: Op, out: list[Op]) -> None:
        """Makes the indices of one access count from the start."""
        array, indices = _place(op)
        position = ARRAY_POSITION[op.kind] + 1
        plain = [self._plain(array, axis, index, op, out) for axis, index in enumerate(indices)]
        op.operands = (*op.operands[:position], *plain)
        op.attributes = {name: value for name, value in op.attributes.items() if name != "wrap"}

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
