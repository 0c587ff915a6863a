"""How `lower_matrices` rewrites what makes and uses matrices: elementwise operations, products, elements, memory."""

from __future__ import annotations

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import MatrixType, shape_of
from quadrants.passes.matrix_code import PRODUCT_LIMIT, Held, fits_selects, is_memory, positions
from quadrants.passes.matrix_walk import Handler, Lowering

__all__ = ["HANDLERS", "elementwise"]

_REDUCTIONS = {
    "reduce_add": "add",
    "reduce_mul": "mul",
    "reduce_min": "min",
    "reduce_max": "max",
    "reduce_and": "bit_and",
    "reduce_or": "bit_or",
}


def elementwise(lowering: Lowering, op: Op) -> None:
    types = [operand.type for operand in op.operands]
    operands: list[Held] = [
        lowering.matrix(operand) if type(operand.type) is MatrixType else lowering.value(operand)
        for operand in op.operands
    ]
    result = op.results[0]
    if lowering.is_large(result.type):
        lowering.define(result, lowering.elementwise_loop(op, operands, types))
    else:
        lowering.define(result, lowering.elementwise(op, operands))


def _constant(lowering: Lowering, op: Op) -> None:
    type_ = op.results[0].type
    if type(type_) is not MatrixType:
        lowering.ops.append(op)
        return
    value = op.attribute("value")
    numbers = [part for row in value for part in row] if len(type_.shape) == 2 else list(value)
    shared: dict[str, Value] = {}
    elements: list[Value] = []
    for number in numbers:
        key = repr(number)
        if key not in shared:
            shared[key] = lowering.constant(number, type_.scalar)
        elements.append(shared[key])
    lowering.define(op.results[0], tuple(elements))


