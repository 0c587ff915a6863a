"""Jumps that threads of a block take one by one become conditions, where members of subgroups meet in the loop or behind: the
members that are left meet, and those that have jumped count as absent.

What follows a branch that jumps moves into the other one, as behind returns (`join_returns.py`). A loop that threads leave by
`break` carries whether the thread goes on, and asks so before each iteration. Nothing changes where whole blocks meet: those who
jump would be waited for, which `thread_checks.py` refuses. Nests of several counters that are left by `break` stay, too.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.threads import MEETINGS, is_of_block
from quadrants.ir.types import Type, u1
from quadrants.passes.join_returns import join_block
from quadrants.passes.nest import highs, inits, lows
from quadrants.passes.structure import loop_jumps, with_inner
from quadrants.passes.thread_checks import leaving, meets
from quadrants.passes.uniformity import Uniformity

__all__ = ["run"]


def run(region: Block, uniform: Uniformity) -> bool:
    """Takes such jumps out of the code of a block's threads, in place; whether there were any. Law: nothing returns."""
    changed = _loops(region, uniform)
    if _parts_before_meetings(region, uniform):
        _conditions(region, ())
        region.ops[-1] = Op("yield", location=region.ops[-1].location)
        changed = True
    return changed


def _parts_before_meetings(region: Block, uniform: Uniformity) -> bool:
    """Whether threads end one by one in front of meetings, all of which are of subgroups."""
    parted, needed = False, False
    for op in region.ops:
        if parted or (leaving(op) and op in uniform.masked):
            parted = True
            found = [inner for inner in with_inner(op) if inner.kind in MEETINGS]
            if any(map(is_of_block, found)):
                return False
            needed = needed or bool(found)
    return needed


def _loops(block: Block, uniform: Uniformity) -> bool:
    """The loops in a block, the innermost first."""
    changed = False
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            changed = _loops(region, uniform) or changed
        if op.kind in ("for", "while") and _is_left_apart(op, uniform):
            changed = True
            op = _without_jumps(op, ops)
        ops.append(op)
    block.ops = ops
    return changed


def _is_left_apart(loop: Op, uniform: Uniformity) -> bool:
    if loop not in uniform.divergent and loop not in uniform.skipped:
        return False
    jumps = loop_jumps(loop.regions[-1])
    if not jumps or not meets(loop) or any(is_of_block(op) for op in with_inner(loop) if op.kind in MEETINGS):
        return False
    return loop.attribute("rank", 1) == 1 or all(jump.kind == "continue" for jump in jumps)


def _without_jumps(loop: Op, before: list[Op]) -> Op:
    """The loop whose iterations all end at their end; what it starts from is appended to the operations before it."""
    body = loop.regions[-1]
    if all(jump.kind == "continue" for jump in loop_jumps(body)):
        _conditions(body, tuple([value.type for value in loop.results]))
        body.ops[-1] = Op("yield", body.ops[-1].operands, location=body.ops[-1].location)
        return loop
    outside = Block()
    builder = Builder(outside, loop.location)
    if loop.kind == "for":
        test, operands, own = _counted(loop, builder)
    else:
        test, operands, own = loop.regions[0], loop.operands, loop.results
    _carry_going(loop, test, body)
    on = builder.constant(True, u1)
    before += outside.ops
    made = Op("while", (*operands, on), (), None, (test, body), loop.location)
    made.results = [*own, Value(u1)]
    for value in made.results:
        value.owner = made
    return made


def _counted(loop: Op, builder: Builder) -> tuple[Block, tuple[Value, ...], list[Value]]:
    """A loop over numbers as one under a condition, which carries the number: the condition, what it starts from, its results."""
    (low,), (high,), body = lows(loop), highs(loop), loop.regions[0]
    test, head = Block(), Block()
    arguments = [test.add_argument(value.type) for value in body.arguments]
    inside = Builder(test, loop.location)
    inside.op("yield", inside.lt(arguments[0], high))
    following = Builder(head, loop.location).add(body.arguments[0], builder.index(1))
    body.ops[:0] = head.ops
    edges = loop_jumps(body)
    if body.ops[-1].kind == "yield":
        edges.append(body.ops[-1])
    for edge in edges:
        edge.operands = (following, *edge.operands)
    return test, (low, *inits(loop)), [Value(low.type), *loop.results]


def _carry_going(loop: Op, test: Block, body: Block) -> None:
    """Adds whether the thread goes on to what is carried; the condition is asked while it does."""
    carried = tuple([value.type for value in test.arguments])
    going = test.add_argument(u1, "going")
    body.add_argument(u1, "going")
    asked, stays = Block(), Block()
    asked.ops, test.ops = test.ops, []
    false = Op("constant", (), (u1,), {"type": u1, "value": False}, location=loop.location)
    stays.ops = [false, Op("yield", (false.result,), location=loop.location)]
    choice = Op("if", (going,), (u1,), {"types": (u1,)}, (asked, stays), loop.location)
    test.ops = [choice, Op("yield", (choice.result,), location=loop.location)]
    _say_going(body)
    _conditions(body, (*carried, u1))
    body.ops[-1] = Op("yield", body.ops[-1].operands, location=body.ops[-1].location)


def _say_going(body: Block) -> None:
    """Each end of an iteration gives whether another follows; a `break` is then as the others are."""
    ends = [*loop_jumps(body), *([body.ops[-1]] if body.ops[-1].kind == "yield" else [])]
    for block in _blocks(body):
        last = block.ops[-1]
        if any(last is end for end in ends):
            going = {"type": u1, "value": last.kind != "break"}
            flag = Op("constant", (), (u1,), going, location=last.location)
            kind = "continue" if last.kind == "break" else last.kind
            block.ops[-1:] = [flag, Op(kind, (*last.operands, flag.result), location=last.location)]


def _conditions(body: Block, types: tuple[Type, ...]) -> None:
    """Makes the `continue`s of a region conditions around what follows: it then ends at its end."""
    ends = [*loop_jumps(body), body.ops[-1]]
    for block in _blocks(body):
        last = block.ops[-1]
        if any(last is end for end in ends):
            block.ops[-1] = Op("return", last.operands, location=last.location)
    join_block(body, types)


def _blocks(block: Block) -> list[Block]:
    """A region and the branches in it, not those of loops within."""
    found = [block]
    for op in block.ops:
        if op.kind == "if":
            for region in op.regions:
                found += _blocks(region)
    return found
