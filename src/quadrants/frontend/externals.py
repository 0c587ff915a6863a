"""Calls of functions of C: numbers by NumPy's safe casts, dense arrays as pointers to the element that is named."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.values import Array, Binding, Run, Static
from quadrants.ir.external import Declaration, pointee
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, Type, parse_type, scalar_of, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.calls import Arguments
    from quadrants.frontend.walker import Walker

__all__ = ["call_external"]


def call_external(walker: Walker, declaration: Declaration | str, arguments: Arguments, node: ast.AST) -> Binding:
    """The call of a function of C; of one that cannot be called, `declaration` is the reason."""
    if isinstance(declaration, str):
        raise walker.error(node, declaration, kind=QuadrantsTypeError)
    expected, given = len(declaration.parameters), len(arguments.positional)
    if arguments.keywords or given != expected:
        found = "keywords" if arguments.keywords else f"{given} arguments"
        text = f"{_title(declaration)} takes {expected} arguments by position"
        raise walker.error(node, text, found=found, kind=QuadrantsTypeError)
    operands: list[Value] = []
    for position, (binding, syntax) in enumerate(zip(arguments.positional, arguments.nodes)):
        parameter, place = declaration.parameters[position], syntax or node
        element = pointee(parameter)
        if element is None:
            operands.append(_number(walker, declaration, parse_type(parameter), binding, place))
        else:
            written = declaration.writes is None or position in declaration.writes
            operands += _pointer(walker, declaration, element, binding, place, written)
    walker.at(node)
    attributes: dict[str, Any] = {
        "library": declaration.library,
        "symbol": declaration.symbol,
        "parameters": declaration.parameters,
    }
    if declaration.result:
        attributes["type"] = parse_type(declaration.result)
    if declaration.targets:
        attributes["targets"] = declaration.targets
    if declaration.assembly:
        attributes["assembly"] = declaration.assembly
    if not declaration.is_pure and declaration.reads is not None and declaration.writes is not None:
        attributes |= {"reads": declaration.reads, "writes": declaration.writes}
    kind = "external_pure" if declaration.is_pure else "external"
    walker.compilation.reaches_anything |= kind == "external" and "writes" not in attributes
    results = walker.builder.op(kind, *operands, **attributes).results
    return Run(results[0]) if results else Static(None)


def _title(declaration: Declaration) -> str:
    return f"the {'assembly' if declaration.assembly else 'C function'} {declaration.name}"


def _number(walker: Walker, declaration: Declaration, wanted: Type, binding: Binding, node: ast.AST) -> Value:
    assert type(wanted) is ScalarType
    run, (scalar, weak) = numbers.read(walker, binding, node)
    fits = scalar is wanted or (
        (wanted.is_float or not scalar.is_float)
        if weak
        else scalar.numpy is not None and np.can_cast(scalar.numpy, np.dtype(wanted.numpy))
    )
    if not fits or (run is not None and shape_of(run.type)):
        raise walker.error(
            node,
            f"the argument does not fit {_title(declaration)}",
            found=numbers.describe(binding),
            expected=wanted.name,
            hint=f"convert it: qd.{wanted.name}(…)",
            kind=QuadrantsTypeError,
        )
    return numbers.coerce(walker, binding, run, wanted)


def _pointer(
    walker: Walker, declaration: Declaration, element: str, binding: Binding, node: ast.AST, written: bool
) -> list[Value]:
    """An array and the indices of the element that the pointer is to point to."""
    expected = f"an array of {element}" if element else "an array"
    if type(binding) is not Array or (element and scalar_of(binding.type).name != element):
        raise walker.error(
            node,
            f"{_title(declaration)} takes a pointer here",
            found=numbers.describe(binding),
            expected=expected,
            kind=QuadrantsTypeError,
        )
    if binding.type.layout in ("A", "S"):
        planes = binding.type.layout == "S"
        raise walker.error(
            node,
            f"{_title(declaration)} takes dense memory, and this array "
            + ("has a plane for each component" if planes else "may have strides"),
            hint="make the field with layout=qd.Layout.AOS" if planes else "pass np.ascontiguousarray(x)",
            kind=QuadrantsTypeError,
        )
    if written:
        walker.compilation.note_write(walker, binding, node)
    indices = [_from_start(walker, binding, axis, index) for axis, index in enumerate(binding.prefix)]
    missing = binding.type.rank - len(indices)
    return [binding.value, *indices, *[walker.builder.index(0) for _ in range(missing)]]


def _from_start(walker: Walker, array: Array, axis: int, index: Value) -> Value:
    """An index that may count from the end as one that counts from the start."""
    if not walker.access(array):
        return index
    builder = walker.builder
    size = builder.emit("dim", array.value, axis=axis)
    return builder.select(builder.lt(index, builder.index(0)), builder.add(index, size), index)
