"""Facts of the syntax alone, found once a node: which names a stretch of code assigns, which locals need memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = [
    "annotate_liveness",
    "assigned_names",
    "contains_return",
    "last_assignment",
    "leaves",
    "memory_names",
    "touched_names",
]


def assigned_names(statements: Iterable[ast.stmt], owner: ast.AST) -> tuple[str, ...]:
    """The names that the statements may bind or change in place, in order; remembered on `owner`."""
    key = "_assigned_else" if statements is getattr(owner, "orelse", None) else "_assigned"
    known = getattr(owner, key, None)
    if known is None:
        found: dict[str, None] = {}
        for statement in statements:
            _collect(statement, found)
        known = tuple(found)
        setattr(owner, key, known)
    return known


def _collect(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            found[node.id] = None
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        base = _base_name(node)
        if base:
            found[base] = None
        for child in ast.iter_child_nodes(node):
            _collect(child, found)
    elif isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = None
    else:
        for child in ast.iter_child_nodes(node):
            _collect(child, found)


def touched_names(node: ast.AST) -> tuple[str, ...]:
    """Names that calls within the node may change: templates passed by reference, targets of atomics and of `fill`."""
    known = getattr(node, "_touched", None)
    if known is None:
        found: dict[str, None] = {}
        for child in ast.walk(node):
            if isinstance(child, ast.Call):
                _collect_by_reference(child, found)
        known = tuple(found)
        node._touched = known  # type: ignore[attr-defined]
    return known


def _collect_by_reference(node: ast.Call, found: dict[str, None]) -> None:
    for argument in node.args:
        base = _base_name(argument) if isinstance(argument, (ast.Name, ast.Subscript, ast.Attribute)) else None
        if base:
            found[base] = None
    if isinstance(node.func, ast.Attribute):
        base = _base_name(node.func)
        if base:
            found[base] = None


def _base_name(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def contains_return(statements: Iterable[ast.stmt]) -> bool:
    """Whether a `return` stands anywhere in the statements (nested functions aside)."""
    return any(_has(statement, ast.Return) for statement in statements if not isinstance(statement, ast.FunctionDef))


def _has(node: ast.AST, kind: type[ast.AST]) -> bool:
    known = getattr(node, "_has_return", None)
    if known is None:
        known = isinstance(node, kind) or any(
            _has(child, kind)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.expr))
        )
        node._has_return = known  # type: ignore[attr-defined]
    return known


def last_assignment(function: ast.AST, name: str, first: int, last: int) -> int | None:
    """The line of the last assignment of `name` on lines first..last of a function, None if there is none."""
    lines = [
        child.lineno
        for child in ast.walk(function)
        if isinstance(child, ast.Name)
        and isinstance(child.ctx, ast.Store)
        and child.id == name
        and first <= child.lineno <= last
    ]
    return max(lines, default=None)


def leaves(statements: list[ast.stmt]) -> bool:
    """Whether the statements certainly end in `return`, whatever the path."""
    return any(
        isinstance(statement, ast.Return)
        or (
            isinstance(statement, ast.If)
            and bool(statement.orelse)
            and leaves(statement.body)
            and leaves(statement.orelse)
        )
        for statement in statements
    )


def memory_names(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Local names whose elements are assigned at indices that are not evidently static: matrices bound to them go to
    memory. Evidently static: constants and the targets of `qd.static` loops."""
    known = getattr(function, "_memory_names", None)
    if known is None:
        static = {
            name
            for loop in ast.walk(function)
            if isinstance(loop, ast.For) and _is_static_call(loop.iter)
            for name in _names(loop.target)
        }
        known = frozenset(_stored_at_run_time(function, static))
        function._memory_names = known  # type: ignore[attr-defined]
    return known


def _stored_at_run_time(function: ast.AST, static: set[str]) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            if not set(_names(node.slice)) <= static:
                yield node.value.id
        elif (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Subscript)
            and isinstance(node.args[0].value, ast.Name)
        ):
            if getattr(node.func, "attr", "").startswith("atomic_") and not set(_names(node.args[0].slice)) <= static:
                yield node.args[0].value.id


def _names(node: ast.AST) -> list[str]:
    return [child.id for child in ast.walk(node) if isinstance(child, ast.Name)]


def _is_static_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and "static" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))


class _Liveness:
    """Backward liveness over structured statements. On every `if` and loop it leaves `_live_out`: the names read later;
    on every loop `_live_head`: the names that an iteration or what follows may read from before it."""

    def __init__(self) -> None:
        self.loops: list[tuple[set[str], set[str]]] = []

    def block(self, statements: list[ast.stmt], live: set[str]) -> set[str]:
        for statement in reversed(statements):
            live = self.statement(statement, live)
        return live

    def statement(self, node: ast.stmt, live: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            node._live_out = frozenset(live)  # type: ignore[attr-defined]
            return self.block(node.body, live) | self.block(node.orelse, live) | _uses(node.test)
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node, live)
        if isinstance(node, ast.Return):
            return _uses(node)
        if isinstance(node, ast.Break):
            return set(self.loops[-1][0]) if self.loops else live
        if isinstance(node, ast.Continue):
            return set(self.loops[-1][1]) if self.loops else live
        if isinstance(node, ast.With):
            return self.block(node.body, live) | _uses(*[item.context_expr for item in node.items])
        return (live - _plain_targets(node)) | _uses(node)

    def loop(self, node: ast.For | ast.While, live: set[str]) -> set[str]:
        after = self.block(node.orelse, live)
        head_uses = _uses(node.iter) if isinstance(node, ast.For) else _uses(node.test)
        targets = set(_names(node.target)) if isinstance(node, ast.For) else set()
        repeated = set() if isinstance(node, ast.For) else head_uses
        head = after | repeated
        for _ in range(3):
            self.loops.append((live, head))
            inner = self.block(node.body, head) - targets
            self.loops.pop()
            if inner <= head:
                break
            head = head | inner
        node._live_out = frozenset(live | after)  # type: ignore[attr-defined]
        node._live_head = frozenset(head)  # type: ignore[attr-defined]
        return head | head_uses


def _uses(*nodes: ast.AST) -> set[str]:
    """Names read in the nodes; the base of an element that is written counts as read, and so does what nested
    functions mention."""
    return {
        child.id
        for node in nodes
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and (isinstance(child.ctx, ast.Load) or isinstance(node, ast.AugAssign))
    }


def _plain_targets(node: ast.stmt) -> set[str]:
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign) and node.value
        else []
    )
    found: set[str] = set()
    for target in targets:
        for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(part, ast.Name):
                found.add(part.id)
    return found


def annotate_liveness(function: ast.FunctionDef | ast.Lambda) -> None:
    """Leaves the liveness facts on the function's statements; once a function."""
    if isinstance(function, ast.FunctionDef) and not hasattr(function, "_live"):
        # The parameters that come back to the caller (templates) are read at the end.
        parameters = {argument.arg for argument in function.args.args}
        function._live = _Liveness().block(function.body, parameters)  # type: ignore[attr-defined]
        function._all_assigned = frozenset(assigned_names(function.body, function))  # type: ignore[attr-defined]
