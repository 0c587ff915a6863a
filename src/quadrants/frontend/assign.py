"""Targets of assignments: names, tuples, elements, components, swizzles."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.elements import (
    SliceIndex,
    component_axes,
    index_list,
    partial,
    sliced_element,
    swizzle_positions,
)
from quadrants.frontend.identity import check_only_name
from quadrants.frontend.known import with_known_indices
from quadrants.frontend.lent import bound_anew, changed_in_place
from quadrants.frontend.values import (
    Array,
    Binding,
    Nature,
    Run,
    Sequence,
    Slot,
    Static,
    is_tile,
    nature_of,
    static_range,
)
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, Type, matrix_type, scalar_of, shape_of, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = [
    "Component",
    "Element",
    "Member",
    "assign",
    "component_of",
    "copied",
    "element_value_type",
    "held_by",
    "parts_of",
    "placements",
    "positions_of",
    "resolve",
    "store_component",
    "store_element",
    "store_member",
    "unpacked",
]


class Element:
    """A target in shared memory: an array element, some components of one (a swizzle), or a slice of one (`slices`, the
    subscript that follows the element)."""

    __slots__ = ("array", "components", "slices")

    def __init__(self, array: Array, components: list[int] | None = None, slices: list[Binding] | None = None) -> None:
        self.array = array
        self.components = components
        self.slices = slices


class Member:
    """A target that is a member of a record: `holder` is the target that holds it, and `owner` what that holds now."""

    __slots__ = ("holder", "name", "owner")

    def __init__(self, holder: ast.expr, owner: Sequence, name: str) -> None:
        self.holder = holder
        self.owner = owner
        self.name = name


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
        bound_anew(walker, target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(walker, target, binding)
    elif is_tile(binding) or is_tile(held_by(walker, target)):
        from quadrants.frontend.tiles import assign_tile

        assign_tile(walker, target, binding)
    else:
        binding = numbers.settled(walker, binding, target)  # the target's indices are computed after the value
        place = resolve(walker, target)
        if isinstance(place, Element):
            store_element(walker, place, binding, target)
        elif isinstance(place, Member):
            store_member(walker, place, binding, target)
        elif isinstance(place, Array):
            _fill(walker, place, binding, target)
        else:
            store_component(walker, place, binding, target)


def held_by(walker: Walker, target: ast.expr) -> Binding:
    """What the local name holds that the target is a subscript of."""
    base = target.value if isinstance(target, ast.Subscript) else target
    return walker.env.get(base.id, Static(None)) if isinstance(base, ast.Name) else Static(None)


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
    for part, item in zip(target.elts, [numbers.settled(walker, item, target) for item in items]):
        assign(walker, part.value if isinstance(part, ast.Starred) else part, item)


def unpacked(walker: Walker, binding: Binding, node: ast.AST) -> list[Binding]:
    """The items of something that unpacks: tuples, ranges and tuples that are static, vectors (their elements)."""
    binding = static_range(binding) or binding
    if type(binding) is Sequence and not is_tile(binding):
        if binding.record is not None and not issubclass(binding.record, tuple):
            raise walker.error(node, f"{numbers.describe(binding)} cannot be unpacked", kind=QuadrantsTypeError)
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


def _fill(walker: Walker, array: Array, binding: Binding, target: ast.expr) -> None:
    """`array[:] = number`; NumPy's rules for other arrays on the right are not ours."""
    from quadrants.frontend.calls import Arguments
    from quadrants.frontend.functions import library_function

    if type(binding) is Array or (type(binding) is Static and protocol.is_array(binding.value)):
        raise walker.error(
            target,
            "whole arrays are not copied by assignment in a kernel",
            hint="loop over the indices: `for index in qd.grouped(a): a[index] = b[index]`",
        )
    library_function(walker, "fill", Arguments([array, binding], {}, [None, None]), target)


def resolve(walker: Walker, target: ast.expr) -> Element | Component | Member | Array:
    """Where a subscript or attribute target points; `a[:]` is the array."""
    target = with_known_indices(walker, target)
    if isinstance(target, ast.Subscript):
        return _resolve_subscript(walker, target)
    if isinstance(target, ast.Attribute):
        return _resolve_attribute(walker, target)
    if isinstance(target, ast.Name):
        binding = walker.lookup(target.id, target)
        if type(binding) is Array:
            return Element(binding)
    raise walker.error(target, "this cannot be assigned to", hint="assign to a name, an element or a component")


def _resolve_subscript(walker: Walker, target: ast.Subscript) -> Element | Component | Array:
    base = _array_or_value(walker, target, evaluate(walker, target.value))
    indices = index_list(walker, target.slice)
    if type(base) is not Array:
        return Component(target.value, base, indices)
    if not base.indexed and all(map(_is_whole, indices)):
        return base if base.domain else Element(base.extended(()))
    first = next((position for position, index in enumerate(indices) if isinstance(index, SliceIndex)), len(indices))
    if first == len(indices):
        element = partial(walker, base, indices, target)
        assert type(element) is Array
        return Element(element)
    return Element(sliced_element(walker, base, indices[:first], target), slices=indices[first:])


