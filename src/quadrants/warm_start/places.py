"""Where the objects that compiled code depends on are found: paths from the kernel and its arguments, through names and
members, that another process can follow."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from quadrants.frontend import protocol
from quadrants.frontend.guards import ABSENT, cell_of
from quadrants.warm_start.descriptions import LARGEST, PLAIN, Unstable, children

__all__ = ["Places", "Step", "follow"]

Step = tuple[int, str, Any]
"""(number of the place it starts from, way, key); places that start from nothing have the number -1."""


class _Place:
    """One object and how it is reached: `way` and `key` from `parent`. `number` once it is in the list."""

    __slots__ = ("key", "number", "parent", "value", "way")

    def __init__(self, parent: _Place | None, way: str, key: Any, value: Any) -> None:
        self.parent = parent
        self.way = way
        self.key = key
        self.value = value
        self.number = -1


class Places:
    """Finds paths to objects; `steps` are those that were asked for, each after what it starts from."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.values: list[Any] = []
        self._known: dict[int, _Place] = {}
        self._named: dict[tuple[int, str, Any], _Place] = {}

    def root(self, way: str, key: Any, value: Any) -> int:
        """The place of the kernel or of a static argument."""
        return self._number(self._add(None, way, key, value))

    def named(self, owner: Any, way: str, name: str, value: Any) -> int:
        """The place of what a name or member of `owner` stands for. Raises Unstable if no path leads to the owner."""
        parent = self._place(owner)
        known = self._named.get((id(parent), way, name))
        if known is None:
            known = self._named[id(parent), way, name] = self._add(parent, way, name, value)
        return self._number(known)

    def find(self, value: Any) -> int | None:
        """The place of an object, None if no path leads to it."""
        place = self._known.get(id(value))
        return None if place is None else self._number(place)

    def _place(self, value: Any) -> _Place:
        place = self._known.get(id(value))
        if place is None:
            raise Unstable(f"no path of names leads to {_shown(value)}")
        return place

    def _number(self, place: _Place) -> int:
        if place.number < 0:
            parent = -1 if place.parent is None else self._number(place.parent)
            self.steps.append((parent, place.way, place.key))
            self.values.append(place.value)
            place.number = len(self.steps) - 1
        return place.number

    def _add(self, parent: _Place | None, way: str, key: Any, value: Any) -> _Place:
        """A new place, and places of what is inside of the value."""
        place = _Place(parent, way, key, value)
        if type(value) in PLAIN or id(value) in self._known:
            return place
        self._known[id(value)] = place
        if len(self._known) > LARGEST:
            raise Unstable(f"captured objects have more than {LARGEST} parts")
        for child_way, child_key, child in children(value):
            self._add(place, child_way, child_key, child)
        return place


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {name}" if type(name) is str else f"an object of type {type(value).__qualname__}"


def follow(step: Step, values: list[Any], roots: dict[tuple[str, Any], Any]) -> Any:
    """The object that a step leads to: `values` are those of the places before it. ABSENT for a name or member that is
    not there; raises LookupError or AttributeError where the way itself is gone."""
    parent, way, key = step
    return roots[way, key] if parent < 0 else _WAYS[way](values[parent], key)


def _global(owner: Any, key: Any) -> Any:
    return owner.__globals__.get(key, ABSENT)


def _cell(owner: Any, key: Any) -> Any:
    return cell_of(owner, key).cell_contents


def _member(owner: Any, key: Any) -> Any:
    return getattr(owner, key, ABSENT)


def _item(owner: Any, key: Any) -> Any:
    return owner[key]


def _value(owner: Any, key: Any) -> Any:
    return next(itertools.islice(owner.values(), key, None))


_WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "global": _global,
    "cell": _cell,
    "member": _member,
    "item": _item,
    "value": _value,
    "self": lambda owner, key: owner.__self__,
    "function": lambda owner, key: owner.__func__,
    "default": lambda owner, key: owner.__defaults__[key],
    "plain": lambda owner, key: protocol.plain_function(owner),
}
