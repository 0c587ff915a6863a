"""Names that loops carry: which they are, their types, the values they enter, go round and leave with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsNameError, QuadrantsSyntaxError
from quadrants.frontend import numbers
from quadrants.frontend.dispatch import walk
from quadrants.frontend.merge import (
    NoUnion,
    append_yield,
    convert_to,
    rebuild_sequences,
    same_static,
    unify,
    value_facts,
)
from quadrants.frontend.scan import assigned_names, touched_names
from quadrants.frontend.values import Array, Binding, Broken, Run, Sequence, Slot, Static
from quadrants.frontend.walker import Exit, Loop
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import Type, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = [
    "Carry",
    "bind_results",
    "carried_names",
    "close_exits",
    "initial_values",
    "is_carried",
    "new_names",
    "walk_body",
    "widened_types",
]


class Carry:
    """The names that a loop carries: their types, and the values they enter with."""

    __slots__ = ("entries", "names", "types")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.types: list[tuple[Type, bool]] = []
        self.entries: list[Binding] = []


def carried_names(
    walker: Walker, node: ast.For | ast.While, known: dict[str, tuple[Type, bool]], targets: set[str], flag: str
) -> Carry:
    carry = Carry()
    wanted = list(dict.fromkeys([*assigned_names(node.body, node), *((flag,) if flag else ()), *known]))
    live = node._live_head | node._live_out  # type: ignore[union-attr]
    for name in wanted:
        binding = walker.env.get(name)
        if binding is None or name in targets or (name not in live and name != flag and name not in known):
            continue
        if type(binding) is Sequence:
            binding = _carried_list(walker, name, binding, node)
        if type(binding) in (Slot, Array, Broken) or not is_carried(walker, binding, node):
            continue
        facts = known.get(name) or value_facts(walker, binding, node)
        if facts[0] is u1 and name != flag and not known.get(name):
            facts = value_facts(walker, binding, node)
        carry.names.append(name)
        carry.types.append(facts)
        carry.entries.append(binding)
    return carry


def _carried_list(walker: Walker, name: str, binding: Sequence, node: ast.AST) -> Binding:
    """A list of numbers that the loop changes is a vector from here on."""
    if binding.is_list and binding.items and all(is_carried(walker, item, node) for item in binding.items):
        try:
            run = numbers.sequence_to_matrix(walker, binding, node)
        except QuadrantsSyntaxError:
            return binding
        walker.env[name] = run
        return run
    return binding


def is_carried(walker: Walker, binding: Binding, node: ast.AST) -> bool:
    try:
        unify(walker, [binding], node)
    except (NoUnion, QuadrantsSyntaxError):
        return False
    return type(binding) is not Sequence


def initial_values(walker: Walker, carry: Carry, node: ast.AST) -> list[Value]:
    return [convert_to(walker, entry, facts[0], node) for entry, facts in zip(carry.entries, carry.types)]


def walk_body(
    walker: Walker, node: ast.For | ast.While, body: Block, carry: Carry, first: int, flag: str, start: Any
) -> tuple[list[Exit], Env, dict[str, tuple[Type, bool]]]:
    """Walks the body once; gives its exits (the end of the body is a 'continue'), the names as they were before, and the
    types of names that the loop turns out to carry from one iteration to the next without a value in front of it."""
    before = walker.env
    walker.env = dict(before)
    for name, value, (_, weak) in zip(carry.names, body.arguments[first:], carry.types):
        value.name = name if name.isidentifier() else ""
        walker.env[name] = Run(value, weak)
    loop = Loop(node, flag=flag)
    walker.loops.append(loop)
    with walker.inside(body):
        if start is not None:
            start()
        location = walker.builder.location
        if not walk(walker, node.body):
            loop.exits.append(Exit("continue", walker.builder.block, dict(walker.env), location))
    walker.loops.pop()
    walker.env = before
    return loop.exits, before, _early_names(walker, loop)


def _early_names(walker: Walker, loop: Loop) -> dict[str, tuple[Type, bool]]:
    """Names that the body reads before it assigns them, since an earlier iteration may have: they enter as zero."""
    found: dict[str, tuple[Type, bool]] = {}
    for name, node in loop.early.items():
        bindings = [exit_.env[name] for exit_ in loop.exits if name in exit_.env]
        if not bindings or not all(is_carried(walker, binding, node) for binding in bindings):
            raise walker.error(
                node,
                f'Name "{name}" is used before it is assigned',
                kind=QuadrantsNameError,
                hint="assign it before the loop",
            )
        found[name] = unify(walker, bindings, node)
        walker.env[name] = Run(walker.builder.constant(0, found[name][0]), found[name][1])
    return found


def widened_types(
    walker: Walker, carry: Carry, exits: list[Exit], env: Env, node: ast.AST
) -> dict[str, tuple[Type, bool]]:
    """The carried names whose values come back with another type than they entered with."""
    changed = _changed_by_calls(walker, carry, exits, env, node)
    for name, facts in zip(carry.names, carry.types):
        bindings: list[Binding] = [Run(Value(facts[0]), facts[1])]
        for exit_ in exits:
            found = exit_.env.get(name)
            if found is None or type(found) is Broken:
                continue
            if type(found) is Sequence and found.is_list:
                with walker.inside(exit_.block):
                    found = exit_.env[name] = numbers.sequence_to_matrix(walker, found, node)
            bindings.append(found)
        try:
            joined = unify(walker, bindings, node)
        except NoUnion as reason:
            raise walker.error(
                node,
                f'"{name}" changes its kind in the loop: {reason}',
                hint="give it one kind before the loop, or use another name inside",
            ) from None
        if joined != facts:
            changed[name] = joined
    return changed


def _changed_by_calls(
    walker: Walker, carry: Carry, exits: list[Exit], env: Env, node: ast.For | ast.While
) -> dict[str, tuple[Type, bool]]:
    """Names that the body changes only through calls (by reference): the loop has to carry them, too."""
    changed: dict[str, tuple[Type, bool]] = {}
    for name in touched_names(node):
        before = env.get(name)
        if (
            before is None
            or name in carry.names
            or type(before) in (Slot, Array)
            or not is_carried(walker, before, node)
        ):
            continue
        if any(name in exit_.env and not same_static(before, exit_.env[name]) for exit_ in exits):
            changed[name] = value_facts(walker, before, node)
    return changed


def new_names(
    walker: Walker, node: ast.For | ast.While, exits: list[Exit], env: Env, targets: set[str]
) -> list[tuple[str, Type, bool]]:
    """Names first assigned in the loop and read after it: they leave it too."""
    found: list[tuple[str, Type, bool]] = []
    live = node._live_out  # type: ignore[union-attr]
    for name in dict.fromkeys([*assigned_names(node.body, node), *sorted(targets)]):
        if name not in live or (name in env and name not in targets):
            continue
        bindings = [exit_.env[name] for exit_ in exits if name in exit_.env and type(exit_.env[name]) is not Broken]
        if not bindings:
            continue
        if name in env and name in targets:
            bindings.append(env[name])
        if (
            all(same_static(bindings[0], other) for other in bindings)
            and type(bindings[0]) is Static
            and not isinstance(bindings[0].value, (int, float))
        ):
            env[name] = bindings[0]
            continue
        try:
            type_, weak = unify(walker, bindings, node)
        except NoUnion:
            continue
        found.append((name, type_, weak))
    return found


def close_exits(walker: Walker, exits: list[Exit], names: list[Any], node: ast.AST, body: Block) -> None:
    """Ends each exit's block with the values that the names have there."""
    for exit_ in exits:
        values = []
        with walker.inside(exit_.block):
            for name, (type_, _) in names:
                binding = exit_.env.get(name)
                if binding is None or type(binding) is Broken:
                    values.append(walker.builder.constant(0, type_))
                else:
                    values.append(convert_to(walker, binding, type_, node))
        kind = "yield" if exit_.block is body and exit_.kind == "continue" else exit_.kind
        append_yield(exit_.block, values, kind, exit_.location)


def bind_results(
    walker: Walker, op: Op, names: list[Any], exits: list[Exit], env: Env, node: ast.For | ast.While
) -> None:
    walker.env = dict(env)
    for (name, (_, weak)), value in zip(names, op.results):
        value.name = name if name.isidentifier() else ""
        walker.env[name] = Run(value, weak)
        if name in walker.memory:
            walker.bind(name, walker.env[name], node)
    carried = {name for name, _ in names}
    for name in assigned_names(node.body, node):
        if name in carried or name not in env:
            continue
        after = [exit_.env.get(name) for exit_ in exits]
        if (
            not all(found is not None and same_static(env[name], found) for found in after)
            and type(env[name]) is not Slot
        ):
            walker.env[name] = Broken(
                lambda at, name=name: walker.error(
                    at,
                    f'"{name}" changes in the loop in a way that has no run-time value',
                    hint="numbers, vectors and matrices can change in loops",
                )
            )
    rebuild_sequences(walker.env, list(walker.env))
