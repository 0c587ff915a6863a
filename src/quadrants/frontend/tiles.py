"""Tiles (`qd.simt.Tile16x16`, `Tile32x32`): square matrices of which each of as many threads side by side holds a row.

In a kernel a tile is a value of its threads, the row a vector: assignment copies it, and what changes it in place binds its
name anew. What it does is written in the language (`lang/simt/tiles.py`); parts of arrays are `Part`s.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.calls import Arguments
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.elements import SliceIndex, element, index_list
from quadrants.frontend.intrinsic_table import Handler, intrinsic, is_given, named_dtype
from quadrants.frontend.values import (
    TILE,
    Array,
    Binding,
    BoundMethod,
    Broken,
    Outer,
    Part,
    Run,
    Sequence,
    Static,
    is_tile,
)
from quadrants.ir.types import MatrixType, matrix_type, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["assign_tile", "method_of_tile", "part_in", "update_tile"]


def _tile(size: int, row: Binding) -> Sequence:
    return Sequence([Static(size), row], names=TILE)


def _row(tile: Sequence, node: ast.AST) -> tuple[Run, MatrixType]:
    """The row that the thread holds, and its type."""
    row = tile.items[1]
    if type(row) is Broken:
        raise row.explain(node)
    assert type(row) is Run and type(row.type) is MatrixType
    return row, row.type


def _computed(walker: Walker, name: str, node: ast.AST, *arguments: Binding) -> Binding:
    """What a function on tiles gives that is written in the language."""
    from quadrants.frontend.functions import library_function

    found = Arguments(list(arguments), {}, [None] * len(arguments))
    return library_function(walker, f"tile.{name}", found, node)


# How tiles are made.


def _made(size: int, fill: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        found = arguments.take(walker, node, ("dtype",), defaults=1)
        scalar = named_dtype(walker, found[0], node) if found and is_given(found[0]) else walker.default_float
        threads: int = walker.compilation.subgroup_size
        if threads < size:
            raise walker.error(
                node,
                f"a tile of {size} rows needs as many threads side by side",
                found=f"subgroups of {threads} threads",
                hint=f"qd.init(subgroup_size={size})",
            )
        row: Binding = Run(walker.builder.constant(0, matrix_type(scalar, (size,))))
        return _tile(size, _computed(walker, fill, node, row) if fill else row)

    return handler


for _size in (16, 32):
    intrinsic(f"simt.Tile{_size}x{_size}.zeros")(_made(_size, ""))
    intrinsic(f"simt.Tile{_size}x{_size}.eye")(_made(_size, "eye"))


@intrinsic("simt.outer")
def _outer(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Outer(arguments.take(walker, node, ("a", "b")))


# How they change in place.


def method_of_tile(tile: Binding, name: str) -> BoundMethod | None:
    """A tile's method, None if it has none of that name."""
    handler = _METHODS.get(name)
    return None if handler is None else BoundMethod(tile, name, handler)


