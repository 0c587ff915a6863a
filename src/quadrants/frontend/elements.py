"""Members and elements: attributes, swizzles, subscripts and slices, of arrays, matrices, tuples and static objects."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsIndexError, QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.dispatch import evaluate, expression
from quadrants.frontend.domains import wrap
from quadrants.frontend.values import (
    Array,
    Binding,
    Iteration,
    Nature,
    Run,
    Sequence,
    Slot,
    Static,
    is_list,
    is_number,
    is_tile,
)
from quadrants.ir.nodes import Value
from quadrants.ir.types import matrix_type, scalar_of, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = [
    "RunSlice",
    "SliceIndex",
    "component_axes",
    "element",
    "flat_indices",
    "index_list",
    "is_none",
    "member",
    "partial",
    "sliced_element",
    "swizzle",
    "swizzle_positions",
]


_SWIZZLES = ("xyzw", "rgba", "stpq")


def swizzle_positions(name: str) -> list[int] | None:
    """The components that a swizzle names, None if the name is none."""
    if 1 <= len(name) <= 4:
        for letters in _SWIZZLES:
            if all(letter in letters for letter in name):
                return [letters.index(letter) for letter in name]
    return None


@expression(ast.Attribute)
def _attribute(walker: Walker, node: ast.Attribute) -> Binding:
    base = evaluate(walker, node.value)
    walker.at(node)
    return member(walker, base, node.attr, node)


def member(walker: Walker, base: Binding, name: str, node: ast.AST) -> Binding:
    """`base.name`."""
    from quadrants.frontend.methods import method_of

    if type(base) is Static and not is_number(base.value) and protocol.matrix_constant(base.value) is None:
        return _static_member(walker, base, name, node)
    if type(base) is Sequence and base.names and not is_tile(base):
        from quadrants.frontend.record_values import member_of_record

        found = member_of_record(walker, base, name, node)
        if found is not None:
            return found
        if base.record is not None and not issubclass(base.record, tuple):
            raise walker.error(node, f"{numbers.describe(base)} has no attribute '{name}'")
    found = method_of(walker, base, name, node)
    if found is not None:
        return found
    positions = swizzle_positions(name)
    if positions is not None and type(base) in (Run, Slot, Array, Sequence, Static):
        return swizzle(walker, base, positions, node)
    hint = ""
    if type(base) is Array:
        hint = "loop over it: `for i in range(len(a)): …`" if hasattr(np.ndarray, name) else ""
    elif is_list(base) and hasattr(list, name):
        hint = (
            "lists of kernels have append, extend, insert and pop, where their length is known, and copy; write a loop"
        )
    raise walker.error(node, f"{numbers.describe(base)} has no attribute '{name}' in a kernel", hint=hint)


def _static_member(walker: Walker, base: Static, name: str, node: ast.AST) -> Binding:
    if protocol.is_array(base.value):
        found = _storage_member(walker, base, name, node)
        if found is not None:
            return found
    try:
        value = getattr(base.value, name)
    except AttributeError as reason:
        raise walker.error(node, str(reason)) from None
    return walker.compilation.captured_attribute(walker, base.value, name, value)


def _storage_member(walker: Walker, base: Static, name: str, node: ast.AST) -> Binding | None:
    """Members of a captured field or array: its shape is static where that is asked for, else read at run time."""
    from quadrants.frontend.methods import method_of

    if (
        name in ("shape", "dtype", "ndim", "n", "m", "grad", "dual", "snode", "parent", "element_shape")
        or walker.static_depth
    ):
        return None
    return method_of(walker, walker.compilation.array_of(walker, base.value, node), name, node)


def swizzle(walker: Walker, base: Binding, positions: list[int], node: ast.AST) -> Run:
    """Components of a vector by letters: one is a number, several a vector."""
    if type(base) is Array:
        left = base.type.rank - len(base.prefix)
        if left == 1 and base.indexed:
            from quadrants.frontend.assign import component_of, element_value_type

            array, type_ = element_value_type(walker, base, node)
            return component_of(walker, array, positions, type_, node)
    run = numbers.to_run(walker, base, node)
    shape = shape_of(run.type)
    if len(shape) != 1 or max(positions) >= shape[0]:
        raise walker.error(node, f"{numbers.describe(run)} has no such component", kind=QuadrantsTypeError)
    parts = [walker.builder.emit("extract", run.value, walker.builder.index(position)) for position in positions]
    if len(parts) == 1:
        return Run(parts[0], run.weak)
    return Run(walker.builder.emit("construct", *parts, type=matrix_type(scalar_of(run.type), (len(parts),))), run.weak)


def index_list(walker: Walker, node: ast.expr, into_array: bool = False) -> list[Binding]:
    """The indices of a subscript, slices as static slices; into arrays, the bounds of slices may be known at run time."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [
        _slice(walker, part, into_array) if isinstance(part, ast.Slice) else evaluate(walker, part) for part in parts
    ]


