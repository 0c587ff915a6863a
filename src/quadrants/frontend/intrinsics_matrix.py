"""Vectors and matrices: what makes them, and NumPy's names for their methods."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.calls import Arguments
from quadrants.frontend.domains import wrap
from quadrants.frontend.intrinsic_table import Handler, intrinsic, is_given, named_dtype, static_int
from quadrants.frontend.methods import method_of
from quadrants.frontend.values import Binding, BoundMethod, Run, Sequence, Static
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, matrix_type, scalar_of, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["construct_annotated"]


def _made(walker: Walker, binding: Binding, wish: list[Binding], node: ast.AST) -> Run:
    if type(binding) is Static and isinstance(binding.value, (tuple, list)):
        binding = wrap(binding.value)
    if type(binding) is Static and isinstance(binding.value, np.ndarray):
        walker.compilation.evaluated(binding.value)
        binding = wrap(binding.value.tolist())
    if type(binding) is Sequence:
        binding = numbers.sequence_to_matrix(walker, binding, node)
    run = numbers.to_run(walker, binding, node)
    if not shape_of(run.type):
        raise walker.error(
            node,
            f"{numbers.describe(run)} does not make a vector or matrix",
            hint="pass a list of numbers",
            kind=QuadrantsTypeError,
        )
    if wish and is_given(wish[0]):
        return Run(walker.builder.cast(run.value, named_dtype(walker, wish[0], node)))
    return Run(run.value, run.weak)  # a value, whatever it was made of


@intrinsic("Vector", "Matrix", python=(np.array, np.asarray))
def _matrix(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    binding, *wish = arguments.take(
        walker, node, ("arr", "dt") if "dt" in arguments.keywords else ("arr", "dtype"), defaults=1
    )
    return _made(walker, binding, wish, node)


def _uniform(number: int) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        dtype, *sizes = arguments.take(walker, node, ("dt", "n", "m"), defaults=1)
        shape = tuple(
            static_int(walker, size, node) for size in sizes if not (type(size) is Static and size.value is None)
        )
        return Run(walker.builder.constant(number, matrix_type(named_dtype(walker, dtype, node), shape)))

    return handler


intrinsic("Matrix.zero")(_uniform(0))
intrinsic("Matrix.one")(_uniform(1))


@intrinsic("Matrix.identity", python=())
def _identity(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    dtype, size = arguments.take(walker, node, ("dt", "n"))
    return Run(diagonal(walker, static_int(walker, size, node), Static(1), named_dtype(walker, dtype, node), node))


@intrinsic("eye")
def _eye(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (size,) = arguments.take(walker, node, ("n",))
    return Run(diagonal(walker, static_int(walker, size, node), Static(1), walker.default_float, node), True)


@intrinsic("Matrix.diag")
def _diag(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    size, value = arguments.take(walker, node, ("dim", "val"))
    run = numbers.to_run(walker, value, node)
    return Run(diagonal(walker, static_int(walker, size, node), value, scalar_of(run.type), node), run.weak)


def diagonal(walker: Walker, size: int, value: Binding, scalar: ScalarType, node: ast.AST) -> Value:
    zero = walker.builder.constant(0, scalar)
    on = numbers.convert(walker, value, scalar, node)
    return walker.builder.emit(
        "construct",
        *[on if row == column else zero for row in range(size) for column in range(size)],
        type=matrix_type(scalar, (size, size)),
    )


@intrinsic("Matrix.unit")
def _unit(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    size, position, *wish = arguments.take(walker, node, ("n", "i", "dt"), defaults=1)
    count, at = static_int(walker, size, node), static_int(walker, position, node)
    scalar = named_dtype(walker, wish[0], node) if wish and is_given(wish[0]) else walker.default_int
    values = [walker.builder.constant(int(index == at), scalar) for index in range(count)]
    return Run(walker.builder.emit("construct", *values, type=matrix_type(scalar, (count,))))


@intrinsic("Matrix.rows")
def _rows(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (rows,) = arguments.take(walker, node, ("rows",))
    return _made(walker, rows, [], node)


@intrinsic("Matrix.cols")
def _cols(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (columns,) = arguments.take(walker, node, ("cols",))
    run = _made(walker, columns, [], node)
    return Run(walker.builder.emit("transpose", run.value), run.weak)


def construct_annotated(walker: Walker, wish: protocol.Annotation, arguments: Arguments, node: ast.AST) -> Run:
    """`vec3(0.0)`, `vec4(v2, 3, 4)`, `mat2(…)`: one number fills, pieces are strung together."""
    assert wish.scalar is not None or wish.shape
    pieces: list[Value] = []
    scalar = wish.scalar or walker.default_float
    type_ = matrix_type(scalar, wish.shape)
    for binding in arguments.positional:
        if type(binding) is Sequence or (type(binding) is Static and isinstance(binding.value, (tuple, list))):
            run = _made(walker, binding, [], node)
        else:
            run = numbers.to_run(walker, binding, node)
        value = numbers.coerce(walker, binding, run, scalar)
        pieces.extend(numbers.elements(walker, value) if shape_of(value.type) else [value])
    if len(pieces) == 1 and type_.count > 1:
        pieces *= type_.count
    if not pieces:
        pieces = [walker.builder.constant(0, scalar)] * type_.count
    if len(pieces) != type_.count:
        raise walker.error(
            node, f"{len(pieces)} numbers do not fill {type_}", expected=f"{type_.count}", kind=QuadrantsTypeError
        )
    return Run(walker.builder.emit("construct", *pieces, type=type_))


def _method_function(name: str) -> Handler:
    """np.dot(a, b) and its like: the method of the first operand."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        owner, *rest = arguments.positional
        found = method_of(walker, numbers.to_run(walker, owner, node), name, node)
        assert type(found) is BoundMethod
        return found.handler(walker, found.owner, Arguments(rest, arguments.keywords, arguments.nodes[1:]), node)

    return handler


for _name, _function in (
    ("dot", np.dot),
    ("cross", np.cross),
    ("outer_product", np.outer),
    ("norm", np.linalg.norm),
    ("determinant", np.linalg.det),
    ("inverse", np.linalg.inv),
    ("transpose", np.transpose),
):
    intrinsic(python=(_function,))(_method_function(_name))
