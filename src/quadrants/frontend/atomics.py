"""qd.atomic_*: updates of elements and local names that give the old value; qd.volatile_load, one that changes nothing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.frontend import numbers, operators
from quadrants.frontend.assign import (
    Component,
    Element,
    Member,
    element_value_type,
    resolve,
    store_component,
    store_member,
)
from quadrants.frontend.augmented import update_element
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.lent import changed_in_place
from quadrants.frontend.values import Array, Binding, Run, Static
from quadrants.ir.types import ScalarType, scalar_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["atomic", "compare_exchange", "volatile_load"]


def _place(
    walker: Walker, target: ast.expr | None, binding: Binding, node: ast.AST
) -> Element | Component | Member | str:
    if type(binding) is Array and binding.indexed:
        return Element(binding)
    if isinstance(target, ast.Name) and type(binding) is not Array:
        return target.id
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        place = resolve(walker, target)
        if not isinstance(place, Array):
            return place
    raise walker.error(
        node,
        "cannot use a non-writable target as the first operand of an atomic",
        found=numbers.describe(binding),
        hint="pass an element (`x[i]`) or a name",
        kind=QuadrantsSyntaxError,
    )


def atomic(
    walker: Walker, by: str, target: ast.expr | None, binding: Binding, value: Binding, node: ast.AST
) -> Binding:
    """`target = target by value`, atomic on shared elements; gives the old value."""
    place = _place(walker, target, binding, node)
    if isinstance(place, Element):
        return update_element(walker, place, by, value, node)
    old = binding if isinstance(place, str) or target is None else evaluate(walker, target)
    before = numbers.to_run(walker, old, node)
    after = value if by == "exchange" else _combined(walker, by, before, value, node)
    if isinstance(place, str):
        changed_in_place(walker, ast.Name(place), node)
        walker.bind(place, after, node)
    elif isinstance(place, Member):
        store_member(walker, place, after, node)
    else:
        store_component(walker, place, after, node)
    return before


def _combined(walker: Walker, by: str, before: Run, value: Binding, node: ast.AST) -> Binding:
    if by in ("min", "max"):
        a, b, weak = numbers.meet(walker, before, value, node)
        return Run(walker.builder.emit(by, a, b), weak)
    return operators.binary(walker, by, before, value, node)


def compare_exchange(
    walker: Walker, target: ast.expr | None, binding: Binding, expected: Binding, desired: Binding, node: ast.AST
) -> Binding:
    place = _place(walker, target, binding, node)
    if not isinstance(place, Element) or place.components is not None:
        raise walker.error(node, "atomic_cas takes an element of a field or array")
    walker.compilation.note_write(walker, place.array, node)
    array, type_ = element_value_type(walker, place.array, node)
    if type(type_) is not ScalarType or scalar_of(type_).is_float:
        raise walker.error(node, "atomic_cas takes integers", found=str(type_), kind=QuadrantsTypeError)
    operands = [numbers.convert(walker, binding, type_, node) for binding in (expected, desired)]
    return Run(walker.builder.emit("compare_exchange", *operands, array.value, *array.prefix, **walker.access(array)))


def volatile_load(walker: Walker, target: ast.expr | None, binding: Binding, node: ast.AST) -> Binding:
    """An element as it is at each execution. It is the old value of an update that changes nothing: no pass and no compiler
    behind us merges or moves updates whose old value is used, and what other threads update meanwhile is no race."""
    place = _place(walker, target, binding, node)
    if not isinstance(place, Element):
        return numbers.to_run(walker, binding, node)
    scalar = scalar_of(element_value_type(walker, place.array, node)[1])
    if scalar.is_float:
        return update_element(walker, place, "add", Static(-0.0), node)
    return update_element(walker, place, "bit_or", Static(False if scalar.bits == 1 else 0), node)
