"""Augmented assignment and atomic updates: `target op= value`, and what `qd.atomic_*` do to elements."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators
from quadrants.frontend.assign import (
    Component,
    Element,
    Member,
    assign,
    component_of,
    copied,
    element_value_type,
    parts_of,
    placements,
    positions_of,
    resolve,
    store_component,
    store_element,
    store_member,
)
from quadrants.frontend.calls import Arguments, call_binding
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.elements import element, member, swizzle
from quadrants.frontend.expressions import BINARY
from quadrants.frontend.identity import check_only_name
from quadrants.frontend.known import with_known_indices
from quadrants.frontend.record_values import method_for
from quadrants.frontend.sequence_operators import METHODS
from quadrants.frontend.tiles import update_tile
from quadrants.frontend.values import Array, Binding, Nature, Run, Sequence, Slot, Static, is_tile
from quadrants.ir.nodes import Op
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, Type, matrix_type, scalar_of, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["augmented", "update_element"]

# Augmented assignments on shared elements that are updates: atomic in meaning.
UPDATES = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
}


def augmented(walker: Walker, node: ast.AugAssign) -> None:
    """`target op= value`: the target's indices are computed, and what it holds is read, before the value is computed; a
    view (of a NumPy array) is read afterwards, since Python has only the array in hand until then. Elements of shared
    memory are updated, which is atomic in meaning."""
    kind = BINARY[type(node.op)]
    target = with_known_indices(walker, node.target)
    if target is not node.target:
        assert isinstance(target, (ast.Subscript, ast.Attribute))
        node = ast.copy_location(ast.AugAssign(target, node.op, node.value), node)
    if isinstance(node.target, ast.Name):
        owner = walker.lookup(node.target.id, node.target)
        if is_tile(owner):
            update_tile(walker, owner, node)
            return
        if type(owner) is Array and (owner.is_view or not owner.indexed):
            _update_view(walker, owner, node, kind)
            return
        if type(owner) is Run and owner.nature is Nature.COPY:
            raise copied(walker, node.target.id, node)
        value = evaluate(walker, node.value)
        if _in_place(walker, owner, value, node):
            return
        if _is_vector(owner) and not _rebinds(node.value, node.target.id):
            owner = walker.lookup(node.target.id, node.target)  # what functions did to its components is seen
        walker.bind(node.target.id, operators.binary(walker, kind, owner, value, node), node.target)
        return
    place = resolve(walker, node.target)
    if isinstance(place, Array):
        _update_view(walker, place, node, kind)
        return
    if isinstance(place, Component):
        _update_component(walker, place, node, kind)
        return
    if isinstance(place, Member):
        _update_member(walker, place, node, kind)
        return
    _update_target(walker, place, node, kind)


def _in_place(walker: Walker, owner: Binding, value: Binding, node: ast.AugAssign) -> bool:
    """`target op= value` by the method that a record's class has for it (`__iadd__`); False where it has none. A list is
    the same list afterwards."""
    if type(owner) is not Sequence:
        return False
    check_only_name(walker, owner if owner.is_list else Sequence([]), node.target, node)
    if owner.is_list and isinstance(node.target, ast.Name) and node.target.id in walker.entry:
        raise walker.error(node, "this changes the list of the caller", hint="use append or extend, or return the list")
    name = METHODS[BINARY[type(node.op)]]
    method = method_for(walker, owner, f"__i{name}__", node.target)
    if method is None:
        return False
    found = call_binding(walker, method, Arguments([value], {}, [None]), node)
    if type(found) is Static and found.value is NotImplemented:
        return False
    assign(walker, node.target, found)
    return True


def _is_vector(owner: Binding) -> bool:
    return type(owner) is Slot or (type(owner) is Run and bool(shape_of(owner.type)))


def _rebinds(value: ast.expr, name: str) -> bool:
    """Whether computing a value gives a name another one (`:=`)."""
    return any(isinstance(part, ast.NamedExpr) and part.target.id == name for part in ast.walk(value))


def _update_component(walker: Walker, place: Component, node: ast.AugAssign, kind: str) -> None:
    before = _component(walker, place, node.target)
    value = numbers.settled(walker, evaluate(walker, node.value), node)
    if _in_place(walker, before, value, node):
        return
    if isinstance(place.holder, ast.Name):
        if _rebinds(node.value, place.holder.id):
            return  # the name has another value by now, and nobody sees the one that would change
        # What the value's functions did to other components stays.
        place.owner = walker.lookup(place.holder.id, node.target)
    store_component(walker, place, operators.binary(walker, kind, before, value, node), node.target)


def _update_member(walker: Walker, place: Member, node: ast.AugAssign, kind: str) -> None:
    before = numbers.settled(walker, member(walker, place.owner, place.name, node.target), node)
    if type(before) is Array:
        _update_view(walker, before, node, kind)
        return
    value = numbers.settled(walker, evaluate(walker, node.value), node)
    if _in_place(walker, before, value, node):
        return
    if isinstance(place.holder, ast.Name):
        if _rebinds(node.value, place.holder.id):
            return  # as for components
        owner = walker.lookup(place.holder.id, node.target)
        if type(owner) is Sequence:
            place.owner = owner
    store_member(walker, place, operators.binary(walker, kind, before, value, node), node.target)


def _component(walker: Walker, place: Component, node: ast.AST) -> Binding:
    """What a part of a local vector, matrix or list holds."""
    if place.components is not None:
        return swizzle(walker, place.owner, place.components, node)
    return numbers.settled(walker, element(walker, place.owner, place.indices, node), node)


def _update_view(walker: Walker, owner: Array, node: ast.AugAssign, kind: str) -> None:
    left = owner.type.rank - len(owner.prefix)
    if not owner.indexed:
        raise walker.error(
            node,
            "whole-array arithmetic is not computed in a kernel",
            found=numbers.describe(owner),
            hint="loop over the array: `for i in range(len(a)): a[i] += …`",
        )
    assert left > 0
    _update_target(walker, Element(owner), node, kind)


def _update_target(walker: Walker, place: Element, node: ast.AugAssign, kind: str) -> None:
    by = UPDATES.get(type(node.op))
    array, type_ = element_value_type(walker, place.array, node)
    place = Element(array, place.components, place.slices)
    if array.is_view and place.components is None:
        value = numbers.settled(walker, evaluate(walker, node.value), node)
        if by is not None:
            update_element(walker, place, by, value, node)
        else:
            _store_combined(walker, place, _held_by(walker, place, type_, node), value, kind, node)
    elif by is None:
        before = _held_by(walker, place, type_, node)
        _store_combined(walker, place, before, evaluate(walker, node.value), kind, node)
    else:
        _update_by(walker, place, type_, by, node)


def _held_by(walker: Walker, place: Element, type_: Type, node: ast.AST) -> Binding:
    """What an element, or the parts of it that are meant, holds now."""
    if place.components is not None:
        return component_of(walker, place.array, place.components, type_, node)
    before = walker.load(place.array, node)
    return before if place.slices is None else element(walker, before, place.slices, node)


def _store_combined(
    walker: Walker, place: Element, before: Binding, value: Binding, kind: str, node: ast.AugAssign
) -> None:
    store_element(walker, place, operators.binary(walker, kind, before, value, node), node)


def _update_by(walker: Walker, place: Element, type_: Type, by: str, node: ast.AugAssign) -> None:
    """An update of an element. Where computing the value may change the element, what it held before is loaded in front
    of that: whether it counts is decided when it is known which iterations run in parallel."""
    array, whole = place.array, place.components is None and place.slices is None
    positions, kept = ([[]], None) if whole else positions_of(walker, type_, place, node)
    block = walker.builder.block
    start = len(block.ops)
    value = evaluate(walker, node.value)
    if not _writes_arrays(walker, block.ops[start:]):
        update_element(walker, place, by, value, node)
        return
    _check_update(walker, by, type_, node)
    walker.compilation.note_write(walker, array, node)
    scalar = scalar_of(type_)
    parts = [numbers.convert(walker, value, type_, node)] if whole else parts_of(walker, scalar, kept, value, node)
    end, access = len(block.ops), walker.access(array)
    places = [(array.value, *array.prefix, *indices) for indices in positions]
    loaded = [walker.builder.emit("load", *at, **access) for at in places]
    loads = block.ops[end:]
    del block.ops[end:]
    block.ops[start:start] = loads
    for part, before, at in zip(parts, loaded, places):
        walker.builder.op("update_loaded", part, before, *at, by=by, **access)


def _writes_arrays(walker: Walker, ops: list[Op]) -> bool:
    """Whether operations may write to an array."""
    return any(_may_write(walker, op) or any(_writes_arrays(walker, inner.ops) for inner in op.regions) for op in ops)


def _may_write(walker: Walker, op: Op) -> bool:
    if OPS[op.kind].effects in ("pure", "reads"):
        return False
    if op.kind in ("call", "external") and walker.compilation.reaches_anything:
        return True
    return any(type(operand.type) is ArrayType and not operand.type.is_slot for operand in op.operands)


def update_element(walker: Walker, place: Element, by: str, value: Binding, node: ast.AST) -> Run:
    """An update of shared memory, atomic in meaning; gives the old value."""
    walker.compilation.note_write(walker, place.array, node)
    array, type_ = element_value_type(walker, place.array, node)
    _check_update(walker, by, type_, node)
    builder = walker.builder
    if place.components is None and place.slices is None:
        converted = numbers.convert(walker, value, type_, node)
        return Run(builder.emit("update", converted, array.value, *array.prefix, by=by, **walker.access(array)))
    old = [
        builder.emit("update", part, array.value, *array.prefix, *indices, by=by, **walker.access(array))
        for indices, part in placements(walker, type_, place, value, node)
    ]
    if len(old) == 1:
        return Run(old[0])
    return Run(builder.emit("construct", *old, type=matrix_type(scalar_of(type_), (len(old),))))


def _check_update(walker: Walker, by: str, type_: Type, node: ast.AST) -> None:
    if by in ("bit_and", "bit_or", "bit_xor") and scalar_of(type_).is_float:
        raise walker.error(node, "bit operations take integers", found=str(type_), kind=QuadrantsTypeError)
