"""Statements. `walk(walker, statements)` gives True when control cannot reach what follows."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.frontend import numbers, protocol
from quadrants.frontend.assign import assign, augmented
from quadrants.frontend.expressions import evaluate, expression_text
from quadrants.frontend.loops import for_statement, leave_loop, while_statement
from quadrants.frontend.merge import Path, append_yield, merge_names, rebuild_sequences
from quadrants.frontend.returns import UNREACHABLE
from quadrants.frontend.scan import assigned_names, contains_return, leaves, touched_names
from quadrants.frontend.values import Binding, Run, Static
from quadrants.frontend.walker import Exit, Unknown
from quadrants.ir.nodes import Block, Op

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["function_body", "walk"]


def walk(walker: Walker, statements: list[ast.stmt]) -> bool:
    for position, statement in enumerate(statements):
        handler = STATEMENTS.get(type(statement))
        if handler is None:
            raise _unsupported(walker, statement)
        walker.builder.location = None
        walker.at(statement)
        try:
            if isinstance(statement, ast.If) and _splits(walker, statement):
                return _if_with_rest(walker, statement, statements[position + 1 :])
            if handler(walker, statement):
                return True
        except Unknown:
            return True
    return False


def _unsupported(walker: Walker, statement: ast.stmt) -> Exception:
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


def function_body(walker: Walker, statements: list[ast.stmt]) -> None:
    """The body of a whole function; a path that falls off the end returns None."""
    if not walk(walker, statements):
        record_return(walker, Static(None), None)


def record_return(walker: Walker, binding: Binding, node: ast.AST | None) -> None:
    """Ends the block here with a return; its types are settled when all returns are known."""
    templates = [walker.env.get(name, Static(None)) for name in walker.template_names]
    walker.returns.append((walker.builder.block, binding, templates, node))


def record_unreachable(walker: Walker) -> None:
    """Ends a block that control does not reach."""
    walker.returns.append((walker.builder.block, UNREACHABLE, [], None))


# Simple statements.


def _expression(walker: Walker, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant):
        return False
    evaluate(walker, node.value)
    return False


def _pass(walker: Walker, node: ast.Pass) -> bool:
    return False


def _assign(walker: Walker, node: ast.Assign) -> bool:
    binding = evaluate(walker, node.value)
    for target in node.targets:
        assign(walker, target, binding)
    return False


def _annotated(walker: Walker, node: ast.AnnAssign) -> bool:
    walker.compilation.annotated_local(walker)
    if node.value is None:
        return False
    binding = evaluate(walker, node.value)
    wish = evaluate(walker, node.annotation)
    found = protocol.annotation(wish.value) if isinstance(wish, Static) else None
    scalar = _annotation_scalar(walker, found)
    if scalar is not None:
        run = numbers.to_run(walker, binding, node.value)
        binding = Run(numbers.coerce(walker, binding, run, scalar))
    assign(walker, node.target, binding)
    return False


def _annotation_scalar(walker: Walker, found: Any) -> Any:
    if found is None:
        return None
    if found.kind == "int":
        return walker.default_int
    if found.kind == "float":
        return walker.default_float
    return found.scalar if found.kind in ("scalar", "matrix") else None


def _augmented(walker: Walker, node: ast.AugAssign) -> bool:
    augmented(walker, node)
    return False


def _return(walker: Walker, node: ast.Return) -> bool:
    record_return(walker, Static(None) if node.value is None else evaluate(walker, node.value), node)
    return True


def _break(walker: Walker, node: ast.stmt) -> bool:
    leave_loop(walker, "break", node)
    return True


def _continue(walker: Walker, node: ast.stmt) -> bool:
    leave_loop(walker, "continue", node)
    return True


def _assert(walker: Walker, node: ast.Assert) -> bool:
    if not walker.compilation.debug:
        return False
    condition = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if isinstance(condition, Static):
        if condition.value:
            return False
        condition = numbers.to_run(walker, condition, node)
    text, values = ("", []) if node.msg is None else expression_text(walker, node.msg)
    message = text or ast.unparse(node.test)
    walker.builder.op("check", numbers.to_run(walker, condition, node).value, *values, message=message, error="assert")
    return False


def _nested_function(walker: Walker, node: ast.FunctionDef) -> bool:
    from quadrants.frontend.calls import LocalFunction

    walker.env[node.name] = LocalFunction(node, walker)
    return False


def _global(walker: Walker, node: ast.Global) -> bool:
    raise walker.error(
        node, "a kernel cannot assign global names", hint="write to a field or an array, or return the value"
    )


# Conditions.


def _if(walker: Walker, node: ast.If) -> bool:
    return _branch(walker, node, [])


def _splits(walker: Walker, node: ast.If) -> bool:
    """Whether the rest of the block goes into the branch that stays: early returns of functions, outside loops."""
    if walker.is_kernel and walker.outer is None:
        return False
    if walker.loops or not (contains_return(node.body) or contains_return(node.orelse)):
        return False
    return leaves(node.body) or leaves(node.orelse)


def _if_with_rest(walker: Walker, node: ast.If, rest: list[ast.stmt]) -> bool:
    return _branch(walker, node, rest)


def _branch(walker: Walker, node: ast.If, rest: list[ast.stmt]) -> bool:
    """An `if`; `rest`, what follows it in its block, is walked at the end of each branch that reaches it."""
    condition = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if isinstance(condition, Static):
        taken = node.body if condition.value else node.orelse
        return walk(walker, taken) or (bool(rest) and walk(walker, rest))
    location = walker.builder.location
    paths, ended = [], []
    env = walker.env
    for statements in (node.body, node.orelse):
        path = Path(Block(), dict(env))
        walker.env = path.env
        with walker.inside(path.block):
            done = walk(walker, statements)
            if not done and rest:
                done = walk(walker, rest)
        path.env = walker.env
        paths.append(path)
        ended.append(done)
    walker.env = env
    _close_branches(walker, node, condition, paths, ended, location, bool(rest))
    return all(ended)


def _close_branches(
    walker: Walker, node: ast.If, condition: Any, paths: list[Path], ended: list[bool], location: Any, has_rest: bool
) -> None:
    """Emits the `if` and binds the names that leave it. A branch that ended (return, break, continue) has its
    terminator appended by whoever collects it."""
    names = list(
        dict.fromkeys((*assigned_names(node.body, node), *assigned_names(node.orelse, node), *touched_names(node)))
    )
    live = getattr(node, "_live_out", None)
    open_paths = [path for path, done in zip(paths, ended) if not done]
    merged: list[Any] = []
    if len(open_paths) == 2 and not has_rest:
        wanted = [name for name in names if live is None or name in live or name.startswith("$")]
        wanted += [name for name in paths[0].env if name.startswith("$") and name not in wanted]
        merged = merge_names(walker, wanted, open_paths, node)
    op = Op(
        "if",
        (condition.value,),
        tuple(entry[2] for entry in merged),
        {"types": tuple(entry[2] for entry in merged)},
        tuple(path.block for path in paths),
        location,
    )
    for position, path in enumerate(open_paths):
        append_yield(path.block, [entry[1][position] for entry in merged], location=location)
    walker.builder.block.ops.append(op)
    if not open_paths and walker.loops and not walker.loops[-1].is_static:
        # Nothing reaches what follows the `if`; its block still has to end.
        walker.loops[-1].exits.append(Exit("continue", walker.builder.block, dict(walker.env), location))
    if open_paths:
        walker.env = dict(open_paths[0].env)
        for name in names if len(open_paths) == 2 else ():
            if name not in open_paths[1].env:
                walker.env.pop(name, None)
        for (name, _, _, weak), value in zip(merged, op.results):
            walker.env[name] = Run(value, weak)
            value.name = name if name.isidentifier() else ""
        rebuild_sequences(walker.env, names)
        _back_to_memory(walker, [entry[0] for entry in merged], node)


def _back_to_memory(walker: Walker, names: list[str], node: ast.AST) -> None:
    for name in names:
        if name in walker.memory:
            walker.bind(name, walker.env[name], node)


STATEMENTS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Expr: _expression,
    ast.Pass: _pass,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Assert: _assert,
    ast.FunctionDef: _nested_function,
    ast.Global: _global,
    ast.Nonlocal: _global,
    ast.If: _if,
    ast.For: for_statement,
    ast.While: while_statement,
}
