"""Nested functions and lambdas: compiled at the call, with the names of the function around them in reach."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.frontend import numbers
from quadrants.frontend.dispatch import evaluate, walk
from quadrants.frontend.lent import HINT
from quadrants.frontend.merge import Path, meet
from quadrants.frontend.scan import (
    all_assigned,
    annotate_liveness,
    contains_return,
    leaves,
    memory_names,
    names_in,
)
from quadrants.frontend.source import FunctionSource
from quadrants.frontend.values import Binding, Sequence, Static, is_changeable, is_list
from quadrants.frontend.walker import Walker as WalkerClass
from quadrants.ir.nodes import Block

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["inline_local"]

DEPTH_LIMIT = 64


def inline_local(
    walker: Walker,
    definition: ast.FunctionDef | ast.Lambda,
    owner: Walker,
    arguments: dict[str, Binding],
    node: ast.AST,
) -> Binding:
    """The value of a call of a nested function."""
    if isinstance(definition, ast.FunctionDef) and _returns_from_loop(definition.body):
        return _called_function(walker, definition, owner, arguments, node)
    _check_lists(walker, definition, arguments, node)
    inner = _inner_walker(walker, definition, owner, node)
    for name, binding in arguments.items():
        inner.bind(name, binding, node)
    inner.lent = frozenset([name for name, binding in arguments.items() if is_changeable(binding)])
    if isinstance(definition, ast.Lambda):
        return evaluate(inner, definition.body)
    annotate_liveness(definition)
    result = _tail(inner, definition.body, definition)
    return Static(None) if result is None else result


def _check_lists(
    walker: Walker, definition: ast.FunctionDef | ast.Lambda, arguments: dict[str, Binding], node: ast.AST
) -> None:
    """A list that a nested function is given is its own: it cannot change the caller's."""
    from quadrants.frontend.calls import written_templates

    lists = [name for name, binding in arguments.items() if is_list(binding)]
    changed = written_templates(definition, [], lists)
    if changed:
        raise _changes(walker, "the list", changed[0], node)


def _changes(walker: Walker, what: str, name: str, node: ast.AST, does: str = "changes") -> Exception:
    return walker.error(
        node,
        f'the nested function {does} {what} "{name}" that it is given',
        hint=HINT,
    )


def _returns_from_loop(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.For, ast.While)) and contains_return([statement]):
            return True
        if isinstance(statement, ast.If) and (
            _returns_from_loop(statement.body) or _returns_from_loop(statement.orelse)
        ):
            return True
    return False


def _called_function(
    walker: Walker, definition: ast.FunctionDef, owner: Walker, arguments: dict[str, Binding], node: ast.AST
) -> Binding:
    """A nested function that returns from inside a loop: a function of its own, whose free names are arguments, too."""
    from quadrants.frontend.calls import LocalFunction, written_templates
    from quadrants.frontend.functions import Callee, call_callee

    annotate_liveness(definition)
    records = [name for name, binding in arguments.items() if type(binding) is Sequence and is_changeable(binding)]
    changed = written_templates(definition, [], records)
    if changed:
        raise _changes(walker, "the object", changed[0], node, "may change")
    bound: dict[str, tuple[Binding, ast.expr | None]] = {name: (binding, None) for name, binding in arguments.items()}
    for name in sorted(names_in(definition) - bound.keys() - all_assigned(definition)):
        binding = owner.visible(name)
        if type(binding) is LocalFunction:
            raise walker.error(
                node,
                f"a nested function that returns from a loop cannot use another one ('{name}')",
                hint="define them at the top of the file",
            )
        if binding is not None:
            bound[name] = (binding, _place(walker, name, binding, node))
    source = FunctionSource(owner.file, definition)
    return call_callee(walker, Callee(owner.python_function, definition, source, definition.name), bound, node)


def _place(walker: Walker, name: str, binding: Binding, node: ast.AST) -> ast.expr | None:
    """Where what a function of its own makes of an object of the function around it comes back to."""
    if not is_changeable(binding):
        return None
    if walker.env.get(name, binding) is not binding:
        text = f'"{name}" is one thing here, and another to the nested function, which may change it'
        raise walker.error(node, text, hint="use two names")
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def _inner_walker(walker: Walker, definition: ast.FunctionDef | ast.Lambda, owner: Walker, node: ast.AST) -> Walker:
    inner = WalkerClass.__new__(WalkerClass)
    for slot in WalkerClass.__slots__:
        setattr(inner, slot, getattr(walker, slot))
    if walker.inlined.count(definition) > DEPTH_LIMIT:
        raise walker.error(
            node, "nested functions cannot call themselves", hint="define the function at the top of the file"
        )
    inner.inlined = (*walker.inlined, definition)
    inner.node = definition
    inner.outer = owner if owner.env is not walker.env else walker
    inner.env = {}
    inner.loops = []
    inner.lent = frozenset()
    inner.memory = memory_names(definition)
    inner.file = owner.file
    return inner


def _tail(walker: Walker, statements: list[ast.stmt], definition: ast.FunctionDef) -> Binding | None:
    """Walks statements in tail position; the value returned, None where control falls off the end."""
    for position, statement in enumerate(statements):
        walker.at(statement)
        if isinstance(statement, ast.Return):
            return Static(None) if statement.value is None else evaluate(walker, statement.value)
        if isinstance(statement, ast.If) and contains_return([statement]):
            return _tail_if(walker, statement, statements[position + 1 :], definition)
        if contains_return([statement]):
            raise walker.error(
                statement,
                "a nested function cannot return from inside a loop",
                hint="set a variable and return after the loop, or define the function at the top of the file",
            )
        if walk(walker, [statement]):
            return None
    return None


def _tail_if(walker: Walker, node: ast.If, rest: list[ast.stmt], definition: ast.FunctionDef) -> Binding | None:
    condition = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if isinstance(condition, Static):
        return _tail(walker, [*(node.body if condition.value else node.orelse), *rest], definition)
    if not (leaves(node.body) or leaves(node.orelse) or not rest):
        raise walker.error(
            node,
            "this early return is too tangled for a nested function",
            hint="define the function at the top of the file",
        )
    location = walker.builder.location
    paths: list[Path] = []
    results: list[Binding] = []
    env = walker.env
    for statements in (node.body, node.orelse):
        walker.env = dict(env)
        path = Path(Block(), walker.env)
        with walker.inside(path.block):
            found = _tail(walker, [*statements, *rest], definition)
        results.append(Static(None) if found is None else found)
        paths.append(path)
    walker.env = env
    return meet(walker, condition, paths, results, node, location)