def _is_whole(index: Binding) -> bool:
    """Whether an index is `:` or `...`; one that is an array compares with neither."""
    value = index.value if isinstance(index, Static) else None
    return value is ... or (type(value) is slice and value == slice(None))


def _resolve_attribute(walker: Walker, target: ast.Attribute) -> Element | Component | Member:
    owner = evaluate(walker, target.value)
    if type(owner) is Sequence and owner.record is not None:
        _array_or_value(walker, target, owner)  # refuses what no name of the function holds
        return Member(target.value, owner, target.attr)
    positions = swizzle_positions(target.attr)
    if positions is None:
        raise walker.error(
            target,
            f"the attribute .{target.attr} cannot be assigned in a kernel",
            hint="fields and arrays are written by element",
        )
    base = _array_or_value(walker, target, owner)
    if type(base) is not Array:
        return Component(target.value, base, [], positions)
    return Element(base, positions)


def _array_or_value(walker: Walker, target: ast.Subscript | ast.Attribute, base: Binding) -> Binding:
    """What the target is a part of, which is `base`: an array, or a value that a local name (or an element of one) holds."""
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
        for indices, part in placements(walker, type_, place, binding, node):
            walker.builder.op("store", part, array.value, *array.prefix, *indices, **walker.access(array))
        return
    value = numbers.convert(walker, binding, type_, node)
    walker.builder.op("store", value, array.value, *array.prefix, **walker.access(array))


def _check_swizzle(walker: Walker, components: list[int], type_: Type, node: ast.AST) -> None:
    shape = shape_of(type_)
    if len(shape) != 1 or max(components) >= shape[0]:
        raise walker.error(node, "this component does not exist", found=str(type_), kind=QuadrantsTypeError)


def store_member(walker: Walker, place: Member, binding: Binding, node: ast.AST) -> None:
    """`record.name = binding`."""
    from quadrants.frontend.record_values import assigned_member

    changed_in_place(walker, place.holder, node)
    check_only_name(walker, place.owner, place.holder, node)
    _hold(walker, place.holder, assigned_member(walker, place.owner, place.name, binding, node))


def store_component(walker: Walker, place: Component, binding: Binding, node: ast.AST) -> None:
    """`name[indices] = binding` or `name.xy = binding` on a local vector, matrix, tuple or list."""
    owner = place.owner
    changed_in_place(walker, place.holder, node)
    if type(owner) is Sequence and place.components is None:
        if owner.record is not None and _set_item(walker, place, owner, binding, node):
            return
        changed = _changed_list(walker, place, owner, binding, node)
        if changed is not None:
            check_only_name(walker, owner, place.holder, node)
            _hold(walker, place.holder, changed)
            return
        owner = numbers.sequence_to_matrix(walker, owner, node)
    run = owner if isinstance(owner, Slot) else numbers.to_run(walker, owner, node)
    if run.nature is Nature.COPY:
        raise copied(walker, ast.unparse(place.holder), node)
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
    for indices, part in placements(walker, type_, place, binding, node):
        value = walker.builder.emit("insert", value, part, *indices)
    _hold(walker, place.holder, Run(value, weak, nature_of(owner)))


def _set_item(walker: Walker, place: Component, owner: Sequence, binding: Binding, node: ast.AST) -> bool:
    """`record[indices] = binding` by the method of the record's class; False for a named tuple, which has none."""
    from quadrants.frontend.calls import Arguments, call_binding
    from quadrants.frontend.record_values import method_for

    method = method_for(walker, owner, "__setitem__", place.holder)
    if method is not None:
        index = place.indices[0] if len(place.indices) == 1 else Sequence(place.indices)
        call_binding(walker, method, Arguments([index, binding], {}, [None, None]), node)
        return True
    if owner.record is not None and issubclass(owner.record, tuple):
        return False
    raise walker.error(
        node,
        f"{numbers.describe(owner)} is not assigned by element",
        hint="name the member, or give the class a method __setitem__",
        kind=QuadrantsTypeError,
    )


def copied(walker: Walker, name: str, node: ast.AST) -> Exception:
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
    items[position.value] = numbers.settled(walker, binding, node)
    return owner.of(items)


def _store_in_slot(walker: Walker, slot: Slot, place: Component, binding: Binding, node: ast.AST) -> None:
    for indices, part in placements(walker, slot.element, place, binding, node):
        walker.builder.op("store", part, slot.memory, *indices, wrap=True)


def placements(
    walker: Walker, type_: Type, place: Element | Component, binding: Binding, node: ast.AST
) -> list[tuple[list[Value], Value]]:
    """The scalar stores that a component assignment is: (indices, value)."""
    positions, kept = positions_of(walker, type_, place, node)
    return list(zip(positions, parts_of(walker, scalar_of(type_), kept, binding, node)))


def parts_of(
    walker: Walker, scalar: ScalarType, kept: tuple[int, ...] | None, binding: Binding, node: ast.AST
) -> list[Value]:
    """The numbers that go to the positions; `kept` is their shape, None for one number."""
    if kept is None:
        return [numbers.convert(walker, binding, scalar, node)]
    return numbers.elements(walker, numbers.convert(walker, binding, matrix_type(scalar, kept), node))


def positions_of(
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
