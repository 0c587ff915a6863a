"""Independent iterations of a loop within lanes, several at a time: the sums that they add up one number after the other
go side by side, and share what they load.

Law: iterations that meet nowhere in memory may be taken apart: each operation of all of them, then the next one.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.passes.clone import clone_ops
from quadrants.passes.ranges import Ranges
from quadrants.passes.uniformity import Uniformity

__all__ = ["jam_loops"]

# Iterations that run side by side: so many sums hide the time that one addition takes.
_SIDE_BY_SIDE = 4
# Operations of a loop's body up to which all that side by side fits in registers.
_LARGEST = 24
# Trips up to which code generators unroll a loop, which does as well.
_FEW_TRIPS = 8
_STRAIGHT = frozenset({"load", "store", "update", "constant", "dim"})


def jam_loops(loop: Op, facts: Uniformity) -> int:
    """Rewrites the loops in a loop's body for which it pays; gives their number. `facts` know nothing of the new code."""
    ranges = Ranges()
    for op in walk(loop.regions[0]):
        if op.kind == "for":
            ranges.enter(op)
    return _block(loop.regions[0], facts, ranges)


def _grouped(builder: Builder, low: Value, high: Value, body: Block) -> tuple[Value, Value, Builder]:
    """How many whole groups of iterations there are, the first iteration of one, and what writes a loop's body over them."""
    shift = _SIDE_BY_SIDE.bit_length() - 1
    extent = builder.max(builder.sub(high, low, exact=True), builder.index(0))
    groups = builder.shr(extent, builder.index(shift))
    group = body.add_argument(groups.type, "group")
    inner = Builder(body, builder.location)
    first = inner.add(low, inner.shl(group, inner.index(shift)), exact=True)
    return groups, first, inner


def _ahead(builder: Builder, first: Value, count: int) -> Value:
    return builder.add(first, builder.index(count), exact=True) if count else first


def _behind(builder: Builder, low: Value, groups: Value) -> Value:
    """The first iteration behind all groups."""
    return builder.add(low, builder.shl(groups, builder.index(_SIDE_BY_SIDE.bit_length() - 1)), exact=True)


def _block(block: Block, facts: Uniformity, ranges: Ranges) -> int:
    found = 0
    ops: list[Op] = []
    for op in block.ops:
        if op.attribute("independent") and _fits(op, facts, ranges):
            ops += _jammed(op)
            found += 1
            continue
        ops.append(op)
        for region in op.regions:
            found += _block(region, facts, ranges)
    block.ops = ops
    return found


def _fits(loop: Op, facts: Uniformity, ranges: Ranges) -> bool:
    if loop.attribute("rank") != 1 or loop.results or loop in facts.divergent or loop in facts.skipped:
        return False
    trips = ranges.trips(loop)
    if trips is not None and trips <= _FEW_TRIPS:
        return False
    body = loop.regions[0]
    inner = [op for op in body.ops if op.regions]
    inside = {value for op in walk(body) for value in op.results} | set(body.arguments)
    return bool(inner) and all(_is_sum(op, inside, facts) for op in inner) and all(map(_is_straight, body.ops))


def _is_straight(op: Op) -> bool:
    return op.kind in _STRAIGHT or op.kind in ("for", "yield") or OPS[op.kind].elementwise


def _is_sum(op: Op, inside: set[Value], facts: Uniformity) -> bool:
    """Whether a loop carries values, is the same for all iterations around it, and writes nothing."""
    if op.kind != "for" or op.attribute("rank") != 1 or not op.results or op in facts.divergent:
        return False
    body = op.regions[0].ops
    return (
        inside.isdisjoint(op.operands[:2])
        and len(body) <= _LARGEST
        and body[-1].kind == "yield"
        and all(step.kind in ("load", "constant", "dim") or OPS[step.kind].elementwise for step in body[:-1])
    )


def _jammed(loop: Op) -> list[Op]:
    """The loop over whole groups of iterations, and the loop itself over what is left."""
    before, body = Block(), Block()
    builder = Builder(before, loop.location)
    low, high = loop.operands
    groups, first, inner = _grouped(builder, low, high, body)
    counter = loop.regions[0].arguments[0]
    maps: list[dict[Value, Value]] = [{counter: _ahead(inner, first, k)} for k in range(_SIDE_BY_SIDE)]
    for op in loop.regions[0].ops[:-1]:
        if op.kind == "for":
            _side_by_side(body, op, maps)
        else:
            for values in maps:
                body.ops += clone_ops([op], values)
    inner.op("yield")
    builder.op("for", builder.index(0), groups, regions=(body,), rank=1)
    loop.operands = (_behind(builder, low, groups), high)
    return [*before.ops, loop]


def _side_by_side(block: Block, loop: Op, maps: list[dict[Value, Value]]) -> None:
    """One loop that carries the sums of all iterations."""
    low, high, *inits = loop.operands
    old, body = loop.regions[0], Block()
    counter = body.add_argument(old.arguments[0].type, old.arguments[0].name)
    starts: list[Value] = []
    yields: list[Value] = []
    inner: list[dict[Value, Value]] = []
    for values in maps:
        own = dict(values)
        own[old.arguments[0]] = counter
        for argument, init in zip(old.arguments[1:], inits):
            own[argument] = body.add_argument(argument.type, argument.name)
            starts.append(values.get(init, init))
        inner.append(own)
    for own in inner:
        body.ops += clone_ops(old.ops[:-1], own)
        yields += [own.get(value, value) for value in old.ops[-1].operands]
    body.ops.append(Op("yield", tuple(yields), (), None, (), loop.location))
    made = Builder(block, loop.location).op("for", low, high, *starts, regions=(body,), **(loop.attributes or {}))
    for k, values in enumerate(maps):
        results = made.results[k * len(inits) : (k + 1) * len(inits)]
        values.update(zip(loop.results, results))
