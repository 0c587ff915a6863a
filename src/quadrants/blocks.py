"""Blocks of host memory that a device may have a copy of, and which of the two is newer.

Fields and ndarrays lie in such blocks. A device takes a block when a kernel first reaches it and keeps it; the host gets back
what kernels wrote when it looks. A block that the host has given away for good (a view of it that others keep) is copied at
every launch, both ways.

Threads: launches, and copies of blocks, wait for one another (`busy`). An element that one thread sets while another launches
a kernel that reaches the same block may be lost: blocks are copied whole.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import AbstractContextManager
from typing import Any, Protocol

__all__ = [
    "Block",
    "Resident",
    "Traffic",
    "are_mirrored",
    "busy",
    "for_host",
    "forget",
    "given_away",
    "holding",
    "host_wrote",
    "register",
]

_launches = threading.RLock()
_lock = threading.RLock()  # of what follows
_starts: list[int] = []
_blocks: dict[int, Block] = {}
_forgotten: deque[int] = deque()
_mirrored = 0


class Traffic:
    """How often blocks were copied to a device and back."""

    to_device = 0
    to_host = 0


class Resident(Protocol):
    """An object in a block. `_on_device`: what machine code launches it by while the device's memory holds its newest content
    (`Block.admit`), None at other times."""

    _on_device: bytes | None


class Block:
    """`size` bytes at an address of the host; `copy` is the memory of `device` that holds them, too."""

    __slots__ = (
        "_residents",
        "_stale",
        "copy",
        "device",
        "device_is_stale",
        "is_given_away",
        "is_shared",
        "size",
        "start",
    )

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size
        self.copy: Any = None
        self.device: Any = None
        self.is_given_away = self.is_shared = False
        self.device_is_stale = True
        self._stale = ctypes.c_int64(0)
        self._residents: list[weakref.ref[Any]] = []

    @property
    def host_is_stale(self) -> bool:
        """Whether the device's memory is newer; machine code that launches what writes there says so, too."""
        return bool(self._stale.value) or self.is_shared

    @host_is_stale.setter
    def host_is_stale(self, value: bool) -> None:
        self._stale.value = value

    def admit(self, resident: Resident, descriptor: bytes) -> None:
        """From now on, until the host may have changed the block, machine code launches the object by that descriptor of the
        device's memory; behind it lies the address of the word that says that the host is stale."""
        if not self.is_given_away and not self.device_is_stale and resident._on_device is None:
            resident._on_device = descriptor + ctypes.addressof(self._stale).to_bytes(8, sys.byteorder)
            self._residents.append(weakref.ref(resident))

    def _dismiss(self) -> None:
        """Launches go through `for_device` again. Law: first this, then a copy, which lets other threads run."""
        for reference in self._residents:
            resident = reference()
            if resident is not None:
                resident._on_device = None
        self._residents.clear()

    def for_device(self, device: Any) -> Any:
        """The device's memory with the block's newest content."""
        with busy():
            if self.device is not device:
                self._dismiss()
                self._fetch()
                copy, is_first = device.allocate(max(self.size, 1)), self.device is None
                self.copy, self.device, self.device_is_stale = copy, device, True
                if is_first:
                    _count_mirrored(1)
            if self.device_is_stale or self.is_given_away:
                self.copy.write(0, self._bytes())
                self.device_is_stale = False
                Traffic.to_device += 1
            return self.copy

    def was_written(self) -> None:
        """A kernel has written to the device's memory, which is the newest even if the host has looked meanwhile."""
        with busy():
            self.host_is_stale, self.device_is_stale = True, False
            if self.is_given_away:
                self._fetch()

    def _fetch(self) -> None:
        """Law: the word is cleared before the copy is asked for: a launch meanwhile sets it again."""
        if self.host_is_stale:
            self.host_is_stale = False
            try:
                self.copy.read_into(0, self._bytes())
            except BaseException:  # the content is still to be had there, or the error is told again
                self.host_is_stale = True
                raise
            Traffic.to_host += 1

    def _bytes(self) -> memoryview:
        """The host's bytes, in place."""
        if not self.size:
            return memoryview(b"")
        return memoryview((ctypes.c_char * self.size).from_address(self.start)).cast("B")

    def host_access(self, reads_only: bool = False) -> None:
        """The host is about to read the block, and may write it unless it `reads_only`."""
        with busy():
            if not reads_only:
                self._dismiss()
            self._fetch()
            if not reads_only:
                self.device_is_stale = True

    def share(self, device: Any) -> Any:
        """The device's memory, which others have from now on, too: they may read and write it at any time."""
        with busy():
            if self.is_given_away:
                raise BufferError(
                    "the GPU's memory cannot be shared: others have a view of the host's (to_numpy(copy=False), an element)"
                )
            copy = self.for_device(device)
            self.is_shared = True
            return copy

    def host_wrote(self) -> None:
        """The host has written what it asked for: those who share the device's memory see it."""
        if self.is_shared:
            with busy():
                self.for_device(self.device)

    def give_away(self) -> None:
        """The host is about to give away a view of the block."""
        with busy():
            if self.is_shared:
                raise BufferError(
                    "a view of the host's memory cannot be had while others share the GPU's: take a copy, to_numpy()"
                )
            self.host_access()
            self.is_given_away = True


def busy() -> AbstractContextManager[Any]:
    """Held while a device runs a kernel, and while a block is copied: each thread's launches and copies are whole."""
    return _launches


def register(start: int, size: int) -> None:
    """A new block."""
    with _lock:
        _drop_forgotten()
        bisect.insort(_starts, start)
        _blocks[start] = Block(start, size)


def forget(start: int) -> None:
    """The block's memory is given back. Finalisers call this, which run in the middle of anything: so it is only noted."""
    _forgotten.append(start)


def _drop_forgotten() -> None:
    while _forgotten:
        start = _forgotten.popleft()
        del _starts[bisect.bisect_left(_starts, start)]
        if _blocks.pop(start).device is not None:
            _count_mirrored(-1)


def _count_mirrored(change: int) -> None:
    global _mirrored
    with _lock:
        _mirrored += change


def holding(start: int, end: int) -> Block | None:
    """The block that holds all bytes from an address up to another."""
    with _lock:
        _drop_forgotten()
        at = bisect.bisect_right(_starts, start) - 1
        block = _blocks[_starts[at]] if at >= 0 else None
        return block if block is not None and end <= block.start + block.size else None


def are_mirrored() -> bool:
    """Whether a device has a copy of any block."""
    return _mirrored > 0


def for_host(address: int, reads_only: bool = False) -> None:
    """Before the host reads what lies at an address, or writes it."""
    block = holding(address, address)
    if block is not None and block.device is not None:
        block.host_access(reads_only)


def host_wrote(address: int) -> None:
    """After the host has written to what lies at an address."""
    block = holding(address, address)
    if block is not None:
        block.host_wrote()


def given_away(address: int) -> None:
    """Before the host gives away a view of what lies at an address, for others to keep."""
    block = holding(address, address)
    if block is not None:
        block.give_away()


def _forked() -> None:
    """The locks may have been held by threads that the child does not have."""
    global _launches, _lock
    _launches, _lock = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
