"""Expressions: `evaluate(walker, node)` gives what the node stands for, leaving code for what happens at run time."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators, protocol
from quadrants.frontend.assign import unpacked
from quadrants.frontend.dispatch import evaluate, expression
from quadrants.frontend.identity import may_be
from quadrants.frontend.lent import changed_names
from quadrants.frontend.merge import NoUnion, Path, convert_to, have_one_form, meet, same_static, unify
from quadrants.frontend.values import (
    Array,
    Binding,
    Run,
    Sequence,
    Static,
    common_nature,
    is_list,
    is_number,
    static_range,
)
from quadrants.frontend.walker import Unknown
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import is_pure
from quadrants.ir.types import u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["BINARY"]

BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
COMPARE: dict[type, str] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
# How large a side of `and`, `or` or a conditional may be to be computed always rather than branched around.
EAGER_OPS = 6


@expression(ast.Constant)
def _constant(walker: Walker, node: ast.Constant) -> Binding:
    if isinstance(node.value, (complex, bytes)):
        raise walker.error(
            node,
            f"kernels have no {type(node.value).__name__} values",
            hint="use a vector of two numbers and qd.math.cmul for complex numbers"
            if isinstance(node.value, complex)
            else "",
        )
    return Static(node.value)


@expression(ast.Name)
def _name(walker: Walker, node: ast.Name) -> Binding:
    return walker.lookup(node.id, node)


@expression(ast.BinOp)
def _binary(walker: Walker, node: ast.BinOp) -> Binding:
    left = numbers.settled(walker, evaluate(walker, node.left), node.left)
    right = evaluate(walker, node.right)
    walker.at(node)
    return operators.binary(
        walker, BINARY[type(node.op)], _operand(walker, left, node), _operand(walker, right, node), node
    )


def _operand(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    if type(binding) is Static and not is_number(binding.value) and protocol.is_array(binding.value):
        raise _whole_array(walker, walker.compilation.array_of(walker, binding.value, node), node)
    if type(binding) is Array and not binding.indexed:
        raise _whole_array(walker, binding, node)
    return binding


def _whole_array(walker: Walker, array: Array, node: ast.AST) -> Exception:
    return walker.error(
        node,
        "whole-array arithmetic is not computed in a kernel",
        found=numbers.describe(array),
        hint="loop over the array and compute its elements: `for i in range(len(a)): …`",
    )


@expression(ast.UnaryOp)
def _unary(walker: Walker, node: ast.UnaryOp) -> Binding:
    operand = evaluate(walker, node.operand)
    walker.at(node)
    if isinstance(node.op, ast.Not):
        truth = numbers.truth(walker, operand, node.operand)
        return _opposite(walker, truth)
    if isinstance(node.op, ast.USub):
        return operators.negate(walker, operand, node)
    if isinstance(node.op, ast.Invert):
        return operators.invert(walker, operand, node)
    return operand


@expression(ast.Compare)
def _compare(walker: Walker, node: ast.Compare) -> Binding:
    """Chains compare each operand once and stop at the first that fails."""
    return _chain(walker, numbers.settled(walker, evaluate(walker, node.left), node.left), 0, None, node)


def _chain(walker: Walker, left: Binding, first: int, result: Binding | None, node: ast.Compare) -> Binding:
    """What a chain says from its comparison `first` on; `result` is what those before say."""
    for position in range(first, len(node.ops)):
        if result is not None and type(result) is Static and not result.value:
            return result
        right_node = node.comparators[position]
        before = walker.env
        walker.env = dict(before)
        block, right = walker.trial(
            lambda right_node=right_node: numbers.settled(walker, evaluate(walker, right_node), right_node)
        )
        if result is not None and (changed_names(before, walker.env) or not _is_harmless(walker, block)):
            walker.env = before
            test = numbers.truth(walker, result, node)
            assert isinstance(test, Run)
            return _lazy(walker, test, partial(_chain, walker, left, position, None, node), Static(False), node)
        walker.splice(block)
        walker.at(node)
        found = _one_comparison(walker, node.ops[position], left, right, node)
        result = found if result is None else _both(walker, result, found, node)
        left = right
    assert result is not None
    return result


def _both(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Binding:
    if type(left) is Static:
        return right if left.value else left
    return operators.binary(walker, "bit_and", left, right, node)


def _one_comparison(walker: Walker, operator: ast.cmpop, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if isinstance(operator, (ast.Is, ast.IsNot)):
        return _identity(walker, isinstance(operator, ast.IsNot), left, right, node)
    if isinstance(operator, (ast.In, ast.NotIn)):
        return _membership(walker, isinstance(operator, ast.NotIn), left, right, node)
    return operators.compare(walker, COMPARE[type(operator)], left, right, node)


def _identity(walker: Walker, negated: bool, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if type(left) is Static and type(right) is Static:
        return Static((left.value is right.value) != negated)
    if type(right) is Static and right.value is None:
        return Static(negated)
    raise walker.error(node, "`is` compares objects, which a kernel does not have at run time", hint="use ==")


def _membership(walker: Walker, negated: bool, left: Binding, right: Binding, node: ast.Compare) -> Binding:
    if type(left) is Static and type(right) is Static:
        walker.compilation.evaluated(left.value, right.value)
        return Static((left.value in right.value) != negated)
    if type(right) is Sequence and right.record is not None:
        from quadrants.frontend.record_values import contains

        found = contains(walker, right, left, node)
        if found is not None:
            known = numbers.truth(walker, found, node)
            return _opposite(walker, known) if negated else known
    right = static_range(right) or right
    items = (
        right.items
        if type(right) is Sequence
        else [Static(item) for item in right.value]
        if type(right) is Static
        else unpacked(walker, right, node)
        if is_list(right)
        else None
    )
    if items is None:
        raise walker.error(node, "`in` takes a tuple of values in a kernel", found=numbers.describe(right))
    result: Binding = Static(False)
    for item in items:
        is_same = type(left) is not Sequence and same_static(left, item)  # a NaN, too
        equal = Static(True) if is_same else operators.compare(walker, "eq", left, item, node)
        if type(result) is Static and type(equal) is Static:
            result = Static(result.value or equal.value)
        elif type(result) is Static and not result.value:
            result = equal
        elif not (type(equal) is Static and not equal.value):
            result = operators.binary(walker, "bit_or", result, equal, node)
    if not negated:
        return result
    return _opposite(walker, result if isinstance(result, Static) else numbers.to_run(walker, result, node))


def _opposite(walker: Walker, truth: Static | Run) -> Binding:
    if isinstance(truth, Static):
        return Static(not truth.value)
    return Run(walker.builder.emit("bit_not", truth.value))


# Lazy expressions. What a side of them changes is changed where that side runs.

Side = ast.expr | Binding | Callable[[], Binding]


@expression(ast.BoolOp)
def _boolean(walker: Walker, node: ast.BoolOp) -> Binding:
    """`and`, `or`: the operand that decides is the value; what is right of it does not run."""
    is_and = isinstance(node.op, ast.And)
    left = evaluate(walker, node.values[0])
    for right_node in node.values[1:]:
        test = numbers.truth(walker, left, node)
        if isinstance(test, Static):
            if bool(test.value) != is_and:
                return left
            left = evaluate(walker, right_node)
            continue
        left = _lazy(walker, test, right_node if is_and else left, left if is_and else right_node, node)
    return left


@expression(ast.IfExp)
def _conditional(walker: Walker, node: ast.IfExp) -> Binding:
    test = numbers.truth(walker, evaluate(walker, node.test), node.test)
    if isinstance(test, Static):
        return evaluate(walker, node.body if test.value else node.orelse)
    return _lazy(walker, test, node.body, node.orelse, node)


def _lazy(walker: Walker, test: Run, yes: Side, no: Side, node: ast.expr) -> Binding:
    """One of two values by a run-time test; only that one is computed unless both are cheap and change nothing."""
    env = walker.env
    paths: list[Path] = []
    bindings: list[Binding] = []
    for side in (yes, no):
        walker.env = dict(env)
        try:
            block, binding = walker.trial(lambda side=side: _computed(walker, side))
        except Unknown:
            continue
        paths.append(Path(block, walker.env))
        bindings.append(binding)
    walker.env = env
    if not bindings:
        raise Unknown
    if len(bindings) == 1:
        walker.env = paths[0].env
        return bindings[0]
    blocks = [path.block for path in paths]
    changed = list(dict.fromkeys(name for path in paths for name in changed_names(env, path.env)))
    if not changed and same_static(*bindings) and all(_is_harmless(walker, block) for block in blocks):
        for block in blocks:
            walker.splice(block)
        return may_be(bindings[0], bindings[1:])
    if changed or same_static(*bindings) or have_one_form(bindings):
        return meet(walker, test, paths, bindings, node, walker.builder.location, changed)
    chosen = _choose(walker, test, blocks, bindings, node)
    chosen.nature = common_nature(bindings)
    return chosen


def _computed(walker: Walker, side: Side) -> Binding:
    if isinstance(side, ast.expr):
        return evaluate(walker, side)
    return side if isinstance(side, Binding) else side()


def _is_harmless(walker: Walker, block: Block) -> bool:
    """Whether a block can run where Python would not run it. In debug mode operations are checked: only those that Python
    computes."""
    return not block.ops or (not walker.compilation.debug and all(is_pure(op.kind) for op in block.ops))


def _choose(walker: Walker, test: Run, blocks: list[Block], bindings: list[Binding], node: ast.expr) -> Run:
    try:
        type_, weak = unify(walker, bindings, node)
    except NoUnion as reason:
        raise walker.error(node, f"the two values have no common type: {reason}", kind=QuadrantsTypeError) from None
    values: list[Value] = []
    for block, binding in zip(blocks, bindings):
        with walker.inside(block):
            values.append(convert_to(walker, binding, type_, node))
    if not walker.compilation.debug and all(
        len(block.ops) <= EAGER_OPS and _is_harmless(walker, block) for block in blocks
    ):
        for block in blocks:
            walker.splice(block)
        return Run(_select(walker, test.value, values, type_), weak)
    for block, value in zip(blocks, values):
        block.ops.append(Op("yield", (value,), (), None, (), walker.builder.location))
    op = Op("if", (test.value,), (type_,), {"types": (type_,)}, tuple(blocks), walker.builder.location)
    walker.builder.block.ops.append(op)
    return Run(op.result, weak)


def _select(walker: Walker, test: Value, values: list[Value], type_: Any) -> Value:
    if type_ is u1:
        yes, no = values
        if _is_constant(no, False):
            return walker.builder.emit("bit_and", test, yes)
        if yes is test:
            return walker.builder.emit("bit_or", test, no)
    return walker.builder.emit("select", test, *values)


def _is_constant(value: Value, number: Any) -> bool:
    return type(value.owner) is Op and value.owner.kind == "constant" and value.owner.attribute("value") == number
