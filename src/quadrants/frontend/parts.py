"""Parts of arrays that slices with bounds known at run time cut out: what tiles read and write."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsIndexError
from quadrants.frontend import numbers
from quadrants.frontend.elements import RunSlice, SliceIndex, is_none
from quadrants.frontend.intrinsics_python import axis_size
from quadrants.frontend.values import Array, Binding, Part, Static
from quadrants.ir.nodes import Value

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["part_of"]


def part_of(walker: Walker, array: Array, indices: list[Binding], node: ast.AST) -> Part:
    """The part of an array at `indices`. As in Python, it ends where the array does, and negative bounds count from there;
    those of fields are the fields' indices."""
    done = len(array.prefix)
    if array.type.rank > array.domain or done + len(indices) > array.type.rank:
        raise walker.error(
            node,
            "this is no part of an array of numbers",
            found=f"{len(indices)} indices into {numbers.describe(array)}",
            kind=QuadrantsIndexError,
        )
    axes: list[tuple[Value, ...]] = []
    for axis in range(done, array.type.rank):
        index = indices[axis - done] if axis - done < len(indices) else SliceIndex()
        if isinstance(index, (SliceIndex, RunSlice)):
            axes.append(_range(walker, array, axis, index, node))
        else:
            axes.append((walker.as_index(index, node),))
    return Part(array, axes, node)


def _range(walker: Walker, array: Array, axis: int, index: SliceIndex | RunSlice, node: ast.AST) -> tuple[Value, Value]:
    """From which index to in front of which one a slice reaches."""
    if type(index) is RunSlice:
        low, high = index.low, index.high
    else:
        found: slice = index.value if type(index) is SliceIndex else slice(None)
        if found.step not in (None, 1):
            raise walker.error(node, "a part of an array has a step of 1", found=str(found))
        low, high = Static(found.start), Static(found.stop)
    builder = walker.builder
    first = array.offset[axis] if axis < len(array.offset) else 0
    size = walker.as_index(axis_size(walker, array, axis), node)
    end = builder.emit("add", size, builder.index(first)) if first else size
    start = builder.index(first) if is_none(low) else _bound(walker, array, low, size, node)
    stop = end if is_none(high) else builder.emit("min", _bound(walker, array, high, size, node), end)
    return start, stop


def _bound(walker: Walker, array: Array, bound: Binding, size: Value, node: ast.AST) -> Value:
    found, builder = walker.as_index(bound, node), walker.builder
    counts_up = type(bound) is Static and isinstance(bound.value, int) and bound.value >= 0
    if counts_up or array.kind == "field" or not walker.compilation.wraparound:
        return found
    zero = builder.index(0)
    from_end = builder.emit("max", builder.emit("add", found, size), zero)
    return builder.emit("select", builder.emit("lt", found, zero), from_end, found)
