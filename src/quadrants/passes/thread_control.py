"""Control flow that threads of a block meet within, as control flow of the block (`thread_stretches.py`).

What all threads do alike the block does once. Where threads part, and only members of subgroups meet, a mask has an element
a thread: the block goes where some thread goes, and stretches there are of those threads alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import u1
from quadrants.passes.nest import highs, inits, lows
from quadrants.passes.thread_meetings import fold
from quadrants.records import Record

if TYPE_CHECKING:
    from quadrants.passes.thread_stretches import Scratch, Stretches

__all__ = ["BRANCH", "Frame"]


class Frame(Record):
    """Control flow around the stretch at hand: 'thread', 'loop' or 'if', and where what it hands on goes: to scratch, or
    (None), as it is the same in all threads, with the control flow."""

    kind: str
    targets: list[Scratch | None]


def _inside(block: Stretches, into: Block, ops: list[Op], frame: Frame, meets_later: bool) -> None:
    """Fills a block of the block's code."""
    level, block.level = block.level, into
    block.frames.append(frame)
    block.ops(ops, meets_later)
    block.finish(ops[-1])
    block.frames.pop()
    block.level = level


def _given_on(block: Stretches, values: list[Value]) -> list[Scratch | None]:
    """Where each of some values goes that control flow hands on, under several names."""
    found: list[Scratch | None] = []
    for value in values:
        scratch = block.slot(value.type, True) if value in block.uniform.varying else None
        if scratch is not None:
            block.keep_in(value, scratch)
        found.append(scratch)
    return found


def _emit(
    block: Stretches, op: Op, operands: tuple[Value, ...], regions: tuple[Block, ...], targets: list[Scratch | None]
) -> None:
    """Appends control flow of the block's; what it hands on in all threads alike are its results."""
    made = Op(op.kind, operands, (), None, regions, op.location)
    made.results = [value for value, target in zip(op.results, targets) if target is None]
    for value in made.results:
        value.owner = made
    if op.kind == "if":
        made.attributes = {"types": tuple([value.type for value in made.results])}
    elif op.kind == "for":
        made.attributes = {"rank": op.attributes["rank"]}
    block.level.ops.append(made)


def _branch(block: Stretches, op: Op, meets_later: bool) -> None:
    if op.operands[0] in block.uniform.varying:
        _masked_branch(block, op, meets_later)
        return
    block.close()
    condition = block.in_block(op.operands[0])
    targets = _given_on(block, op.results)
    regions = Block(), Block()
    for region, own in zip(op.regions, regions):
        _inside(block, own, region.ops, Frame("if", targets), meets_later)
    _emit(block, op, (condition,), regions, targets)


def _masked_branch(block: Stretches, op: Op, meets_later: bool) -> None:
    """A branch that some threads of a block take: the members of subgroups that are there meet. Law: a branch that no
    thread takes is not run, so that what is the same in all threads there has been computed."""
    condition, targets, around = op.operands[0], _given_on(block, op.results), block.mask
    masks = [block.slot(condition.type, True) for _ in op.regions]
    if around is not None:
        block.close()
        block.mask = None
        stretch = block.open(op.location)
        builder = Builder(stretch.block, op.location)
        for mask in masks:
            builder.op("store", builder.constant(False, condition.type), mask.slot, stretch.thread)
        block.close()
        block.mask = around
    stretch = block.open(op.location)
    taken = block.use(condition, stretch)
    builder = Builder(stretch.block, op.location)
    for mask, value in zip(masks, (taken, builder.bit_not(taken))):
        builder.op("store", value, mask.slot, stretch.thread)
    block.close()
    for region, mask in zip(op.regions, masks):
        if len(region.ops) > 1 or region.ops[0].operands:
            _masked_region(block, op, region, mask, Frame("if", targets), meets_later)
    block.mask = around


def _masked_region(block: Stretches, op: Op, region: Block, mask: Scratch, frame: Frame, meets_later: bool) -> None:
    builder = Builder(block.level, op.location)
    some = _some(block, builder, mask)
    block.mask = mask
    yes, no = Block(), Block()
    Builder(no, op.location).op("yield")
    _inside(block, yes, region.ops, frame, meets_later)
    builder.op("if", some, regions=(yes, no))


def _loop(block: Stretches, op: Op, meets_later: bool) -> None:
    rank: int = op.attribute("rank")
    if op in block.uniform.divergent:
        _masked_for(block, op)
        return
    targets, together = _carried(block, op, inits(op), [op.regions[0].arguments[rank:]])
    bounds = tuple(map(block.in_block, op.operands[: 2 * rank]))
    body = _taking([*op.regions[0].arguments[:rank], *_alike(op.regions[0].arguments[rank:], targets)])
    _inside(block, body, op.regions[0].ops, Frame("loop", targets), True)
    _emit(block, op, (*bounds, *together), (body,), targets)


