"""Marks loops within parallel loops whose own iterations are independent, too: `independent=True`. They run in order in
meaning; lanes may take them. Only loops with loops within are looked at: of others, code generators find it out.
"""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Block, Module, Op
from quadrants.ir.threads import has_meetings, is_threads_loop
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.dependence import FINE
from quadrants.passes.independence import Independence
from quadrants.passes.nest import Nest
from quadrants.passes.structure import loop_jumps
from quadrants.passes.summaries import Summaries

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Stage `tasks`."""
    kernel = module.kernel
    found = [row for loop in _parallel(kernel.body) for row in _rows(loop.regions[0])]
    if not found:
        return
    nest = Nest(kernel)
    independence = Independence(nest, Forms(nest), Summaries(module))
    for row in found:
        if independence.of(row, strict=True) is FINE:
            row.attributes = {**(row.attributes or {}), "independent": True}
            context.count("independent loops within")


def _parallel(block: Block) -> Iterator[Op]:
    for op in block.ops:
        if op.attribute("parallel"):
            yield op
        else:
            for region in op.regions:
                yield from _parallel(region)


def _rows(block: Block) -> Iterator[Op]:
    """Loops without carried values, with loops within, that nothing leaves."""
    for op in block.ops:
        if op.kind == "for" and not op.results and op.attribute("rank") == 1 and _has_loop(op.regions[0]):
            alone = not is_threads_loop(op) and not has_meetings(op.regions[0])
            if alone and all(jump.kind == "continue" for jump in loop_jumps(op.regions[0])):
                yield op
        for region in op.regions:
            yield from _rows(region)


def _has_loop(block: Block) -> bool:
    return any(op.kind in ("for", "while") or any(_has_loop(region) for region in op.regions) for op in block.ops)
