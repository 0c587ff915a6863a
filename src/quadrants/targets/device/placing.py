"""Arguments in a device's memory: arrays that overlap share one piece of it, so that they overlap there, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.blocks import Block, holding
from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Module, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType
from quadrants.targets.device.interface import DeviceArray, Memory, Room
from quadrants.targets.device.views import DeviceView

__all__ = ["Placement", "written_parameters"]


class Placement:
    """The arrays of one run on a device. Those in blocks of fields and ndarrays stay there; the others are copied into memory of
    `staging`, and `take_back` copies what was written to their places. `keeps_blocks`: False where the memory lasts for one
    run only, so that all arrays are copied."""

    def __init__(
        self,
        device: Room,
        arrays: Sequence[tuple[np.ndarray[Any, Any], ArrayType]],
        staging: Room,
        keeps_blocks: bool = True,
    ) -> None:
        self._arrays = [array for array, _ in arrays]
        self._places: list[tuple[Memory, int]] = [(_NOTHING, 0)] * len(arrays)
        self._blocks: dict[int, Block] = {}
        for k, array in enumerate(self._arrays):
            if isinstance(array, DeviceView):
                self._places[k] = (_There(array), 0)
        for start, end, members in _pieces(self._arrays):
            block = holding(start, end) if end > start else None
            if block is not None and not keeps_blocks:
                block.host_access()
                block = None
            if block is not None:
                self._blocks.update(dict.fromkeys(members, block))
                memory, start = block.for_device(device), block.start
            else:
                start &= -16  # what is aligned on the host stays so
                memory = self._copied(staging, start, end, members)
            for k in members:
                self._places[k] = (memory, _first_byte(self._arrays[k]) - start)
        self.placed = [
            DeviceArray(type_, memory, offset, array.shape, array.strides)
            for (array, type_), (memory, offset) in zip(arrays, self._places)
        ]

    def block(self, position: int) -> Block | None:
        """The block that the array at a position stays in; None for one that was copied."""
        return self._blocks.get(position)

    def _copied(self, staging: Room, start: int, end: int, members: Sequence[int]) -> Memory:
        memory = staging.allocate(max(end - start, 1))
        image = np.zeros(end - start, np.uint8)
        for k in members:
            _view(self._arrays[k], image, _first_byte(self._arrays[k]) - start)[...] = self._arrays[k]
        if end > start:
            memory.write(0, image.tobytes())
        return memory

    def take_back(self, written: Sequence[int]) -> None:
        """Copies the arrays at these positions back; blocks of ours are copied when the host looks."""
        images: dict[int, np.ndarray[Any, Any]] = {}
        for block in {id(block): block for k in written if (block := self._blocks.get(k)) is not None}.values():
            block.was_written()
        for k in written:
            array, (memory, offset) = self._arrays[k], self._places[k]
            if isinstance(array, DeviceView):
                continue
            if k in self._blocks or array.size == 0 or not array.flags.writeable:
                continue
            image = images.get(id(memory))
            if image is None:
                image = images[id(memory)] = np.frombuffer(memory.read(0, memory.size), np.uint8)
            array[...] = _view(array, image, offset)


class _There:
    """Memory that the device has already: nothing is copied."""

    def __init__(self, view: DeviceView) -> None:
        self.address, self.size = view.address, view.nbytes
        self._keep = view.keep

    def write(self, offset: int, data: bytes) -> None:
        raise QuadrantsInternalError("memory of another package is written by kernels alone")

    def read(self, offset: int, size: int) -> bytes:
        raise QuadrantsInternalError("memory of another package is read by kernels alone")


class _Nothing:
    size = 0

    def write(self, offset: int, data: bytes) -> None: ...

    def read(self, offset: int, size: int) -> bytes:
        return b""


_NOTHING = _Nothing()


def _first_byte(array: np.ndarray[Any, Any]) -> int:
    return array.__array_interface__["data"][0]


def _extent(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of an array's first byte in memory and of the one behind its last."""
    first = last = _first_byte(array)
    if array.size == 0:
        return first, first
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            first += (size - 1) * stride
        else:
            last += (size - 1) * stride
    return first, last + array.itemsize


def _pieces(arrays: Sequence[np.ndarray[Any, Any]]) -> list[tuple[int, int, list[int]]]:
    """(start, end, positions) of the host's arrays that reach one another by overlaps."""
    found: list[tuple[int, int, list[int]]] = []
    host = [k for k, array in enumerate(arrays) if not isinstance(array, DeviceView)]
    for k in sorted(host, key=lambda k: _extent(arrays[k])):
        start, end = _extent(arrays[k])
        if found and start < found[-1][1]:
            last_start, last_end, members = found.pop()
            found.append((last_start, max(last_end, end), [*members, k]))
        else:
            found.append((start, end, [k]))
    return found


def _view(array: np.ndarray[Any, Any], image: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """The elements of a copied array in the image of its piece of memory."""
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    return np.ndarray(array.shape, array.dtype, image, offset, array.strides)


def written_parameters(module: Module) -> set[int]:
    """The positions of the kernel's parameters that are arrays and may be written."""
    positions = {value: k for k, value in enumerate(module.kernel.parameters) if type(value.type) is ArrayType}
    found: set[int] = set()
    for op in walk(module.kernel.body):
        if op.kind == "call" or OPS[op.kind].effects in ("writes", "atomic"):
            found.update(positions[value] for value in op.operands if value in positions)
    return found
