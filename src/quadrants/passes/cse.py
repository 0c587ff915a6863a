"""Common subexpressions: a pure operation on the same operands as one that dominates it is that one's result."""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.passes.context import PassContext
from quadrants.passes.structure import functions_to_do

__all__ = ["merge_in", "run"]

_PURE = frozenset(row.name for row in OPS.values() if row.effects == "pure")
_COMMUTATIVE = frozenset(row.name for row in OPS.values() if row.commutative)


def run(module: Module, context: PassContext) -> None:
    """Merges equal pure operations in every function, in place; any stage."""
    for function in functions_to_do(module, context):
        function.body.ops = _walk(function.body.ops, {}, {}, context)


def merge_in(block: Block, context: PassContext) -> None:
    """Merges equal pure operations of one block and its regions, whose results nothing outside uses."""
    block.ops = _walk(block.ops, {}, {}, context)


def _walk(ops: list[Op], available: dict[Any, Value], replaced: dict[Value, Value], context: PassContext) -> list[Op]:
    """The operations that stay. What becomes available here is forgotten again at the end."""
    out: list[Op] = []
    added: list[Any] = []
    mapped = replaced.keys()
    for op in ops:
        operands = op.operands
        if not mapped.isdisjoint(operands):
            op.operands = operands = tuple([replaced.get(operand, operand) for operand in operands])
        kind = op.kind
        if kind in _PURE:
            if op.attributes:
                key: Any = _key(kind, operands, op.attributes)
            elif kind in _COMMUTATIVE and id(operands[0]) > id(operands[1]):
                key = (kind, (operands[1], operands[0]))
            else:
                key = (kind, operands)
            same = available.get(key)
            if same is None:
                available[key] = op.results[0]
                added.append(key)
            elif context.permit():
                replaced[op.results[0]] = same
                continue
        elif op.regions:
            for region in op.regions:
                region.ops = _walk(region.ops, available, replaced, context)
        out.append(op)
    for key in added:
        del available[key]
    return out


def _key(kind: str, operands: tuple[Value, ...], attributes: dict[str, Any]) -> Any:
    """What makes an operation with attributes the same: zeros, NaN and matrices by their text, since 0.0 == -0.0."""
    if kind == "constant":
        value: Any = attributes["value"]
        plain = value and value == value and not isinstance(value, tuple)
        return (kind, attributes["type"], value if plain else str(attributes["value"]))
    return (kind, operands, tuple(attributes.items()))
