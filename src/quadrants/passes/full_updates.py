"""Updates that are written in full: `a[0] = a[0] + v` says what `a[0] += v` does.

What conditions on data hide may be meant never to meet (colours, masks), so such loops run in parallel. But where two
iterations that do come to a store in full surely reach one element, nobody means that one overwrites the other: the store
becomes an update. Where data tell which element it is, it stays the user's promise that they differ.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS
from quadrants.passes.accesses import Access, accesses_of
from quadrants.passes.affine import Forms
from quadrants.passes.nest import Nest
from quadrants.passes.sampling import Effort, surely_meet
from quadrants.passes.summaries import Summaries

__all__ = ["UPDATES", "join_updates"]

UPDATES = frozenset({"sub", *[kind for kind, row in OPS.items() if row.commutative and row.associative]})


def join_updates(loop: Op, nest: Nest, forms: Forms, summaries: Summaries) -> int:
    """Makes updates of the stores in full with which iterations of a loop meet; gives how many."""
    effort, joined = Effort(), 0
    for access in accesses_of(loop, nest, forms, summaries.of):
        if access.kind != "store" or not surely_meet(access, access, loop, forms, effort):
            continue
        for store in access.origins:
            block = _block_of(store, access, nest)
            if block is not None and _join(store, block, nest, forms):
                joined += 1
    return joined


def _block_of(store: Op, access: Access, nest: Nest) -> Block | None:
    """The block that a store stands in; None if that is another function's."""
    around = nest.parent.get(store)
    if around is None or access.array.type.is_slot:
        return None
    return next(block for block in around.regions if store in block.ops)


def _join(store: Op, block: Block, nest: Nest, forms: Forms) -> bool:
    """Law: a load, an operation and a store to the same element, with nothing in between that writes there, are an update."""
    value, *place = store.operands
    combined = value.owner
    if type(combined) is not Op or combined.kind not in UPDATES or len(nest.users.get(value, ())) != 1:
        return False
    for position, operand in enumerate(combined.operands):
        load, other = operand.owner, combined.operands[1 - position]
        is_before = (
            type(load) is Op
            and load.kind == "load"
            and load.operands[0] is place[0]
            and len(load.operands) == len(place)
            and all(_distance(*pair, forms) == 0 for pair in zip(load.operands[1:], place[1:]))
            and load.attribute("wrap") == store.attribute("wrap")
            and other is not operand
            and len(nest.users.get(operand, ())) == 1
        )
        if is_before and (position == 0 or OPS[combined.kind].commutative):
            assert type(load) is Op
            if load in block.ops and combined in block.ops and _is_untouched(load, store, block, nest, forms):
                _replace(store, other, (load, combined), block, nest)
                return True
    return False


def _is_untouched(load: Op, store: Op, block: Block, nest: Nest, forms: Forms) -> bool:
    """Whether nothing between a load and a store writes to the element."""
    may_alias = bool(nest.function.attributes.get("may_alias"))
    for op in block.ops[block.ops.index(load) + 1 : block.ops.index(store)]:
        if op.kind in ("store", "update"):
            array, *indices = op.operands[1:]
            if array is load.operands[0]:
                wraps = bool(op.attribute("wrap") or load.attribute("wrap"))
                if not any(_are_apart(*pair, forms, wraps) for pair in zip(indices, load.operands[1:])):
                    return False
            elif may_alias and not array.type.is_slot:
                return False
        elif op.regions or OPS[op.kind].effects not in ("pure", "reads"):
            return False
    return True


def _distance(one: Value, other: Value, forms: Forms) -> int | None:
    """How far an index surely is from another one; None if that is not known."""
    return 0 if one is other else forms.of(one).plus(forms.of(other), -1).constant


def _are_apart(one: Value, other: Value, forms: Forms, wraps: bool) -> bool:
    """Whether two indices surely differ; where they may count from the end (`wraps`), only constants that do not tell."""
    starts = (forms.of(one).constant, forms.of(other).constant)
    return bool(_distance(one, other, forms)) and not (wraps and any(start is None or start < 0 for start in starts))


def _replace(store: Op, value: Value, gone: tuple[Op, Op], block: Block, nest: Nest) -> None:
    attributes = {**(store.attributes or {}), "by": gone[1].kind}
    update = Op("update", (value, *store.operands[1:]), (value.type,), attributes, (), store.location)
    block.ops[block.ops.index(store)] = update
    block.ops = [op for op in block.ops if op not in gone]
    for op in (store, *gone):
        for operand in op.operands:
            nest.users[operand] = [use for use in nest.users[operand] if use[0] is not op]
    nest.adopt([update], nest.parent[store])
