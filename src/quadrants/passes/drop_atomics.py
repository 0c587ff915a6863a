"""Updates need not be atomic where no two iterations of a parallel loop can meet in them, nor outside of such loops."""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Block, Module, Op, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.passes.accesses import Access, accesses_of, by_array
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.dependence import Space, independent
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest
from quadrants.passes.structure import callee_of
from quadrants.passes.summaries import Summaries

__all__ = ["contested_updates", "parallel_loops", "run"]

_MOST_PAIRS = 5_000
_UPDATES = ("update", "update_loaded")


def run(module: Module, context: PassContext) -> None:
    """Sets `atomic=False` on the updates of all functions that need not be; stage `tasks`.

    An update in a function is looked at once for all calls: it stays atomic if some call in a parallel loop needs that.
    """
    functions = list(module.functions.values())
    updates = {id(f): [op for op in walk(f.body) if op.kind == "update"] for f in functions}
    if not any(updates.values()):
        return
    contested = contested_updates(module)
    for function in functions:
        for op in updates[id(function)]:
            if op not in contested and op.attribute("atomic", True) and context.permit():
                op.attributes = {**(op.attributes or {}), "atomic": False}
                context.count("atomics dropped")


def parallel_loops(block: Block) -> list[Op]:
    """The parallel loops in a kernel's body."""
    found: list[Op] = []
    for op in block.ops:
        if op.attribute("parallel"):
            found.append(op)
        else:
            for region in op.regions:
                found += parallel_loops(region)
    return found


def contested_updates(module: Module) -> set[Op]:
    """The updates in which iterations of a parallel loop may meet."""
    kernel = module.kernel
    loops = parallel_loops(kernel.body)
    if not loops:
        return set()
    nest, summaries = Nest(kernel), Summaries(module)
    forms = Forms(nest)
    contested: set[Op] = set()
    for loop in loops:
        if threads_loop_of(loop) is not None:
            contested.update(_of_threads(loop, module))
            continue
        accesses = [access for access in accesses_of(loop, nest, forms, summaries.of) if access.is_update]
        space = Space(loop, forms)
        for same in by_array(accesses, bool(kernel.attributes.get("may_alias"))).values():
            for access in _meeting(same, space):
                contested.update(access.origins)
    for name in summaries.recursive:
        contested.update([op for op in walk(module.functions[name].body) if op.kind in _UPDATES])
    return contested


def _of_threads(loop: Op, module: Module) -> Iterator[Op]:
    """The updates that threads of a grid loop make of memory that is not private: others of the block may meet there."""
    pending, seen = [loop.regions[0]], set[str]()
    while pending:
        for op in walk(pending.pop()):
            if op.kind in _UPDATES:
                if not op.operands[ARRAY_POSITION[op.kind]].type.is_slot:
                    yield op
            elif op.kind == "call" and callee_of(op) not in seen:
                seen.add(callee_of(op))
                pending.append(module.functions[callee_of(op)].body)


def _meeting(accesses: list[Access], space: Space) -> list[Access]:
    """Those of the updates of one array that may meet another, or themselves, in a different iteration."""
    if len(accesses) ** 2 > _MOST_PAIRS:
        return accesses
    meeting: list[Access] = []
    for position, first in enumerate(accesses):
        for second in accesses[position:]:
            if not independent(first, second, space):
                meeting += (first, second)
    return meeting
