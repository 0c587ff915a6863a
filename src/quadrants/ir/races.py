"""Finds races: iterations of a parallel loop, or threads of a block, that touch one element in a way whose order matters.

Order matters where one iteration stores what another loads, updates, or stores with another value, where one updates
what another loads, and where two update in different ways. Updates of one kind meet in any order; exchanges, and updates that
change nothing (`qd.volatile_load`), are how iterations agree on an order themselves. Threads of a block are in order where they have waited for one another in between: all at
barriers of the block, members of a team at its own (`ir/threads.py`). What threads read of the memory that they share, one has written.
"""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.nodes import Op, Value

__all__ = ["BlockRaces", "RaceFinder", "is_shared"]

_VERBS = {
    "load": "loads",
    "store": "stores",
    "update": "updates",
    "update_loaded": "updates",
    "compare_exchange": "exchanges",
    "copy_begin": "copies to",
}
_STORES = frozenset({"store", "copy_begin"})
_GROUPS = {"sub": "add"}
_EXCHANGES = frozenset({"exchange", "compare_exchange"})


_NO_TEAMS: Mapping[int, int] = MappingProxyType({})


class _Touch(NamedTuple):
    """An access: by which iteration (or thread), by which operation, what was stored; what was `met` before: how many fences the
    iteration has had (by 0), or by thread up to which stretch of its accesses they are in front of this one."""

    iteration: tuple[int, ...]
    op: Op
    value: bytes
    met: Mapping[int, int] = _NO_TEAMS


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
        self._fences: dict[tuple[int, ...], int] = {}

    def reset(self) -> None:
        """A kernel starts; what a failed one left is forgotten."""
        self._loop = None
        self._elements, self._fences = {}, {}

    def watch(
        self, loop: Op, iterations: Iterable[tuple[int, ...]], is_start: bool = True
    ) -> Iterator[tuple[int, ...]]:
        """Hands on the iterations of a parallel loop, or the next ones of the same run (not `is_start`)."""
        if is_start:
            self._elements, self._fences = {}, {}
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
        fences = self._fences.get(self._iteration, 0)
        touch = _Touch(self._iteration, op, _stored(op, value), {0: fences} if fences else _NO_TEAMS)
        other = _meet(self._elements.setdefault(_address(array, indices), {}), touch, self._are_apart)
        if other is not None:
            raise self._race(array_value, array, indices, touch, other)

    def fenced(self) -> None:
        """The iteration has a fence that all see: what it did before is in order for those that have one behind."""
        self._fences[self._iteration] = self._fences.get(self._iteration, 0) + 1

    def _are_apart(self, touch: _Touch, other: _Touch) -> bool:
        if other.iteration == touch.iteration:
            return False
        return not touch.met or self._fences.get(other.iteration, 0) <= other.met.get(0, 0)

    def _race(
        self, array_value: Value, array: np.ndarray, indices: tuple[int, ...], touch: _Touch, other: _Touch
    ) -> Exception:
        assert self._loop is not None
        loop = f"the parallel loop at line {self._loop.location.line}" if self._loop.location else "a parallel loop"
        return _error(f"a race in {loop}", "iteration", _place(self._names, array_value, indices), touch, other)


