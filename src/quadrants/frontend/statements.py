"""Statements. `walk(walker, statements)` gives True when control cannot reach what follows."""

from __future__ import annotations

import ast
import math
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.frontend import numbers, protocol
from quadrants.frontend.assign import assign, held_by
from quadrants.frontend.augmented import augmented
from quadrants.frontend.calls import LocalFunction
from quadrants.frontend.dispatch import evaluate, register_branch, statement, walk
from quadrants.frontend.merge import Path, append_yield, merge_names, rebuild_wholes
from quadrants.frontend.printing import message_text
from quadrants.frontend.returns import UNREACHABLE
from quadrants.frontend.scan import assigned_names, element_names, member_names, subtree, touched_names
from quadrants.frontend.tiles import part_in
from quadrants.frontend.values import Binding, Run, Static, common_nature, is_list, is_tile
from quadrants.frontend.walker import Exit
from quadrants.ir.formatting import in_message
from quadrants.ir.nodes import Block, Op
from quadrants.ir.types import u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["function_body", "walk"]

# Numbers that the message of a failed assertion can have.
_MOST_VALUES = 32


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


@statement(ast.Expr)
def _expression(walker: Walker, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant):
        return False
    evaluate(walker, node.value)
    return False


@statement(ast.Pass)
def _pass(walker: Walker, node: ast.Pass) -> bool:
    return False


@statement(ast.Assign)
def _assign(walker: Walker, node: ast.Assign) -> bool:
    of_tile = any(is_tile(held_by(walker, target)) for target in node.targets)
    binding = part_in(walker, node.value) if of_tile else evaluate(walker, node.value)
    if isinstance(node.value, (ast.Name, ast.Subscript, ast.Attribute)) and is_list(binding):
        _check_second_name(walker, node, node.value)
    for target in node.targets:
        assign(walker, target, binding)
    return False


def _check_second_name(walker: Walker, node: ast.Assign, value: ast.expr) -> None:
    """A list with two names is no trouble as long as none of them changes it, one that is part of another as long as that
    is how it changes."""
    name = ast.unparse(value)
    changed = element_names(walker.node) | member_names(walker.node)
    for target in node.targets:
        if isinstance(target, ast.Name) and target.id != name and (target.id in changed or name in changed):
            raise walker.error(
                node,
                f'"{target.id}" and "{name}" would be one list, which changes under one of its names',
                hint=f"make a list of its own: `{target.id} = list({name})`",
            )


@statement(ast.AnnAssign)
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


@statement(ast.AugAssign)
def _augmented(walker: Walker, node: ast.AugAssign) -> bool:
    augmented(walker, node)
    return False


@statement(ast.Return)
def _return(walker: Walker, node: ast.Return) -> bool:
    record_return(walker, Static(None) if node.value is None else evaluate(walker, node.value), node)
    return True


def _leave_loop(walker: Walker, kind: str, node: ast.stmt) -> None:
    """`break` or `continue`: an exit of the innermost loop, with the names as they are."""
    loop = walker.loops[-1]
    if loop.is_static:
        walker.env["$left"] = Static(kind)
    if kind == "break" and loop.flag and not getattr(node, "_is_test", False):
        walker.env[loop.flag] = Static(True)
    loop.exits.append(Exit(kind, walker.builder.block, dict(walker.env), walker.builder.location))


@statement(ast.Break)
def _break(walker: Walker, node: ast.stmt) -> bool:
    _leave_loop(walker, "break", node)
    return True


@statement(ast.Continue)
def _continue(walker: Walker, node: ast.stmt) -> bool:
    _leave_loop(walker, "continue", node)
    return True


