"""Targets of assignments: names, tuples, elements, components, swizzles; augmented assignment and atomic updates."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators, protocol
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.elements import (
    SliceIndex,
    component_axes,
    element,
    index_list,
    partial,
    sliced_element,
    swizzle,
    swizzle_positions,
)
from quadrants.frontend.expressions import BINARY
from quadrants.frontend.values import Array, Binding, Nature, Run, Sequence, Slot, Static, nature_of
from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, ScalarType, Type, matrix_type, scalar_of, shape_of, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["assign", "augmented", "update_element"]

# Augmented assignments on shared elements that are updates: atomic in meaning.
UPDATES = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "bit_and",
    ast.BitOr: "bit_or",
    ast.BitXor: "bit_xor",
}


class Element:
    """A target in shared memory: an array element, some components of one (a swizzle), or a slice of one (`slices`, the
    subscript that follows the element)."""

    __slots__ = ("array", "components", "slices")

    def __init__(self, array: Array, components: list[int] | None = None, slices: list[Binding] | None = None) -> None:
        self.array = array
        self.components = components
        self.slices = slices


class Component:
    """A target within a local matrix or list: element indices, or a swizzle. `holder` is the target that holds it, a
    name or again an element (`w[0]` in `w[0][1] = x`), and `owner` what that holds now."""

    __slots__ = ("components", "holder", "indices", "owner")

    def __init__(
        self, holder: ast.expr, owner: Binding, indices: list[Binding], components: list[int] | None = None
    ) -> None:
        self.holder = holder
        self.owner = owner
        self.indices = indices
        self.components = components


def assign(walker: Walker, target: ast.expr, binding: Binding) -> None:
    """`target = binding`."""
    if isinstance(target, ast.Name):
        walker.bind(target.id, binding, target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(walker, target, binding)
    else:
        binding = _settled(walker, binding, target)  # the target's indices are computed after the value
        place = resolve(walker, target)
        if isinstance(place, Element):
            store_element(walker, place, binding, target)
        else:
            store_component(walker, place, binding, target)


def _unpack(walker: Walker, target: ast.Tuple | ast.List, binding: Binding) -> None:
    items = unpacked(walker, binding, target)
    starred = [position for position, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
    if starred:
        first, after = starred[0], len(target.elts) - starred[0] - 1
        if len(items) < first + after:
            raise walker.error(target, f"{len(items)} values do not fill {len(target.elts) - 1} names")
        middle = Sequence(items[first : len(items) - after], is_list=True)
        items = [*items[:first], middle, *items[len(items) - after :]]
    if len(items) != len(target.elts):
        raise walker.error(target, f"{len(items)} values for {len(target.elts)} names")
    # Elements that the right side mentions are read before any name changes, as in Python.
    for part, item in zip(target.elts, [_settled(walker, item, target) for item in items]):
        assign(walker, part.value if isinstance(part, ast.Starred) else part, item)


def _settled(walker: Walker, item: Binding, node: ast.AST) -> Binding:
    return walker.load(item, node) if type(item) is Array and item.is_element else item


def unpacked(walker: Walker, binding: Binding, node: ast.AST) -> list[Binding]:
    """The items of something that unpacks: tuples, static tuples, vectors (their elements)."""
    if type(binding) is Sequence:
        return binding.items
    if type(binding) is Static and isinstance(binding.value, (tuple, list, range)):
        return [Static(item) for item in binding.value]
    run = numbers.to_run(walker, binding, node)
    if not shape_of(run.type):
        raise walker.error(node, f"{numbers.describe(binding)} cannot be unpacked", kind=QuadrantsTypeError)
    if len(shape_of(run.type)) == 1:
        return [Run(value, run.weak) for value in numbers.elements(walker, run.value)]
    values, (rows, columns) = numbers.elements(walker, run.value), shape_of(run.type)
    row = matrix_type(scalar_of(run.type), (columns,))
    return [
        Run(walker.builder.emit("construct", *values[start * columns : (start + 1) * columns], type=row), run.weak)
        for start in range(rows)
    ]


def resolve(walker: Walker, target: ast.expr) -> Element | Component:
    """Where a subscript or attribute target points."""
    if isinstance(target, ast.Subscript):
        return _resolve_subscript(walker, target)
    if isinstance(target, ast.Attribute):
        return _resolve_attribute(walker, target)
    if isinstance(target, ast.Name):
        binding = walker.lookup(target.id, target)
        if type(binding) is Array:
            return Element(binding)
    raise walker.error(target, "this cannot be assigned to", hint="assign to a name, an element or a component")


def _resolve_subscript(walker: Walker, target: ast.Subscript) -> Element | Component:
    base = _array_or_value(walker, target)
    indices = index_list(walker, target.slice)
    if type(base) is not Array:
        return Component(target.value, base, indices)
    first = next((position for position, index in enumerate(indices) if isinstance(index, SliceIndex)), len(indices))
    if first == len(indices):
        element = partial(walker, base, indices, target)
        assert type(element) is Array
        return Element(element)
    return Element(sliced_element(walker, base, indices[:first], target), slices=indices[first:])


def _resolve_attribute(walker: Walker, target: ast.Attribute) -> Element | Component:
    positions = swizzle_positions(target.attr)
    if positions is None:
        raise walker.error(
            target,
            f"the attribute .{target.attr} cannot be assigned in a kernel",
            hint="fields and arrays are written by element",
        )
    base = _array_or_value(walker, target)
    if type(base) is not Array:
        return Component(target.value, base, [], positions)
    return Element(base, positions)


def _array_or_value(walker: Walker, target: ast.Subscript | ast.Attribute) -> Binding:
    """What the target is a part of: an array, or a value that a local name (or an element of one) holds."""
    base = evaluate(walker, target.value)
    if type(base) is Static and protocol.is_array(base.value):
        return walker.compilation.array_of(walker, base.value, target)
    root: ast.expr = target
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        root = root.value
    if type(base) is Array or (isinstance(root, ast.Name) and root.id in walker.env):
        return base
    if isinstance(root, ast.Name) and walker.outer is not None and walker.outer.visible(root.id) is not None:
        text = f'"{root.id}" belongs to the function around this one, which cannot be changed here'
        raise walker.error(target, text, hint="return the new value, or define the function at the top of the file")
    raise walker.error(
        target, f"{numbers.describe(base)} cannot be assigned to by element", hint="bind it to a name first"
    )


def element_value_type(walker: Walker, array: Array, node: ast.AST) -> tuple[Array, Type]:
    """An array target with its static sizes known, and the type of what it holds."""
    left = array.type.rank - len(array.prefix)
    if left > len(array.type.trailing):
        array = walker.compilation.with_static_sizes(walker, array, left, node)
    return array, array.type.indexed(len(array.prefix))


def store_element(walker: Walker, place: Element, binding: Binding, node: ast.AST) -> None:
    walker.compilation.note_write(walker, place.array, node)
    array, type_ = element_value_type(walker, place.array, node)
    if place.components is not None or place.slices is not None:
        for indices, part in _placements(walker, type_, place, binding, node):
            walker.builder.op("store", part, array.value, *array.prefix, *indices, **walker.access(array))
        return
    value = numbers.convert(walker, binding, type_, node)
    walker.builder.op("store", value, array.value, *array.prefix, **walker.access(array))


def _check_swizzle(walker: Walker, components: list[int], type_: Type, node: ast.AST) -> None:
    shape = shape_of(type_)
    if len(shape) != 1 or max(components) >= shape[0]:
        raise walker.error(node, "this component does not exist", found=str(type_), kind=QuadrantsTypeError)


def store_component(walker: Walker, place: Component, binding: Binding, node: ast.AST) -> None:
    """`name[indices] = binding` or `name.xy = binding` on a local vector, matrix, tuple or list."""
    owner = place.owner
    if type(owner) is Sequence and place.components is None:
        changed = _changed_list(walker, place, owner, binding, node)
        if changed is not None:
            _hold(walker, place.holder, changed)
            return
        owner = numbers.sequence_to_matrix(walker, owner, node)
    run = owner if isinstance(owner, Slot) else numbers.to_run(walker, owner, node)
    if run.nature is Nature.COPY:
        raise _copied(walker, ast.unparse(place.holder), node)
    type_ = run.element if isinstance(run, Slot) else run.type
    if not shape_of(type_):
        raise walker.error(node, f"{numbers.describe(owner)} has no elements", kind=QuadrantsTypeError)
    type_, weak = _widened(walker, type_, run.weak, binding, node)
    if isinstance(run, Slot):
        if type_ is not run.element or weak != run.weak:
            assert isinstance(place.holder, ast.Name)
            walker.widen_slot(place.holder.id, scalar_of(type_), weak)
        _store_in_slot(walker, run, place, binding, node)
        return
    value = walker.builder.cast(run.value, scalar_of(type_))
    for indices, part in _placements(walker, type_, place, binding, node):
        value = walker.builder.emit("insert", value, part, *indices)
    _hold(walker, place.holder, Run(value, weak, nature_of(owner)))


def _copied(walker: Walker, name: str, node: ast.AST) -> Exception:
    return walker.error(
        node,
        f'"{name}" would be a part of an array in Python, which this changes; here it is a copy',
        hint="assign to elements of the array itself, or make a value of it first: `w = 1 * w`",
    )


def _hold(walker: Walker, holder: ast.expr, binding: Binding) -> None:
    """The holder holds the changed value from here on."""
    if isinstance(holder, ast.Name):
        walker.env[holder.id] = binding
    else:
        assign(walker, holder, binding)


def _widened(walker: Walker, type_: Type, weak: bool, binding: Binding, node: ast.AST) -> tuple[Type, bool]:
    """Weak vectors take the type of what is put in; typed ones keep theirs."""
    if not weak:
        return type_, False
    run = numbers.to_run(walker, binding, node)
    scalar, still_weak = numbers.join(walker, (scalar_of(type_), True), (scalar_of(run.type), run.weak))
    return with_scalar(type_, scalar), still_weak


def _changed_list(
    walker: Walker, place: Component, owner: Sequence, binding: Binding, node: ast.AST
) -> Sequence | None:
    """The list with one element replaced; None where the index is not static: then it is a vector."""
    if not owner.is_list:
        raise walker.error(
            node, "a tuple cannot be changed", hint="make it a list or a qd.Vector", kind=QuadrantsTypeError
        )
    position = place.indices[0] if len(place.indices) == 1 else None
    if (
        type(position) is not Static
        or not isinstance(position.value, int)
        or not -len(owner.items) <= position.value < len(owner.items)
    ):
        return None
    items = list(owner.items)
    items[position.value] = _settled(walker, binding, node)
    return Sequence(items, True)


def _store_in_slot(walker: Walker, slot: Slot, place: Component, binding: Binding, node: ast.AST) -> None:
    for indices, part in _placements(walker, slot.element, place, binding, node):
        walker.builder.op("store", part, slot.memory, *indices, wrap=True)


def _placements(
    walker: Walker, type_: Type, place: Element | Component, binding: Binding, node: ast.AST
) -> list[tuple[list[Value], Value]]:
    """The scalar stores that a component assignment is: (indices, value)."""
    positions, kept = _positions(walker, type_, place, node)
    return list(zip(positions, _parts(walker, scalar_of(type_), kept, binding, node)))


def _parts(
    walker: Walker, scalar: ScalarType, kept: tuple[int, ...] | None, binding: Binding, node: ast.AST
) -> list[Value]:
    """The numbers that go to the positions; `kept` is their shape, None for one number."""
    if kept is None:
        return [numbers.convert(walker, binding, scalar, node)]
    return numbers.elements(walker, numbers.convert(walker, binding, matrix_type(scalar, kept), node))


def _positions(
    walker: Walker, type_: Type, place: Element | Component, node: ast.AST
) -> tuple[list[list[Value]], tuple[int, ...] | None]:
    """The indices of the numbers that a component assignment reaches, and the shape that they take together (None: it
    is one number)."""
    shape = shape_of(type_)
    if place.components is not None:
        _check_swizzle(walker, place.components, type_, node)
        count = len(place.components)
        return [[walker.builder.index(position)] for position in place.components], (count,) if count > 1 else None
    subscript = place.indices if isinstance(place, Component) else place.slices or []
    axes = component_axes(walker, subscript, shape, node)
    if (
        all(len(axis) == 1 for axis in axes)
        and not any(isinstance(index, SliceIndex) for index in subscript)
        and len(subscript) == len(shape)
    ):
        return [[axis[0] for axis in axes]], None
    import itertools

    kept = tuple(
        len(axis)
        for axis, index in zip(axes, [*subscript, *[SliceIndex()] * len(axes)])
        if isinstance(index, SliceIndex) or len(axis) > 1
    )
    return [list(position) for position in itertools.product(*axes)], kept


# Augmented assignment.


def augmented(walker: Walker, node: ast.AugAssign) -> None:
    """`target op= value`: the target's indices are computed, and what it holds is read, before the value is computed; a
    view (of a NumPy array) is read afterwards, since Python has only the array in hand until then. Elements of shared
    memory are updated, which is atomic in meaning."""
    kind = BINARY[type(node.op)]
    if isinstance(node.target, ast.Name):
        owner = walker.lookup(node.target.id, node.target)
        if type(owner) is Array and (owner.is_view or not owner.indexed):
            _update_view(walker, owner, node, kind)
            return
        if type(owner) is Run and owner.nature is Nature.COPY:
            raise _copied(walker, node.target.id, node)
        value = evaluate(walker, node.value)
        if _is_vector(owner) and not _rebinds(node.value, node.target.id):
            owner = walker.lookup(node.target.id, node.target)  # what functions did to its components is seen
        walker.bind(node.target.id, operators.binary(walker, kind, owner, value, node), node.target)
        return
    place = resolve(walker, node.target)
    if isinstance(place, Component):
        _update_component(walker, place, node, kind)
        return
    _update_target(walker, place, node, kind)


def _is_vector(owner: Binding) -> bool:
    return type(owner) is Slot or (type(owner) is Run and bool(shape_of(owner.type)))


def _rebinds(value: ast.expr, name: str) -> bool:
    """Whether computing a value gives a name another one (`:=`)."""
    return any(isinstance(part, ast.NamedExpr) and part.target.id == name for part in ast.walk(value))


def _update_component(walker: Walker, place: Component, node: ast.AugAssign, kind: str) -> None:
    before = _component(walker, place, node.target)
    value = _settled(walker, evaluate(walker, node.value), node)
    if isinstance(place.holder, ast.Name):
        if _rebinds(node.value, place.holder.id):
            return  # the name has another value by now, and nobody sees the one that would change
        # What the value's functions did to other components stays.
        place.owner = walker.lookup(place.holder.id, node.target)
    store_component(walker, place, operators.binary(walker, kind, before, value, node), node.target)


def _component(walker: Walker, place: Component, node: ast.AST) -> Binding:
    """What a part of a local vector, matrix or list holds."""
    if place.components is not None:
        return swizzle(walker, place.owner, place.components, node)
    return _settled(walker, element(walker, place.owner, place.indices, node), node)


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
        value = _settled(walker, evaluate(walker, node.value), node)
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
    positions, kept = ([[]], None) if whole else _positions(walker, type_, place, node)
    block = walker.builder.block
    start = len(block.ops)
    value = evaluate(walker, node.value)
    if not _writes_arrays(block, start):
        update_element(walker, place, by, value, node)
        return
    _check_update(walker, by, type_, node)
    walker.compilation.note_write(walker, array, node)
    scalar = scalar_of(type_)
    parts = [numbers.convert(walker, value, type_, node)] if whole else _parts(walker, scalar, kept, value, node)
    end, access = len(block.ops), walker.access(array)
    places = [(array.value, *array.prefix, *indices) for indices in positions]
    loaded = [walker.builder.emit("load", *at, **access) for at in places]
    loads = block.ops[end:]
    del block.ops[end:]
    block.ops[start:start] = loads
    for part, before, at in zip(parts, loaded, places):
        walker.builder.op("update_loaded", part, before, *at, by=by, **access)


def _writes_arrays(block: Block, start: int) -> bool:
    """Whether what a block has from `start` on may write to an array."""
    return any(_may_write(inner) for op in block.ops[start:] for inner in (op, *_within(op)))


def _within(op: Op) -> list[Op]:
    return [inner for region in op.regions for inner in walk(region)]


def _may_write(op: Op) -> bool:
    if op.kind in ("load", "dim", "external_pure") or op.regions:
        return False
    return OPS[op.kind].effects != "pure" and any(
        type(operand.type) is ArrayType and not operand.type.is_slot for operand in op.operands
    )


def component_of(walker: Walker, array: Array, components: list[int], type_: Type, node: ast.AST) -> Run:
    _check_swizzle(walker, components, type_, node)
    parts = [
        walker.builder.emit("load", array.value, *array.prefix, walker.builder.index(position), **walker.access(array))
        for position in components
    ]
    return (
        Run(parts[0])
        if len(parts) == 1
        else Run(walker.builder.emit("construct", *parts, type=matrix_type(scalar_of(type_), (len(parts),))))
    )


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
        for indices, part in _placements(walker, type_, place, value, node)
    ]
    if len(old) == 1:
        return Run(old[0])
    return Run(builder.emit("construct", *old, type=matrix_type(scalar_of(type_), (len(old),))))


def _check_update(walker: Walker, by: str, type_: Type, node: ast.AST) -> None:
    if by in ("bit_and", "bit_or", "bit_xor") and scalar_of(type_).is_float:
        raise walker.error(node, "bit operations take integers", found=str(type_), kind=QuadrantsTypeError)
