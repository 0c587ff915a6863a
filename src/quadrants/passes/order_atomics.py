"""Deterministic mode: a loop whose iterations meet in float sums or products runs in order, since rounding tells their
order apart. Integers, minima and maxima come out the same in any order and stay parallel."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Module, Op, walk
from quadrants.ir.types import scalar_of
from quadrants.passes.context import PassContext
from quadrants.passes.drop_atomics import parallel_loops

__all__ = ["run"]

_ROUNDED = ("add", "sub", "mul")
_OF_PARALLEL_LOOPS = ("parallel", "reductions", "chunk")


def run(module: Module, context: PassContext) -> None:
    """Takes `parallel` from loops of the kernel; stage `tasks`, behind `drop_atomics`."""
    for loop in parallel_loops(module.kernel.body):
        if _meets_in_floats(loop.regions[0], module, set()):
            attributes = loop.attributes or {}
            loop.attributes = {name: kept for name, kept in attributes.items() if name not in _OF_PARALLEL_LOOPS}
            context.notice(
                "order_atomics",
                "this loop runs in order: its float updates meet, and deterministic=True",
                loop.location,
            )


def _meets_in_floats(block: Block, module: Module, seen: set[str]) -> bool:
    """Whether a block, or a function called there, has an atomic update that rounds."""
    for op in walk(block):
        if op.kind == "update" and _rounds(op):
            return True
        if op.kind == "call":
            callee: str = op.attribute("callee")
            if callee not in seen:
                seen.add(callee)
                if _meets_in_floats(module.functions[callee].body, module, seen):
                    return True
    return False


def _rounds(op: Op) -> bool:
    return op.attribute("atomic", True) and op.attribute("by") in _ROUNDED and scalar_of(op.operands[0].type).is_float
