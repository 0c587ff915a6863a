"""Displays and what else makes values: tuples, lists, comprehensions, lambdas, calls, texts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.frontend import numbers
from quadrants.frontend.assign import assign, unpacked
from quadrants.frontend.calls import LocalFunction, call
from quadrants.frontend.dispatch import evaluate, expression
from quadrants.frontend.domains import static_items, static_product
from quadrants.frontend.lent import as_they_are
from quadrants.frontend.printing import formatted
from quadrants.frontend.scan import names_in
from quadrants.frontend.values import (
    Array,
    Binding,
    Iteration,
    Run,
    Sequence,
    Slot,
    Static,
    all_static,
    static_range,
    static_tuple,
)
from quadrants.ir.types import shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker


@expression(ast.Tuple)
def _tuple(walker: Walker, node: ast.Tuple) -> Binding:
    return Sequence(_elements(walker, node.elts))


@expression(ast.List)
def _list(walker: Walker, node: ast.List) -> Binding:
    return Sequence(_elements(walker, node.elts), is_list=True)


def _elements(walker: Walker, nodes: list[ast.expr]) -> list[Binding]:
    items: list[Binding] = []
    since = len(walker.changes)
    for part in nodes:
        if isinstance(part, ast.Starred):
            items.extend(unpacked(walker, evaluate(walker, part.value), part))
        else:
            items.append(numbers.settled(walker, evaluate(walker, part), part))
    return as_they_are(walker, items, nodes if len(nodes) == len(items) else [], since)


@expression(ast.ListComp, ast.GeneratorExp)
def _comprehension(walker: Walker, node: ast.ListComp | ast.GeneratorExp) -> Binding:
    """Comprehensions over static ranges: a list of values."""
    items: list[Binding] = []
    targets = set().union(*[names_in(generator.target) for generator in node.generators])

    def run(generators: list[ast.comprehension]) -> None:
        if not generators:
            items.append(numbers.settled(walker, evaluate(walker, node.elt), node.elt))
            return
        generator = generators[0]
        iterated = evaluate(walker, generator.iter)
        if type(iterated) is Iteration:
            iterated = static_range(iterated) or (
                Sequence([*found])
                if (found := static_product(iterated) if iterated.kind == "ndrange" else None) is not None
                else iterated
            )
        found_items = static_items(walker, iterated, generator.iter)
        if found_items is None:
            found_items = _vector_items(walker, iterated, generator.iter)
        if found_items is None:
            raise walker.error(
                generator.iter,
                "a comprehension in a kernel runs over what is known at compile time",
                found=numbers.describe(iterated),
                hint="write a loop",
            )
        for item in found_items:
            assign(walker, generator.target, item)
            conditions = [numbers.truth(walker, evaluate(walker, test), test) for test in generator.ifs]
            static = all_static(conditions)
            if static is None:
                raise walker.error(node, "the condition of a comprehension must be known at compile time")
            if all(condition.value for condition in static):
                run(generators[1:])

    before = dict(walker.env)
    run(node.generators)
    for item in items:
        _check_closure(walker, item, targets, node)
    for name in targets:  # which are the comprehension's own
        walker.env.pop(name, None)
        if name in before:
            walker.env[name] = before[name]
    return Sequence(items, is_list=True)


def _check_closure(walker: Walker, item: Binding, targets: set[str], node: ast.AST) -> None:
    """Functions that outlive a comprehension would look for its names, which go with it."""
    if type(item) is Sequence:
        for part in item.items:
            _check_closure(walker, part, targets, node)
    if type(item) is LocalFunction and isinstance(item.node, ast.Lambda):
        arguments = item.node.args
        own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        free = targets & names_in(item.node.body) - {argument.arg for argument in own if argument is not None}
        if free:
            name = min(free)
            raise walker.error(
                item.node,
                f'this function would see the last value of the comprehension\'s "{name}", which a kernel does not keep',
                hint=f"give it the value of now: `lambda …, {name}={name}: …`",
            )


def _vector_items(walker: Walker, iterated: Binding, node: ast.AST) -> list[Binding] | None:
    """The elements of a vector or of a small part of an array."""
    if type(iterated) is Array and iterated.indexed:
        iterated = walker.load(iterated, node)
    if type(iterated) is Slot or (type(iterated) is Run and shape_of(iterated.type)):
        return unpacked(walker, iterated, node)
    return None


@expression(ast.Dict)
def _dictionary(walker: Walker, node: ast.Dict) -> Binding:
    keys = all_static([evaluate(walker, key) for key in node.keys if key is not None])
    values = all_static([static_tuple(evaluate(walker, value)) for value in node.values])
    if keys is not None and values is not None and len(keys) == len(values):
        return Static({key.value: value.value for key, value in zip(keys, values)})
    raise walker.error(node, "a dictionary in a kernel holds static values only", hint="use a tuple or a dataclass")


@expression(ast.NamedExpr)
def _named(walker: Walker, node: ast.NamedExpr) -> Binding:
    binding = evaluate(walker, node.value)
    assign(walker, node.target, binding)
    return walker.env[node.target.id]


@expression(ast.Lambda)
def _lambda(walker: Walker, node: ast.Lambda) -> Binding:
    return LocalFunction(node, walker)


@expression(ast.Call)
def _call(walker: Walker, node: ast.Call) -> Binding:
    return call(walker, node)


@expression(ast.JoinedStr)
def _formatted(walker: Walker, node: ast.JoinedStr) -> Binding:
    return formatted(walker, node)
