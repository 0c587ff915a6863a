"""The objects of functions, which kernels share: compiled once a process, and once a machine where there is a disk cache.

A function's object is named by its symbol, which holds a hash of its text. The folder that keeps objects between
processes is the runtime's; it is handed in by who knows it (`keep_in`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quadrants.digest import hex_digest

__all__ = ["Store", "counters", "find", "keep", "keep_in"]


class Store(Protocol):
    """Keeps bytes by name; what it has lost is None."""

    def get_object(self, name: str) -> bytes | None: ...

    def put_object(self, name: str, payload: bytes) -> None: ...


_objects: dict[tuple[str, str], bytes] = {}
_find_store: Callable[[], tuple[Store, str] | None] | None = None
counters = {"compiled": 0, "from memory": 0, "from disk": 0}
"""How the objects that were asked for came about, since the start."""


def keep_in(find_store: Callable[[], tuple[Store, str] | None]) -> None:
    """Where objects are kept between processes: `find_store` gives the store in use, if any, and a hash of all that
    objects depend on besides their text and options."""
    global _find_store
    _find_store = find_store


def find(name: str, options: str) -> bytes | None:
    """The object of that name for these options, from memory or from the store."""
    found = _objects.get((name, options))
    if found is not None:
        counters["from memory"] += 1
        return found
    stored = _find_store() if _find_store is not None else None
    found = None if stored is None else stored[0].get_object(_key(stored[1], name, options))
    if found is not None:
        counters["from disk"] += 1
        _objects[name, options] = found
    return found


def keep(name: str, options: str, data: bytes) -> None:
    """Keeps an object that was compiled because `find` had none."""
    counters["compiled"] += 1
    _objects[name, options] = data
    stored = _find_store() if _find_store is not None else None
    if stored is not None:
        stored[0].put_object(_key(stored[1], name, options), data)


def _key(surroundings: str, name: str, options: str) -> str:
    return "f" + hex_digest(surroundings, name, options)
