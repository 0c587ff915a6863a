"""The layout of a kernel's frame: the block of bytes through which a launch passes arguments and gets results.

Scalars take a slot of eight bytes each (the value in its first bytes, little-endian on every target of today).
Matrices take their elements, row by row, rounded up to eight bytes. Arrays take a descriptor
{ ptr data; i64 shape[rank]; i64 strides_in_bytes[rank] }. Results follow the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.ir.evaluate import held_dtype, round_bf16
from quadrants.ir.nodes import Function
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type
from quadrants.records import Record

__all__ = ["Frame", "descriptor_bytes", "frame_layout", "from_memory", "memory_bytes"]

SLOT = 8


class Frame(Record):
    """Byte offsets of a kernel's parameters and results, in their order, and the size of the whole frame."""

    parameter_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    size: int

    def lowered_parameters(self) -> list[tuple[Type, int]]:
        """(type, offset) of the parameters once a matrix is one parameter an element, row by row."""
        return _flattened(self.parameter_types, self.parameters)

    def lowered_results(self) -> list[tuple[Type, int]]:
        """(type, offset) of the results once a matrix is one result an element, row by row."""
        return _flattened(self.result_types, self.results)


def descriptor_bytes(array: ArrayType) -> int:
    """Bytes of an array's descriptor."""
    return SLOT * (1 + 2 * array.rank)


def frame_layout(function: Function) -> Frame:
    """The frame of a kernel: the same at every stage, since it follows the signature that the kernel had before its
    matrices were taken apart."""
    parameter_types = _signature(function, "unlowered_parameters", [value.type for value in function.parameters])
    result_types = _signature(function, "unlowered_results", function.result_types)
    parameters, end = _place(parameter_types, 0)
    results, size = _place(result_types, end)
    return Frame(parameter_types, result_types, parameters, results, size)


def _signature(function: Function, attribute: str, types: Sequence[Type]) -> tuple[Type, ...]:
    unlowered = function.attributes.get(attribute)
    return tuple(types if unlowered is None else unlowered)


def _bytes_of(type_: Type) -> int:
    if type(type_) is ArrayType:
        return descriptor_bytes(type_)
    if type(type_) is MatrixType:
        return -(-type_.count * type_.scalar.bytes // SLOT) * SLOT
    return SLOT


def _place(types: tuple[Type, ...], start: int) -> tuple[tuple[int, ...], int]:
    offsets = []
    for type_ in types:
        offsets.append(start)
        start += _bytes_of(type_)
    return tuple(offsets), start


def _flattened(types: tuple[Type, ...], offsets: tuple[int, ...]) -> list[tuple[Type, int]]:
    flat: list[tuple[Type, int]] = []
    for type_, offset in zip(types, offsets):
        if type(type_) is MatrixType:
            scalar = type_.scalar
            flat.extend((scalar, offset + k * scalar.bytes) for k in range(type_.count))
        else:
            flat.append((type_, offset))
    return flat


def memory_bytes(scalar: ScalarType, value: Any) -> bytes:
    """Values, as they are held, as they lie in memory (bf16: the upper half of an f32)."""
    if scalar.name != "bf16":
        return value.tobytes()
    return (np.asarray(round_bf16(value)).view(np.uint32) >> 16).astype(np.uint16).tobytes()


def from_memory(scalar: ScalarType, frame: bytes | bytearray, offset: int, count: int) -> np.ndarray:
    """The inverse of memory_bytes."""
    if scalar.name != "bf16":
        return np.frombuffer(bytes(frame), held_dtype(scalar), count, offset)
    return (np.frombuffer(bytes(frame), np.uint16, count, offset).astype(np.uint32) << 16).view(np.float32)