def _slice(walker: Walker, node: ast.Slice, into_array: bool) -> Binding:
    found = [Static(None) if part is None else evaluate(walker, part) for part in (node.lower, node.upper, node.step)]
    if into_array and not all(type(bound) is Static for bound in found) and is_none(found[2]):
        return RunSlice(found[0], found[1])
    bounds = []
    for bound in found:
        if type(bound) is not Static:
            raise walker.error(
                node, "the bounds of a slice must be known at compile time", hint="loop over the indices"
            )
        bounds.append(bound.value)
    return SliceIndex(slice(*bounds))


def flat_indices(walker: Walker, indices: list[Binding], node: ast.AST) -> list[Binding]:
    """Indices with vectors and tuples spread: `a[vec]`, `a[i, vec]`; None stands for no index (0-D fields)."""
    flat: list[Binding] = []
    for index in indices:
        if type(index) is Static and index.value is None:
            continue
        if type(index) is Static and isinstance(index.value, (tuple, list)):
            flat.extend(Static(item) for item in index.value)
        elif type(index) is Sequence:
            flat.extend(flat_indices(walker, index.items, node))
        elif (
            type(index) is Slot
            or (type(index) is Run and shape_of(index.type))
            or type(index) is Array
            or (type(index) is Static and protocol.matrix_constant(index.value) is not None)
        ):
            run = numbers.to_run(walker, index, node)
            flat.extend(Run(value, run.weak) for value in numbers.elements(walker, run.value)) if shape_of(
                run.type
            ) else flat.append(run)
        else:
            flat.append(index)
    return flat


@expression(ast.Subscript)
def _subscript(walker: Walker, node: ast.Subscript) -> Binding:
    base = evaluate(walker, node.value)
    into_array = type(base) is Array or (type(base) is Static and protocol.is_array(base.value))
    indices = index_list(walker, node.slice, into_array)
    walker.at(node)
    return element(walker, base, indices, node)


def element(walker: Walker, base: Binding, indices: list[Binding], node: ast.AST) -> Binding:
    """`base[indices]`."""
    if type(base) is Static:
        if protocol.is_array(base.value):
            base = walker.compilation.array_of(walker, base.value, node)
        elif protocol.matrix_constant(base.value) is None:
            return _static_element(walker, base, indices, node)
    if type(base) is Sequence and not is_tile(base):
        found = _by_method(walker, base, indices, node) if base.record is not None else None
        return _sequence_element(walker, base, indices, node) if found is None else found
    if type(base) is Array:
        return partial(walker, base, indices, node)
    if type(base) is Iteration:
        raise walker.error(node, f"{numbers.describe(base)} cannot be indexed in a kernel")
    return _matrix_element(walker, base, indices, node)


