"""Host memory of fields and ndarrays: aligned, zeroed, counted."""

from __future__ import annotations

import sys
import threading
import weakref

import numpy as np

from quadrants import blocks

__all__ = ["ALIGNMENT", "Usage", "allocate", "usage"]

ALIGNMENT = 64


class Usage:
    """Bytes of storage memory: alive now, the most so far, and how many blocks are alive."""

    __slots__ = ("_lock", "blocks", "bytes", "peak_bytes")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # re-entrant: a finaliser may run inside an allocation
        self.bytes = 0
        self.peak_bytes = 0
        self.blocks = 0

    def _add(self, count: int) -> None:
        with self._lock:
            self.bytes += count
            self.blocks += 1
            self.peak_bytes = max(self.peak_bytes, self.bytes)

    def _remove(self, count: int) -> None:
        with self._lock:
            self.bytes -= count
            self.blocks -= 1


usage = Usage()


def allocate(count: int) -> np.ndarray:
    """A zeroed block of `count` bytes (uint8, 1-D) whose address is a multiple of 64.

    The memory lives as long as the array or any view of it; MemoryError if there is not enough.
    """
    if count > sys.maxsize - ALIGNMENT:  # which NumPy answers with a ValueError
        raise MemoryError(f"{count} bytes are more than an address can tell")
    raw = np.zeros(count + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    usage._add(count)
    weakref.finalize(raw, _released, raw.ctypes.data + start, count).atexit = False
    blocks.register(raw.ctypes.data + start, count)
    return raw[start : start + count]


def _released(address: int, count: int) -> None:
    blocks.forget(address)
    usage._remove(count)