@statement(ast.Assert)
def _assert(walker: Walker, node: ast.Assert) -> bool:
    if not walker.compilation.debug:
        if _may_change(walker, node.test):
            evaluate(walker, node.test)
        return False
    condition = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if isinstance(condition, Static):
        if condition.value:
            return False
        condition = numbers.to_run(walker, condition, node)
    test = numbers.to_run(walker, condition, node).value
    if node.msg is None:
        walker.builder.op("check", test, message=in_message(ast.unparse(node.test)), error="assert")
        return False
    fine, failed = Block(), Block()
    with walker.inside(fine):
        walker.builder.op("yield")
    with walker.inside(failed):
        env = walker.env
        walker.env = dict(env)
        text, values = message_text(walker, node.msg)
        walker.env = env
        if len(values) > _MOST_VALUES:
            raise walker.error(node.msg, f"a message of {len(values)} numbers: at most {_MOST_VALUES} can be told")
        never = walker.builder.constant(False, u1)
        walker.builder.op("check", never, *values, message=text, error="assert")
        walker.builder.op("yield")
    if values:
        walker.builder.op("if", test, regions=(fine, failed), types=())
    else:
        walker.builder.op("check", test, message=text, error="assert")
    return False


def _may_change(walker: Walker, test: ast.expr) -> bool:
    """Whether computing a condition may do more than tell it: that is done outside debug mode, too."""
    parts = subtree(test)
    return any(isinstance(part, ast.NamedExpr) for part in parts) or any(
        not _is_harmless(walker, part.func) for part in parts if isinstance(part, ast.Call)
    )


def _is_harmless(walker: Walker, function: ast.expr) -> bool:
    """Whether a name stands for a function of Python, math or NumPy that only computes."""
    while isinstance(function, ast.Attribute) and isinstance(function.value, ast.Attribute):
        function = function.value
    name = function.value if isinstance(function, ast.Attribute) else function
    if not isinstance(name, ast.Name) or walker.visible(name.id) is not None:
        return False
    found = walker.lookup(name.id, name)
    value = found.value if type(found) is Static else None
    if isinstance(function, ast.Attribute):
        return value is math or value is np
    return value is not print and isinstance(value, (types.BuiltinFunctionType, type))


@statement(ast.FunctionDef)
def _nested_function(walker: Walker, node: ast.FunctionDef) -> bool:
    walker.env[node.name] = LocalFunction(node, walker)
    return False


@statement(ast.Global, ast.Nonlocal)
def _global(walker: Walker, node: ast.Global) -> bool:
    raise walker.error(
        node, "a kernel cannot assign global names", hint="write to a field or an array, or return the value"
    )


# Conditions.


@statement(ast.If)
def _if(walker: Walker, node: ast.If) -> bool:
    return _branch(walker, node, [])


@register_branch
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
    close_branches(walker, node, condition, paths, ended, location, bool(rest))
    return all(ended)


def close_branches(
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
    if has_rest:
        names = list(dict.fromkeys(name for path in open_paths for name in path.env))
    if open_paths and not (len(open_paths) == 2 and has_rest):
        wanted = [name for name in names if live is None or has_rest or name in live or name.startswith("$")]
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
        before, walker.env = walker.env, dict(open_paths[0].env)
        unread = [] if live is None or has_rest else [name for name in names if name not in live]
        for name in unread:
            # What nothing reads may be a value of a branch, which is not visible here.
            if not name.startswith("$") and walker.env.get(name) is not before.get(name):
                walker.env.pop(name, None)
        for name in names if len(open_paths) == 2 else ():
            if name not in open_paths[1].env:
                walker.env.pop(name, None)
        for (name, _, _, weak), value in zip(merged, op.results):
            walker.env[name] = Run(value, weak, common_nature(path.env.get(name) for path in open_paths))
            value.name = name if name.isidentifier() else ""
        rebuild_wholes(walker.env, names)
        _back_to_memory(walker, [entry[0] for entry in merged], node)


def _back_to_memory(walker: Walker, names: list[str], node: ast.AST) -> None:
    for name in names:
        if name in walker.memory:
            walker.bind(name, walker.env[name], node)
