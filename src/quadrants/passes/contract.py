"""Multiplications that only feed a sum become one operation, rounded once.

Decided here and not by the code generator, whose choice depends on what else is in a block: so an iteration gives the same
bits in lanes of any number and alone.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.types import f32, f64, scalar_of
from quadrants.passes.context import PassContext

__all__ = ["contract", "run"]

_FUSED = (f32, f64)


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. Law: `fma(a, b, c)` for a * b + c and `fma(-a, b, c)` for c - a * b, where nothing else uses the
    product and both are computed in one block. Sums that may reassociate and sums in memory are left to the code generator:
    their products are marked `contract`, and no others are fused by it."""
    for function in module.functions.values():
        contract(function.body, context)


def contract(block: Block, context: PassContext) -> None:
    """Fuses what can be in a block and in the blocks within it."""
    if context.record is None or context.record.fused_multiply_add:
        uses: dict[Value, int] = {}
        _count(block, uses)
        _block(block, uses, context)


def _count(block: Block, uses: dict[Value, int]) -> None:
    for op in block.ops:
        for operand in op.operands:
            if type(operand.owner) is Op and operand.owner.kind == "mul":
                uses[operand] = uses.get(operand, 0) + 1
        for region in op.regions:
            _count(region, uses)


def _block(block: Block, uses: dict[Value, int], context: PassContext) -> None:
    products: set[Value] = set()
    fused: set[Op] = set()
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region, uses, context)
        if op.kind == "mul" and _is_fused(op):
            if uses.get(op.result) == 1:
                products.add(op.result)
        elif op.kind in ("add", "sub") and _is_fused(op):
            at = next((k for k in (0, 1) if op.operands[k] in products), None)
            if at is not None and context.permit():
                fused.add(_fuse(op, at, ops))
        elif op.attribute("reassociate") or op.kind == "update":
            _mark(op, products, context)
        ops.append(op)
    block.ops = [op for op in ops if op not in fused] if fused else ops


def _is_fused(op: Op) -> bool:
    """Whether an operation may be rounded together with another."""
    return scalar_of(op.result.type) in _FUSED and not op.attribute("reassociate") and not op.attribute("exact")


def _mark(op: Op, products: set[Value], context: PassContext) -> None:
    """The code generator may fuse the products in a sum."""
    for operand in op.operands:
        if operand in products and context.permit():
            assert type(operand.owner) is Op
            operand.owner.attributes = {**(operand.owner.attributes or {}), "contract": True}


def _fuse(op: Op, at: int, ops: list[Op]) -> Op:
    """Makes a sum with a product as its operand `at` a fused one; gives the product's operation, which is not needed any
    more. What has to be negated first is added to `ops`."""
    product, other = op.operands[at].owner, op.operands[1 - at]
    assert type(product) is Op
    left, right = product.operands
    if op.kind == "sub":
        if at == 1:
            left = _negated(left, op, ops)
        else:
            other = _negated(other, op, ops)
    op.kind, op.operands = "fma", (left, right, other)
    return product


def _negated(value: Value, op: Op, ops: list[Op]) -> Value:
    ops.append(Op("neg", (value,), (value.type,), location=op.location))
    return ops[-1].result