class BlockRaces:
    """Watches the threads of one block, which has its shared memory anew."""

    def __init__(self, names: dict[Value, str]) -> None:
        self._names = names
        self._elements: dict[int, _Element] = {}
        self._written: dict[int, np.ndarray] = {}
        self._unwritten: QuadrantsAssertionError | None = None

    def met(self) -> None:
        """All threads of the block are at one place, or have ended: what comes is behind what was. QuadrantsAssertionError if
        they have read shared memory that none had written."""
        if self._unwritten is not None:
            raise self._unwritten
        self._elements.clear()

    def note(
        self,
        thread: int,
        met: Mapping[int, int],
        op: Op,
        array_value: Value,
        array: np.ndarray,
        indices: tuple[int, ...],
        value: Any = None,
    ) -> None:
        """A thread accesses an element; QuadrantsAssertionError if another one did in a way that conflicts, and they have not
        met since."""
        if is_shared(array_value):
            self._note_written(op, array_value, array, indices)
        touch = _Touch((thread,), op, _stored(op, value), met)
        other = _meet(self._elements.setdefault(_address(array, indices), {}), touch, _have_not_met)
        if other is not None:
            place = _place(self._names, array_value, indices)
            raise _error("a race in a block of threads, which do not meet in between", "thread", place, touch, other)

    def _note_written(self, op: Op, array_value: Value, array: np.ndarray, indices: tuple[int, ...]) -> None:
        """Takes in what is written of shared memory. A thread that reads what is not is told at the block's next meeting:
        where another thread writes it before that, the two of them are what there is to tell."""
        written = self._written.get(array.ctypes.data)
        if written is None:
            written = self._written[array.ctypes.data] = np.zeros(array.shape, bool)
        if op.kind in _STORES:
            written[indices] = True
        elif self._unwritten is None and not np.all(written[indices]):
            place = _place(self._names, array_value, indices)
            text = f"{place} is read before a thread has written it: it is memory that the threads of a block share"
            self._unwritten = QuadrantsAssertionError(text)
            self._unwritten.location = op.location


def is_shared(array_value: Value) -> bool:
    """Whether an array is memory that the threads of a block share."""
    owner = array_value.owner
    return type(owner) is Op and owner.kind == "shared"


def _stored(op: Op, value: Any) -> bytes:
    return np.asarray(value).tobytes() if op.kind in _STORES else b""


def _have_not_met(touch: _Touch, other: _Touch) -> bool:
    """Whether a thread's access, the later one, has nothing that puts another's in front of it."""
    (one,), (two,) = touch.iteration, other.iteration
    return one != two and touch.met.get(two, 0) < other.met[two]


def _meet(element: _Element, touch: _Touch, apart: Callable[[_Touch, _Touch], bool]) -> _Touch | None:
    """Takes in an access to an element; gives one that conflicts with it."""
    kind = _kind(touch.op)
    for other_kind, touches in element.items():
        for other in touches:
            if apart(touch, other) and _order_matters(kind, touch, other_kind, other):
                return other
    mine = element.setdefault(kind, [])
    same = [other for other in mine if other.iteration == touch.iteration]
    if len(mine) < 2 and not same:
        mine.append(touch)
    elif same and (kind in _STORES or touch.met):
        mine[:] = [touch if other.iteration == touch.iteration else other for other in mine]
    elif not apart(touch, mine[0]):
        mine[0] = touch
    return None


def _place(names: dict[Value, str], array_value: Value, indices: tuple[int, ...]) -> str:
    name = names.get(array_value) or array_value.name or "array"
    return f"{name}[{', '.join(map(str, indices))}]"


def _error(what: str, who: str, place: str, touch: _Touch, other: _Touch) -> Exception:
    error = QuadrantsAssertionError(
        f"{what}: {who} {_numbered(other)} {_VERBS[other.op.kind]} {place}{_line(other.op)}, "
        f"{who} {_numbered(touch)} {_VERBS[touch.op.kind]} it{_line(touch.op)}"
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
    return "exchange" if _changes_nothing(op, by) else _GROUPS.get(by, by)


def _changes_nothing(op: Op, by: str) -> bool:
    owner = op.operands[0].owner
    if by not in ("add", "bit_or") or type(owner) is not Op or owner.kind != "constant":
        return False
    value = np.asarray(owner.attributes["value"])
    return not value.any() and (by == "bit_or" or bool(np.signbit(value).all()))


def _order_matters(kind: str, touch: _Touch, other_kind: str, other: _Touch) -> bool:
    if kind == other_kind:
        return kind in _STORES and touch.value != other.value
    return _EXCHANGES.isdisjoint((kind, other_kind))


def _address(array: np.ndarray, indices: tuple[int, ...]) -> int:
    address = array.ctypes.data
    for index, stride in zip(indices, array.strides):
        address += index * stride
    return address


def _line(op: Op) -> str:
    return f" at line {op.location.line}" if op.location is not None else ""
