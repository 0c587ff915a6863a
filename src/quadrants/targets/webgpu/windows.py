"""Which segments of the heap a launch reaches, and through which of a shader's windows it sees each array."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.records import Record
from quadrants.targets.device.interface import DeviceArray

__all__ = ["ONE", "Range", "Windows", "reached_from", "segments_of", "windows_of"]

Range = tuple[int, int]
"""The first window of an array, and how many it goes through: they follow one another."""

ONE: Range = (0, 1)


class Windows(Record):
    """`segments`: the segment behind each window; `ranges`: for each array its windows."""

    segments: tuple[int, ...]
    ranges: tuple[Range, ...]


def windows_of(reached: Sequence[tuple[int, int]], span_bits: int) -> Windows:
    """The windows of a launch whose arrays lie in these segments, each from one to another. Law: an array's windows are
    neighbours as its segments are."""
    segments = sorted({segment for first, last in reached for segment in range(first, last + 1)})
    number = {segment: k for k, segment in enumerate(segments)}
    return Windows(tuple(segments), tuple([(number[first], last - first + 1) for first, last in reached]))


def segments_of(array: DeviceArray, span_bits: int) -> tuple[int, int]:
    """The first and the last segment that an array's elements lie in."""
    piece = array.memory
    first, last = piece.offset >> span_bits, (piece.offset + piece.size - 1) >> span_bits
    if first == last:
        return first, last
    start = piece.offset + array.offset
    return reached_from(start, array.shape, array.strides, array.type.scalar.bytes, span_bits)


def reached_from(
    start: int, shape: Sequence[int], strides: Sequence[int], element: int, span_bits: int
) -> tuple[int, int]:
    """The same for elements of that many bytes, the first of which lies at `start`."""
    low = high = start
    if 0 in shape:
        return low >> span_bits, low >> span_bits
    for size, stride in zip(shape, strides):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low >> span_bits, (high + element - 1) >> span_bits
