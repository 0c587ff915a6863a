"""Debug mode's checks: indices out of range, and what `check_values` checks of arithmetic.

Those of indices and divisions stand in front of what they guard, so that a failed one stops the kernel before anything
is touched.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ArrayType, f32, f64, shape_of
from quadrants.passes.check_values import check_after, check_before
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.memory import ARRAY_POSITION, MATRIX_INDICES

__all__ = ["run"]

# Values that a failed check can report.
_MOST_VALUES = 32


def run(module: Module, context: PassContext) -> None:
    """Inserts the checks in all functions; stage `tasks`, while `wrap` is still there. Arithmetic is checked with
    `options.debug` only."""
    for function in context.functions(module):
        _Checker(function, context).block(function.body)


class _Checker:
    def __init__(self, function: Function, context: PassContext) -> None:
        names = function.attributes.get("parameter_names") or ()
        self.names: dict[Value, str] = dict(zip(function.parameters, names))
        self.context = context
        self.arithmetic = context.options.debug
        self.wide = f64 if context.record is None or context.record.has_dtype(f64) else f32

    def block(self, block: Block) -> None:
        out = Block()
        for op in block.ops:
            for region in op.regions:
                self.block(region)
            builder = Builder(out, op.location)
            if op.kind in ARRAY_POSITION:
                self._access(op, builder)
            elif op.kind in MATRIX_INDICES:
                self._element(op, builder)
            elif self.arithmetic:
                self._count(check_before(op, builder))
            out.ops.append(op)
            if self.arithmetic:
                self._count(check_after(op, builder, self.wide))
        block.ops = out.ops

    def _count(self, checks: int) -> None:
        if checks:
            self.context.count("checks", checks)

    def _access(self, op: Op, builder: Builder) -> None:
        position = ARRAY_POSITION[op.kind]
        array, indices = op.operands[position], op.operands[position + 1 :]
        type_ = array.type
        assert type(type_) is ArrayType
        if indices:
            sizes = [builder.dim(array, axis=axis) for axis in range(type_.rank)]
            name = self.names.get(array) or array.name or "array"
            self._indices(name, indices, sizes, bool(op.attribute("wrap")), builder)

    def _element(self, op: Op, builder: Builder) -> None:
        matrix, indices = op.operands[0], op.operands[MATRIX_INDICES[op.kind] :]
        shape = shape_of(matrix.type)
        numbers = [number_of(index) for index in indices]
        if all(number is not None and -size <= number < size for number, size in zip(numbers, shape)):
            return
        name = matrix.name or ("vector" if len(shape) == 1 else "matrix")
        self._indices(name, indices, [builder.index(size) for size in shape], True, builder)

    def _indices(
        self, name: str, indices: tuple[Value, ...], sizes: list[Value], wraps: bool, builder: Builder
    ) -> None:
        zero = builder.index(0)
        fits: list[Value] = []
        for index, size in zip(indices, sizes):
            low = builder.neg(size) if wraps else zero
            fits += (builder.ge(index, low), builder.lt(index, size))
        condition = fits[0]
        for more in fits[1:]:
            condition = builder.bit_and(condition, more)
        message = f"{name}[{', '.join(['{}'] * len(indices))}] is out of range"
        if len(indices) + len(sizes) <= _MOST_VALUES:
            shape = f"({', '.join(['{}'] * len(sizes))}{',' * (len(sizes) == 1)})"
            message = f"{message}: the shape of {name} is {shape}"
        else:
            sizes = []
        builder.op("check", condition, *indices, *sizes, message=message, error="index")
        self._count(1)
