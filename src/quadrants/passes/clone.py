"""Copies of operations, with values mapped."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Op, Value

__all__ = ["clone_ops"]


def clone_ops(ops: list[Op], values: dict[Value, Value]) -> list[Op]:
    """Copies of operations and their regions. `values` maps what they use from outside to what the copies use, and gets
    what they define; names and locations are kept."""
    out: list[Op] = []
    get = values.get
    for op in ops:
        copy = Op(
            op.kind,
            tuple([get(operand, operand) for operand in op.operands]),
            (),
            dict(op.attributes),
            tuple([_clone_block(region, values) for region in op.regions]) if op.regions else (),
            op.location,
        )
        for result in op.results:
            value = values[result] = Value(result.type, copy, result.name)
            copy.results.append(value)
        out.append(copy)
    return out


def _clone_block(block: Block, values: dict[Value, Value]) -> Block:
    copy = Block()
    for argument in block.arguments:
        values[argument] = copy.add_argument(argument.type, argument.name)
    copy.ops = clone_ops(block.ops, values)
    return copy
