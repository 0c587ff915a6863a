"""`for`: over what is known at compile time, or a loop at run time."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.frontend.dispatch import evaluate, statement
from quadrants.frontend.domains import domain_of, static_items
from quadrants.frontend.run_time_loops import run_time_for, with_else
from quadrants.frontend.static_loops import unrolled

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["for_statement"]


@statement(ast.For)
def for_statement(walker: Walker, node: ast.For) -> bool:
    config, walker.loop_config = walker.loop_config, {}
    iterated = evaluate(walker, node.iter)
    items = static_items(walker, iterated, node.iter)
    if items is not None:
        return unrolled(walker, node, iterated, items)
    domain = domain_of(walker, iterated, node.iter)
    return with_else(walker, node, lambda flag: run_time_for(walker, node, domain, config, flag))
