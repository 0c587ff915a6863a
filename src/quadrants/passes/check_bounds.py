"""Debug mode's checks: indices out of range, integer division by zero, integers that overflow.

Each stands in front of what it guards, so that a failed one stops the kernel before anything is touched.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ArrayType, MatrixType, i64, scalar_of, shape_of
from quadrants.passes.context import PassContext
from quadrants.passes.memory import ARRAY_POSITION

__all__ = ["run"]

_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "truncmod"})
# Values that a failed check can report.
_MOST_VALUES = 8
_OVERFLOWING = {"add": "+", "sub": "-", "mul": "*"}


def run(module: Module, context: PassContext) -> None:
    """Inserts the checks in all functions; stage `tasks`, while `wrap` is still there. Division and overflow are checked
    with `options.debug` only."""
    for function in context.functions(module):
        _Checker(function, context).block(function.body)


class _Checker:
    def __init__(self, function: Function, context: PassContext) -> None:
        names = function.attributes.get("parameter_names") or ()
        self.names: dict[Value, str] = dict(zip(function.parameters, names))
        self.context = context
        self.arithmetic = context.options.debug

    def block(self, block: Block) -> None:
        out = Block()
        for op in block.ops:
            for region in op.regions:
                self.block(region)
            builder = Builder(out, op.location)
            if op.kind in ARRAY_POSITION:
                self._indices(op, builder)
            elif self.arithmetic and op.kind in _DIVISIONS:
                self._division(op, builder)
            out.ops.append(op)
            if self.arithmetic and op.kind in _OVERFLOWING:
                self._overflow(op, builder)
        block.ops = out.ops

    def _indices(self, op: Op, builder: Builder) -> None:
        position = ARRAY_POSITION[op.kind]
        array, indices = op.operands[position], op.operands[position + 1 :]
        type_ = array.type
        assert type(type_) is ArrayType
        if not indices:
            return
        sizes = [_size(builder, array, axis) for axis in range(type_.rank)]
        zero = builder.index(0)
        fits: list[Value] = []
        for index, size in zip(indices, sizes):
            low = builder.neg(size) if op.attribute("wrap") else zero
            fits += (builder.ge(index, low), builder.lt(index, size))
        condition = fits[0]
        for more in fits[1:]:
            condition = builder.bit_and(condition, more)
        name = self.names.get(array) or array.name or "array"
        message = f"{name}[{', '.join(['{}'] * len(indices))}] is out of range"
        if len(indices) + len(sizes) <= _MOST_VALUES:
            shape = f"({', '.join(['{}'] * len(sizes))}{',' * (len(sizes) == 1)})"
            message = f"{message}: the shape of {name} is {shape}"
        else:
            sizes = []
        builder.op("check", condition, *indices, *sizes, message=message, error="index")
        self.context.count("checks")

    def _division(self, op: Op, builder: Builder) -> None:
        dividend, divisor = op.operands
        if scalar_of(divisor.type).is_float or _never_zero(divisor):
            return
        is_fine = builder.ne(divisor, builder.zero_like(divisor))
        shown = () if shape_of(divisor.type) else (dividend,)
        text = "integer division of {} by zero" if shown else "integer division by zero"
        self._check(builder, is_fine, text, shown, "zero")

    def _overflow(self, op: Op, builder: Builder) -> None:
        scalar = scalar_of(op.results[0].type)
        if not scalar.is_signed or scalar.is_float or scalar.bits < 32:
            return
        fits = _fits_64(op, builder) if scalar.bits == 64 else _fits_narrow(op, builder)
        left, right = op.operands
        shown = () if shape_of(left.type) else (left, right)
        sign = _OVERFLOWING[op.kind]
        text = f"{{}} {sign} {{}} overflows {scalar}" if shown else f"an element of a {sign} b overflows {scalar}"
        self._check(builder, fits, text, shown, "overflow")

    def _check(self, builder: Builder, condition: Value, text: str, shown: tuple[Value, ...], error: str) -> None:
        whole = builder.reduce_and(condition) if shape_of(condition.type) else condition
        builder.op("check", whole, *shown, message=text, error=error)
        self.context.count("checks")


def _size(builder: Builder, array: Value, axis: int) -> Value:
    return builder.dim(array, axis=axis)


def _never_zero(value: Value) -> bool:
    owner = value.owner
    if type(owner) is not Op or owner.kind != "constant" or type(value.type) is MatrixType:
        return False
    return owner.attribute("value") != 0


def _fits_narrow(op: Op, builder: Builder) -> Value:
    """Law: the result is right if it equals the one in 64 bits."""
    left, right = (builder.cast(operand, i64) for operand in op.operands)
    return builder.eq(builder.cast(op.results[0], i64), builder.emit(op.kind, left, right))


def _fits_64(op: Op, builder: Builder) -> Value:
    (left, right), result = op.operands, op.results[0]
    return _FITS[op.kind](builder, left, right, result)


def _sum_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a + b overflows exactly if its sign differs from the signs of both."""
    both = builder.bit_and(builder.bit_xor(left, result), builder.bit_xor(right, result))
    return builder.ge(both, builder.zero_like(both))


def _difference_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a - b overflows exactly if the signs of a and b differ, and those of a and the result."""
    both = builder.bit_and(builder.bit_xor(left, right), builder.bit_xor(left, result))
    return builder.ge(both, builder.zero_like(both))


def _product_fits(builder: Builder, left: Value, right: Value, result: Value) -> Value:
    """Law: a * b is right if b = 0, or if dividing it by b gives a and it is not the smallest number times -1."""
    zero, smallest = builder.zero_like(left), builder.literal_like(left, scalar_of(left.type).minimum)
    none = builder.eq(right, zero)
    back = builder.eq(builder.truncdiv(result, builder.select(none, builder.one_like(right), right)), left)
    flips = builder.bit_and(builder.eq(left, smallest), builder.lt(right, zero))
    return builder.bit_or(none, builder.bit_and(back, builder.bit_not(flips)))


_FITS: dict[str, Callable[[Builder, Value, Value, Value], Value]] = {
    "add": _sum_fits,
    "sub": _difference_fits,
    "mul": _product_fits,
}
