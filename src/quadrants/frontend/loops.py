"""Loops: what they run over, names carried through them, static unrolling, `break`, `continue`, `else`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsIndexError, QuadrantsNameError, QuadrantsSyntaxError
from quadrants.frontend import numbers
from quadrants.frontend.assign import assign
from quadrants.frontend.domains import Domain, domain_of, static_items
from quadrants.frontend.expressions import evaluate
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
from quadrants.ir.types import Type, i64, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = ["for_statement", "leave_loop", "while_statement"]


def leave_loop(walker: Walker, kind: str, node: ast.stmt) -> None:
    """`break` or `continue`: an exit of the innermost loop, with the names as they are."""
    loop = walker.loops[-1]
    if loop.is_static:
        walker.env["$left"] = Static(kind)
    if kind == "break" and loop.flag:
        walker.env[loop.flag] = Static(True)
    loop.exits.append(Exit(kind, walker.builder.block, dict(walker.env), walker.builder.location))


def for_statement(walker: Walker, node: ast.For) -> bool:
    config, walker.loop_config = walker.loop_config, {}
    iterated = evaluate(walker, node.iter)
    items = static_items(walker, iterated, node.iter)
    if items is not None:
        return _unrolled(walker, node, items)
    domain = domain_of(walker, iterated, node.iter)
    return _with_else(walker, node, lambda flag: _run_time_for(walker, node, domain, config, flag))


def _with_else(walker: Walker, node: ast.For | ast.While, emit: Any) -> bool:
    """A loop and its `else`, which runs unless `break` left the loop."""
    if not node.orelse:
        return emit("")
    flag = f"$broke{node.lineno}.{node.col_offset}"
    walker.env[flag] = Static(False)
    emit(flag)
    from quadrants.frontend.statements import walk

    left = walker.env.pop(flag, Static(False))
    stayed = Run(walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value))
    branch = ast.If(test=ast.Constant(value=True), body=node.orelse, orelse=[])
    ast.copy_location(branch, node)
    branch._live_out = node._live_out  # type: ignore[union-attr,attr-defined]
    return _if_run(walker, branch, stayed, walk)


def _if_run(walker: Walker, node: ast.If, condition: Run, walk: Any) -> bool:
    from quadrants.frontend.merge import Path
    from quadrants.frontend.statements import _close_branches

    env = walker.env
    paths = [Path(Block(), dict(env)), Path(Block(), dict(env))]
    walker.env = paths[0].env
    with walker.inside(paths[0].block):
        done = walk(walker, node.body)
    paths[0].env = walker.env
    walker.env = env
    _close_branches(walker, node, condition, paths, [done, False], walker.builder.location, False)
    return False


# Run-time loops.


class _Carry:
    """The names that a loop carries: their types, and the values they enter with."""

    __slots__ = ("entries", "names", "types")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.types: list[tuple[Type, bool]] = []
        self.entries: list[Binding] = []


def _carried(
    walker: Walker, node: ast.For | ast.While, known: dict[str, tuple[Type, bool]], targets: set[str], flag: str
) -> _Carry:
    carry = _Carry()
    wanted = list(dict.fromkeys([*assigned_names(node.body, node), *((flag,) if flag else ()), *known]))
    live = node._live_head | node._live_out  # type: ignore[union-attr]
    for name in wanted:
        binding = walker.env.get(name)
        if binding is None or name in targets or (name not in live and name != flag and name not in known):
            continue
        if type(binding) is Sequence:
            binding = _carried_list(walker, name, binding, node)
        if type(binding) in (Slot, Array, Broken) or not _carries(walker, binding, node):
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
    if binding.is_list and binding.items and all(_carries(walker, item, node) for item in binding.items):
        try:
            run = numbers.sequence_to_matrix(walker, binding, node)
        except QuadrantsSyntaxError:
            return binding
        walker.env[name] = run
        return run
    return binding


def _carries(walker: Walker, binding: Binding, node: ast.AST) -> bool:
    try:
        unify(walker, [binding], node)
    except (NoUnion, QuadrantsSyntaxError):
        return False
    return type(binding) is not Sequence


def _run_time_for(walker: Walker, node: ast.For, domain: Domain, config: dict[str, Any], flag: str) -> bool:
    location = walker.builder.location
    targets = _target_names(node.target)
    known: dict[str, tuple[Type, bool]] = {}
    returns = len(walker.returns)
    while True:
        del walker.returns[returns:]
        carry = _carried(walker, node, known, targets, flag)
        inits = _inits(walker, carry, node)
        body = Block((i64,) * domain.rank + tuple(type_ for type_, _ in carry.types))
        exits, env, early = _walk_body(
            walker, node, body, carry, domain.rank, flag, lambda body=body: _bind_targets(walker, node, domain, body)
        )
        widened = early or _widened(walker, carry, exits, env, node)
        if not widened:
            break
        known.update(widened)
    # A target that the body assigns, or that `break` leaves behind, leaves the loop as any other name does.
    breaks = any(exit_.kind == "break" for exit_ in exits)
    escaping = targets if breaks else targets & set(assigned_names(node.body, node))
    extra = _new_names(walker, node, exits, env, escaping)
    for name, type_, _ in extra:
        body.add_argument(type_, name)
        inits.append(walker.builder.constant(0, type_))
    names = [*zip(carry.names, carry.types), *((name, (type_, weak)) for name, type_, weak in extra)]
    _close_exits(walker, exits, names, node, body)
    attributes: dict[str, Any] = {"rank": domain.rank}
    if config:
        attributes["config"] = config
    op = Op(
        "for",
        (*domain.lows, *domain.highs, *inits),
        tuple(facts[0] for _, facts in names),
        attributes,
        (body,),
        location,
    )
    walker.builder.block.ops.append(op)
    _bind_results(walker, op, names, exits, env, node)
    if not escaping:
        _last_targets(walker, node, domain, targets)
    return False


def _target_names(target: ast.expr) -> set[str]:
    return {child.id for child in ast.walk(target) if isinstance(child, ast.Name)}


def _inits(walker: Walker, carry: _Carry, node: ast.AST) -> list[Value]:
    return [convert_to(walker, entry, facts[0], node) for entry, facts in zip(carry.entries, carry.types)]


def _walk_body(
    walker: Walker, node: ast.For | ast.While, body: Block, carry: _Carry, first: int, flag: str, start: Any
) -> tuple[list[Exit], Env, dict[str, tuple[Type, bool]]]:
    """Walks the body once; gives its exits (the end of the body is a 'continue'), the names as they were before, and the
    types of names that the loop turns out to carry from one iteration to the next without a value in front of it."""
    from quadrants.frontend.statements import walk

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
        if not bindings or not all(_carries(walker, binding, node) for binding in bindings):
            raise walker.error(
                node,
                f'Name "{name}" is used before it is assigned',
                kind=QuadrantsNameError,
                hint="assign it before the loop",
            )
        found[name] = unify(walker, bindings, node)
        walker.env[name] = Run(walker.builder.constant(0, found[name][0]), found[name][1])
    return found


def _widened(walker: Walker, carry: _Carry, exits: list[Exit], env: Env, node: ast.AST) -> dict[str, tuple[Type, bool]]:
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
    walker: Walker, carry: _Carry, exits: list[Exit], env: Env, node: ast.For | ast.While
) -> dict[str, tuple[Type, bool]]:
    """Names that the body changes only through calls (by reference): the loop has to carry them, too."""
    changed: dict[str, tuple[Type, bool]] = {}
    for name in touched_names(node):
        before = env.get(name)
        if before is None or name in carry.names or type(before) in (Slot, Array) or not _carries(walker, before, node):
            continue
        if any(name in exit_.env and not same_static(before, exit_.env[name]) for exit_ in exits):
            changed[name] = value_facts(walker, before, node)
    return changed


def _new_names(
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


def _close_exits(walker: Walker, exits: list[Exit], names: list[Any], node: ast.AST, body: Block) -> None:
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


def _bind_results(
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


def _bind_targets(walker: Walker, node: ast.For, domain: Domain, body: Block) -> None:
    counters = body.arguments[: domain.rank]
    bindings = domain.bind(walker, counters, node)
    if isinstance(node.target, (ast.Tuple, ast.List)):
        assign(walker, node.target, Sequence(bindings) if domain.spread else bindings[0])
        return
    if len(bindings) != 1:
        raise walker.error(
            node.target,
            f"the loop runs over {len(bindings)} axes but has one target",
            hint="name them all (`for i, j in …`) or loop over qd.grouped(…)",
            kind=QuadrantsIndexError,
        )
    assign(walker, node.target, bindings[0])


def _last_targets(walker: Walker, node: ast.For, domain: Domain, targets: set[str]) -> None:
    """A loop variable keeps its last value; after no iteration it is what it was before."""
    live = node._live_out  # type: ignore[attr-defined]
    if domain.reads or not targets & live:
        return
    before = {name: walker.env.get(name) for name in targets}
    builder = walker.builder
    one = builder.index(1)
    ran = builder.emit("lt", domain.lows[0], domain.highs[0])
    for low, high in zip(domain.lows[1:], domain.highs[1:]):
        ran = builder.emit("bit_and", ran, builder.emit("lt", low, high))
    last = [builder.emit("sub", high, one) for high in domain.highs]
    assign_env = dict(walker.env)
    bindings = domain.bind(walker, last, node)
    assign(
        walker,
        node.target,
        Sequence(bindings) if domain.spread and isinstance(node.target, (ast.Tuple, ast.List)) else bindings[0],
    )
    for name in targets:
        old, new = before[name], walker.env.get(name)
        if old is None or new is None or name not in live:
            if name not in live and old is not None:
                walker.env[name] = assign_env[name]
            continue
        try:
            type_, weak = unify(walker, [old, new], node)
        except NoUnion:
            continue
        walker.env[name] = Run(
            builder.emit("select", ran, convert_to(walker, new, type_, node), convert_to(walker, old, type_, node)),
            weak,
        )


def while_statement(walker: Walker, node: ast.While) -> bool:
    if _assigns_in_test(node) or (isinstance(node.test, ast.Constant) and node.test.value):
        return _with_else(walker, node, lambda flag: _endless(walker, node, flag))
    return _with_else(walker, node, lambda flag: _run_time_while(walker, node, flag))


def _assigns_in_test(node: ast.While) -> bool:
    return any(isinstance(child, ast.NamedExpr) for child in ast.walk(node.test))


def _endless(walker: Walker, node: ast.While, flag: str) -> bool:
    """`while` with a test that assigns, or that is constant: an endless loop whose body tests and breaks."""
    test = ast.If(test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=[ast.Break()], orelse=[])
    body = node.body if isinstance(node.test, ast.Constant) else [test, *node.body]
    loop = ast.While(test=ast.Constant(value=True), body=body, orelse=[])
    for made in (loop, test, test.test, test.body[0]):
        ast.copy_location(made, node)
    loop._live_out, loop._live_head = node._live_out, node._live_head  # type: ignore[attr-defined]
    if not isinstance(node.test, ast.Constant):
        test._live_out = node._live_head  # type: ignore[attr-defined]
        loop._live_head = loop._live_head | _target_names(node.test)  # type: ignore[attr-defined]
    return _run_time_while(walker, loop, "" if not isinstance(node.test, ast.Constant) else flag)


def _run_time_while(walker: Walker, node: ast.While, flag: str) -> bool:
    location = walker.builder.location
    known: dict[str, tuple[Type, bool]] = {}
    returns = len(walker.returns)
    while True:
        del walker.returns[returns:]
        carry = _carried(walker, node, known, set(), flag)
        inits = _inits(walker, carry, node)
        types = tuple(type_ for type_, _ in carry.types)
        condition = Block(types)
        test = _walk_condition(walker, node, condition, carry)
        if isinstance(test, Static) and not test.value:
            return False
        body = Block(types)
        exits, env, early = _walk_body(walker, node, body, carry, 0, flag, None)
        widened = early or _widened(walker, carry, exits, env, node)
        if not widened:
            break
        known.update(widened)
    extra = _new_names(walker, node, exits, env, set())
    for name, type_, _ in extra:
        body.add_argument(type_, name)
        condition.add_argument(type_)
        inits.append(walker.builder.constant(0, type_))
    with walker.inside(condition):
        append_yield(condition, [numbers.to_run(walker, test, node.test).value], location=location)
    names = [*zip(carry.names, carry.types), *((name, (type_, weak)) for name, type_, weak in extra)]
    _close_exits(walker, exits, names, node, body)
    op = Op("while", tuple(inits), tuple(facts[0] for _, facts in names), None, (condition, body), location)
    walker.builder.block.ops.append(op)
    _bind_results(walker, op, names, exits, env, node)
    endless = isinstance(test, Static) and not any(exit_.kind == "break" for exit_ in exits)
    if endless and walker.loops:
        walker.loops[-1].exits.append(Exit("continue", walker.builder.block, dict(walker.env), location))
    elif endless:
        from quadrants.frontend.statements import record_unreachable

        record_unreachable(walker)
    return endless


def _walk_condition(walker: Walker, node: ast.While, condition: Block, carry: _Carry) -> Binding:
    before = walker.env
    walker.env = dict(before)
    for name, value, (_, weak) in zip(carry.names, condition.arguments, carry.types):
        walker.env[name] = Run(value, weak)
    with walker.inside(condition):
        test = numbers.truth(walker, evaluate(walker, node.test), node.test)
    walker.env = before
    return test


# Static loops.


def _unrolled(walker: Walker, node: ast.For, items: list[Binding]) -> bool:
    """A loop over items known at compile time: its body once an item."""
    from quadrants.frontend.statements import walk

    run_time_exit = _has_exit(node.body)
    if run_time_exit:
        return _unrolled_with_exits(walker, node, items)
    for item in items:
        assign(walker, node.target, item)
        walker.loops.append(Loop(node, is_static=True))
        ended = walk(walker, node.body)
        walker.loops.pop()
        if ended:
            return True
    return bool(node.orelse) and walk(walker, node.orelse)


def _has_exit(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.Break, ast.Continue)):
            return True
        if isinstance(statement, ast.If) and (_has_exit(statement.body) or _has_exit(statement.orelse)):
            return True
    return False


def _unrolled_with_exits(walker: Walker, node: ast.For, items: list[Binding]) -> bool:
    """`break` and `continue` of an unrolled loop: a flag says that the loop was left; each item's body is a loop of at
    most one iteration, so that leaving the body is leaving that loop."""
    from quadrants.frontend.statements import walk

    gone = f"$gone{node.lineno}.{node.col_offset}"
    walker.env[gone] = Static(False)
    for item in items:
        left = walker.env[gone]
        if isinstance(left, Static) and left.value:
            break
        assign(walker, node.target, item)
        once = ast.For(target=ast.Name(id="$once", ctx=ast.Store()), iter=node.iter, body=node.body, orelse=[])
        ast.copy_location(once, node)
        once._live_out = node._live_out | node._live_head | {gone}  # type: ignore[attr-defined]
        once._live_head = once._live_out  # type: ignore[attr-defined]
        low = walker.builder.index(0)
        high = walker.builder.index(1)
        if not isinstance(left, Static):
            high = walker.builder.emit(
                "cast", walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value), type=i64
            )
        domain = Domain(1, [low], [high], lambda *_: [Static(0)], spread=False)
        _run_time_for(walker, once, domain, {}, gone)
        walker.env.pop("$once", None)
    left = walker.env.pop(gone, Static(False))
    if not node.orelse:
        return False
    if isinstance(left, Static):
        return False if left.value else walk(walker, node.orelse)
    stayed = Run(walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value))
    branch = ast.copy_location(ast.If(test=ast.Constant(value=True), body=node.orelse, orelse=[]), node)
    branch._live_out = node._live_out  # type: ignore[attr-defined]
    return _if_run(walker, branch, stayed, walk)