def _eye(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    return _changed(walker, owner, "eye", [], node)


def _cholesky(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    (least,) = arguments.take(walker, node, ("eps",))
    return _changed(walker, owner, "cholesky", [least], node)


def _changed(walker: Walker, owner: Binding, name: str, arguments: list[Binding], node: ast.AST) -> Binding:
    assert is_tile(owner) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    row, type_ = _row(owner, node)
    if not type_.scalar.is_float:
        raise walker.error(node, f"{name} takes a tile of floats", found=str(type_.scalar), kind=QuadrantsTypeError)
    _bind(walker, node.func.value, _tile(shape_of(type_)[0], _computed(walker, name, node, row, *arguments)))
    return Static(None)


def _solve_triangular(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    assert is_tile(owner) and isinstance(node, ast.Call)
    sides, *rest = arguments.take(walker, node, ("B", "lower"), defaults=1)
    lower = rest[0] if rest else Static(True)
    place = node.args[0] if node.args else next(word.value for word in node.keywords if word.arg == "B")
    if type(lower) is not Static:
        raise walker.error(node, "lower is known at compile time", found=numbers.describe(lower))
    if not is_tile(sides):
        raise walker.error(node, "B is a tile", found=numbers.describe(sides), kind=QuadrantsTypeError)
    (row, type_), (other, other_type) = _row(owner, node), _row(sides, node)
    if shape_of(type_) != shape_of(other_type) or not (type_.scalar.is_float and other_type.scalar.is_float):
        raise walker.error(
            node,
            "a triangular system takes two tiles of floats of one size",
            found=f"{numbers.describe(owner)} and {numbers.describe(sides)}",
            kind=QuadrantsTypeError,
        )
    name = "solve_lower" if lower.value else "solve_upper"
    _bind(walker, place, _tile(shape_of(type_)[0], _computed(walker, name, node, row, other)))
    return Static(None)


_METHODS = {"eye_": _eye, "cholesky_": _cholesky, "solve_triangular_": _solve_triangular}


def _bind(walker: Walker, place: ast.expr, tile: Binding) -> None:
    if not isinstance(place, ast.Name):
        raise walker.error(place, "a tile that changes in place has a name", hint="bind it to a name first")
    walker.bind(place.id, tile, place)


def update_tile(walker: Walker, tile: Sequence, node: ast.AugAssign) -> None:
    """`tile += qd.outer(a, b)`, `tile -= …`."""
    kind = {ast.Add: "add_outer", ast.Sub: "subtract_outer"}.get(type(node.op))
    value = evaluate(walker, node.value)
    if kind is None or type(value) is not Outer:
        hint = "t -= qd.outer(a, b), where a and b are parts A[r0:r1, k] of arrays or numbers of the threads"
        raise walker.error(node, "a tile adds or subtracts outer products", hint=hint, kind=QuadrantsTypeError)
    row, type_ = _row(tile, node)
    factors = [_own_element(walker, factor, shape_of(type_)[0], node) for factor in value.factors]
    assert isinstance(node.target, ast.Name)
    walker.bind(node.target.id, _tile(shape_of(type_)[0], _computed(walker, kind, node, row, *factors)), node)


def _own_element(walker: Walker, factor: Binding, size: int, node: ast.AST) -> Binding:
    """The element of a vector that belongs to the thread's row; 0 behind the vector's end."""
    if type(factor) is not Part:
        run = numbers.to_run(walker, factor, node)
        if not shape_of(run.type):
            return run
        if len(shape_of(run.type)) == 1:
            return _computed(walker, "element_of_vector", node, run, Static(size))
    elif factor.ranges == 1:
        (array, low, high, *around) = _places(factor)
        return _computed(walker, "element", node, array, Static(size), low, high, *around)
    raise walker.error(node, "an outer product takes vectors", found=numbers.describe(factor), kind=QuadrantsTypeError)


def _places(part: Part) -> list[Binding]:
    """The array of a part, the ends of its ranges, and the indices before, between and behind these, as tuples."""
    ends: list[Binding] = []
    around: list[list[Binding]] = [[]]
    for axis in part.axes:
        if len(axis) == 1:
            around[-1].append(Run(axis[0]))
        else:
            ends += [Run(end) for end in axis]
            around.append([])
    return [part.array, *ends, *map(Sequence, around)]


# Assignment.


def assign_tile(walker: Walker, target: ast.expr, binding: Binding) -> None:
    """`tile[:] = …`, or a tile to a part of an array."""
    if not isinstance(target, ast.Subscript):
        raise walker.error(target, "a tile is assigned to a name or to a part of an array")
    base = evaluate(walker, target.value)
    if is_tile(base):
        indices = index_list(walker, target.slice)
        whole = all(type(index) is SliceIndex and index.value == slice(None) for index in indices)
        if not whole or not isinstance(target.value, ast.Name):
            raise walker.error(target, "a tile is assigned as a whole", hint="t[:] = …")
        size = shape_of(_row(base, target)[1])[0]
        walker.bind(target.value.id, _tile(size, _filled(walker, base, binding, target)), target)
        return
    if type(base) is Static and protocol.is_array(base.value):
        base = walker.compilation.array_of(walker, base.value, target)
    if type(base) is not Array:
        raise walker.error(target, "a tile is assigned to a part of an array", found=numbers.describe(base))
    assert is_tile(binding)
    from quadrants.frontend.parts import part_of

    part = _square(walker, part_of(walker, base, index_list(walker, target.slice, True), target), target)
    walker.compilation.note_write(walker, part.array, target)
    row, _ = _row(binding, target)
    _computed(walker, "store", target, row, *_places(part))


def _filled(walker: Walker, tile: Sequence, binding: Binding, node: ast.AST) -> Binding:
    """The row of a tile that is given other elements; those that a part of an array lacks stay."""
    row, type_ = _row(tile, node)
    if type(binding) is Part:
        return _computed(walker, "load", node, row, *_places(_square(walker, binding, node)))
    if is_tile(binding):
        return Run(numbers.convert(walker, _row(binding, node)[0], type_, node))
    found = numbers.to_run(walker, binding, node)
    if not shape_of(found.type):
        return Run(numbers.convert(walker, found, type_, node))
    raise walker.error(
        node,
        "a tile is given a part of an array, a tile or a number",
        found=numbers.describe(binding),
        hint="t[:] = A[r0:r1, c0:c1]",
        kind=QuadrantsTypeError,
    )


def _square(walker: Walker, part: Part, node: ast.AST) -> Part:
    if part.ranges != 2:
        found = f"{part.ranges} slices"
        raise walker.error(node, "a tile's part of an array has two slices, rows and columns", found=found)
    return part


def part_in(walker: Walker, node: ast.expr) -> Binding:
    """What a tile is given: subscripts with slices are parts of arrays, whatever they would be elsewhere."""
    if not isinstance(node, ast.Subscript):
        return evaluate(walker, node)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(isinstance(part, ast.Slice) for part in parts):
        return evaluate(walker, node)
    base = evaluate(walker, node.value)
    if type(base) is Static and protocol.is_array(base.value):
        base = walker.compilation.array_of(walker, base.value, node)
    from quadrants.frontend.parts import part_of

    into_array = type(base) is Array
    indices = index_list(walker, node.slice, into_array)
    walker.at(node)
    return part_of(walker, base, indices, node) if into_array else element(walker, base, indices, node)
