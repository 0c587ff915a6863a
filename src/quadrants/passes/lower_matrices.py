"""Takes matrices apart: the last structural step on the way to stage `lowered`.

Matrices of at most `SMALL` elements become their elements, row by row, in every place where values pass: operands,
results, carried values, parameters. Larger ones live in slots, and operations on them are loops, so that code does not
grow with their size; only calls, parameters, results and parallel reductions take them element by element too, because
that is how all targets pass them. Kernels remember their signature in `unlowered_parameters` and `unlowered_results`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.types import MatrixType, Type, matrix_type
from quadrants.passes import matrix_handlers
from quadrants.passes.context import PassContext
from quadrants.passes.matrix_walk import Ends, Handler, Lowering

__all__ = ["SMALL", "run"]

SMALL = 64


def run(module: Module, context: PassContext | None = None, small: int = SMALL) -> None:
    """Removes every matrix from the module, in place, and sets its stage to `lowered`."""
    for function in module.functions.values() if context is None else context.functions(module):
        if _has_matrices(function):
            Lowering(function, _HANDLERS, matrix_handlers.elementwise, small).function()
    module.stage = "lowered"


def _has_matrices(function: Function) -> bool:
    types = (*[parameter.type for parameter in function.parameters], *function.result_types)
    if any(type(type_) is MatrixType for type_ in types):
        return True
    return any(type(result.type) is MatrixType for op in walk(function.body) for result in op.results)


# Control.


def _carry(lowering: Lowering, inits: tuple[Value, ...], in_memory: bool) -> tuple[Ends, tuple[Value, ...]]:
    """Where carried values live: their slots, with the initial values copied in; and the operands that are passed on."""
    slots: Ends = []
    for init in inits:
        slot = None
        if in_memory and lowering.is_large(init.type):
            held = lowering.matrix(init)
            assert type(held) is Value
            slot = lowering.duplicate(held)
        slots.append(slot)
    return slots, lowering.flat([init for init, slot in zip(inits, slots) if slot is None])


def _carried_arguments(lowering: Lowering, block: Block, arguments: list[Value], ends: Ends) -> Callable[[], None]:
    """Replaces a region's carried arguments; what is to be written first in the region."""
    passed: list[Value] = []
    for argument, slot in zip(arguments, ends):
        if slot is None:
            passed.append(argument)
        else:
            lowering.held[argument] = slot
    split = lowering.split_arguments(passed, block)
    return lambda: lowering.define_all(split)


def _finish(lowering: Lowering, op: Op, ends: Ends) -> None:
    """Appends an operation with regions, its results split or read from their slots."""
    passed: list[Value] = []
    for result, slot in zip(op.results, ends):
        if slot is None:
            passed.append(result)
        else:
            lowering.define_in(result, slot)
    split = lowering.split_results(op, passed)
    lowering.ops.append(op)
    lowering.location = op.location
    lowering.define_all(split)


def _for(lowering: Lowering, op: Op) -> None:
    rank, parallel = op.attribute("rank"), bool(op.attribute("parallel"))
    block = op.regions[0]
    bounds = tuple([lowering.value(operand) for operand in op.operands[: 2 * rank]])
    reductions = op.attribute("reductions")
    if reductions:
        types = [result.type for result in op.results]
        repeated = [
            (name,) * (type_.count if type(type_) is MatrixType else 1) for name, type_ in zip(reductions, types)
        ]
        op.attributes["reductions"] = tuple([name for names in repeated for name in names])
    ends, operands = _carry(lowering, op.operands[2 * rank :], not parallel)
    op.operands = bounds + operands
    arguments = block.arguments
    block.arguments = arguments[:rank]
    first = _carried_arguments(lowering, block, arguments[rank:], ends)
    lowering.loops.append(ends)
    lowering.block(block, ends, first)
    lowering.loops.pop()
    _finish(lowering, op, ends)


def _while(lowering: Lowering, op: Op) -> None:
    ends, op.operands = _carry(lowering, op.operands, True)
    condition, body = op.regions
    for block, yields in ((condition, []), (body, ends)):
        arguments, block.arguments = block.arguments, []
        first = _carried_arguments(lowering, block, arguments, ends)
        lowering.loops.append(ends)
        lowering.block(block, yields, first)
        lowering.loops.pop()
    _finish(lowering, op, ends)


def _if(lowering: Lowering, op: Op) -> None:
    op.operands = (lowering.value(op.operands[0]),)
    ends = [lowering.slot(result.type) if lowering.is_large(result.type) else None for result in op.results]
    for region in op.regions:
        lowering.block(region, ends)
    _finish(lowering, op, ends)
    if op.attribute("types"):
        op.attributes = {**(op.attributes or {}), "types": tuple([result.type for result in op.results])}


def _call(lowering: Lowering, op: Op) -> None:
    op.operands = lowering.flat(op.operands)
    _finish(lowering, op, [None] * len(op.results))
    if op.attribute("types"):
        op.attributes = {**(op.attributes or {}), "types": tuple([result.type for result in op.results])}


def _yield(lowering: Lowering, op: Op) -> None:
    lowering.terminate(op, lowering.yields[-1])


def _leave(lowering: Lowering, op: Op) -> None:
    lowering.terminate(op, lowering.loops[-1])


def _return(lowering: Lowering, op: Op) -> None:
    lowering.terminate(op, [])


# Texts.


def _bracketed(type_: Type, between: Callable[[], Any]) -> list[Any]:
    """The pieces of text and the elements of a matrix as it prints, `between` standing for an element."""
    if type(type_) is not MatrixType:
        return [between()]
    parts: list[Any] = ["["]
    for number in range(type_.shape[0]):
        parts += [", "] * (number > 0)
        inner = matrix_type(type_.scalar, type_.shape[1:]) if len(type_.shape) > 1 else type_.scalar
        parts += _bracketed(inner, between)
    return [*parts, "]"]


def _print(lowering: Lowering, op: Op) -> None:
    pieces, specs = op.attribute("format"), op.attribute("specs") or ("",) * len(op.operands)
    texts: list[str] = [pieces[0]]
    flat_specs: list[str] = []
    for operand, spec, piece in zip(op.operands, specs, pieces[1:]):
        for part in _bracketed(operand.type, lambda: None):
            if part is None:
                flat_specs.append(spec)
                texts.append("")
            else:
                texts[-1] += part
        texts[-1] += piece
    op.operands = lowering.flat(op.operands)
    op.attributes = {**(op.attributes or {}), "format": tuple(texts), "specs": tuple(flat_specs)}
    lowering.ops.append(op)


def _check(lowering: Lowering, op: Op) -> None:
    condition, *values = op.operands
    texts = op.attribute("message").split("{}")
    message = texts[0]
    for position, text in enumerate(texts[1:]):
        type_ = values[position].type if position < len(values) else None
        message += "".join(_bracketed(type_, lambda: "{}")) if type_ is not None else "{}"
        message += text
    op.operands = (lowering.value(condition), *lowering.flat(values))
    op.attributes = {**(op.attributes or {}), "message": message}
    lowering.ops.append(op)


_HANDLERS: dict[str, Handler] = {
    **matrix_handlers.HANDLERS,
    "for": _for,
    "while": _while,
    "if": _if,
    "call": _call,
    "yield": _yield,
    "break": _leave,
    "continue": _leave,
    "return": _return,
    "print": _print,
    "check": _check,
}
