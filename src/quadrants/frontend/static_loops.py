"""Loops over what is known at compile time: their bodies once an item."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from quadrants.frontend import numbers
from quadrants.frontend.assign import assign
from quadrants.frontend.dispatch import walk
from quadrants.frontend.domains import Domain
from quadrants.frontend.run_time_loops import if_run, run_time_for
from quadrants.frontend.scan import live_head, live_out, mark_live
from quadrants.frontend.values import Binding, Run, Static
from quadrants.frontend.walker import Loop
from quadrants.ir.types import i64

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["unrolled"]


def unrolled(walker: Walker, node: ast.For, items: list[Binding]) -> bool:
    """A loop over items known at compile time: its body once an item."""
    run_time_exit = _has_exit(node.body)
    if run_time_exit:
        return _unrolled_with_exits(walker, node, items)
    for item in items:
        assign(walker, node.target, item)
        walker.loops.append(Loop(node, is_static=True))
        ended = walk(walker, node.body)
        walker.loops.pop()
        if ended:
            return True
    return bool(node.orelse) and walk(walker, node.orelse)


def _has_exit(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.Break, ast.Continue)):
            return True
        if isinstance(statement, ast.If) and (_has_exit(statement.body) or _has_exit(statement.orelse)):
            return True
    return False


def _unrolled_with_exits(walker: Walker, node: ast.For, items: list[Binding]) -> bool:
    """`break` and `continue` of an unrolled loop: a flag says that the loop was left; each item's body is a loop of at
    most one iteration, so that leaving the body is leaving that loop."""
    gone = f"$gone{node.lineno}.{node.col_offset}"
    walker.env[gone] = Static(False)
    for item in items:
        left = walker.env[gone]
        if isinstance(left, Static) and left.value:
            break
        assign(walker, node.target, item)
        once = ast.For(target=ast.Name(id="$once", ctx=ast.Store()), iter=node.iter, body=node.body, orelse=[])
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
        domain = Domain(1, [low], [high], lambda *_: [Static(0)], spread=False)
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
