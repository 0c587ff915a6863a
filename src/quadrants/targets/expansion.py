"""Operations that a target has no code for, by other operations."""

from __future__ import annotations

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS

__all__ = ["expanded"]


def expanded(op: Op, target: str) -> tuple[Block, Value]:
    """The block that computes an operation by its row's expansion, and the value there that is its result.
    QuadrantsInternalError where the row has none; `target`: who is said to lack it."""
    expansion = OPS[op.kind].expansion if op.kind in OPS else None
    if expansion is None:
        raise QuadrantsInternalError(f"{target} no operation {op.kind!r}")
    block = Block()
    return block, expansion(Builder(block, op.location), *op.operands)
