"""Names that loops carry: which they are, their types, the values they enter, go round and leave with."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsNameError, QuadrantsSyntaxError
from quadrants.frontend import numbers
from quadrants.frontend.dispatch import walk
from quadrants.frontend.identity import check_next_iteration, may_be
from quadrants.frontend.merge import (
    NoUnion,
    Parts,
    append_yield,
    convert_to,
    have_one_form,
    part_names,
    parts_of,
    rebuild_wholes,
    same_static,
    unify,
    value_facts,
)
from quadrants.frontend.scan import assigned_names, live_head, live_out, touched_names
from quadrants.frontend.values import (
    Array,
    Binding,
    Broken,
    Nature,
    Run,
    Sequence,
    Slot,
    Static,
    common_nature,
    nature_of,
)
from quadrants.frontend.walker import Exit, Loop
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import Type, scalar_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = [
    "Carry",
    "Findings",
    "bind_results",
    "carried_names",
    "close_exits",
    "initial_values",
    "is_carried",
    "learns",
    "new_names",
    "walk_body",
]


class Findings:
    """What walks of a loop's body have found out about names, for the next walk: `types` of names that the loop carries
    though nothing in front of it says so, or widens; `unsettled` names, whose bindings change from one iteration to the
    next in a way that has no run-time value; `touched` names, that calls change; `copied` names, that may hold what in
    Python is a part of an array."""

    __slots__ = ("copied", "touched", "types", "unsettled")

    def __init__(self) -> None:
        self.types: dict[str, tuple[Type, bool]] = {}
        self.unsettled: set[str] = set()
        self.touched: set[str] = set()
        self.copied: set[str] = set()


class Carry:
    """The names that a loop carries: their types, and the values they enter with.

    Tuples, lists and views are carried part by part, each under a name of its own: `wholes` are these, outer ones first,
    and `fixed` parts of them that have no run-time value and must stay the same. An iteration cannot read unsettled
    names, but the only one of a loop that does not go round can.
    """

    __slots__ = ("entries", "findings", "fixed", "goes_round", "names", "natures", "types", "wholes")

    def __init__(self, findings: Findings, goes_round: bool) -> None:
        self.findings = findings
        self.goes_round = goes_round
        self.names: list[str] = []
        self.types: list[tuple[Type, bool]] = []
        self.entries: list[Binding] = []
        self.wholes: dict[str, Binding] = {}
        self.fixed: dict[str, Binding] = {}
        self.natures: dict[str, Nature] = {}

    def add(self, name: str, binding: Binding, facts: tuple[Type, bool]) -> None:
        self.names.append(name)
        self.types.append(facts)
        self.entries.append(binding)
        self.natures[name] = nature_of(binding)

    def enter(self, walker: Walker, values: Iterable[Value]) -> None:
        """Binds the names at the head of an iteration."""
        if self.goes_round:
            walker.env.update({name: _unsettled(walker, name) for name in self.findings.unsettled})
        for name, whole in self.wholes.items():
            walker.env[name] = Parts(whole, part_names(name, whole))
        walker.env.update(self.fixed)
        for name, value, (_, weak) in zip(self.names, values, self.types):
            value.name = name if name.isidentifier() else ""
            walker.env[name] = Run(
                value, weak, Nature.COPY if name in self.findings.copied else self.natures.get(name, Nature.VALUE)
            )
        rebuild_wholes(walker.env, list(self.wholes))

    def leave(self, exits: list[Exit]) -> set[str]:
        """Takes the wholes apart at the exits; gives the names that leave an iteration in another form than they enter
        with."""
        changed: set[str] = set()
        for name, whole in self.wholes.items():
            for exit_ in exits:
                found = exit_.env.get(name)
                if found is None or not have_one_form([whole, found]):
                    changed.add(name.partition(".")[0])
                else:
                    exit_.env.update(zip(part_names(name, whole), parts_of(found) or ()))
        for name, binding in self.fixed.items():
            if not all(name in exit_.env and same_static(binding, exit_.env[name]) for exit_ in exits):
                changed.add(name.partition(".")[0])
        return changed


def _unsettled(walker: Walker, name: str) -> Broken:
    hint = "numbers, vectors, matrices and tuples of them can change from one iteration to the next"
    if type(walker.env.get(name)) is Array:
        hint = "arrays are swapped between launches, in Python: launch the kernel once a step"
    text = f'"{name}" changes in the loop in a way that has no run-time value'
    return Broken(lambda at: walker.error(at, text, hint=hint))


def carried_names(walker: Walker, node: ast.For | ast.While, findings: Findings, targets: set[str], flag: str) -> Carry:
    known: dict[str, tuple[Type, bool] | None] = {**dict.fromkeys(findings.touched), **findings.types}
    carry = Carry(findings, not getattr(node, "_runs_once", False))
    wanted = list(dict.fromkeys([*assigned_names(node.body, node), *((flag,) if flag else ()), *known]))
    live = live_head(node) | live_out(node)
    for name in wanted:
        binding = walker.env.get(name)
        if binding is None or name in targets or name in findings.unsettled:
            continue
        if name in live or name == flag or name in known:
            _carry(walker, carry, name, binding, known, node)
    return carry


def _carry(
    walker: Walker,
    carry: Carry,
    name: str,
    binding: Binding,
    known: dict[str, tuple[Type, bool] | None],
    node: ast.AST,
) -> None:
    if type(binding) is Sequence:
        binding = _carried_list(walker, name, binding, node)
    parts = parts_of(binding)
    if parts is not None:
        carry.wholes[name] = binding
        for part, item in zip(part_names(name, binding), parts):
            _carry(walker, carry, part, item, known, node)
    elif type(binding) not in (Slot, Array, Broken) and is_carried(walker, binding, node):
        carry.add(name, binding, known.get(name) or value_facts(walker, binding, node))
    elif "." in name:
        carry.fixed[name] = binding


def _carried_list(walker: Walker, name: str, binding: Sequence, node: ast.AST) -> Binding:
    """A list of numbers that the loop changes is a vector from here on."""
    if binding.is_list and binding.items and all(is_carried(walker, item, node) for item in binding.items):
        try:
            run = numbers.sequence_to_matrix(walker, binding, node)
        except QuadrantsSyntaxError:
            return binding
        run.nature = Nature.LIST
        if name in walker.env:
            walker.env[name] = run
        return run
    return binding


def is_carried(walker: Walker, binding: Binding, node: ast.AST) -> bool:
    if type(binding) is Sequence:
        return False
    try:
        unify(walker, [binding], node)
    except (NoUnion, QuadrantsSyntaxError):
        return False
    return True


def initial_values(walker: Walker, carry: Carry, node: ast.AST) -> list[Value]:
    return [convert_to(walker, entry, facts[0], node) for entry, facts in zip(carry.entries, carry.types)]


def walk_body(
    walker: Walker, node: ast.For | ast.While, body: Block, carry: Carry, first: int, flag: str, start: Any
) -> tuple[list[Exit], Env, dict[str, tuple[Type, bool]]]:
    """Walks the body once; gives its exits (the end of the body is a 'continue'), the names as they were before, and the
    types of names that the loop turns out to carry from one iteration to the next without a value in front of it."""
    before = walker.env
    walker.env = dict(before)
    carry.enter(walker, body.arguments[first:])
    changes = len(walker.changes)
    loop = Loop(node, flag=flag, before=before)
    walker.loops.append(loop)
    with walker.inside(body):
        if start is not None:
            start()
        location = walker.builder.location
        if not walk(walker, node.body):
            loop.exits.append(Exit("continue", walker.builder.block, dict(walker.env), location))
    walker.loops.pop()
    walker.env = before
    if carry.goes_round:
        rounds = [exit_.env for exit_ in loop.exits if exit_.kind == "continue"]
        check_next_iteration(walker, live_head(node), before, rounds, walker.changes[changes:], node)
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


def _widened_types(
    walker: Walker, carry: Carry, exits: list[Exit], env: Env, node: ast.For | ast.While
) -> dict[str, tuple[Type, bool]]:
    """The carried names whose values come back with another type than they entered with."""
    changed: dict[str, tuple[Type, bool]] = {}
    for name, facts in zip(carry.names, carry.types):
        bindings: list[Binding] = [Run(Value(facts[0]), facts[1])]
        for exit_ in exits:
            found = exit_.env.get(name)
            if found is None or type(found) is Broken:
                continue
            if type(found) is Sequence and found.is_list:
                with walker.inside(exit_.block):
                    found = exit_.env[name] = numbers.sequence_to_matrix(walker, found, node)
                    found.nature = Nature.LIST
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


def learns(
    walker: Walker,
    node: ast.For | ast.While,
    carry: Carry,
    exits: list[Exit],
    env: Env,
    early: dict[str, tuple[Type, bool]],
    targets: set[str],
) -> bool:
    """Adds what a walk of the body has shown to the findings; whether there was something new: then the body has to be
    walked again."""
    findings = carry.findings
    if early:
        findings.types.update(early)
        return True
    unsettled, touched = _unsettled_names(walker, node, carry, exits, env, targets)
    copied = {name for name in carry.names if any(nature_of(exit_.env.get(name)) is Nature.COPY for exit_ in exits)}
    widened = {} if unsettled else _widened_types(walker, carry, exits, env, node)
    found = bool(unsettled or touched or widened) or not copied <= findings.copied
    findings.touched |= touched
    findings.unsettled |= unsettled
    findings.copied |= copied
    findings.types.update(widened)
    return found


def _unsettled_names(
    walker: Walker, node: ast.For | ast.While, carry: Carry, exits: list[Exit], env: Env, targets: set[str]
) -> tuple[set[str], set[str]]:
    """The names that the next iteration would read as what they were before the loop, though this one binds them to
    something else that cannot be carried; and those that calls change, which can."""
    found, touched = carry.leave(exits), set[str]()
    for name in dict.fromkeys([*assigned_names(node.body, node), *touched_names(node)]):
        if name in carry.names or name in carry.wholes or name in targets or name not in env:
            continue
        if name in live_head(node) and not _stays(env[name], name, exits):
            _widen_memory(walker, name, [env[name], *(exit_.env.get(name) for exit_ in exits)], node)
            by_call = name not in assigned_names(node.body, node) and _can_be_carried(walker, env[name], node)
            (touched if by_call else found).add(name)
    return found - carry.findings.unsettled, touched


def _widen_memory(walker: Walker, name: str, bindings: list[Binding | None], node: ast.AST) -> None:
    """A local in memory that the loop gives another type: the function is walked again, with the type of all."""
    slots = [binding for binding in bindings if type(binding) is Slot]
    if len(slots) < len(bindings):
        return
    try:
        type_, weak = unify(walker, [*slots], node)
    except NoUnion:
        return
    wanted = (scalar_of(type_), weak)
    if walker.slot_types.get(name) != wanted:
        walker.widen_slot(name, *wanted)


def _can_be_carried(walker: Walker, binding: Binding, node: ast.AST) -> bool:
    return parts_of(binding) is not None or (type(binding) is not Slot and is_carried(walker, binding, node))


def _stays(binding: Binding, name: str, exits: list[Exit]) -> bool:
    return all(name in exit_.env and same_static(binding, exit_.env[name]) for exit_ in exits)


def new_names(
    walker: Walker, node: ast.For | ast.While, carry: Carry, exits: list[Exit], env: Env, targets: set[str]
) -> list[tuple[str, Type, bool]]:
    """Names first assigned in the loop and read after it: they leave it too."""
    found: list[tuple[str, Type, bool]] = []
    live = live_out(node)
    for name in dict.fromkeys([*assigned_names(node.body, node), *sorted(targets)]):
        if name in live and (name not in env or name in targets):
            _new_name(walker, name, node, carry, exits, env, found)
    return found


def _new_name(
    walker: Walker,
    name: str,
    node: ast.AST,
    carry: Carry,
    exits: list[Exit],
    env: Env,
    found: list[tuple[str, Type, bool]],
) -> bool:
    """Adds a name, or its parts, to what leaves the loop; False if it has no run-time value."""
    bindings = [exit_.env[name] for exit_ in exits if name in exit_.env and type(exit_.env[name]) is not Broken]
    if not bindings:
        return False
    if name in env:
        bindings.append(env[name])
    first = bindings[0]
    if all(same_static(first, other) for other in bindings) and _is_object(first):
        env[name] = first
        return True
    if name not in env and have_one_form(bindings):
        names = part_names(name, first)
        for exit_ in exits:
            if name in exit_.env:
                exit_.env.update(zip(names, parts_of(exit_.env[name]) or ()))
        carry.wholes[name] = first
        known = [_new_name(walker, part, node, carry, exits, env, found) for part in names]
        if not all(known):
            del carry.wholes[name]
        return all(known)
    try:
        found.append((name, *unify(walker, bindings, node)))
    except NoUnion:
        return False
    return True


def _is_object(binding: Binding) -> bool:
    """Whether a binding is an object that is known, other than a number."""
    return type(binding) is Static and not isinstance(binding.value, (int, float))


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
    walker: Walker, op: Op, names: list[Any], carry: Carry, exits: list[Exit], env: Env, node: ast.For | ast.While
) -> None:
    walker.env = dict(env)
    for name, whole in carry.wholes.items():
        walker.env[name] = Parts(whole, part_names(name, whole))
    walker.env.update(carry.fixed)
    for (name, (_, weak)), value in zip(names, op.results):
        value.name = name if name.isidentifier() else ""
        walker.env[name] = Run(value, weak, common_nature([*(exit_.env.get(name) for exit_ in exits), env.get(name)]))
        if name in walker.memory:
            walker.bind(name, walker.env[name], node)
    carried = {name for name, _ in names} | carry.wholes.keys()
    for name in assigned_names(node.body, node):
        if name not in carried and name in env and type(env[name]) is not Slot and not _stays(env[name], name, exits):
            walker.env[name] = _unsettled(walker, name)
    rebuild_wholes(walker.env, list(walker.env))
    for name in [name for name in carry.wholes if name in walker.env]:
        walker.env[name] = may_be(walker.env[name], [exit_.env.get(name) for exit_ in exits])
