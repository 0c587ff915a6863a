"""Blocks of host memory that a device may have a copy of, and which of the two is newer.

Fields and ndarrays lie in such blocks. A device takes a block when a kernel first reaches it and keeps it; the host gets back
what kernels wrote when it looks. A block that the host has given away for good (a view of it that others keep) is copied at
every launch, both ways.
"""

from __future__ import annotations

import bisect
import ctypes
import threading
from typing import Any

__all__ = ["Block", "Traffic", "are_mirrored", "for_host", "forget", "given_away", "holding", "register"]

_lock = threading.RLock()
_starts: list[int] = []
_blocks: dict[int, Block] = {}
_mirrored = 0


class Traffic:
    """How often blocks were copied to a device and back."""

    to_device = 0
    to_host = 0


class Block:
    """`size` bytes at an address of the host; `copy` is the memory of `device` that holds them, too."""

    __slots__ = ("copy", "device", "device_is_stale", "host_is_stale", "is_given_away", "size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.copy: Any = None
        self.device: Any = None
        self.host_is_stale = self.is_given_away = False
        self.device_is_stale = True

    def for_device(self, device: Any) -> Any:
        """The device's memory with the block's newest content."""
        global _mirrored
        with _lock:
            if self.device is not device:
                self._fetch()
                _mirrored += self.device is None
                self.copy, self.device, self.device_is_stale = device.allocate(max(self.size, 1)), device, True
            if self.device_is_stale or self.is_given_away:
                self.copy.write(0, ctypes.string_at(self.start, self.size))
                self.device_is_stale = False
                Traffic.to_device += 1
            return self.copy

    def was_written(self) -> None:
        """A kernel has written to the device's memory."""
        with _lock:
            self.host_is_stale = True
            if self.is_given_away:
                self._fetch()

    def _fetch(self) -> None:
        if self.host_is_stale:
            data = self.copy.read(0, self.size)
            ctypes.memmove(self.start, data, len(data))
            self.host_is_stale = False
            Traffic.to_host += 1

    def host_access(self) -> None:
        """The host is about to read the block, and may write it."""
        with _lock:
            self._fetch()
            self.device_is_stale = True


def register(start: int, size: int) -> None:
    """A new block."""
    with _lock:
        bisect.insort(_starts, start)
        _blocks[start] = Block(start, size)


def forget(start: int) -> None:
    """The block's memory is given back."""
    global _mirrored
    with _lock:
        block = _blocks.pop(start, None)
        if block is not None:
            _starts.remove(start)
            _mirrored -= block.device is not None


def holding(start: int, end: int) -> Block | None:
    """The block that holds all bytes from an address up to another."""
    with _lock:
        at = bisect.bisect_right(_starts, start) - 1
        block = _blocks[_starts[at]] if at >= 0 else None
        return block if block is not None and end <= block.start + block.size else None


def are_mirrored() -> bool:
    """Whether a device has a copy of any block."""
    return _mirrored > 0


def for_host(address: int) -> None:
    """Before the host reads or writes what lies at an address."""
    block = holding(address, address)
    if block is not None and block.device is not None:
        block.host_access()


def given_away(address: int) -> None:
    """Before the host gives away a view of what lies at an address, for others to keep."""
    block = holding(address, address)
    if block is not None:
        block.host_access()
        block.is_given_away = True
