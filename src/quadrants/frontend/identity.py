"""Which object a list or record is. The compiler holds objects by value; in Python, names and members may share one. What
changes an object that anything else in reach may be is refused, for the others would not see it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from quadrants.frontend.scan import live_head, names_in, subtree
from quadrants.frontend.values import Binding, Identity, Sequence, is_changeable

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = [
    "check_next_iteration",
    "check_only_name",
    "current",
    "given_back",
    "identities",
    "is_tangled",
    "may_be",
    "objects_in",
]


def objects_in(binding: Binding | None) -> Iterator[Sequence]:
    """The lists and records that a binding consists of, itself among them, as often as it holds them."""
    if type(binding) is Sequence:
        if is_changeable(binding):
            yield binding
        for item in binding.items:
            yield from objects_in(item)


def identities(bindings: Iterable[Binding | None]) -> Identity:
    """The objects that the bindings, or parts of them, may be."""
    return frozenset().union(*[found.identity for binding in bindings for found in objects_in(binding)])


def current(walker: Walker, before: Sequence) -> Sequence:
    """What an object is now that was `before`; the same where nothing in reach holds it."""
    for name in _visible(walker.env):
        for found in objects_in(walker.env[name]):
            if before.identity and found.identity == before.identity:
                return found
    return before


def may_be(binding: Binding, others: Iterable[Binding | None]) -> Binding:
    """The binding where paths meet that have the others for it: each object in it may be that of any path."""
    rivals = [other for other in others if type(other) is Sequence]
    if type(binding) is not Sequence or not rivals:
        return binding
    items = [
        may_be(item, [other.items[position] for other in rivals if position < len(other.items)])
        for position, item in enumerate(binding.items)
    ]
    found = binding.of(items)
    found.identity = binding.identity.union(*[other.identity for other in rivals])
    return found


def given_back(result: Binding, arguments: list[Binding]) -> Binding:
    """The result of a function that may give back objects that are, or are in, these arguments."""
    if type(result) is not Sequence:
        return result
    found = result.of([given_back(item, arguments) for item in result.items])
    alike = [other.identity for other in (o for a in arguments for o in objects_in(a)) if other.record is result.record]
    found.identity = result.identity.union(*alike)
    return found


def is_tangled(binding: Binding) -> bool:
    """Whether two of the objects that a binding consists of may be one."""
    found = list(objects_in(binding))
    return any(one.identity & other.identity for k, one in enumerate(found) for other in found[:k])


def check_only_name(walker: Walker, changed: Binding, place: ast.expr | None, node: ast.AST) -> None:
    """Refuses to change an object that something else in reach may be. `place`: the expression that names it."""
    if type(changed) is not Sequence or not is_changeable(changed):
        return
    walker.changes.append(changed.identity)
    own = _root(place)
    sharing = [name for name in _visible(walker.env) for _ in _sharing(walker.env[name], changed)]
    if len(sharing) <= bool(own):
        return
    others = [name for name in sharing if name != own and _is_read(walker, name, node)]
    if not others and sharing.count(own) < 2:
        return
    others = others or [own]
    kind = f"an object of {changed.record.__name__}" if changed.record is not None else "a list"
    raise walker.error(
        node,
        f'this changes {kind} that "{others[0]}" may be or hold, too: one that changes has one name in a kernel',
        hint=_hint(changed, place),
    )


def _hint(changed: Sequence, place: ast.expr | None) -> str:
    if isinstance(place, (ast.IfExp, ast.BoolOp)):
        return "choose by a statement: `if …:` with a call for one, `else:` with a call for the other"
    if changed.record is None:
        return "make a list of its own: `list(…)`"
    return "make an object of its own: `dataclasses.replace(…)`, or use one name for it throughout"


def _is_read(walker: Walker, name: str, node: ast.AST) -> bool:
    """Whether a name may be read after a change: further down, in a loop around it, by a nested function, or by the caller
    that gave it."""
    if name in walker.entry:
        return True
    nested = [part for part in subtree(walker.node) if isinstance(part, (ast.FunctionDef, ast.Lambda))]
    within = [part for part in nested if part is not walker.node]
    if any(name in live_head(loop.node) for loop in walker.loops) or any(name in names_in(part) for part in within):
        return True
    last = getattr(node, "lineno", 0)
    return any(
        isinstance(part, ast.Name) and part.id == name and type(part.ctx) is ast.Load and part.lineno >= last
        for part in subtree(walker.node)
    )


def _visible(env: Env) -> list[str]:
    return [name for name in env if name.isidentifier()]


def _sharing(binding: Binding, changed: Sequence) -> list[Sequence]:
    return [found for found in objects_in(binding) if found.identity & changed.identity]


def _root(place: ast.expr | None) -> str:
    while isinstance(place, (ast.Subscript, ast.Attribute)):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def check_next_iteration(
    walker: Walker, names: Collection[str], before: Env, rounds: list[Env], changes: list[Identity], node: ast.AST
) -> None:
    """Refuses a loop in which names come to share an object that the next iteration then changes. `names`: those that
    the next iteration, or what follows the loop, may read; `rounds`: the names where an iteration ends; `changes`: what one changes."""
    changed: Identity = frozenset().union(*changes)
    for env in rounds:
        for name in names if changed else ():
            new = identities([env.get(name)]) - identities([before.get(name)])
            for other in names if new else ():
                if other == name or not new & identities([env.get(other)]):
                    continue
                if changed & identities([env[name], env[other], before.get(name), before.get(other)]):
                    raise walker.error(
                        node,
                        f'"{name}" and "{other}" would be one object in the next iteration, which changes under one of them',
                        hint="make an object of its own: `dataclasses.replace(…)` or `list(…)`",
                    )
