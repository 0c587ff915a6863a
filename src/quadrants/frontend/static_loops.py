"""Loops over what is known at compile time: their bodies once an item."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from quadrants.frontend import numbers
from quadrants.frontend.assign import assign
from quadrants.frontend.dispatch import walk
from quadrants.frontend.domains import Domain
from quadrants.frontend.identity import current, identities
from quadrants.frontend.merge import same_static
from quadrants.frontend.run_time_loops import if_run, run_time_for, target_names
from quadrants.frontend.scan import live_head, live_out, mark_live
from quadrants.frontend.values import Binding, Iteration, Run, Sequence, Static
from quadrants.frontend.walker import Loop
from quadrants.ir.types import i64

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["unrolled"]


def unrolled(walker: Walker, node: ast.For, iterated: Binding, items: list[Binding]) -> bool:
    """A loop over the items of something, which are known at compile time: its body once an item."""
    run_time_exit = _has_exit(node.body)
    if run_time_exit:
        return _unrolled_with_exits(walker, node, iterated, items)
    changes = len(walker.changes)
    for position, item in enumerate(items):
        _check_unchanged(walker, iterated, position, item, changes, node)
        assign(walker, node.target, item)
        walker.loops.append(Loop(node, is_static=True))
        ended = walk(walker, node.body)
        walker.loops.pop()
        if ended:
            return True
    return bool(node.orelse) and walk(walker, node.orelse)


def _check_unchanged(
    walker: Walker, iterated: Binding, position: int, item: Binding, changes: int, node: ast.For
) -> None:
    """Refuses a loop whose body has changed a list that it runs over in length or in an item still to come, or the object
    that is the next item. `changes`: how many objects had been changed in front of the loop."""
    parts = (
        [part for part in iterated.parts if isinstance(part, Binding)] if type(iterated) is Iteration else [iterated]
    )
    for part in parts:
        if type(part) is not Sequence:
            continue
        now = current(walker, part)
        at = len(part.items) - 1 - position if type(iterated) is Iteration and iterated.kind == "reversed" else position
        if len(now.items) != len(part.items) or not same_static(now.items[at], part.items[at]):
            raise walker.error(
                node,
                "the body changes the list that this loop runs over",
                hint="run over a copy, `list(…)`, or over qd.static(range(…)), or collect what changes in another list",
            )
    if frozenset().union(*walker.changes[changes:]) & identities([item]):
        raise walker.error(
            node,
            "the body changes an object that this loop comes to later",
            hint="change it in front of the loop, or loop over qd.static(range(…)) and name the object by its index",
        )


def _has_exit(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.Break, ast.Continue)):
            return True
        if isinstance(statement, ast.If) and (_has_exit(statement.body) or _has_exit(statement.orelse)):
            return True
    return False


def _unrolled_with_exits(walker: Walker, node: ast.For, iterated: Binding, items: list[Binding]) -> bool:
    """`break` and `continue` of an unrolled loop: a flag says that the loop was left; each item's body is a loop of at
    most one iteration, so that leaving the body is leaving that loop."""
    changes = len(walker.changes)
    gone = f"$gone{node.lineno}.{node.col_offset}"
    walker.env[gone] = Static(False)
    for position, item in enumerate(items):
        left = walker.env[gone]
        if isinstance(left, Static) and left.value:
            break
        _check_unchanged(walker, iterated, position, item, changes, node)
        # Once the loop may have been left, its variable stays what it was where it has been, if anyone looks.
        stays = not isinstance(left, Static) and not target_names(node.target).isdisjoint(live_out(node))
        if not stays:
            assign(walker, node.target, item)
        target = node.target if stays else ast.Name(id="$once", ctx=ast.Store())
        once = ast.For(target=target, iter=node.iter, body=node.body, orelse=[])
        ast.copy_location(once, node)
        live = live_out(node) | live_head(node) | {gone}
        mark_live(once, live, live)
        notes: Any = once
        notes._runs_once = True
        low = walker.builder.index(0)
        high = walker.builder.index(1)
        if not isinstance(left, Static):
            high = walker.builder.emit(
                "cast", walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value), type=i64
            )
        bound = item if stays else Static(0)
        domain = Domain(1, [low], [high], lambda *_, bound=bound: [bound], spread=False)
        run_time_for(walker, once, domain, {}, gone)
        walker.env.pop("$once", None)
    left = walker.env.pop(gone, Static(False))
    if not node.orelse:
        return False
    if isinstance(left, Static):
        return False if left.value else walk(walker, node.orelse)
    stayed = Run(walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value))
    branch = ast.copy_location(ast.If(test=ast.Constant(value=True), body=node.orelse, orelse=[]), node)
    mark_live(branch, live_out(node))
    return if_run(walker, branch, stayed, walk)
