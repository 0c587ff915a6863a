"""Indices that do something when they are computed: what is read and then written, such as the target of an update or an argument
that comes back, is named by its syntax in between, and Python computes its indices once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.frontend import numbers
from quadrants.frontend.dispatch import evaluate, expression
from quadrants.frontend.values import Binding

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["with_known_indices"]


class _Known(ast.expr):
    """An expression that was evaluated."""

    def __init__(self, binding: Binding, node: ast.expr) -> None:
        super().__init__()
        self.binding = binding
        ast.copy_location(self, node)


@expression(_Known)
def _known(walker: Walker, node: _Known) -> Binding:
    return node.binding


def with_known_indices(walker: Walker, node: ast.expr) -> ast.expr:
    """An element, a member or a component with its indices computed, in Python's order, where these call functions or bind names;
    other expressions as they are."""
    if not isinstance(node, (ast.Subscript, ast.Attribute)):
        return node
    holder = with_known_indices(walker, node.value)
    if isinstance(node, ast.Attribute):
        if holder is node.value:
            return node
        return ast.copy_location(ast.Attribute(holder, node.attr, node.ctx), node)
    index = _index(walker, node.slice)
    if holder is node.value and index is node.slice:
        return node
    return ast.copy_location(ast.Subscript(holder, index, node.ctx), node)


def _index(walker: Walker, node: ast.expr) -> ast.expr:
    if not any(isinstance(part, (ast.Call, ast.NamedExpr)) for part in ast.walk(node)):
        return node
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([_index(walker, part) for part in node.elts], ast.Load()), node)
    if isinstance(node, ast.Slice):
        parts = [None if part is None else _index(walker, part) for part in (node.lower, node.upper, node.step)]
        return ast.copy_location(ast.Slice(*parts), node)
    return _Known(numbers.settled(walker, evaluate(walker, node), node), node)
