"""Where the elements of a field or ndarray lie in memory: the one place that decides it.

A layout maps an index (batch axes, then element axes) to a byte offset by strides. Users see logical shapes only;
what this module answers may change without their noticing, as long as the strides say so.
"""

from __future__ import annotations

import struct

from quadrants.ir import types
from quadrants.records import Record

__all__ = ["Layout", "pack_descriptor", "plan"]


class Layout(Record):
    """Strides in bytes of all axes (batch axes first), the bytes of the whole, and whether it is dense in C order."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_count: int
    is_contiguous: bool


def plan(
    scalar: types.ScalarType,
    shape: tuple[int, ...],
    element_shape: tuple[int, ...] = (),
    order: tuple[int, ...] | None = None,
) -> Layout:
    """The layout of an array of structures: whole elements one after another.

    `order` lists the batch axes from the slowest to the fastest; None is the order of the axes.
    """
    axes = order if order is not None else tuple(range(len(shape)))
    full = shape + element_shape
    strides = [0] * len(full)
    step = scalar.bytes
    for axis in [*range(len(full) - 1, len(shape) - 1, -1), *reversed(axes)]:
        strides[axis] = step
        step *= full[axis]
    return Layout(full, tuple(strides), step, axes == tuple(range(len(shape))))


def pack_descriptor(address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The block of memory by which kernels know an array: { u64 data; i64 shape[rank]; i64 strides_in_bytes[rank] }."""
    return struct.pack(f"=Q{2 * len(shape)}q", address, *shape, *strides)
