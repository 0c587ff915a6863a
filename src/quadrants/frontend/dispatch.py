"""Which function gives a syntax node its meaning: two tables, filled by the modules that define the meanings.

`evaluate` and `walk` are how every part of the front end goes on to sub-expressions and to statements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.frontend.scan import contains_return, leaves
from quadrants.frontend.values import Binding
from quadrants.frontend.walker import Unknown

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["evaluate", "expression", "register_branch", "statement", "unsupported", "walk"]

_Expression = Callable[[Any, Any], Binding]
_Statement = Callable[[Any, Any], bool]
_EXPRESSIONS: dict[type, _Expression] = {}
_STATEMENTS: dict[type, _Statement] = {}
_Branch = Callable[[Any, ast.If, list[ast.stmt]], bool]
_branch_with_rest: list[_Branch] = []


def expression(*kinds: type[ast.expr]) -> Callable[[_Expression], _Expression]:
    """Decorator: the meaning of expressions of these kinds."""

    def register(meaning: _Expression) -> _Expression:
        for kind in kinds:
            _EXPRESSIONS[kind] = meaning
        return meaning

    return register


def statement(*kinds: type[ast.stmt]) -> Callable[[_Statement], _Statement]:
    """Decorator: the meaning of statements of these kinds; it gives True when control cannot reach what follows."""

    def register(meaning: _Statement) -> _Statement:
        for kind in kinds:
            _STATEMENTS[kind] = meaning
        return meaning

    return register


def register_branch(meaning: _Branch) -> _Branch:
    """Decorator: the meaning of an `if` together with the statements that follow it in its block."""
    _branch_with_rest.append(meaning)
    return meaning


_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Yield: ("`yield` is", "write what it gives into an array"),
    ast.YieldFrom: ("`yield from` is", "write what it gives into an array"),
    ast.Await: ("`await` is", "kernels run at once"),
    ast.Set: ("a set is", "`x in (1, 2, 3)` looks into a tuple; an array of flags tells which numbers are in"),
    ast.SetComp: ("a set is", "an array of flags tells which numbers are in"),
    ast.DictComp: ("a dictionary that is made by a loop is", "make it outside, or use an array"),
}


def evaluate(walker: Walker, node: ast.expr) -> Binding:
    """What an expression stands for; code is left for what happens at run time."""
    handler = _EXPRESSIONS.get(type(node))
    if handler is None:
        name, hint = _REFUSED.get(type(node), (f"`{type(node).__name__}` expressions are", ""))
        raise walker.error(node, f"{name} not supported in a kernel", hint=hint)
    return handler(walker, node)


def walk(walker: Walker, statements: list[ast.stmt]) -> bool:
    """Walks statements in order; True when control cannot reach what follows them."""
    for position, step in enumerate(statements):
        handler = _STATEMENTS.get(type(step))
        if handler is None:
            raise unsupported(walker, step)
        walker.builder.location = None
        walker.at(step)
        try:
            if isinstance(step, ast.If) and _splits_block(walker, step):
                return _branch_with_rest[-1](walker, step, statements[position + 1 :])
            if handler(walker, step):
                return True
        except Unknown:
            return True
    return False


def _splits_block(walker: Walker, node: ast.If) -> bool:
    """Whether the rest of the block goes into the branch that stays: early returns of functions, outside loops."""
    if walker.is_kernel and walker.outer is None:
        return False
    if walker.loops or not (contains_return(node.body) or contains_return(node.orelse)):
        return False
    return leaves(node.body) or leaves(node.orelse)


def unsupported(walker: Walker, statement: ast.stmt) -> Exception:
    """The error for a statement that kernels do not have."""
    name, hint = _NOT_IN_KERNELS.get(type(statement).__name__, (type(statement).__name__, ""))
    return walker.error(statement, f"{name} is not supported in a kernel", hint=hint)


_NOT_IN_KERNELS = {
    "Try": ("`try`", "test for the case before it happens; `assert` checks in debug mode"),
    "TryStar": ("`try`", "test for the case before it happens"),
    "Raise": ("`raise`", "use `assert condition, message`, which is active in debug mode"),
    "With": ("`with`", "call what it does directly"),
    "Import": ("`import`", "import at the top of the file"),
    "ImportFrom": ("`import`", "import at the top of the file"),
    "ClassDef": ("`class`", "define the class outside"),
    "AsyncFunctionDef": ("`async`", "kernels run at once"),
    "Delete": ("`del`", "just stop using the name"),
    "Match": ("`match`", "use `if` and `elif`"),
    "Nonlocal": ("`nonlocal`", "return the new value"),
}
