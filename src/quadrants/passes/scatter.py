"""Marks the parallel loops whose iterations meet only in sums into arrays that they do not touch otherwise.

Such a loop can run without atomics on one thread, or on private copies of the arrays: the target makes both forms.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ArrayType, f32, f64, i32, i64
from quadrants.passes.accesses import Access, accesses_of
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.drop_atomics import parallel_loops
from quadrants.passes.nest import Nest
from quadrants.passes.summaries import Summaries

__all__ = ["run"]

_ADDABLE = (f32, f64, i32, i64)


def run(module: Module, context: PassContext) -> None:
    """Sets `scatter=True` on loops of the kernel and makes their subtractions additions; stage `tasks`, behind
    `drop_atomics`."""
    kernel = module.kernel
    if kernel.attributes.get("may_alias"):
        return
    nest: Nest | None = None
    for loop in parallel_loops(kernel.body):
        targets = [op for op in walk(loop.regions[0]) if op.kind == "update" and op.attribute("atomic", True)]
        if not targets or loop.results or threads_loop_of(loop) is not None or not context.permit():
            continue
        nest = nest or Nest(kernel)
        if all(_fits(op, kernel, nest) for op in targets) and _only_sums(_accesses(loop, nest, module), targets):
            loop.attributes = {**(loop.attributes or {}), "scatter": True}
            _add_only(loop.regions[0], set(targets))
            context.count("scatter loops")


def _accesses(loop: Op, nest: Nest, module: Module) -> list[Access]:
    return accesses_of(loop, nest, Forms(nest), Summaries(module).of)


def _fits(op: Op, kernel: Function, nest: Nest) -> bool:
    array = op.operands[1]
    type_ = array.type
    assert type(type_) is ArrayType
    plain = op.attribute("by") in ("add", "sub") and not nest.users.get(op.results[0])
    return plain and type_.scalar in _ADDABLE and array in kernel.parameters


def _only_sums(accesses: list[Access], targets: list[Op]) -> bool:
    """Whether every access to the arrays of the targets is one of the targets, and no other access is atomic."""
    arrays: set[Value] = {op.operands[1] for op in targets}
    members = set(targets)
    for access in accesses:
        is_target = members.issuperset(access.origins)
        if access.array in arrays and not is_target:
            return False
        if access.kind == "compare_exchange":
            return False
        if access.is_update and not is_target and any(op.attribute("atomic", True) for op in access.origins):
            return False
    return True


def _add_only(block: Block, targets: set[Op]) -> None:
    """Law: a - b = a + -b, for floats too."""
    out: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _add_only(region, targets)
        if op in targets and op.attribute("by") == "sub":
            value = op.operands[0]
            negated = Op("neg", (value,), (value.type,), None, (), op.location)
            out.append(negated)
            op.operands = (negated.results[0], *op.operands[1:])
            op.attributes = {**(op.attributes or {}), "by": "add"}
        out.append(op)
    block.ops = out
