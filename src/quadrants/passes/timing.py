"""What may be chosen by timing: choices that change no bit of what a kernel computes."""

from __future__ import annotations

from quadrants.ir.nodes import Module, Op, walk
from quadrants.ir.types import scalar_of

__all__ = ["threads_are_free"]

_UPDATES = frozenset({"update", "lane_update"})


def threads_are_free(module: Module) -> bool:
    """Whether the number of threads is open in a lowered kernel: it has parallel loops, and their results do not depend on
    it. Law: chunks of reductions have fixed lengths; float updates that meet round in the order of the threads."""
    loops = [op for op in walk(module.kernel.body) if op.attribute("parallel")]
    return bool(loops) and not any(_is_ordered_by_threads(op) for f in module.functions.values() for op in walk(f.body))


def _is_ordered_by_threads(op: Op) -> bool:
    return (
        op.kind in _UPDATES
        and bool(op.attribute("atomic", True))
        and scalar_of(op.operands[1].type).is_float
        and op.attribute("by") not in ("min", "max")
    )
