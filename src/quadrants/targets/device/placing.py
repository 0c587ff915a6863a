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

_ALIGNMENT = 16


class Placement:
    """The arrays of one run on a device. Those in blocks of fields and ndarrays stay there; the others are copied into memory of
    `staging`, and `take_back` copies what was written to their places. `keeps_blocks`: False where the memory lasts for one
    run only, so that all arrays are copied. `places`: for each array the memory that it lies in, and the byte at which its first
    element lies there.

    Law: of the host's memory nothing is written but elements of arrays that kernels write: others may write what lies between them."""

    __slots__ = ("_arrays", "_blocks", "places")

    def __init__(
        self,
        device: Room,
        arrays: Sequence[np.ndarray[Any, Any]],
        staging: Room,
        keeps_blocks: bool = True,
    ) -> None:
        self._arrays = arrays
        self.places: list[tuple[Any, int]] = [(_NOTHING, 0)] * len(arrays)
        self._blocks: dict[int, Block] = {}
        for start, end, members in self._pieces():
            block = holding(start, end) if end > start else None
            if block is not None and not keeps_blocks:
                block.host_access()
                block = None
            if block is not None:
                self._blocks.update(dict.fromkeys([k for k, _ in members], block))
                memory, start = block.for_device(device), block.start
            else:
                memory = self._copied(staging, start, end, members)
                start &= -_ALIGNMENT
            for k, first in members:
                self.places[k] = (memory, first - start)

    def placed(self, types: Sequence[ArrayType]) -> list[DeviceArray]:
        """The arrays where they lie on the device."""
        return [
            DeviceArray(type_, memory, offset, array.shape, array.strides)
            for array, type_, (memory, offset) in zip(self._arrays, types, self.places)
        ]

    def block(self, position: int) -> Block | None:
        """The block that the array at a position stays in; None for one that was copied."""
        return self._blocks.get(position)

    def _pieces(self) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """(start, end, members) of the host's arrays that reach one another by overlaps; members: (position, address of the first
        element)."""
        reaches: list[tuple[int, int, int, int]] = []
        for k, array in enumerate(self._arrays):
            first = array.__array_interface__["data"][0]
            if isinstance(array, DeviceView):
                self.places[k] = (_There(array), 0)
            elif array.flags.forc:
                reaches.append((first, first + array.nbytes, k, first))
            else:
                reaches.append((*_extent(array, first), k, first))
        reaches.sort()
        found: list[tuple[int, int, list[tuple[int, int]]]] = []
        for start, end, k, first in reaches:
            if found and start < found[-1][1]:
                last_start, last_end, members = found.pop()
                members.append((k, first))
                found.append((last_start, max(last_end, end), members))
            else:
                found.append((start, end, [(k, first)]))
        return found

    def _copied(self, staging: Room, start: int, end: int, members: Sequence[tuple[int, int]]) -> Memory:
        """What is aligned on the host stays so."""
        before = start % _ALIGNMENT
        memory = staging.allocate(max(before + end - start, 1))
        if start == end:
            return memory
        for k, first in members:
            array = self._arrays[k]
            if first == start and array.nbytes == end - start and array.flags.forc:  # all of the piece
                memory.write(before, _bytes(array))
                return memory
        image = np.zeros(before + end - start, np.uint8)
        for k, first in members:
            _view(self._arrays[k], image, before + first - start)[...] = self._arrays[k]
        memory.write(0, image.data)
        return memory

    def take_back(self, written: Sequence[int]) -> None:
        """Copies the arrays at these positions back; blocks of ours are copied when the host looks."""
        images: dict[int, np.ndarray[Any, Any]] = {}
        blocks = (
            {id(block): block for k in written if (block := self._blocks.get(k)) is not None} if self._blocks else {}
        )
        for block in blocks.values():
            block.was_written()
        for k in written:
            array, (memory, offset) = self._arrays[k], self.places[k]
            if k in self._blocks or array.size == 0 or isinstance(array, DeviceView) or not array.flags.writeable:
                continue
            if array.flags.forc:
                memory.read_into(offset, _bytes(array))
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

    def write(self, offset: int, data: bytes | memoryview) -> None:
        raise QuadrantsInternalError("memory of another package is written by kernels alone")

    def read(self, offset: int, size: int) -> bytes:
        raise QuadrantsInternalError("memory of another package is read by kernels alone")

    def read_into(self, offset: int, place: memoryview) -> None:
        self.read(offset, len(place))


class _Nothing:
    size = 0

    def write(self, offset: int, data: bytes | memoryview) -> None: ...

    def read(self, offset: int, size: int) -> bytes:
        return b""

    def read_into(self, offset: int, place: memoryview) -> None: ...


_NOTHING = _Nothing()


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array that has some, in place; they are all those from its first one on (`flags.forc`)."""
    return np.ndarray(array.nbytes, np.uint8, array if array.flags.c_contiguous else array.T).data


def _extent(array: np.ndarray[Any, Any], first: int) -> tuple[int, int]:
    """The addresses of an array's lowest byte in memory and of the one behind its highest; `first`: that of its first element."""
    last = first
    if array.size == 0:
        return first, first
    for size, stride in zip(array.shape, array.strides):
        if stride < 0:
            first += (size - 1) * stride
        else:
            last += (size - 1) * stride
    return first, last + array.itemsize


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
