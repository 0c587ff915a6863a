"""Memory for machine code: whole pages, writable first, executable later, never both, and never given back.

So no page of code is ever written again, and Apple's permission to do both (MAP_JIT) is not needed, as it is not for LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading

__all__ = ["PAGE", "protect", "reserve"]

PAGE = mmap.PAGESIZE
_SLAB_BYTES = 1 << 20


class _Slabs:
    """Large private mappings, of which pages are handed out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 0
        self.end = 0

    def reserve(self, size: int) -> int:
        size = max(-(-size // PAGE) * PAGE, PAGE)
        with self.lock:
            if self.next + size > self.end:
                mapping = mmap.mmap(-1, max(size, _SLAB_BYTES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                self.next = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
                self.end = self.next + len(mapping)
                # Workers live longer than the interpreter: at its end, too, nothing is given back.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(mapping))
            address = self.next
            self.next += size
        return address


_slabs = _Slabs()


def reserve(size: int) -> int:
    """The address of fresh, writable pages. OSError or MemoryError where there are none."""
    return _slabs.reserve(size)


def protect(address: int, size: int, protection: int) -> None:
    """Gives pages their final protection (PROT_ bits of C). OSError where the system refuses."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if hasattr(os, "register_at_fork"):  # a fork while another thread holds the lock would leave it held in the child
    os.register_at_fork(
        before=_slabs.lock.acquire, after_in_parent=_slabs.lock.release, after_in_child=_slabs.lock.release
    )