def _while(block: Stretches, op: Op, meets_later: bool) -> None:
    arguments = [region.arguments for region in op.regions]
    if op in block.uniform.divergent:
        _masked_while(block, op, arguments)
        return
    targets, together = _carried(block, op, op.operands, arguments)
    test, body = [_taking(_alike(own, targets)) for own in arguments]
    level, block.level = block.level, test
    ops = op.regions[0].ops
    block.ops(ops, True)
    block.close()
    test.ops.append(Op("yield", (block.in_block(ops[-1].operands[0]),), location=op.location))
    block.level = level
    _inside(block, body, op.regions[1].ops, Frame("loop", targets), True)
    _emit(block, op, together, (test, body), targets)


def _masked_while(block: Stretches, op: Op, arguments: list[list[Value]]) -> None:
    """A loop that threads leave one by one: the block goes on while some are in it."""
    targets, _ = _carried(block, op, op.operands, arguments)
    ops = op.regions[0].ops

    def test(mask: Scratch) -> None:
        block.ops(ops, True)
        block.put(ops[-1].operands[0], mask)

    _while_some(block, op, targets, test)


def _masked_for(block: Stretches, op: Op) -> None:
    """The same with a counter of each thread's own."""
    (low,), (high,), counter = lows(op), highs(op), op.regions[0].arguments[0]
    targets, _ = _carried(block, op, inits(op), [op.regions[0].arguments[1:]])
    place = block.slot(counter.type, True)
    block.keep_in(counter, place)
    stretch = block.open(op.location)
    start = block.use(low, stretch)
    builder = Builder(stretch.block, op.location)
    builder.op("store", builder.sub(start, builder.index(1)), place.slot, stretch.thread)
    block.close()

    def test(mask: Scratch) -> None:
        stretch = block.open(op.location)
        end = block.use(high, stretch)
        builder = Builder(stretch.block, op.location)
        following = builder.add(builder.load(place.slot, stretch.thread), builder.index(1))
        builder.op("store", following, place.slot, stretch.thread)
        builder.op("store", builder.lt(following, end), mask.slot, stretch.thread)

    _while_some(block, op, targets, test)


def _while_some(block: Stretches, op: Op, targets: list[Scratch | None], test: Callable[[Scratch], None]) -> None:
    """A loop while some thread is on; `test` is code under the mask given that takes threads out of it."""
    around, mask = block.mask, block.slot(u1, True)
    block.mask = None
    stretch = block.open(op.location)
    builder = Builder(stretch.block, op.location)
    on = builder.constant(True, u1) if around is None else builder.load(around.slot, stretch.thread)
    builder.op("store", on, mask.slot, stretch.thread)
    block.close()
    block.mask = mask
    regions = Block(), Block()
    level, block.level = block.level, regions[0]
    test(mask)
    block.close()
    builder = Builder(regions[0], op.location)
    builder.op("yield", _some(block, builder, mask))
    block.level = level
    _inside(block, regions[1], op.regions[-1].ops, Frame("loop", targets), True)
    block.mask = around
    level.ops.append(Op("while", (), (), None, regions, op.location))


def _some(block: Stretches, builder: Builder, mask: Scratch) -> Value:
    """Whether some thread of the block is on."""

    def either(inside: Builder, thread: Value, before: Value) -> Value:
        return inside.bit_or(before, inside.load(mask.slot, thread))

    return fold(builder, builder.index(0), block.width, builder.constant(False, u1), either)


def _carried(
    block: Stretches, op: Op, starts: tuple[Value, ...], arguments: list[list[Value]]
) -> tuple[list[Scratch | None], tuple[Value, ...]]:
    """Where what a loop carries goes, with what it starts from there, and the starts of the rest."""
    targets: list[Scratch | None] = []
    for position, (start, result) in enumerate(zip(starts, op.results)):
        names = [result, *[group[position] for group in arguments]]
        scratch = None
        if any(value in block.uniform.varying for value in names):
            scratch = block.slot(result.type, True)
            for value in names:
                block.keep_in(value, scratch)
            block.put(start, scratch)
        targets.append(scratch)
    block.close()
    return targets, tuple(map(block.in_block, _alike(starts, targets)))


def _alike(values: Sequence[Value], targets: list[Scratch | None]) -> list[Value]:
    """The values that are the same in all threads."""
    return [value for value, target in zip(values, targets) if target is None]


def _taking(arguments: list[Value]) -> Block:
    """A region with these arguments."""
    block = Block()
    block.arguments = arguments
    for value in arguments:
        value.owner = block
    return block


BRANCH: dict[str, Callable[[Stretches, Op, bool], None]] = {"if": _branch, "for": _loop, "while": _while}
"""What control flow around meetings becomes; `meets_later`: threads meet behind it, too."""
