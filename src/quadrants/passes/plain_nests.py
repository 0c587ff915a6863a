"""Nests of two loops, of which the outer one runs in parallel: what each iteration does in one inner range, with loads and
arithmetic before and stores behind."""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Op
from quadrants.ir.ops import OPS

__all__ = ["inner_range", "is_quiet"]


def inner_range(loop: Op, most_ops: int) -> Op | None:
    """The `for` within, of one dimension and at most so many operations, that carries values and only loads and computes.
    None where the parallel loop is another nest, may depend on its order, or has a number of lanes that the user chose."""
    config: dict[str, Any] = loop.attribute("config") or {}
    if loop.results or loop.attribute("undecided") or "vectorize" in config:
        return None
    *ops, end = loop.regions[0].ops
    inner = [op for op in ops if op.regions]
    if len(inner) != 1 or inner[0].kind != "for" or end.kind != "yield" or not all(map(_is_plain, ops)):
        return None
    (found,) = inner
    *steps, last = found.regions[0].ops
    fits = found.attribute("rank") == 1 and found.results and len(steps) < most_ops and last.kind == "yield"
    return found if fits and all(map(is_quiet, steps)) else None


def _is_plain(op: Op) -> bool:
    return op.kind in ("for", "store") or is_quiet(op)


def is_quiet(op: Op) -> bool:
    """Whether an operation only loads or computes."""
    return not op.regions and (op.kind == "load" or OPS[op.kind].effects == "pure")
