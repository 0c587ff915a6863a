"""Finds races: iterations of a parallel loop that touch one element in a way whose order matters.

Order matters where one iteration stores what another loads, updates, or stores with another value, where one updates
what another loads, and where two update in different ways. Updates of one kind meet in any order; exchanges are how
iterations agree on an order themselves.
"""

# pyright: basic

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.nodes import Op, Value

__all__ = ["RaceFinder"]

_VERBS = {
    "load": "loads",
    "store": "stores",
    "update": "updates",
    "update_loaded": "updates",
    "compare_exchange": "exchanges",
}
_GROUPS = {"sub": "add"}
_EXCHANGES = frozenset({"exchange", "compare_exchange"})


class _Touch(NamedTuple):
    """An access: by which iteration, by which operation, what was stored."""

    iteration: tuple[int, ...]
    op: Op
    value: bytes


# The accesses to one element by kind: at most two of one kind, from different iterations.
_Element = dict[str, list[_Touch]]


class RaceFinder:
    """Watches the parallel loop that is running, if there is one. `names`: how messages call arrays, where not by the
    names of their values."""

    def __init__(self, names: dict[Value, str]) -> None:
        self._names = names
        self._loop: Op | None = None
        self._iteration: tuple[int, ...] = ()
        self._elements: dict[int, _Element] = {}

    def reset(self) -> None:
        """A kernel starts; what a failed one left is forgotten."""
        self._loop = None
        self._elements = {}

    def watch(
        self, loop: Op, iterations: Iterable[tuple[int, ...]], is_start: bool = True
    ) -> Iterator[tuple[int, ...]]:
        """Hands on the iterations of a parallel loop, or the next ones of the same run (not `is_start`)."""
        if is_start:
            self._elements = {}
        self._loop = loop
        try:
            for self._iteration in iterations:
                yield self._iteration
        finally:
            self._loop = None

    def note(self, op: Op, array_value: Value, array: np.ndarray, indices: tuple[int, ...], value: Any = None) -> None:
        """An operation accesses an element; QuadrantsAssertionError if another iteration did in a way that conflicts."""
        if self._loop is None:
            return
        kind = _kind(op)
        touch = _Touch(self._iteration, op, np.asarray(value).tobytes() if kind == "store" else b"")
        element = self._elements.setdefault(_address(array, indices), {})
        for other_kind, touches in element.items():
            for other in touches:
                if other.iteration != touch.iteration and _order_matters(kind, touch, other_kind, other):
                    raise self._race(array_value, array, indices, touch, other)
        mine = element.setdefault(kind, [])
        if len(mine) < 2 and all(other.iteration != touch.iteration for other in mine):
            mine.append(touch)
        elif kind == "store":
            mine[:] = [touch if other.iteration == touch.iteration else other for other in mine]

    def _race(
        self, array_value: Value, array: np.ndarray, indices: tuple[int, ...], touch: _Touch, other: _Touch
    ) -> Exception:
        assert self._loop is not None
        name = self._names.get(array_value) or array_value.name or "array"
        loop = f"the parallel loop at line {self._loop.location.line}" if self._loop.location else "a parallel loop"
        place = f"{name}[{', '.join(map(str, indices))}]"
        error = QuadrantsAssertionError(
            f"a race in {loop}: iteration {_numbered(other)} {_VERBS[other.op.kind]} {place}{_line(other.op)}, "
            f"iteration {_numbered(touch)} {_VERBS[touch.op.kind]} it{_line(touch.op)}"
        )
        error.location = touch.op.location
        return error


def _numbered(touch: _Touch) -> str:
    return str(touch.iteration[0] if len(touch.iteration) == 1 else touch.iteration)


def _kind(op: Op) -> str:
    """Accesses of one kind: loads, stores, and updates by what they do."""
    if op.kind not in ("update", "update_loaded"):
        return op.kind
    by: str = op.attributes["by"]
    return _GROUPS.get(by, by)


def _order_matters(kind: str, touch: _Touch, other_kind: str, other: _Touch) -> bool:
    if kind == other_kind:
        return kind == "store" and touch.value != other.value
    return _EXCHANGES.isdisjoint((kind, other_kind))


def _address(array: np.ndarray, indices: tuple[int, ...]) -> int:
    address = array.ctypes.data
    for index, stride in zip(indices, array.strides):
        address += index * stride
    return address


def _line(op: Op) -> str:
    return f" at line {op.location.line}" if op.location is not None else ""
