"""Facts of the syntax alone, found once a node: which names a stretch of code assigns, which locals need memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "all_assigned",
    "annotate_liveness",
    "assigned_names",
    "bound_names",
    "breaks",
    "contains_return",
    "element_names",
    "last_assignment",
    "leaves",
    "live_head",
    "live_out",
    "mark_live",
    "member_names",
    "memory_names",
    "names_in",
    "statements_below",
    "subtree",
    "touched_names",
    "written_arguments",
]

# Fields that hold no nodes worth a visit.
_LEAVES = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "kind", "name", "names", "type_comment", "module", "level", "conversion"}
)
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_fields: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: (), ast.Name: ()}


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _fields.get(kind)
    if found is None:
        found = _fields[kind] = tuple([name for name in kind._fields if name not in _LEAVES])
    return found


def subtree(node: ast.AST) -> list[ast.AST]:
    """The node and all below, in no particular order; contexts and operators are none."""
    found = [node]
    for reached in found:
        for name in _fields_of(type(reached)):
            value = getattr(reached, name, None)
            if type(value) is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def statements_below(node: ast.AST) -> list[ast.AST]:
    """Every statement below a node, however deep, in no particular order; expressions are not looked into."""
    found = [node]
    for reached in found:
        for name in _BODIES:
            value = getattr(reached, name, None)
            if type(value) is list:
                found += value
    return found[1:]


class _Facts:
    """What a statement or expression says of names.

    `assigned`: bound or changed in place; `touched`: what calls may change, templates passed by reference and targets
    of atomics and of `fill`; `members`: of which a member, or an element of one, is assigned; `loads`: read (the base of an element that is written counts, and what nested functions
    mention); `indexed`: elements that are written, as the base and the names in the index; `static`: the targets of
    `qd.static` loops; `returns`: whether a `return` is among it. All but the last three leave nested functions aside.
    """

    __slots__ = ("assigned", "indexed", "loads", "members", "returns", "static", "touched")

    def __init__(self) -> None:
        # There is one of these a statement: what most have nothing of is None until there is something.
        self.assigned: dict[str, None] | None = None
        self.touched: dict[str, None] | None = None
        self.loads: set[str] = set()
        self.indexed: list[tuple[str, list[str]]] | None = None
        self.static: set[str] | None = None
        self.members: set[str] | None = None
        self.returns = False

    def assign(self, name: str) -> None:
        self.assigned = self.assigned or {}
        self.assigned[name] = None

    def touch(self, name: str) -> None:
        self.touched = self.touched or {}
        self.touched[name] = None

    def index(self, base: str, indices: list[str]) -> None:
        self.indexed = self.indexed or []
        self.indexed.append((base, indices))

    def include(self, other: _Facts) -> None:
        self.loads |= other.loads
        self.returns |= other.returns
        if other.assigned:
            self.assigned = self.assigned or {}
            self.assigned.update(other.assigned)
        if other.touched:
            self.touched = self.touched or {}
            self.touched.update(other.touched)
        if other.indexed:
            self.indexed = self.indexed or []
            self.indexed += other.indexed
        if other.static:
            self.static = (self.static or set()) | other.static
        if other.members:
            self.members = (self.members or set()) | other.members


def _facts(node: Any) -> _Facts:
    """The facts of a statement or of an expression in the head of one; remembered on the node."""
    known = getattr(node, "_facts", None)
    if known is None:
        known = _Facts()
        _VISIT.get(type(node), _visit)(node, known, False)
        node._facts = known
    return known


# Within a comprehension: its targets are its own, what `:=` binds is not.
_COMPREHENSION = 2


def _visit(node: ast.AST, found: _Facts, nested: int) -> None:
    """Adds the facts of a node and all below."""
    visit = _VISIT
    kind = type(node)
    look = _LOOK.get(kind)
    if look is not None:
        nested = look(node, found, nested)
    for name in _fields_of(kind):
        value = getattr(node, name, None)
        if type(value) is not list:
            if isinstance(value, ast.AST):
                visit.get(type(value), _visit)(value, found, nested)
        elif not nested and name in _BODIES:
            for child in value:
                found.include(_facts(child))
        else:
            for child in value:
                if isinstance(child, ast.AST):
                    visit.get(type(child), _visit)(child, found, nested)


def _visit_name(node: ast.Name, found: _Facts, nested: int) -> None:
    if type(node.ctx) is ast.Load:
        found.loads.add(node.id)
    elif not nested:
        found.assign(node.id)


def _visit_constant(node: ast.Constant, found: _Facts, nested: int) -> None:
    """A constant tells nothing."""


def _visit_binary(node: ast.BinOp, found: _Facts, nested: int) -> None:
    _VISIT.get(type(node.left), _visit)(node.left, found, nested)
    _VISIT.get(type(node.right), _visit)(node.right, found, nested)


_VISIT: dict[type[ast.AST], Callable[..., None]] = {
    ast.Name: _visit_name,
    ast.Constant: _visit_constant,
    ast.BinOp: _visit_binary,
}


def _look_element(node: ast.Subscript | ast.Attribute, found: _Facts, nested: int) -> int:
    if type(node.ctx) is ast.Store:
        base = _base_name(node)
        if base and not nested:
            found.assign(base)
        if base and (type(node) is ast.Attribute or type(node.value) is not ast.Name):
            found.members = (found.members or set()) | {base}
        if type(node) is ast.Subscript and type(node.value) is ast.Name:
            found.index(node.value.id, _names(node.slice))
    return nested


def written_arguments(node: ast.Call) -> list[ast.expr]:
    """The positional arguments of a call, `*(a, b)` as the two that it is."""
    found: list[ast.expr] = []
    for argument in node.args:
        starred = argument.value if isinstance(argument, ast.Starred) else None
        found += starred.elts if isinstance(starred, (ast.Tuple, ast.List)) else [argument]
    return found


def _look_call(node: ast.Call, found: _Facts, nested: int) -> int:
    for argument in (*written_arguments(node), *[keyword.value for keyword in node.keywords]):
        base = _base_name(argument)
        if base:
            found.touch(base)
    if type(node.func) is ast.Attribute:
        base = _base_name(node.func)
        if base:
            found.touch(base)
        target = node.args[0] if node.args else _keyword(node, "x")
        if node.func.attr.startswith("atomic_") and type(target) is ast.Subscript and type(target.value) is ast.Name:
            found.index(target.value.id, _names(target.slice))
    return nested


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _look_update(node: ast.AugAssign, found: _Facts, nested: int) -> int:
    if type(node.target) is ast.Name and not nested:
        found.loads.add(node.target.id)
    return nested


def _look_loop(node: ast.For, found: _Facts, nested: int) -> int:
    if _is_static_call(node.iter):
        found.static = (found.static or set()).union(_names(node.target))
    return nested


def _look_return(node: ast.Return, found: _Facts, nested: int) -> int:
    found.returns |= not nested
    return nested


def _look_definition(node: ast.FunctionDef, found: _Facts, nested: int) -> int:
    if not nested:
        found.assign(node.name)
    return True


def _look_scope(node: ast.AST, found: _Facts, nested: int) -> int:
    return True


def _look_comprehension(node: ast.AST, found: _Facts, nested: int) -> int:
    return nested or _COMPREHENSION


def _look_named(node: ast.NamedExpr, found: _Facts, nested: int) -> int:
    if nested == _COMPREHENSION:
        found.assign(node.target.id)
    return nested


_LOOK: dict[type[ast.AST], Callable[..., int]] = {
    ast.Subscript: _look_element,
    ast.Attribute: _look_element,
    ast.Call: _look_call,
    ast.AugAssign: _look_update,
    ast.For: _look_loop,
    ast.Return: _look_return,
    ast.FunctionDef: _look_definition,
    ast.Lambda: _look_scope,
    ast.NamedExpr: _look_named,
    ast.ListComp: _look_comprehension,
    ast.GeneratorExp: _look_comprehension,
    ast.DictComp: _look_comprehension,
    ast.SetComp: _look_comprehension,
}


def assigned_names(statements: Iterable[ast.stmt], owner: ast.AST) -> tuple[str, ...]:
    """The names that the statements may bind or change in place, in order; remembered on `owner`."""
    key = "_assigned_else" if statements is getattr(owner, "orelse", None) else "_assigned"
    known = getattr(owner, key, None)
    if known is None:
        found: dict[str, None] = {}
        for statement in statements:
            found.update(_facts(statement).assigned or {})
        known = tuple(found)
        setattr(owner, key, known)
    return known


def touched_names(node: ast.AST) -> tuple[str, ...]:
    """Names that calls within the node may change: templates passed by reference, targets of atomics and of `fill`."""
    return tuple(_facts(node).touched or ())


def _base_name(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def contains_return(statements: Iterable[ast.stmt]) -> bool:
    """Whether a `return` stands anywhere in the statements (nested functions aside)."""
    return any(_facts(statement).returns for statement in statements)


def last_assignment(function: ast.AST, name: str, first: int, last: int) -> int | None:
    """The line of the last assignment of `name` on lines first..last of a function, None if there is none."""
    lines = [
        child.lineno
        for child in subtree(function)
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


def breaks(statements: Iterable[ast.AST]) -> bool:
    """Whether a `break` in a loop's body, not in a loop within, leaves it."""
    for statement in statements:
        if isinstance(statement, ast.Break):
            return True
        within = statement.orelse if isinstance(statement, (ast.For, ast.While)) else ast.iter_child_nodes(statement)
        if isinstance(statement, (ast.stmt, ast.match_case, ast.ExceptHandler)) and breaks(within):
            return True
    return False


