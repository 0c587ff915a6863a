"""Join returns: a function that returns from within gets one `return` at its end, so that it can be inlined, and run by
vector lanes.

What follows a branch that returns moves into the other branch; both then yield the results. A loop that is returned
from is left by `break` instead, and carries whether it was, and the results; a branch that returns on some of its ways
yields the same. Nothing is copied. Kernels, whose loops are to stay at the top level, stay as they are.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import Type, u1
from quadrants.passes.context import PassContext
from quadrants.passes.structure import loop_jumps, returns

__all__ = ["join", "join_block", "run"]

_Types = tuple[Type, ...]


def run(module: Module, context: PassContext) -> None:
    """Joins the returns of the module's functions, in place; any stage."""
    for function in context.functions(module):
        if _returns_early(function) and not function.is_kernel and context.permit():
            join(function)


def join(function: Function) -> None:
    """Gives a function one return at its end."""
    if _returns_early(function):
        _leave_loops(function.body, function)
        join_block(function.body, function.result_types)


def _returns_early(function: Function) -> bool:
    return any(op.regions and any(map(returns, op.regions)) for op in function.body.ops)


# Loops: a `return` becomes a `break`, and a `return` behind the loop.


def _leave_loops(block: Block, function: Function) -> None:
    """Takes the returns out of all loops in a block, the innermost first."""
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _leave_loops(region, function)
        if op.kind in ("for", "while") and returns(op.regions[-1]):
            _carry_results(op, ops, function)
        else:
            ops.append(op)
    block.ops = ops


def _carry_results(loop: Op, ops: list[Op], function: Function) -> None:
    """Appends a loop that carries whether it returned and with what, and a branch behind it that returns."""
    before = Block()
    inits = _no_results(Builder(before, loop.location), function.result_types)
    ops += before.ops
    body = loop.regions[-1]
    own = list(body.arguments[loop.attribute("rank", 0) :])
    edges = loop_jumps(body)
    if body.ops[-1].kind == "yield":
        edges.append(body.ops[-1])
    for block in loop.regions:
        for value in inits:
            block.add_argument(value.type)
    for edge in edges:
        if edge.kind != "return":
            edge.operands += tuple(body.arguments[-len(inits) :])
    _break_at_returns(body, own)
    loop.operands += tuple(inits)
    found = [Value(value.type, loop) for value in inits]
    loop.results += found
    ops.append(loop)
    ops.append(_return_if(found, loop))


def _break_at_returns(block: Block, carried: list[Value]) -> None:
    """Returns in a loop's region become breaks that say so. Law: no loop within has any."""
    for op in block.ops:
        for region in op.regions:
            _break_at_returns(region, carried)
    last = block.ops[-1]
    if last.kind == "return":
        true = Op("constant", (), (u1,), {"type": u1, "value": True}, location=last.location)
        block.ops[-1:] = [
            true,
            Op("break", (*carried, true.result, *last.operands), location=last.location),
        ]


def _no_results(builder: Builder, types: _Types) -> list[Value]:
    """That nothing has been returned, and numbers in place of the results."""
    return [builder.constant(False, u1), *[builder.constant(0, type_) for type_ in types]]


def _return_if(found: list[Value], after: Op) -> Op:
    """A branch that returns where the first of some values says so, with the others."""
    regions = Block(), Block()
    regions[0].ops.append(Op("return", tuple(found[1:]), location=after.location))
    regions[1].ops.append(Op("yield", (), location=after.location))
    return Op("if", (found[0],), (), {"types": ()}, regions, after.location)


# Branches.


def join_block(block: Block, types: _Types) -> None:
    """Makes a block that ends in a `return` of such types one without any other."""
    position = 0
    while position < len(block.ops):
        op = block.ops[position]
        position += 1
        if op.kind != "if" or not any(map(returns, op.regions)):
            continue
        if any(region.ops[-1].kind == "yield" and returns(region) for region in op.regions):
            _yield_returns(op, types)
            block.ops.insert(position, _return_if(op.results[-1 - len(types) :], op))
            continue
        _move_rest(block, position, op, types)
        return


def _move_rest(block: Block, position: int, op: Op, types: _Types) -> None:
    """What follows a branch that returns moves into the other one. Law: at most one region goes on behind the `if`."""
    rest = block.ops[position:]
    for region in op.regions:
        last = region.ops[-1]
        if last.kind == "yield":
            if op.results:
                _substitute(rest, dict(zip(op.results, last.operands)))
            region.ops[-1:] = rest
    for region in op.regions:
        join_block(region, types)
        last = region.ops[-1]
        region.ops[-1] = Op("yield", last.operands, location=last.location)
    op.attributes = {**(op.attributes or {}), "types": types}
    op.results = [Value(type_, op) for type_ in types]
    block.ops = [*block.ops[:position], Op("return", tuple(op.results), location=op.location)]


def _yield_returns(op: Op, types: _Types) -> None:
    """An `if` yields, behind its results, whether a region returned and with what."""
    own = tuple([result.type for result in op.results])
    whole = (*own, u1, *types)
    for region in op.regions:
        _mark_returns(region, own)
        last = region.ops.pop()
        if last.kind == "yield":
            inside = Builder(region, last.location)
            last = Op("return", (*last.operands, *_no_results(inside, types)), location=last.location)
        region.ops.append(last)
        join_block(region, whole)
        last = region.ops[-1]
        region.ops[-1] = Op("yield", last.operands, location=last.location)
    op.attributes = {**(op.attributes or {}), "types": whole}
    op.results += [Value(type_, op) for type_ in whole[len(own) :]]


def _mark_returns(block: Block, own: _Types) -> None:
    """Every `return` in a region gives numbers in place of the region's own values, that it returned, and its results."""
    for op in block.ops:
        for region in op.regions:
            _mark_returns(region, own)
    last = block.ops[-1]
    if last.kind == "return":
        block.ops.pop()
        builder = Builder(block, last.location)
        numbers = [builder.constant(0, type_) for type_ in own]
        returned = builder.constant(True, u1)
        block.ops.append(Op("return", (*numbers, returned, *last.operands), location=last.location))


def _substitute(ops: list[Op], values: dict[Value, Value]) -> None:
    for op in ops:
        if not values.keys().isdisjoint(op.operands):
            op.operands = tuple([values.get(operand, operand) for operand in op.operands])
        for region in op.regions:
            _substitute(region.ops, values)