def _splat(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type_, value = result.type, lowering.value(op.operands[0])
    assert type(type_) is MatrixType
    if not lowering.is_large(type_):
        lowering.define(result, (value,) * type_.count)
        return
    target = lowering.slot(type_)
    lowering.nest(type_.shape, lambda at: lowering.store(value, target, at))
    lowering.define(result, target)


def _construct(lowering: Lowering, op: Op) -> None:
    lowering.define(op.results[0], tuple([lowering.value(operand) for operand in op.operands]))


def _extract(lowering: Lowering, op: Op) -> None:
    matrix, indices = op.operands[0], tuple([lowering.value(index) for index in op.operands[1:]])
    held, result = lowering.matrix(matrix), op.results[0]
    spilled = lowering.spilled.get(matrix)
    if isinstance(held, tuple) and fits_selects(shape_of(matrix.type), indices):
        lowering.held[result] = lowering.pick(held, shape_of(matrix.type), indices)
    else:
        slot = spilled if isinstance(held, tuple) else held
        assert slot is not None
        lowering.held[result] = lowering.load(slot, indices)


def _insert(lowering: Lowering, op: Op) -> None:
    matrix, value, *indices = op.operands
    result, held, value = op.results[0], lowering.matrix(matrix), lowering.value(value)
    indices = [lowering.value(index) for index in indices]
    if isinstance(held, tuple) and fits_selects(shape_of(matrix.type), indices):
        lowering.define(result, lowering.place(held, value, shape_of(matrix.type), indices))
        return
    if isinstance(held, tuple):
        assert type(matrix.type) is MatrixType
        slot = lowering.spill(held, matrix.type)
    else:
        slot = held if lowering.dies_at(matrix, op) else lowering.duplicate(held)
    lowering.store(value, slot, tuple(indices))
    lowering.define(result, slot)


def _matmul(lowering: Lowering, op: Op) -> None:
    (left, right), result = op.operands, op.results[0]
    left_held, right_held, type_ = lowering.matrix(left), lowering.matrix(right), result.type
    inner, columns = shape_of(left.type)[-1], (*shape_of(right.type)[1:], 1)[0]
    assert type(type_) is MatrixType and type(left.type) is MatrixType and type(right.type) is MatrixType
    in_memory = is_memory(left_held) or is_memory(right_held) or lowering.is_large(type_)
    if in_memory or type_.count * inner > PRODUCT_LIMIT:
        slots = lowering.memory(left_held, left.type), lowering.memory(right_held, right.type)
        lowering.define(result, lowering.matmul_loop(*slots, type_, op.attributes))
        return
    elements = lowering.elements(left_held), lowering.elements(right_held)
    lowering.define(result, lowering.matmul(*elements, inner, columns, op.attributes))


def _transpose(lowering: Lowering, op: Op) -> None:
    matrix, result = op.operands[0], op.results[0]
    held, (rows, columns) = lowering.matrix(matrix), shape_of(matrix.type)
    if isinstance(held, tuple):
        lowering.define(
            result, tuple([held[row * columns + column] for column in range(columns) for row in range(rows)])
        )
        return
    target = lowering.slot(result.type)
    lowering.nest(shape_of(result.type), lambda at: lowering.store(lowering.load(held, at[::-1]), target, at))
    lowering.define(result, target)


def _reduce(lowering: Lowering, op: Op) -> None:
    held, combiner = lowering.matrix(op.operands[0]), _REDUCTIONS[op.kind]
    if isinstance(held, tuple):
        lowering.held[op.results[0]] = lowering.reduce(held, combiner, op.attributes)
    else:
        lowering.held[op.results[0]] = lowering.reduce_loop(held, combiner, op.attributes)


# Memory.


def _load(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type_ = result.type
    if type(type_) is not MatrixType:
        lowering.keep(op)
        return
    place = tuple([lowering.value(operand) for operand in op.operands])
    scalar, attributes = type_.scalar, op.attributes
    if not lowering.is_large(type_):
        elements = [
            lowering.emit("load", (*place, *lowering.indices(at)), scalar, dict(attributes) if attributes else None)
            for at in positions(type_.shape)
        ]
        lowering.define(result, tuple(elements))
        return
    target = lowering.slot(type_)

    def one(at: tuple[Value, ...]) -> None:
        lowering.store(lowering.emit("load", (*place, *at), scalar, dict(attributes or {})), target, at)

    lowering.nest(type_.shape, one)
    lowering.define(result, target)


def _store(lowering: Lowering, op: Op) -> None:
    value = op.operands[0]
    if type(value.type) is not MatrixType:
        lowering.keep(op)
        return
    held, attributes = lowering.matrix(value), op.attributes
    place = tuple([lowering.value(operand) for operand in op.operands[1:]])
    if not isinstance(held, tuple):
        lowering.nest(
            value.type.shape,
            lambda at: lowering.effect("store", (lowering.load(held, at), *place, *at), dict(attributes or {})),
        )
        return
    for element, at in zip(held, positions(value.type.shape)):
        operands = (element, *place, *lowering.indices(at))
        lowering.effect("store", operands, dict(attributes) if attributes else None)


def _update(lowering: Lowering, op: Op) -> None:
    value, result = op.operands[0], op.results[0]
    type_ = value.type
    if type(type_) is not MatrixType:
        lowering.keep(op)
        return
    held, scalar, attributes = lowering.matrix(value), type_.scalar, op.attributes or {}
    place = tuple([lowering.value(operand) for operand in op.operands[1:]])
    if isinstance(held, tuple):
        old = [
            lowering.emit("update", (element, *place, *lowering.indices(at)), scalar, dict(attributes))
            for element, at in zip(held, positions(type_.shape))
        ]
        lowering.define(result, tuple(old))
        return
    target = lowering.slot(type_)

    def one(at: tuple[Value, ...]) -> None:
        operands = (lowering.load(held, at), *place, *at)
        lowering.store(lowering.emit("update", operands, scalar, dict(attributes)), target, at)

    lowering.nest(type_.shape, one)
    lowering.define(result, target)


HANDLERS: dict[str, Handler] = {
    "constant": _constant,
    "splat": _splat,
    "construct": _construct,
    "extract": _extract,
    "insert": _insert,
    "matmul": _matmul,
    "transpose": _transpose,
    "load": _load,
    "store": _store,
    "update": _update,
    **dict.fromkeys(_REDUCTIONS, _reduce),
}