def memory_names(function: Any) -> frozenset[str]:
    """Local names whose elements are assigned at indices that are not evidently static: matrices bound to them go to
    memory. Evidently static: constants and the targets of `qd.static` loops."""
    known = getattr(function, "_memory_names", None)
    if known is None:
        found = _Facts()
        for statement in function.body if isinstance(function, ast.FunctionDef) else [function.body]:
            found.include(_facts(statement))
        static = found.static or set()
        known = frozenset([base for base, index in found.indexed or () if not static.issuperset(index)])
        notes: Any = function
        notes._memory_names = known
    return known


def element_names(function: ast.AST) -> frozenset[str]:
    """Local names whose elements are assigned."""
    return frozenset([base for base, _ in _facts(function).indexed or ()])


def member_names(function: ast.AST) -> frozenset[str]:
    """Local names of which members (or elements of elements) are assigned."""
    return frozenset(_facts(function).members or ())


def bound_names(function: ast.FunctionDef) -> frozenset[str]:
    """Names that assignments and loops in the function bind as a whole."""
    known = getattr(function, "_bound_names", None)
    if known is None:
        known = frozenset(
            [
                child.id
                for child in subtree(function)
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
            ]
        )
        notes: Any = function
        notes._bound_names = known
    return known


def names_in(node: ast.AST) -> set[str]:
    """All names that a stretch of code mentions."""
    return set(_names(node))


