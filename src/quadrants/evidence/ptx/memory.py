"""A GPU's memory: one range of addresses for all state spaces, where every byte is known to be allocated or not."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["GARBAGE", "Constancy", "Memory", "MemoryFault", "Piece", "Window"]

GARBAGE = 0xA5
_GAP = 64
"""Bytes between allocations that belong to nobody, at least."""


_REACH = 1 << 18
"""What addresses of shared memory are less than on a GPU: descriptors of matrices have so many bits of them."""


class MemoryFault(Exception):
    """An access to memory that is not the program's, or that is not aligned."""


class Piece:
    """An allocation; given back when nothing refers to it."""

    def __init__(self, memory: Memory, address: int, size: int) -> None:
        self.memory, self.address, self.size = memory, address, size

    def write(self, offset: int, data: bytes) -> None:
        self.memory.check_range(self.address + offset, len(data))
        self.memory.bytes[self.address + offset : self.address + offset + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, offset: int, size: int) -> bytes:
        self.memory.check_range(self.address + offset, size)
        return self.memory.bytes[self.address + offset : self.address + offset + size].tobytes()

    def __del__(self) -> None:
        self.memory.release(self.address, self.size)


class Window(Piece):
    """A range of which now more, now less is allocated: from its beginning on `size` bytes."""

    def __init__(self, memory: Memory, room: int) -> None:
        self._held = memory.allocate(room, shared=True)
        super().__init__(memory, self._held.address, 0)
        self.open(0)

    def open(self, size: int) -> None:
        """From now on so many bytes are allocated."""
        first, end = self.address, self.address + self._held.size
        self.size = size
        self.memory.valid[first:end] = np.arange(first, end) < first + size

    def __del__(self) -> None:
        """The whole range goes with what it is held by."""


class Constancy:
    """What a launch reads as constant (`ld.global.nc`) and what it writes, of memory that is allocated. Law: no byte is both."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._launch = 0
        self._read = self._written = np.zeros(0, np.uint16)

    def begin(self) -> None:
        """A launch begins."""
        self._launch = (self._launch + 1) % (1 << 16)
        if self._launch <= 1:
            self._launch = 1
            self._read, self._written = np.zeros((2, self._size), np.uint16)  # pages that nobody touches cost nothing

    def read(self, addresses: np.ndarray[Any, Any], size: int) -> None:
        """Threads read as constant."""
        self._note(self._read, self._written, addresses, size)

    def write(self, addresses: np.ndarray[Any, Any], size: int) -> None:
        """Threads write."""
        self._note(self._written, self._read, addresses, size)

    def _note(self, own: np.ndarray[Any, Any], other: np.ndarray[Any, Any], addresses: Any, size: int) -> None:
        places = addresses.astype(np.int64)[:, None] + np.arange(size)
        if (other[places] == self._launch).any():
            raise MemoryFault("memory that is read as constant is written by the same launch")
        own[places] = self._launch


class Memory:
    """`bytes` is everything; address 0 and what follows belongs to nobody."""

    def __init__(self, size: int = 1 << 28) -> None:
        self.bytes = np.zeros(size, np.uint8)  # pages that nobody touches cost nothing
        self.valid = np.zeros(size, np.bool_)
        self.views = {width: self.bytes.view(f"u{width}") for width in (1, 2, 4, 8)}
        self._end = 4096
        self._free: dict[int, list[int]] = {}

    def allocate(self, size: int, shared: bool = False) -> Piece:
        """New memory, aligned to 256 bytes, its content garbage. It ends with a word of four bytes: exchanges of less are
        made of exchanges of words. `shared`: memory of a block, whose addresses differ in their low bits alone, as those of a GPU do."""
        size = -(-size // 4) * 4
        room = -(-(size + _GAP) // 256) * 256
        free = [] if shared else self._free.get(room)
        if free:
            address = free.pop()
        else:
            address = self._end
            if shared and address // _REACH != (address + size) // _REACH:
                address = -(-address // _REACH) * _REACH
            self._end = address + room
            if self._end > len(self.bytes):
                raise MemoryError(f"{size} bytes of memory that is played")
        self.bytes[address : address + size] = GARBAGE
        self.valid[address : address + size] = True
        return Piece(self, address, size)

    def release(self, address: int, size: int) -> None:
        self.valid[address : address + size] = False
        self._free.setdefault(-(-(size + _GAP) // 256) * 256, []).append(address)

    def check_range(self, address: int, size: int) -> None:
        """MemoryFault unless all of a range is allocated."""
        if size and not (
            address >= 0 and address + size <= len(self.bytes) and self.valid[address : address + size].all()
        ):
            raise MemoryFault(f"{size} bytes at {address:#x} are not allocated")

    def check_ranges(self, addresses: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> None:
        """MemoryFault unless all of each range is allocated."""
        for offset in range(int(sizes.max(initial=0))):
            inside = addresses[sizes > offset].astype(np.int64) + offset
            if (inside >= len(self.bytes)).any() or not self.valid[inside].all():
                raise MemoryFault(f"{int(sizes.max())} bytes at {int(addresses.min()):#x} and on are not all allocated")

    def places(self, addresses: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
        """Indices into `views[width]` of addresses, one a thread; MemoryFault for what is not allocated, or not aligned."""
        if len(addresses) == 1:
            address = int(addresses[0])
            if address >= len(self.bytes) - 8 or not (self.valid[address] and self.valid[address + width - 1]):
                raise MemoryFault(f"an access of {width} bytes at {address:#x}, where nothing is allocated")
            if address % width:
                raise MemoryFault(f"an access of {width} bytes at {address:#x}, which is not aligned")
        else:
            if int(addresses.max()) >= len(self.bytes) - 8:
                raise MemoryFault(
                    f"an access of {width} bytes at {int(addresses.max()):#x}, where nothing is allocated"
                )
            there = self.valid[addresses] & self.valid[addresses + np.uint64(width - 1)]
            if not there.all():
                bad = int(addresses[np.argmin(there)])
                raise MemoryFault(f"an access of {width} bytes at {bad:#x}, where nothing is allocated")
            if width > 1 and (addresses & np.uint64(width - 1)).any():
                raise MemoryFault(f"an access of {width} bytes that is not aligned")
        return addresses if width == 1 else addresses >> np.uint64(width.bit_length() - 1)

    def load(self, addresses: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
        """One element a thread."""
        return self.views[width][self.places(addresses, width)]

    def store(self, addresses: np.ndarray[Any, Any], width: int, values: np.ndarray[Any, Any]) -> None:
        """One element a thread; where threads meet, the last one's stays."""
        self.views[width][self.places(addresses, width)] = values
