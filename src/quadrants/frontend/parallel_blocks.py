"""`with` in kernels: blocks that may run side by side. They stand in order, which is one of the ways that they may run; a target that
runs launches side by side finds out which of them may by what they reach."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from quadrants.frontend import protocol
from quadrants.frontend.dispatch import evaluate, statement, unsupported, walk
from quadrants.frontend.values import Static

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["called_intrinsic"]

_OLDER = {f"graph_{name}": f"graph.{name}" for name in ("do_while", "parallel", "parallel_context")}
_STREAMS, _CONTEXT, _BRANCH = "stream_parallel", "graph.parallel_context", "graph.parallel"


def called_intrinsic(walker: Walker, node: ast.expr) -> str | None:
    """The name of the language's function that a call is of; None for other expressions."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or type(walker.env.get(root.id, Static(None))) is not Static:
        return None
    function = evaluate(walker, node.func)
    name = protocol.intrinsic_name(function.value) if type(function) is Static else None
    if name not in _OLDER:
        return name
    text = f"qd.{name} is an older name of qd.{_OLDER[name]}"
    warnings.warn_explicit(text, DeprecationWarning, walker.file, getattr(node, "lineno", 1))
    return _OLDER[name]


def _kind(walker: Walker, node: ast.stmt) -> str | None:
    if not isinstance(node, ast.With) or len(node.items) != 1 or node.items[0].optional_vars is not None:
        return None
    return called_intrinsic(walker, node.items[0].context_expr)


@statement(ast.With)
def _with(walker: Walker, node: ast.With) -> bool:
    kind = _kind(walker, node)
    if kind not in (_STREAMS, _CONTEXT, _BRANCH):
        raise unsupported(walker, node)
    call = node.items[0].context_expr
    assert isinstance(call, ast.Call)
    if call.args or call.keywords:
        raise walker.error(node, f"qd.{kind}() takes no arguments")
    if kind == _STREAMS:
        _check_top_level(walker, node)
        walker.function.attributes["graph"] = True
    elif kind == _CONTEXT:
        _check_branches(walker, node)
    elif not _is_branch(walker, node):
        raise walker.error(node, "qd.graph.parallel() stands in a block of qd.graph.parallel_context() only")
    return walk(walker, node.body)


def _check_top_level(walker: Walker, node: ast.With) -> None:
    """All of the kernel's statements are such blocks."""
    whole = walker.node.body if isinstance(walker.node, ast.FunctionDef) else []
    if not walker.is_kernel or walker.outer is not None or node not in whole:
        raise walker.error(node, "qd.stream_parallel() stands at the top level of a kernel only, not in another block")
    for other in whole:
        is_text = isinstance(other, ast.Expr) and isinstance(other.value, ast.Constant)
        if not is_text and not isinstance(other, ast.Pass) and _kind(walker, other) != _STREAMS:
            raise walker.error(
                other,
                "in a kernel with qd.stream_parallel() all statements at the top level are such blocks",
                hint="put this statement into a kernel of its own",
            )


def _check_branches(walker: Walker, node: ast.With) -> None:
    for inner in node.body:
        if _kind(walker, inner) != _BRANCH:
            raise walker.error(
                inner,
                "the statements of qd.graph.parallel_context() are `with qd.graph.parallel():` blocks",
                hint="move this statement into one of them, or out of the context",
            )


def _is_branch(walker: Walker, node: ast.With) -> bool:
    return any(
        node in outer.body and _kind(walker, outer) == _CONTEXT
        for outer in ast.walk(walker.node)
        if isinstance(outer, ast.With)
    )
