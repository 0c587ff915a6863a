"""Removes `wrap`: indices that may count from the end are proved not to, or made to count from the start.
What cannot be proved, by the loops and conditions around it, is a select. So are those of elements of matrix values.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.threads import has_meetings
from quadrants.ir.types import ArrayType, shape_of
from quadrants.passes.affine import ZERO, Form, Forms
from quadrants.passes.argument_bounds import learn_bounds
from quadrants.passes.context import PassContext
from quadrants.passes.facts import Facts
from quadrants.passes.fold import number_of
from quadrants.passes.memory import ARRAY_POSITION, MATRIX_INDICES
from quadrants.passes.nest import Nest
from quadrants.passes.signed_ranges import axes_by_counter, by_sign, cut_at_zero
from quadrants.passes.structure import count_ops

__all__ = ["run"]

# Operations of a loop's body up to which it is written twice, to save what a loop around it costs.
_SMALL = 12


def run(module: Module, context: PassContext) -> None:
    """Removes the attribute `wrap` from all accesses, and negative indices from `extract` and `insert`; stage `tasks`."""
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
        elif op.attribute("wrap") if op.kind in ARRAY_POSITION else op.kind in MATRIX_INDICES and not _is_static(op):
            return True
    return False


def _is_static(op: Op) -> bool:
    """Whether an operation on an element of a matrix has indices that need no look: constants from the start."""
    numbers = [number_of(index) for index in op.operands[MATRIX_INDICES[op.kind] :]]
    return all(number is not None and number >= 0 for number in numbers)


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
        learn_bounds(self.facts, self.forms, function)
        self.pieces: set[Op] = set()
        self.from_zero: set[Op] = set()

    def block(self, block: Block) -> None:
        """Treats a block; what an `if` that leaves teaches holds for the rest of it."""
        mark, made = self.facts.mark(), len(self.made)
        out: list[Op] = []
        for op in block.ops:
            kind = op.kind
            if kind in ARRAY_POSITION:
                if op.attribute("wrap"):
                    self._access(op, out)
            elif kind in MATRIX_INDICES:
                if not _is_static(op):
                    self._element(op, out)
            elif kind == "for":
                op = self._cut(op, out)
                if op.kind == "if":
                    self.facts.branch(op, self.block)
                else:
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
        if loop in self.from_zero:
            self.facts.learn(self.forms.of(loop.regions[0].arguments[0]))
        self.block(loop.regions[0])
        self.facts.forget(mark)

    def _cut(self, loop: Op, out: list[Op]) -> Op:
        """Treats the range of a loop that may begin below zero, with the counter an index by itself: small loops come in two
        forms, others run in two parts. Gives what stands in the loop's place."""
        is_whole = loop not in self.pieces and not has_meetings(loop.regions[0])
        axes = axes_by_counter(loop) if is_whole else []
        low = self.forms.of(loop.operands[0]) if axes else ZERO
        if not axes or low.constant is not None or self.facts.holds(low) or not self.context.permit():
            return loop
        if count_ops(loop.regions[0]) <= _SMALL:
            choice, other = by_sign(loop, self._zero(), out)
            self.pieces |= {loop, other}
            self.from_zero.add(loop)
            return choice
        self.made.update(cut_at_zero(loop, axes, self._size, out, self.forms.nest))
        inner = loop.regions[0].ops[-2]
        self.pieces |= {loop, inner}
        self.forms.learn_loop(loop)
        self.forms.learn_loop(inner)
        self.context.count("ranges cut at zero")
        return loop

    def _access(self, op: Op, out: list[Op]) -> None:
        """Makes the indices of one access count from the start."""
        array, indices = _place(op)
        position = ARRAY_POSITION[op.kind] + 1
        plain = [self._plain(array, axis, index, op, out) for axis, index in enumerate(indices)]
        op.operands = (*op.operands[:position], *plain)
        op.attributes = {name: value for name, value in op.attributes.items() if name != "wrap"}

    def _element(self, op: Op, out: list[Op]) -> None:
        """The same for an element of a matrix value."""
        matrix, first = op.operands[0], MATRIX_INDICES[op.kind]
        plain = [self._plain(matrix, axis, index, op, out) for axis, index in enumerate(op.operands[first:])]
        op.operands = (*op.operands[:first], *plain)

    def _plain(self, array: Value, axis: int, index: Value, op: Op, out: list[Op]) -> Value:
        """The index that counts from the start; what computes it is put to `out`."""
        form = self.forms.of(index)
        number = form.constant
        if number is None and self._not_negative(form, array, axis):
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

    def _not_negative(self, index: Form, array: Value, axis: int) -> bool:
        if type(array.type) is ArrayType:
            return self.facts.not_negative(index, array, axis)
        return self.facts.holds(index)

    def _zero(self) -> Value:
        if self.zero is None:
            self.zero = Builder(self.start).index(0)
        return self.zero

    def _size(self, array: Value, axis: int, builder: Builder) -> Value:
        """The size of an axis: of a parameter once for the function."""
        if type(array.type) is not ArrayType:
            return builder.index(shape_of(array.type)[axis])
        if array not in self.parameters:
            return builder.dim(array, axis=axis)
        found = self.sizes.get((array, axis))
        if found is None:
            found = self.sizes[array, axis] = Builder(self.start).dim(array, axis=axis)
        return found


def _place(op: Op) -> tuple[Value, tuple[Value, ...]]:
    position = ARRAY_POSITION[op.kind]
    return op.operands[position], op.operands[position + 1 :]
