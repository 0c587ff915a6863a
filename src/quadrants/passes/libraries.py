"""Whole tasks given to a library's routine: products of matrices to a BLAS.

A nest that is a plain product, `c[i, j] (+= | =) a[i, k] * b[k, j]` over parts of arrays, becomes a branch: a call of the
routine where sizes make it worth that and the arrays lie as the routine takes them, the nest itself (which `tile` and others
go on with) for the rest. Each side counts its runs, so that the report can say which ran; where no routine is
called, a notice says why.

A routine is C's `gemm` of CBLAS. It takes a matrix in which neighbours along one of the two counters follow one another in
memory; along which, strides tell when the kernel runs: `c` decides about the order, `a` and `b` are transposed where
theirs is the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.external import Routine
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, f32, f64, i32, i64
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.contractions import Contraction, Range, find_contractions
from quadrants.passes.fold import number_of
from quadrants.passes.nest import Nest
from quadrants.passes.tile_code import loop
from quadrants.records import Record

__all__ = ["run"]

_TASK = "product of matrices"
# CBLAS's names for the order of a matrix' elements, and for transposition.
_BY_ROWS, _BY_COLUMNS, _AS_IT_IS, _TRANSPOSED = 101, 102, 111, 112
_MOST = {"i32": (1 << 31) - 1, "i64": (1 << 62) - 1}
# Rows, columns and depth from which a routine's own overhead does not matter.
_LEAST = 16


class _Matrix(Record):
    """A part of an array: neighbours along `first` and `second` (counters' ranges) are along these axes."""

    array: Value
    indices: tuple[Value, ...]
    ranges: tuple[Range, Range]
    axes: tuple[int, int]


class _Product(Record):
    """result = alpha * left * right + beta * result."""

    left: _Matrix
    right: _Matrix
    result: _Matrix
    alpha: int
    beta: int

    @property
    def text(self) -> str:
        sign = "=" if not self.beta else "+=" if self.alpha > 0 else "-="
        left, right, result = (part.array.name or "?" for part in (self.left, self.right, self.result))
        return f"{result} {sign} {left} @ {right}"


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The contractions of the kernel that are products of matrices, where the options name libraries."""
    if context.routine_for is None:
        return
    contractions = find_contractions(module.kernel)
    nest = Nest(module.kernel) if contractions else None
    for contraction in contractions:
        assert nest is not None
        reason = _give(contraction, nest, context)
        if reason:
            context.notice("libraries", f"no library is called: {reason}", contraction.outer.location)


def _give(contraction: Contraction, nest: Nest, context: PassContext) -> str:
    """Gives one contraction to a routine; the reason, where that cannot be."""
    assert context.routine_for is not None
    record = context.record
    if record is None or not record.calls_c or not record.maximum_vector_bits:
        return f"the target {'of nobody' if record is None else record.name} computes everything itself"
    product = _Reader(contraction, nest).product()
    if isinstance(product, str):
        return product
    routine = context.routine_for(_TASK, contraction.scalar.name)
    if isinstance(routine, str):
        return routine
    if not context.permit():
        return "no more rewrites are permitted"
    _Writer(contraction, product, routine, nest).write()
    context.count("tasks for libraries")
    where = f"from {routine.smallest} products on" + (", while that runs on one thread" if routine.threads else "")
    text = f"{product.text} is given to {routine.symbol} of {routine.package} ({routine.library}) {where}"
    context.notice("libraries", text, contraction.outer.location)
    return ""


class _Reader:
    """Reads a contraction as a product of matrices."""

    def __init__(self, contraction: Contraction, nest: Nest) -> None:
        self.contraction = contraction
        self.nest = nest
        self.moving = {contraction.row.counter, contraction.column.counter, contraction.depth.counter}

    def product(self) -> _Product | str:
        found = self.contraction
        left = self._factor(found.left, found.row, found.depth)
        right = self._factor(found.right, found.depth, found.column)
        if left is None or right is None:
            return "a factor is not an element of a matrix, or has another type than the sum"
        result = self._result()
        if isinstance(result, str):
            return result
        op, alpha, beta = result
        array, *indices = op.operands[1:]
        matrix = self._matrix(array, indices, found.row, found.column)
        if matrix is None or any(part.kind == "load" for part in slice_of(indices, self.nest, found.outer)):
            return "the sums do not go to a matrix"
        return _Product(left, right, matrix, alpha, beta)

    def _factor(self, value: Value, first: Range, second: Range) -> _Matrix | None:
        op = value.owner
        if type(op) is not Op or op.kind != "load" or value.type is not self.contraction.scalar:
            return None
        return self._matrix(op.operands[0], op.operands[1:], first, second)

    def _matrix(self, array: Value, indices: Sequence[Value], first: Range, second: Range) -> _Matrix | None:
        type_ = array.type
        if type(type_) is not ArrayType or type_.layout not in ("C", "A") or len(indices) != type_.rank:
            return None
        axes: dict[Value, int] = {}
        for axis, index in enumerate(indices):
            if self._moves(index):
                counter = self._counter(index)
                if counter is None or counter in axes:
                    return None
                axes[counter] = axis
        if axes.keys() != {first.counter, second.counter}:
            return None
        return _Matrix(array, tuple(indices), (first, second), (axes[first.counter], axes[second.counter]))

    def _moves(self, value: Value) -> bool:
        """Whether a value follows row, column or depth."""
        if value in self.moving:
            return True
        if not self.nest.defined_in(value, self.contraction.outer):
            return False
        op = value.owner
        if type(op) is not Op:
            return value not in {part.counter for part in self.contraction.batch}
        return bool(op.regions) or any(map(self._moves, op.operands))

    def _counter(self, index: Value) -> Value | None:
        """The counter that an index is, but for something that does not move."""
        if index in self.moving:
            return index
        op = index.owner
        if type(op) is not Op or op.kind not in ("add", "sub"):
            return None
        first, second = op.operands
        if not self._moves(second):
            return self._counter(first)
        return self._counter(second) if op.kind == "add" and not self._moves(first) else None

    def _result(self) -> tuple[Op, int, int] | str:
        """The operation that writes a sum, and the factors of the sum and of what was there."""
        found = self.contraction
        op, sign = found.reduction, -1 if found.negative else 1
        if op.kind != "for":
            return op, sign, 1
        writes = [part for part in walk(found.statement) if part.kind in ("store", "update")]
        if len(writes) != 1 or writes[0] not in found.statement.ops or writes[0].operands[0] is not op.results[0]:
            return "more is done with the sums than to store them"
        (write,) = writes
        assert found.start is not None
        is_zero = number_of(found.start) == 0
        if write.kind == "update":
            if is_zero and write.attribute("by") in ("add", "sub"):
                return write, sign if write.attribute("by") == "add" else -sign, 1
        elif is_zero and sign > 0:
            return write, 1, 0
        elif type(found.start.owner) is Op and found.start.owner.kind == "load":
            if found.start.owner.operands == write.operands[1:]:
                return write, sign, 1
        return "the sums begin at something else than zero or the element that they go to"


def slice_of(values: Sequence[Value], nest: Nest, outer: Op) -> list[Op]:
    """The operations of a nest that compute values, in order."""
    needed: dict[Op, None] = {}

    def gather(value: Value) -> None:
        op = value.owner
        if type(op) is not Op or op in needed or not nest.defined_in(value, outer):
            return
        for operand in op.operands:
            gather(operand)
        needed[op] = None

    for value in values:
        gather(value)
    return list(needed)


class _Writer:
    """Writes the branch between a routine and the nest."""

    def __init__(self, contraction: Contraction, product: _Product, routine: Routine, nest: Nest) -> None:
        self.contraction = contraction
        self.product = product
        self.routine = routine
        self.nest = nest
        self.by_rows: dict[_Matrix, Value] = {}
        self.leading: dict[_Matrix, Value] = {}

    def write(self) -> None:
        found, outer = self.contraction, self.contraction.outer
        front, given, kept = Block(), Block(), Block()
        builder = Builder(front, outer.location)
        fits = self._fits(builder)
        inside, beside = Builder(given, outer.location), Builder(kept, outer.location)
        inside.op("tally", what=f"{self.product.text} by {self.routine.symbol} of {self.routine.package}")
        self._batch(inside, list(found.batch), {})
        inside.op("yield")
        beside.op("tally", what=f"{self.product.text} by generated code")
        kept.ops.append(outer)
        beside.op("yield")
        builder.op("if", fits, regions=(given, kept), types=())
        at = found.block.ops.index(outer)
        found.block.ops[at : at + 1] = front.ops

    # Whether the routine can do it, and is worth its call.

    def _fits(self, builder: Builder) -> Value:
        found, routine = self.contraction, self.routine
        extents = {part: builder.sub(part.high, part.low) for part in (found.row, found.column, found.depth)}
        tests = [builder.ge(extent, builder.index(_LEAST)) for extent in extents.values()]
        rows, columns, depth = extents.values()
        total = builder.mul(builder.mul(rows, columns), depth)
        tests.append(builder.ge(total, builder.index(routine.smallest)))
        most = builder.index(_MOST[routine.integer])
        tests += [builder.le(extent, most) for extent in extents.values()]
        for matrix in (self.product.left, self.product.right, self.product.result):
            tests += self._lies_well(builder, matrix, [extents[part] for part in matrix.ranges], most)
        if routine.threads:
            threads = self._call(builder, routine.threads, (), (), type=i32)
            tests.append(builder.eq(threads.results[0], builder.constant(1, i32)))
        fits = tests[0]
        for test in tests[1:]:
            fits = builder.bit_and(fits, test)
        return fits

    def _lies_well(self, builder: Builder, matrix: _Matrix, extents: list[Value], most: Value) -> list[Value]:
        """Whether one of the two steps is a single element, and the other leaves room for that many."""
        first, second = (builder.emit("step", matrix.array, axis=axis) for axis in matrix.axes)
        one = builder.index(1)
        by_rows = self.by_rows[matrix] = builder.eq(second, one)
        leading = self.leading[matrix] = builder.select(by_rows, first, second)
        room = builder.select(by_rows, extents[1], extents[0])
        unit = builder.bit_or(by_rows, builder.eq(first, one))
        return [unit, builder.ge(leading, room), builder.le(leading, most)]

    # The call.

    def _batch(self, builder: Builder, left: list[Range], values: dict[Value, Value]) -> None:
        """Loops over what is left of the batch, around the call."""
        if not left:
            self._gemm(builder, values)
            return
        part, *rest = left

        def body(inner: Builder, counter: Value, _: list[Value]) -> tuple[Value, ...]:
            self._batch(inner, rest, {**values, part.counter: counter})
            return ()

        loop(builder, part.low, part.high, body)

    def _gemm(self, builder: Builder, batch: dict[Value, Value]) -> None:
        found, product, routine = self.contraction, self.product, self.routine
        integer, scalar = i64 if routine.integer == "i64" else i32, f32 if found.scalar is f32 else f64
        by_rows = self.by_rows[product.result]

        def choice(condition: Value, yes: int, no: int) -> Value:
            return builder.select(condition, builder.constant(yes, i32), builder.constant(no, i32))

        def transposition(matrix: _Matrix) -> Value:
            return choice(builder.eq(self.by_rows[matrix], by_rows), _AS_IT_IS, _TRANSPOSED)

        def size(part: Range) -> Value:
            return builder.cast(builder.sub(part.high, part.low), integer)

        def matrix(part: _Matrix) -> tuple[Value, ...]:
            return (*self._corner(builder, part, batch), builder.cast(self.leading[part], integer))

        pointer = f"*{scalar.name}"
        arguments = (
            choice(by_rows, _BY_ROWS, _BY_COLUMNS),
            transposition(product.left),
            transposition(product.right),
            *map(size, (found.row, found.column, found.depth)),
            builder.constant(product.alpha, scalar),
            *matrix(product.left),
            *matrix(product.right),
            builder.constant(product.beta, scalar),
            *matrix(product.result),
        )
        count, number = integer.name, scalar.name
        parameters = ("i32",) * 3 + (count,) * 3 + (number, pointer, count, pointer, count, number, pointer, count)
        reads, writes = (7, 9, 12) if product.beta else (7, 9), (12,)
        self._call(builder, routine.symbol, parameters, arguments, reads=reads, writes=writes)

    def _corner(self, builder: Builder, matrix: _Matrix, batch: dict[Value, Value]) -> tuple[Value, ...]:
        """The array and the indices of the first element."""
        found = self.contraction
        values = {**batch, **{part.counter: part.low for part in (found.row, found.column, found.depth)}}
        builder.block.ops += clone_ops(slice_of(matrix.indices, self.nest, found.outer), values)
        return (matrix.array, *[values.get(index, index) for index in matrix.indices])

    def _call(
        self,
        builder: Builder,
        symbol: str,
        parameters: tuple[str, ...],
        arguments: tuple[Value, ...],
        reads: tuple[int, ...] = (),
        writes: tuple[int, ...] = (),
        **attributes: Any,
    ) -> Op:
        attributes |= {"library": self.routine.library, "symbol": symbol, "parameters": parameters}
        return builder.op("external", *arguments, reads=reads, writes=writes, strided=True, **attributes)