def _by_method(walker: Walker, base: Sequence, indices: list[Binding], node: ast.AST) -> Binding | None:
    """`record[indices]` by a method of its class; None for a named tuple without one."""
    from quadrants.frontend.calls import Arguments, call_binding
    from quadrants.frontend.record_values import method_for

    method = method_for(walker, base, "__getitem__")
    if method is not None:
        index = indices[0] if len(indices) == 1 else Sequence(indices)
        return call_binding(walker, method, Arguments([index], {}, [None]), node)
    if base.record is not None and not issubclass(base.record, tuple):
        raise walker.error(
            node, f"{numbers.describe(base)} is not indexed", hint="name the member", kind=QuadrantsTypeError
        )
    return None


def _static_element(walker: Walker, base: Static, indices: list[Binding], node: ast.AST) -> Binding:
    keys = tuple([index.value for index in indices if isinstance(index, Static)])
    if len(keys) == len(indices):
        walker.compilation.evaluated(base.value, *keys)
        try:
            return Static(base.value[keys[0] if len(keys) == 1 else keys])
        except (IndexError, KeyError, TypeError) as reason:
            raise walker.error(node, f"{type(reason).__name__}: {reason}") from None
    if isinstance(base.value, (tuple, list)):
        members = [wrap(member) for member in base.value]
        return _sequence_element(walker, Sequence(members, isinstance(base.value, list)), indices, node)
    raise walker.error(node, f"{numbers.describe(base)} takes static indices only")


def _sequence_element(walker: Walker, base: Sequence, indices: list[Binding], node: ast.AST) -> Binding:
    first = indices[0]
    if isinstance(first, Static):
        try:
            found = base.items[first.value]
        except (IndexError, TypeError) as reason:
            raise walker.error(node, f"{type(reason).__name__}: {reason}") from None
        found = Sequence(found, base.is_list) if isinstance(found, list) else found
        return element(walker, found, indices[1:], node) if len(indices) > 1 else found
    run = numbers.sequence_to_matrix(walker, base, node)
    return _matrix_element(walker, run, indices, node)


