"""Python's own functions of sizes, sequences, text and objects."""

from __future__ import annotations

import ast
import builtins
import types
import typing
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators, protocol
from quadrants.frontend.assign import unpacked
from quadrants.frontend.calls import Arguments
from quadrants.frontend.intrinsic_table import intrinsic
from quadrants.frontend.intrinsics_loops import as_static
from quadrants.frontend.printing import emit_print
from quadrants.frontend.values import (
    Array,
    Binding,
    Iteration,
    Run,
    Sequence,
    Slot,
    Static,
    is_tile,
    static_range,
    static_tuple,
)
from quadrants.ir.types import ScalarType, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["axis_size"]


@intrinsic(python=(builtins.len,))
def _len(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (operand,) = arguments.take(walker, node, ("x",))
    if type(operand) is Sequence and not is_tile(operand):
        found = operators.of_record(walker, "len", operand, node)
        return Static(len(operand.items)) if found is None else found
    if type(operand) is Static and protocol.is_array(operand.value):
        operand = walker.compilation.array_of(walker, operand.value, node)
    if type(operand) is Array:
        return axis_size(walker, operand, len(operand.prefix))
    if type(operand) is Static and protocol.matrix_constant(operand.value) is None:
        walker.compilation.evaluated(operand.value)
        try:
            return Static(len(operand.value))
        except TypeError as reason:
            raise walker.error(node, str(reason), kind=QuadrantsTypeError) from None
    type_ = operand.element if type(operand) is Slot else numbers.to_run(walker, operand, node).type
    if not shape_of(type_):
        raise walker.error(node, f"{numbers.describe(operand)} has no length", kind=QuadrantsTypeError)
    return Static(shape_of(type_)[0])


def axis_size(walker: Walker, array: Array, axis: int) -> Binding:
    """The size of an axis: static where the type knows it, else read at run time (a weak 64-bit integer)."""
    first_static = array.type.rank - len(array.type.trailing)
    if axis >= first_static:
        return Static(array.type.trailing[axis - first_static])
    return Run(walker.builder.emit("dim", array.value, axis=axis), True)


@intrinsic(python=(builtins.tuple,))
def _tuple(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Sequence(_items(walker, arguments, node))


@intrinsic(python=(builtins.list,))
def _list(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Sequence(_items(walker, arguments, node), is_list=True)


def _items(walker: Walker, arguments: Arguments, node: ast.AST) -> list[Binding]:
    if not arguments.positional:
        return []
    operand = arguments.positional[0]
    if type(operand) is Iteration:
        operand = static_range(operand) or as_static(walker, operand, node)
    return [*unpacked(walker, operand, node)]


@intrinsic(python=(builtins.isinstance,))
def _isinstance(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """What classes a value is of is known at compile time: numbers are Python's, records of their class."""
    operand, wanted = arguments.take(walker, node, ("object", "class_or_tuple"))
    kind, known = _class_of(operand), static_tuple(wanted)
    if kind is None or type(known) is not Static:
        return _reflection(walker, arguments, node)
    try:
        classes = _classes(known.value)
        if any(issubclass(kind, wish) for wish in classes):
            return Static(True)
        of_numpy = [wish for wish in classes if issubclass(wish, np.generic)]
    except TypeError as reason:
        raise walker.error(node, str(reason), kind=QuadrantsTypeError) from None
    return Static(_is_of_numpy(walker, operand, of_numpy, node))


def _classes(wanted: Any) -> list[Any]:
    """The classes that `isinstance` looks for: one, or those of tuples and unions."""
    is_union = isinstance(wanted, types.UnionType) or typing.get_origin(wanted) is typing.Union
    parts = typing.get_args(wanted) if is_union else wanted
    return [kind for part in parts for kind in _classes(part)] if isinstance(parts, tuple) else [wanted]


def _is_of_numpy(walker: Walker, operand: Binding, classes: list[type], node: ast.AST) -> bool:
    """Whether a value is of one of NumPy's classes: an element of an array is as NumPy's is; other numbers have none that
    is known."""
    if not classes or type(operand) in (Static, Sequence):
        return False
    scalar = operand.type.scalar if type(operand) is Array and operand.is_numpy else None
    if scalar is None or scalar.numpy is None:
        raise walker.error(
            node,
            "a number of a kernel may be NumPy's or Python's: isinstance cannot tell",
            hint="ask the array: `a.dtype == np.float32`, or for bool, int or float",
        )
    return any(issubclass(scalar.numpy.type, known) for known in classes)


def _class_of(operand: Binding) -> type | None:
    """The class that a value has in Python; None where it has none that is known."""
    if type(operand) is Static:
        return type(operand.value)
    if type(operand) is Sequence and not is_tile(operand):
        return operand.record or (list if operand.is_list else tuple)
    type_ = operand.type if type(operand) is Run else None
    if type(operand) is Array and operand.is_element and len(operand.prefix) == operand.type.rank:
        type_ = operand.type.scalar
    if type(type_) is not ScalarType:
        return None
    return bool if type_ is u1 else float if type_.is_float else int


@intrinsic(
    python=(
        builtins.hasattr,
        builtins.getattr,
        builtins.type,
        builtins.callable,
        builtins.issubclass,
    )
)
def _reflection(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    raise walker.error(
        node, "this asks Python about an object: use it inside qd.static(…) on what is known at compile time"
    )


@intrinsic(python=(builtins.print,))
def _print(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    emit_print(walker, arguments, node)
    return Static(None)
