"""Join returns: a function that returns from branches gets one `return` at its end, so that it can be inlined.

What follows a branch that returns moves into the other branch; both then yield the results. Nothing is copied. A
function with a return inside a loop, or in a branch that may also go on behind itself, stays as it is; so do kernels,
whose loops are to stay at the top level.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.passes.context import PassContext
from quadrants.passes.structure import returns

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Joins the returns of the module's functions, in place; any stage."""
    for function in context.functions(module):
        early = any(op.regions and any(map(returns, op.regions)) for op in function.body.ops)
        if early and not function.is_kernel and _can_join(function.body) and context.permit():
            _join(function.body, function)


def _can_join(block: Block) -> bool:
    for op in block.ops:
        for region in op.regions:
            if returns(region) and (op.kind != "if" or region.ops[-1].kind != "return" or not _can_join(region)):
                return False
    return True


def _join(block: Block, function: Function) -> None:
    """Makes a block that ends in a `return` one without any other."""
    for position, op in enumerate(block.ops):
        if op.kind != "if" or not any(map(returns, op.regions)):
            continue
        rest = block.ops[position + 1 :]
        for region in op.regions:
            last = region.ops[-1]
            if last.kind == "yield":
                if op.results:
                    _substitute(rest, dict(zip(op.results, last.operands)))
                region.ops[-1:] = rest
        for region in op.regions:
            _join(region, function)
            last = region.ops[-1]
            region.ops[-1] = Op("yield", last.operands, location=last.location)
        op.attributes = {**(op.attributes or {}), "types": function.result_types}
        op.results = [Value(type_, op) for type_ in function.result_types]
        block.ops = [*block.ops[: position + 1], Op("return", tuple(op.results), location=op.location)]
        return


def _substitute(ops: list[Op], values: dict[Value, Value]) -> None:
    for op in ops:
        if not values.keys().isdisjoint(op.operands):
            op.operands = tuple([values.get(operand, operand) for operand in op.operands])
        for region in op.regions:
            _substitute(region.ops, values)
