"""Debug mode's checks: indices out of range, integer division by zero, integers that overflow.

Those of indices and divisions stand in front of what they guard, so that a failed one stops the kernel before anything
is touched.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ArrayType, MatrixType, f64, i64, scalar_of, shape_of
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.memory import ARRAY_POSITION, MATRIX_INDICES

__all__ = ["CHECKED", "run"]

_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "truncmod"})
# Values that a failed check can report.
_MOST_VALUES = 32
# How messages write operations that can overflow.
_SHOWN = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "pow": "{} ** {}",
    "floordiv": "{} // {}",
    "truncdiv": "{} divided by {}",
    "neg": "-({})",
    "abs": "abs({})",
}
CHECKED = _DIVISIONS | _SHOWN.keys()
"""The kinds of arithmetic that debug mode checks."""

_CHECKED_UPDATES = frozenset({"add", "sub", "mul"})


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
                self._access(op, builder)
            elif op.kind in MATRIX_INDICES:
                self._element(op, builder)
            elif self.arithmetic and op.kind in _DIVISIONS:
                self._division(op, builder)
            out.ops.append(op)
            if self.arithmetic:
                self._overflow(op, builder)
        block.ops = out.ops

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
        kind, operands, results = op.kind, op.operands, op.results
        if kind == "update" and op.attribute("by") in _CHECKED_UPDATES:
            kind, operands = op.attribute("by"), (results[0], operands[0])
            result = builder.emit(kind, *operands) if _can_overflow(results[0]) else results[0]
        elif kind in _SHOWN:
            result = results[0]
        else:
            return
        if not _can_overflow(result) or _is_small(kind, operands):
            return
        fits = _fits(kind, operands, result, builder)
        shown = () if shape_of(result.type) else operands
        text = _SHOWN[kind].format(*["{}"] * len(shown)) if shown else "an element of " + _SHOWN[kind].format("a", "b")
        self._check(builder, fits, f"{text} overflows {scalar_of(result.type)}", shown, "overflow")

    def _check(self, builder: Builder, condition: Value, text: str, shown: tuple[Value, ...], error: str) -> None:
        whole = builder.reduce_and(condition) if shape_of(condition.type) else condition
        builder.op("check", whole, *shown, message=text, error=error)
        self.context.count("checks")


def _never_zero(value: Value) -> bool:
    owner = value.owner
    if type(owner) is not Op or owner.kind != "constant" or type(value.type) is MatrixType:
        return False
    return owner.attribute("value") != 0


def _can_overflow(value: Value) -> bool:
    scalar = scalar_of(value.type)
    return scalar.is_signed and not scalar.is_float


def _is_small(kind: str, operands: tuple[Value, ...]) -> bool:
    """Whether a division has a divisor other than -1, which alone makes one overflow."""
    divisor = number_of(operands[1]) if kind in ("floordiv", "truncdiv") else None
    return divisor is not None and divisor != -1


def _fits(kind: str, operands: tuple[Value, ...], result: Value, builder: Builder) -> Value:
    """Whether the result is what it would be in integers without bounds."""
    if len(operands) == 1:
        return builder.ne(operands[0], builder.literal_like(operands[0], scalar_of(result.type).minimum))
    left, right = operands
    if kind in ("floordiv", "truncdiv"):
        return _quotient_fits(builder, left, right)
    if kind == "pow":
        return _power_fits(builder, left, right, result)
    if scalar_of(result.type).bits == 64:
        return _FITS[kind](builder, left, right, result)
    # Law: the result is right if it equals the one in 64 bits.
    whole = builder.emit(kind, builder.cast(left, i64), builder.cast(right, i64))
    return builder.eq(builder.cast(result, i64), whole)


def _quotient_fits(builder: Builder, left: Value, right: Value) -> Value:
    """Law: a quotient overflows only if it is that of the smallest number and -1."""
    smallest = builder.literal_like(left, scalar_of(left.type).minimum)
    return builder.bit_or(builder.ne(left, smallest), builder.ne(right, builder.literal_like(right, -1)))


def _power_fits(builder: Builder, base: Value, exponent: Value, result: Value) -> Value:
    """Law: wrapped results of numbers below 2**(bits + 1) are apart from the right ones by more than a millionth; a power
    of a whole number by a negative one is never large."""
    right = builder.pow(builder.cast(base, f64), builder.cast(exponent, f64))
    size = builder.abs(right)
    difference = builder.abs(builder.sub(builder.cast(result, f64), right))
    is_close = builder.le(difference, builder.mul(size, builder.literal_like(size, 1e-6)))
    is_small = builder.lt(size, builder.literal_like(size, 2.0 ** (scalar_of(result.type).bits + 1)))
    is_negative = builder.lt(exponent, builder.zero_like(exponent))
    return builder.bit_or(is_negative, builder.bit_and(is_close, is_small))


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
