"""Objects that a function is lent: lists and objects of dataclasses that belong to a caller, or to the function around a
nested one. A change is given back where that can be told; where it cannot, it is refused where it is made."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING

from quadrants.frontend.identity import current
from quadrants.frontend.merge import same_static
from quadrants.frontend.scan import bound_names
from quadrants.frontend.values import Binding, Sequence, Static, is_changeable

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = ["as_they_are", "bound_anew", "changed_in_place", "changed_names", "lent_names"]

HINT = "define it at the top of the file: there, lists and objects of dataclasses are passed by reference"


def lent_names(definition: ast.AST, arguments: Env) -> frozenset[str]:
    """The parameters of a function of its own whose changes cannot be given back, since their names may stand for
    something else at the end."""
    if not isinstance(definition, ast.FunctionDef):
        return frozenset()
    lent = [name for name, binding in arguments.items() if is_changeable(binding)]
    return bound_names(definition).intersection(lent) if lent else frozenset()


def bound_anew(walker: Walker, name: str) -> None:
    """From here on the name certainly stands for something else than what the function was lent. Where paths meet of which
    some have not come here, the mark becomes Broken or goes."""
    if name in walker.lent:
        walker.env[_mark(name)] = Static(None)


def changed_in_place(walker: Walker, place: ast.expr, node: ast.AST) -> None:
    """What a name holds (or what is part of that) is changed, not bound: an error if the change would be lost."""
    while isinstance(place, (ast.Subscript, ast.Attribute)):
        place = place.value
    if not isinstance(place, ast.Name):
        return
    name = place.id
    if name not in walker.env:
        if walker.outer is not None and walker.outer.visible(name) is not None:
            raise walker.error(
                node,
                f'"{name}" belongs to the function around this one, which cannot be changed here',
                hint="return the new value, or define the function at the top of the file",
            )
    elif name in walker.lent and type(walker.env.get(_mark(name))) is not Static:
        if walker.outer is not None:
            raise walker.error(node, f'the nested function changes the object "{name}" that it is given', hint=HINT)
        raise walker.error(
            node,
            f'this changes the object "{name}" that the function is given, but "{name}" is bound to something else in it, too',
            hint="use another name for the other object",
        )


def _mark(name: str) -> str:
    return f"$own.{name}"


def changed_names(before: Env, after: Env) -> list[str]:
    """The names that are bound otherwise than before."""
    return [name for name, binding in after.items() if not _is_same(before.get(name), binding)]


def as_they_are(
    walker: Walker, bindings: Collection[Binding], nodes: list[ast.expr] | list[ast.expr | None], since: int
) -> list[Binding]:
    """Bindings that were evaluated one after the other, the objects among them as they are after the last: what was evaluated
    later may have changed them. `nodes`: their syntax, where there is any; `since`: how many changes the walker had seen."""
    if len(walker.changes) == since:
        return [*bindings]
    return [
        _as_it_is(walker, binding, node) for binding, node in itertools.zip_longest(bindings, nodes[: len(bindings)])
    ]


def _as_it_is(walker: Walker, binding: Binding, node: ast.expr | None) -> Binding:
    if type(binding) is not Sequence:
        return binding
    held = _held(walker, node)
    return held if type(held) is Sequence and held.identity == binding.identity else current(walker, binding)


def _held(walker: Walker, node: ast.expr | None) -> Binding | None:
    """What a name, or a member of what one holds, is now; None for other expressions."""
    if isinstance(node, ast.Name):
        return walker.env.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _held(walker, node.value)
    if type(owner) is Sequence and node.attr in owner.names:
        return owner.items[owner.names.index(node.attr)]
    return None


def _is_same(before: Binding | None, after: Binding) -> bool:
    return before is after or (before is not None and same_static(before, after))