def partial(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Binding:
    """An array with more indices: its element, a view, or (fields) the element's component."""
    if any(isinstance(index, (SliceIndex, RunSlice)) for index in indices):
        return _sliced(walker, array, indices, node)
    indices = flat_indices(walker, indices, node)
    if len(array.prefix) + len(indices) > array.type.rank:
        raise walker.error(
            node,
            f"{len(indices)} indices into {numbers.describe(array)}",
            expected=f"at most {array.type.rank - len(array.prefix)}",
            kind=QuadrantsIndexError,
        )
    done = len(array.prefix)
    if not array.is_numpy and done < array.domain and done + len(indices) < array.domain:
        raise walker.error(
            node,
            f"{len(indices)} indices into {numbers.describe(array)}",
            expected=f"{array.domain - done}",
            hint="fields, ndarrays and shared arrays are indexed with all their axes at once: `a[i, j]`",
            kind=QuadrantsIndexError,
        )
    values = []
    for axis, index in enumerate(indices, done):
        value = _static_axis(walker, array, axis, index, node) or walker.as_index(index, node)
        if axis < len(array.offset) and array.offset[axis]:
            value = walker.builder.emit("sub", value, walker.builder.index(array.offset[axis]))
        values.append(value)
    return array.extended(tuple(values))


def _static_axis(walker: Walker, array: Array, axis: int, index: Binding, node: ast.AST) -> Value | None:
    """A static index into an axis of static size: checked, negative ones brought round."""
    first_static = array.type.rank - len(array.type.trailing)
    if type(index) is not Static or not isinstance(index.value, int) or axis < first_static:
        return None
    size = array.type.trailing[axis - first_static]
    if not -size <= index.value < size:
        raise walker.error(node, f"index {index.value} is out of range for size {size}", kind=QuadrantsIndexError)
    return walker.builder.index(index.value % size)


def _sliced(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Binding:
    """Slices of the static axes of an element: `F[i][:, 0]`, `pos[i, :2]`. Of other axes: a part, for tiles."""
    first = next(position for position, index in enumerate(indices) if isinstance(index, (SliceIndex, RunSlice)))
    of_element = first > 0 or array.indexed if array.is_numpy else len(array.prefix) + first >= array.domain
    if not of_element or any(type(index) is RunSlice for index in indices):
        from quadrants.frontend.parts import part_of

        return part_of(walker, array, indices, node)
    whole = walker.load(sliced_element(walker, array, indices[:first], node), node)
    part = _matrix_element(walker, whole, indices[first:], node)
    return Run(part.value, part.weak, Nature.COPY if array.is_numpy else Nature.VALUE) if type(part) is Run else part


def sliced_element(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Array:
    """The element that the indices in front of a slice reach: only the static axes of elements are sliced."""
    if len(array.prefix) + len(indices) < array.domain and not array.is_numpy:
        raise walker.error(node, "fields are not sliced in a kernel", hint="loop over the indices")
    head = partial(walker, array, indices, node) if indices else array
    assert type(head) is Array
    if not head.indexed:
        raise walker.error(
            node, "whole arrays are not sliced in a kernel", hint="loop over the indices, or slice before the call"
        )
    return head


def _matrix_element(walker: Walker, base: Binding, indices: list[Binding], node: ast.AST) -> Binding:
    """Elements, rows and static slices of a matrix value."""
    shape = shape_of(base.element) if type(base) is Slot else shape_of(numbers.to_run(walker, base, node).type)
    if not shape:
        raise walker.error(node, f"{numbers.describe(base)} cannot be indexed", kind=QuadrantsTypeError)
    axes = component_axes(walker, indices, shape, node)
    whole = len(flat_indices(walker, indices, node)) == len(shape) and not any(
        isinstance(index, SliceIndex) for index in indices
    )
    if whole:
        position = [axis[0] for axis in axes]
        if type(base) is Slot:
            return Run(walker.builder.emit("load", base.memory, *position, wrap=True), base.weak)
        run = numbers.to_run(walker, base, node)
        return Run(walker.builder.emit("extract", run.value, *position), run.weak)
    run = numbers.to_run(walker, base, node)
    sliced = [isinstance(index, SliceIndex) for index in indices] + [True] * (len(shape) - len(indices))
    kept = tuple(len(axis) for axis, keep in zip(axes, sliced) if keep)
    values = [walker.builder.emit("extract", run.value, *position) for position in itertools.product(*axes)]
    return Run(walker.builder.emit("construct", *values, type=matrix_type(scalar_of(run.type), kept)), run.weak)


class RunSlice(Binding):
    """A slice among indices whose bounds are known at run time alone."""

    __slots__ = ("high", "low")

    def __init__(self, low: Binding, high: Binding) -> None:
        self.low = low
        self.high = high


def is_none(binding: Binding) -> bool:
    return type(binding) is Static and binding.value is None


class SliceIndex(Static):
    """A static slice among indices."""

    __slots__ = ()

    def __init__(self, value: Any = slice(None)) -> None:
        super().__init__(value)


def component_axes(walker: Walker, indices: list[Binding], shape: tuple[int, ...], node: ast.AST) -> list[list[Value]]:
    """For each axis of a matrix the index values that the subscript names; static ones are checked."""
    indices = flat_indices(walker, indices, node)
    if len(indices) > len(shape):
        raise walker.error(node, f"{len(indices)} indices into {'x'.join(map(str, shape))}", kind=QuadrantsTypeError)
    axes: list[list[Value]] = []
    for axis, size in enumerate(shape):
        index = indices[axis] if axis < len(indices) else Static(slice(None))
        if isinstance(index, Static) and isinstance(index.value, slice):
            axes.append([walker.builder.index(position) for position in range(*index.value.indices(size))])
        elif type(index) is Static:
            position = int(index.value)
            if not -size <= position < size:
                raise walker.error(node, f"index {position} is out of range for size {size}", kind=QuadrantsTypeError)
            axes.append([walker.builder.index(position % size)])
        else:
            axes.append([walker.as_index(index, node)])
    return axes
