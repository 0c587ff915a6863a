"""Rewrites a function's source so that Python runs it with the value semantics of kernels.

Assignment copies vectors, parameters are by value (by reference where annotated `qd.template()`), annotations convert,
and atomic operations work on names too. Control flow, names and operators stay Python's own.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

__all__ = ["compiled"]

COPY, ENTER, LEAVE, ITEMS, ATOMIC, CALL = "__copy", "__enter", "__leave", "__items", "__atomic", "__call"
_HELD = "__held"


def compiled(function: FunctionType, template_positions: Callable[[ast.expr], frozenset[int]]) -> CodeType:
    """The code of a module that defines the rewritten function under its own name.

    `template_positions` says at which positions the callee of a call takes its arguments by reference.
    """
    definition = _definition(function)
    # The caller gives the function its defaults, which need no names then.
    definition.args.defaults = [ast.Constant(value=None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [d and ast.Constant(value=None) for d in definition.args.kw_defaults]
    rewritten = Rewriter(template_positions).visit(definition)
    module = ast.Module(body=[rewritten], type_ignores=[])
    return compile(ast.fix_missing_locations(module), function.__code__.co_filename, "exec", dont_inherit=True)


def _definition(function: FunctionType) -> ast.FunctionDef:
    """The function's syntax tree, with the line numbers of its file."""
    first = function.__code__.co_firstlineno
    linecache.checkcache(function.__code__.co_filename)
    lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
    try:
        found = ast.parse(
            "\n" * (first - 1) + textwrap.dedent("".join(lines[first - 1 : _last_line(function.__code__)]))
        )
    except SyntaxError:  # its last lines have no code, or its text is not dedented evenly
        found = ast.parse("\n" * (first - 1) + textwrap.dedent(inspect.getsource(function)))
    if not (found.body and isinstance(found.body[0], ast.FunctionDef)):
        raise TypeError(f"{function.__qualname__} is not written as a def")
    return found.body[0]


def _last_line(code: CodeType) -> int:
    """The last line that a function has code for."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return max([code.co_firstlineno, *lines, *inner])


def is_template(annotation: ast.expr | None) -> bool:
    """Whether an annotation is `qd.template()` or `qd.Template`, as written."""
    if isinstance(annotation, ast.Call):
        annotation = annotation.func
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = getattr(annotation, "attr", getattr(annotation, "id", ""))
    return name in ("template", "Template")


def parameters(definition: ast.FunctionDef) -> list[ast.arg]:
    """All parameters of a definition that bind a single value."""
    arguments = definition.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])


def _load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _bind(name: str, value: ast.expr) -> ast.NamedExpr:
    return ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store()), value=value)


def _item(sequence: ast.expr, position: int) -> ast.Subscript:
    return ast.Subscript(value=sequence, slice=ast.Constant(value=position), ctx=ast.Load())


def _in_order(*steps: ast.expr) -> ast.expr:
    """An expression that evaluates the steps in order and has the value of the last."""
    return ast.Subscript(
        value=ast.Tuple(elts=list(steps), ctx=ast.Load()), slice=ast.Constant(value=-1), ctx=ast.Load()
    )


class Rewriter(ast.NodeTransformer):
    """One use rewrites one definition and the definitions nested in it."""

    def __init__(self, template_positions: Callable[[ast.expr], frozenset[int]]) -> None:
        self.template_positions = template_positions
        self.returns: ast.expr | None = None
        self.by_reference: list[str] = []
        self.local_names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        outer = self.returns, self.by_reference, self.local_names
        self.returns = node.returns
        self.by_reference = [p.arg for p in parameters(node) if is_template(p.annotation)]
        self.local_names = {p.arg for p in parameters(node)} | _stored_names(node)
        entries = [_entry(parameter) for parameter in parameters(node) if not is_template(parameter.annotation)]
        body = [self.visit(statement) for statement in node.body]
        if self.by_reference:
            body.append(ast.Return(value=self._left(ast.Constant(value=None))))
        node.body = [*entries, *(statement for statement in body if statement is not None)]
        self.returns, self.by_reference, self.local_names = outer
        for parameter in [*parameters(node), *filter(None, (node.args.vararg, node.args.kwarg))]:
            parameter.annotation = None
        node.decorator_list, node.returns = [], None
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        value = self.visit(node.value) if node.value is not None else ast.Constant(value=None)
        node.value = self._left(value)
        return node

    def _left(self, value: ast.expr) -> ast.expr:
        left = _call(LEAVE, value, self.returns or ast.Constant(value=None))
        if not self.by_reference:
            return left
        changed = ast.Tuple(elts=[_load(name) for name in self.by_reference], ctx=ast.Load())
        return ast.Tuple(elts=[left, changed], ctx=ast.Load())

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        node.value = _call(COPY, node.value)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.generic_visit(node)
        node.value = _call(COPY, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.Pass()
        return ast.Assign(targets=[node.target], value=_call(ENTER, self.visit(node.value), node.annotation))

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.iter = _call(ITEMS, node.iter)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        positions = self.template_positions(node.func)
        self.generic_visit(node)
        if positions:
            return self._call_by_reference(node, positions)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name.startswith("atomic_") and isinstance(node.args[0], ast.Name) and node.args[0].id in self.local_names:
            return self._atomic_on_name(node, node.args[0].id)
        return node

    def _atomic_on_name(self, node: ast.Call, name: str) -> ast.expr:
        outcome = _bind(_HELD, _call(ATOMIC, node.func, *node.args))
        return _in_order(outcome, _bind(name, _item(_load(_HELD), 1)), _item(_load(_HELD), 0))

    def _call_by_reference(self, node: ast.Call, positions: frozenset[int]) -> ast.expr:
        """A call of a function with template parameters gives (result, values of those parameters)."""
        steps: list[ast.expr] = [_bind(_HELD, node)]
        for order, position in enumerate(sorted(positions)):
            if position < len(node.args):
                argument = node.args[position]
                if isinstance(argument, ast.Name) and argument.id in self.local_names:
                    steps.append(_bind(argument.id, _item(_item(_load(_HELD), 1), order)))
        return _in_order(*steps, _item(_load(_HELD), 0))


def _entry(parameter: ast.arg) -> ast.stmt:
    """`p = __enter(p, annotation)`: by value, converted to the annotated type."""
    annotation = parameter.annotation
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    value = _call(ENTER, _load(parameter.arg), annotation or ast.Constant(value=None))
    return ast.Assign(targets=[ast.Name(id=parameter.arg, ctx=ast.Store())], value=value)


def _stored_names(definition: ast.FunctionDef) -> set[str]:
    return {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
