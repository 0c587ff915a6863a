"""Loops: what they run over, names carried through them, static unrolling, `break`, `continue`, `else`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsIndexError
from quadrants.frontend import numbers
from quadrants.frontend.assign import assign
from quadrants.frontend.carried import (
    Carry,
    Findings,
    bind_results,
    carried_names,
    close_exits,
    initial_values,
    learns,
    new_names,
    walk_body,
)
from quadrants.frontend.dispatch import evaluate, statement, walk
from quadrants.frontend.domains import Domain
from quadrants.frontend.lent import changed_names
from quadrants.frontend.merge import (
    NoUnion,
    Path,
    append_yield,
    convert_to,
    unify,
)
from quadrants.frontend.parallel_blocks import called_intrinsic
from quadrants.frontend.scan import assigned_names, breaks, live_head, live_out, mark_live
from quadrants.frontend.statements import close_branches, record_unreachable
from quadrants.frontend.values import Array, Binding, Broken, Run, Sequence, Static
from quadrants.frontend.walker import Exit
from quadrants.ir.nodes import Block, Op
from quadrants.ir.types import ArrayType, i32, i64

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["if_run", "run_time_for", "target_names", "while_statement", "with_else"]


def with_else(walker: Walker, node: ast.For | ast.While, emit: Any) -> bool:
    """A loop and its `else`, which runs unless `break` left the loop."""
    if not node.orelse:
        return emit("")
    if not breaks(node.body):  # what `else` assigns need have no value on a path without it
        emit("")
        return walk(walker, node.orelse)
    _forget_broken(walker, node)
    flag = f"$broke{node.lineno}.{node.col_offset}"
    walker.env[flag] = Static(False)
    emit(flag)
    left = walker.env.pop(flag, Static(False))
    branch = ast.If(test=ast.Constant(value=True), body=node.orelse, orelse=[])
    ast.copy_location(branch, node)
    mark_live(branch, live_out(node))
    stayed = Run(walker.builder.emit("bit_not", numbers.to_run(walker, left, node).value))
    return if_run(walker, branch, stayed, walk)


def _forget_broken(walker: Walker, node: ast.For | ast.While) -> None:
    """Names without one meaning in front of a loop that it does not read before it assigns them: where both the loop, left
    by `break`, and its `else` assign them, what they were does not matter."""
    assigned = set(assigned_names(node.body, node)) & set(assigned_names(node.orelse, node))
    for name in assigned - live_head(node):
        if type(walker.env.get(name)) is Broken:
            del walker.env[name]


def if_run(walker: Walker, node: ast.If, condition: Run, walk: Any) -> bool:
    env = walker.env
    paths = [Path(Block(), dict(env)), Path(Block(), dict(env))]
    walker.env = paths[0].env
    with walker.inside(paths[0].block):
        done = walk(walker, node.body)
    paths[0].env = walker.env
    walker.env = env
    close_branches(walker, node, condition, paths, [done, False], walker.builder.location, False)
    return False


# Run-time loops.


def run_time_for(walker: Walker, node: ast.For, domain: Domain, config: dict[str, Any], flag: str) -> bool:
    location = walker.builder.location
    targets = target_names(node.target)
    findings = Findings()
    returns = len(walker.returns)
    while True:
        del walker.returns[returns:]
        carry = carried_names(walker, node, findings, targets, flag)
        inits = initial_values(walker, carry, node)
        body = Block((i64,) * domain.rank + tuple(type_ for type_, _ in carry.types))
        exits, env, early = walk_body(
            walker, node, body, carry, domain.rank, flag, lambda body=body: _bind_targets(walker, node, domain, body)
        )
        if not learns(walker, node, carry, exits, env, early, targets):
            break
    # A target that the body assigns, that `break` leaves behind, or that was read from memory (which may be written by now)
    # leaves the loop as any other name does.
    breaks = any(exit_.kind == "break" for exit_ in exits)
    was_read = domain.reads and not targets.isdisjoint(live_out(node))
    escaping = targets if breaks or was_read else targets & set(assigned_names(node.body, node))
    extra = new_names(walker, node, carry, exits, env, escaping)
    for name, type_, _ in extra:
        body.add_argument(type_, name)
        before = env.get(name, Static(0))  # which stays where there is no iteration
        inits.append(convert_to(walker, before, type_, node))
    names = [*zip(carry.names, carry.types), *((name, (type_, weak)) for name, type_, weak in extra)]
    close_exits(walker, exits, names, node, body)
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
    bind_results(walker, op, names, carry, exits, env, node)
    if not escaping:
        _last_targets(walker, node, domain, targets)
    return False


def target_names(target: ast.expr) -> set[str]:
    return {child.id for child in ast.walk(target) if isinstance(child, ast.Name)}


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
    live = live_out(node)
    if not targets & live:
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


@statement(ast.While)
def while_statement(walker: Walker, node: ast.While) -> bool:
    if called_intrinsic(walker, node.test) == "graph.do_while":
        node = _flagged(walker, node)
    if _assigns_in_test(node) or (isinstance(node.test, ast.Constant) and node.test.value):
        return with_else(walker, node, lambda flag: _endless(walker, node, flag))
    return with_else(walker, node, lambda flag: _run_time_while(walker, node, flag))


def _flagged(walker: Walker, node: ast.While) -> ast.While:
    """`while qd.graph.do_while(flag)`: as long as the flag is not 0."""
    call = node.test
    assert isinstance(call, ast.Call)
    if len(call.args) != 1 or call.keywords or node.orelse:
        raise walker.error(node, "qd.graph.do_while takes the flag alone, and the loop has no `else`")
    flag = evaluate(walker, call.args[0])
    type_ = flag.value.type if type(flag) is Array else None
    if type(type_) is not ArrayType or type_.rank or type_.scalar is not i32:
        raise walker.error(
            node, "the flag of qd.graph.do_while is an ndarray of i32 without axes", hint="qd.ndarray(qd.i32, ())"
        )
    element = ast.Subscript(call.args[0], ast.Constant(None), ast.Load())
    test = ast.Compare(element, [ast.NotEq()], [ast.Constant(0)])
    loop = ast.While(test, node.body, [])
    for made in (loop, test, element, element.slice, test.comparators[0]):
        ast.copy_location(made, node)
    mark_live(loop, live_out(node), live_head(node))
    return loop


def _assigns_in_test(node: ast.While) -> bool:
    return any(isinstance(child, ast.NamedExpr) for child in ast.walk(node.test))


def _endless(walker: Walker, node: ast.While, flag: str) -> bool:
    """`while` with a test that changes names, or that is constant: an endless loop whose body tests and breaks."""
    ends: Any = ast.Break()
    ends._is_test = True
    test = ast.If(test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=[ends], orelse=[])
    body = node.body if isinstance(node.test, ast.Constant) else [test, *node.body]
    loop = ast.While(test=ast.Constant(value=True), body=body, orelse=[])
    for made in (loop, test, test.test, test.body[0]):
        ast.copy_location(made, node)
    head = live_head(node)
    mark_live(loop, live_out(node), head)
    if not isinstance(node.test, ast.Constant):
        mark_live(test, head)
        mark_live(loop, live_out(node), head | target_names(node.test))
    return _run_time_while(walker, loop, flag)


def _run_time_while(walker: Walker, node: ast.While, flag: str) -> bool:
    location = walker.builder.location
    findings = Findings()
    returns = len(walker.returns)
    while True:
        del walker.returns[returns:]
        carry = carried_names(walker, node, findings, set(), flag)
        inits = initial_values(walker, carry, node)
        types = tuple(type_ for type_, _ in carry.types)
        condition = Block(types)
        test = _walk_condition(walker, node, condition, carry)
        if test is None:
            return _endless(walker, node, flag)
        if isinstance(test, Static) and not test.value:
            return False
        body = Block(types)
        exits, env, early = walk_body(walker, node, body, carry, 0, flag, None)
        if not learns(walker, node, carry, exits, env, early, set()):
            break
    extra = new_names(walker, node, carry, exits, env, set())
    for name, type_, _ in extra:
        body.add_argument(type_, name)
        condition.add_argument(type_)
        inits.append(walker.builder.constant(0, type_))
    with walker.inside(condition):
        append_yield(condition, [numbers.to_run(walker, test, node.test).value], location=location)
    names = [*zip(carry.names, carry.types), *((name, (type_, weak)) for name, type_, weak in extra)]
    close_exits(walker, exits, names, node, body)
    op = Op("while", tuple(inits), tuple(facts[0] for _, facts in names), None, (condition, body), location)
    walker.builder.block.ops.append(op)
    bind_results(walker, op, names, carry, exits, env, node)
    endless = isinstance(test, Static) and not any(exit_.kind == "break" for exit_ in exits)
    if endless and walker.loops:
        walker.loops[-1].exits.append(Exit("continue", walker.builder.block, dict(walker.env), location))
    elif endless:
        record_unreachable(walker)
    return endless


def _walk_condition(walker: Walker, node: ast.While, condition: Block, carry: Carry) -> Binding | None:
    """The test of an iteration; None if it changes what names stand for."""
    before = walker.env
    walker.env = dict(before)
    carry.enter(walker, condition.arguments)
    entered = dict(walker.env)
    with walker.inside(condition):
        test = numbers.truth(walker, evaluate(walker, node.test), node.test)
    changed = changed_names(entered, walker.env)
    walker.env = before
    return None if changed else test
