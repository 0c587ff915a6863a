"""Room for deep recursion: nested code is compiled and interpreted by functions that call themselves."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["deep_recursion"]

# From 3.11 on, calls between Python functions take no C stack.
_LIMIT = 10_000 if sys.version_info >= (3, 11) else 5_000

_lock = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Python's recursion limit is raised in here. It is the process's: the last one out of several threads lowers it."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _LIMIT))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)