def _names(node: ast.AST) -> list[str]:
    return [child.id for child in subtree(node) if type(child) is ast.Name]


def _is_static_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and "static" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))


def live_out(node: Any) -> frozenset[str]:
    """The names read after an `if` or loop (of a function whose liveness is annotated)."""
    return node._live_out


def live_head(node: Any) -> frozenset[str]:
    """The names that an iteration of a loop, or what follows it, may read from before the iteration."""
    return node._live_head


def mark_live(node: Any, out: frozenset[str], head: frozenset[str] | None = None) -> None:
    """Leaves the liveness of an `if` or (with `head`) a loop on its node."""
    node._live_out = out
    if head is not None:
        node._live_head = head


def all_assigned(function: Any) -> frozenset[str]:
    """All names that a function (whose liveness is annotated) assigns."""
    return function._all_assigned


class _Liveness:
    """Backward liveness over structured statements; `live_out` and `live_head` tell what it finds. `given_back`: names that
    are read wherever the function is left."""

    def __init__(self, given_back: set[str]) -> None:
        self.given_back = given_back
        self.loops: list[tuple[set[str], set[str]]] = []

    def block(self, statements: list[ast.stmt], live: set[str]) -> set[str]:
        for statement in reversed(statements):
            live = self.statement(statement, live)
        return live

    def statement(self, node: ast.stmt, live: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            mark_live(node, frozenset(live))
            return self.block(node.body, live) | self.block(node.orelse, live) | _facts(node.test).loads
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node, live)
        if isinstance(node, ast.Return):
            return self.given_back | _facts(node).loads
        if isinstance(node, ast.Break):
            return set(self.loops[-1][0]) if self.loops else live
        if isinstance(node, ast.Continue):
            return set(self.loops[-1][1]) if self.loops else live
        if isinstance(node, ast.With):
            return self.block(node.body, live) | set().union(*[_facts(item.context_expr).loads for item in node.items])
        return (live - _plain_targets(node)) | _facts(node).loads

    def loop(self, node: ast.For | ast.While, live: set[str]) -> set[str]:
        after = self.block(node.orelse, live)
        head_uses = _facts(node.iter).loads if isinstance(node, ast.For) else _facts(node.test).loads
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
        mark_live(node, frozenset(live | after), frozenset(head))
        return head | head_uses


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


def annotate_liveness(function: Any) -> None:
    """Leaves the liveness facts on the function's statements; once a function."""
    if isinstance(function, ast.FunctionDef) and not hasattr(function, "_live"):
        # The parameters that come back to the caller (templates) are read at the end.
        parameters = {argument.arg for argument in function.args.args}
        notes: Any = function
        notes._live = _Liveness(parameters).block(function.body, parameters)
        notes._all_assigned = frozenset(assigned_names(function.body, function))
