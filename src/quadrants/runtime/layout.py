"""Where the elements of a field or ndarray lie in memory: the one place that decides it.

A layout maps an index (batch axes, then element axes) to a byte offset by strides. Users see logical shapes only;
what this module answers may change without their noticing, as long as the strides say so.
"""

from __future__ import annotations

import struct

from quadrants.ir import types
from quadrants.records import Record

__all__ = ["Layout", "pack_descriptor", "plan"]


# Planes are whole cache lines, and never whole pages: elements of one index in different planes would then compete for the
# same places of a cache, and loads would wait for stores to another plane whose addresses end alike.
_LINE, _PAGE = 64, 4096


class Layout(Record):
    """Strides in bytes of all axes (batch axes first), the bytes of the whole, and the kind of array type that they make
    (ArrayType.layout)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_count: int
    kind: str


def plan(
    scalar: types.ScalarType,
    shape: tuple[int, ...],
    element_shape: tuple[int, ...] = (),
    order: tuple[int, ...] | None = None,
    planar: bool = False,
) -> Layout:
    """The layout of an array of structures, whole elements one after another; if `planar`, of a structure of arrays, a
    plane for each component.

    `order` lists the batch axes from the slowest to the fastest; None is the order of the axes.
    """
    if planar and element_shape:
        return _planes(plan(scalar, shape, (), order), element_shape)
    axes = order if order is not None else tuple(range(len(shape)))
    full = shape + element_shape
    strides = [0] * len(full)
    step = scalar.bytes
    for axis in [*range(len(full) - 1, len(shape) - 1, -1), *reversed(axes)]:
        strides[axis] = step
        step *= full[axis]
    return Layout(full, tuple(strides), step, "C" if axes == tuple(range(len(shape))) else "A")


def _planes(plane: Layout, element_shape: tuple[int, ...]) -> Layout:
    step = -(-plane.byte_count // _LINE) * _LINE
    if step % _PAGE == 0:
        step += _LINE
    strides: list[int] = []
    for size in reversed(element_shape):
        strides.insert(0, step)
        step *= size
    kind = "S" if plane.kind == "C" else "A"
    return Layout(plane.shape + element_shape, plane.strides + tuple(strides), step, kind)


def pack_descriptor(address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The block of memory by which kernels know an array: { u64 data; i64 shape[rank]; i64 strides_in_bytes[rank] }."""
    return struct.pack(f"=Q{2 * len(shape)}q", address, *shape, *strides)
