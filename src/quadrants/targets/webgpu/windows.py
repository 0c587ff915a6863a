"""Which segments of the heap a launch reaches, and through which of a shader's windows it sees each array."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.records import Record
from quadrants.targets.device.interface import DeviceArray

__all__ = ["ONE", "Range", "Windows", "windows_of"]

Range = tuple[int, int]
"""The first window of an array, and how many it goes through: they follow one another."""

ONE: Range = (0, 1)


class Windows(Record):
    """`segments`: the segment behind each window; `ranges`: for each array its windows."""

    segments: tuple[int, ...]
    ranges: tuple[Range, ...]


def windows_of(arrays: Sequence[DeviceArray], span_bits: int) -> Windows:
    """The windows of a launch with these arrays. Law: an array's windows are neighbours as its segments are."""
    reached = [_segments(array, span_bits) for array in arrays]
    segments = sorted({segment for first, last in reached for segment in range(first, last + 1)})
    number = {segment: k for k, segment in enumerate(segments)}
    return Windows(tuple(segments), tuple([(number[first], last - first + 1) for first, last in reached]))


def _segments(array: DeviceArray, span_bits: int) -> tuple[int, int]:
    """The first and the last segment that an array's elements lie in."""
    piece = array.memory
    first, last = piece.offset >> span_bits, (piece.offset + piece.size - 1) >> span_bits
    if first == last:
        return first, last
    low = high = piece.offset + array.offset
    if 0 in array.shape:
        return low >> span_bits, low >> span_bits
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low >> span_bits, (high + array.type.scalar.bytes - 1) >> span_bits
