"""Memory of a device for copies of the host's arrays, and for temporary arrays of hosts that are interpreted: kept from launch to launch,
because drivers wait for everything when memory is given back.

Law: what is copied into a piece comes behind everything launched before, so whoever borrowed it last is done with it by then; and
hosts that are interpreted launch to one stream.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from quadrants.targets.device.interface import Memory, Room

__all__ = ["Staging"]

_SMALLEST = 256
_MOST_BYTES, _MOST_PIECES = 8 << 20, 16
"""How much is kept of pieces of one size. Sizes are powers of two."""


class Staging:
    """Gives memory that the device has, and keeps what comes back."""

    def __init__(self, device: Room) -> None:
        self._device = device
        self._free: dict[int, deque[Memory]] = {}

    def allocate(self, size: int) -> Memory:
        """New memory, its content undefined. MemoryError where there is none."""
        whole = max(_SMALLEST, 1 << (size - 1).bit_length())
        if whole > _MOST_BYTES:
            return self._device.allocate(size)
        free = self._free.setdefault(whole, deque(maxlen=min(_MOST_PIECES, _MOST_BYTES // whole)))
        try:
            piece = free.pop()
        except IndexError:
            piece = self._device.allocate(whole)
        return _Borrowed(piece, size, free)

    def drop(self) -> None:
        """Gives back to the device what nobody has borrowed."""
        for free in list(self._free.values()):
            free.clear()


class _Borrowed:
    """A piece until nothing refers to it."""

    __slots__ = ("_free", "_piece", "address", "read_into", "size", "write")

    def __init__(self, piece: Any, size: int, free: deque[Memory]) -> None:
        self._piece, self._free = piece, free
        self.write, self.read_into = piece.write, piece.read_into
        self.size = size
        self.address: int = getattr(piece, "address", 0)

    def read(self, offset: int, size: int) -> bytes:
        return self._piece.read(offset, size)

    def __del__(self) -> None:
        self._free.append(self._piece)
