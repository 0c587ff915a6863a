"""Iterations of an independent loop within a parallel iteration as vector lanes, where they reach neighbouring elements:
`for i` in threads, `for j` in lanes, whatever loops, branches and jumps its body has.

Lanes of the parallel loop itself would reach elements that are a row apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Block, Module, Op
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.cost import most_trips
from quadrants.passes.lane_choice import asked_lanes, row_choice
from quadrants.passes.lane_functions import LaneFunctions
from quadrants.passes.nest import Nest
from quadrants.passes.uniformity import Uniformity
from quadrants.passes.vectorise import into_lanes, parallel_loops

__all__ = ["run"]

_FEW_TRIPS = 16
_REASON = "rows of neighbouring elements run side by side"


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`, in front of the other passes that choose lanes. Sets `lanes_inside` on the parallel loops whose
    rows it took."""
    kernel = module.kernel
    functions = LaneFunctions(module)
    for _, loop in list(parallel_loops(kernel.body)):
        rows = list(_rows(loop.regions[0]))
        if not rows or asked_lanes(loop, context) is not None:
            continue
        forms = Forms(Nest(kernel))
        for block, row in rows:
            trips = most_trips(row, forms)
            if trips is not None and trips < _FEW_TRIPS:
                continue
            facts = Uniformity(row.regions[0], [row.regions[0].arguments[0]], functions.callees)
            lanes = row_choice(row, facts, context, functions.callees)
            if lanes > 1 and context.permit():
                into_lanes(block, row, facts, lanes, functions)
                loop.attributes = {**(loop.attributes or {}), "lanes_inside": lanes, "lanes_reason": _REASON}
                context.count("rows in lanes")


def _rows(block: Block) -> Iterator[tuple[Block, Op]]:
    """The outermost independent loops in a block, with the blocks where they stand. A loop that has come to carry a
    private sum is none."""
    for op in block.ops:
        if op.attribute("independent") and not op.results:
            yield block, op
        else:
            for region in op.regions:
                yield from _rows(region)
