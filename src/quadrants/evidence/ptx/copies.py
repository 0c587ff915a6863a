"""`cp.async`: copies into shared memory that are done when a thread has waited for them, and seen by others behind a barrier.

Law: from where a copy is begun until its thread waits for its group, nobody reads or writes its bytes, and nobody changes what it
reads; behind that the thread itself reads them, and others behind the next barrier. Nobody begins a copy into bytes that
another thread has read or written since the last barrier. What is against it is a fault, whether or not the numbers come out right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.evidence.ptx.memory import GARBAGE, Memory, MemoryFault, Piece

__all__ = ["Copies"]

_PENDING = -1
_SEVERAL = 1 << 30
_EARLY = "an access to memory that a copy is on its way to: nobody has waited for it"
_UNSEEN = "an access to what another thread has copied, without a barrier in between"


class _Batch:
    """What some threads began at one instruction: a row for each; `groups`: of which group of its thread's it is."""

    __slots__ = ("data", "groups", "lengths", "sources", "targets", "threads")

    def __init__(self, threads: Any, groups: Any, targets: Any, sources: Any, lengths: Any, data: Any) -> None:
        self.threads, self.groups = threads, groups
        self.targets, self.sources, self.lengths, self.data = targets, sources, lengths, data

    def of(self, rows: Any) -> _Batch:
        """Some of its rows."""
        parts = (self.threads, self.groups, self.targets, self.sources, self.lengths, self.data)
        return _Batch(*[part[rows] for part in parts])


class Copies:
    """The copies of one block's threads."""

    def __init__(self, memory: Memory, shared: list[Piece], threads: int) -> None:
        self.memory = memory
        self.first = min(piece.address for piece in shared)
        end = max(piece.address + piece.size for piece in shared)
        self.owner = np.zeros(end - self.first, np.int64)
        """By byte: whose thread's copy it is that others do not see yet (number + 1), `_PENDING`: it is on its way."""
        self.touched = np.zeros(end - self.first, np.int64)
        """By byte: which thread has read or written it since the last barrier (number + 1), or `_SEVERAL`."""
        self.committed = np.zeros(threads, np.int64)
        self.going: list[_Batch] = []
        self.note: Callable[[Any, int, Any], None] | None = None
        """Is told what copies write (addresses, bytes of each, threads): when they begin, and again when they are done."""

    # What threads do.

    def begin(self, targets: Any, sources: Any, size: int, lengths: Any, threads: Any) -> None:
        """`size` bytes for each thread, of which the first `lengths` come from the source; the others are 0."""
        places = self._places(targets, size)
        lengths = np.broadcast_to(lengths, targets.shape).astype(np.int64)
        for addresses, what in ((targets, "into"), (sources, "from")):
            if (addresses & np.uint64(size - 1)).any():
                raise MemoryFault(f"a copy of {size} bytes {what} an address that is not aligned")
        if (lengths > size).any():
            raise MemoryFault(f"a copy of {lengths.max()} bytes of {size}")
        owner, touched, own = self.owner[places], self.touched[places], threads.astype(np.int64)[:, None] + 1
        if (owner == _PENDING).any():
            raise MemoryFault("a copy into memory that another copy is on its way to")
        if ((touched != 0) & (touched != own)).any() or ((owner > 0) & (owner != own)).any():
            raise MemoryFault("a copy into memory that another thread has reached since the last barrier")
        self.memory.check_ranges(targets, np.full(len(targets), size))
        self.memory.check_ranges(sources, lengths)
        if self.note is not None:
            self.note(targets, size, threads)
        data = self._source(sources, size, lengths)
        self.owner[places] = _PENDING
        self.memory.bytes[targets.astype(np.int64)[:, None] + np.arange(size)] = GARBAGE
        groups = self.committed[threads]
        self.going.append(_Batch(threads.copy(), groups, targets.copy(), sources.copy(), lengths, data))

    def commit(self, threads: Any) -> None:
        """What each thread has begun is a group."""
        self.committed[threads] += 1

    def wait(self, left: int, threads: Any) -> None:
        """Until at most `left` groups of each thread are on their way, the last ones."""
        done = np.zeros(len(self.committed), np.int64)
        done[threads] = self.committed[threads] - left
        still: list[_Batch] = []
        for batch in self.going:
            ready = batch.groups < done[batch.threads]
            if ready.any():
                self._finish(batch.of(ready))
            if not ready.all():
                still.append(batch.of(~ready))
        self.going = still

    def wait_all(self, threads: Any) -> None:
        """Until none of the copies of each thread is on its way."""
        self.commit(threads)
        self.wait(0, threads)

    def met(self) -> None:
        """All threads of the block are at a barrier."""
        self.owner[self.owner > 0] = 0
        self.touched[:] = 0

    def reach(self, addresses: Any, size: int, threads: Any) -> None:
        """A load or a store of each thread."""
        inside = (addresses >= np.uint64(self.first)) & (addresses < np.uint64(self.first + len(self.owner)))
        if not inside.all():
            addresses, threads = addresses[inside], np.broadcast_to(threads, inside.shape)[inside]
        if not len(addresses):
            return
        places, own = self._places(addresses, size), threads.astype(np.int64)[:, None] + 1
        owner = self.owner[places]
        if (owner == _PENDING).any():
            raise MemoryFault(_EARLY)
        if ((owner != 0) & (owner != own)).any():
            raise MemoryFault(_UNSEEN)
        touched = self.touched[places]
        self.touched[places] = np.where((touched == 0) | (touched == own), own, _SEVERAL)
        self.touched[places[self._is_shared(places)]] = _SEVERAL

    def reach_by_warps(self, addresses: Any, size: int) -> None:
        """A load of what the threads of a warp share."""
        places = self._places(addresses, size)
        owner = self.owner[places]
        if (owner == _PENDING).any():
            raise MemoryFault(_EARLY)
        if owner.any():
            raise MemoryFault(_UNSEEN)
        self.touched[places] = _SEVERAL

    def _is_shared(self, places: Any) -> Any:
        """Which bytes are reached by several threads of one access."""
        _, numbers, counts = np.unique(places, return_inverse=True, return_counts=True)
        return (counts[numbers] > 1).reshape(places.shape)

    def _places(self, addresses: Any, size: int) -> Any:
        places = (addresses - np.uint64(self.first)).astype(np.int64)[:, None] + np.arange(size)
        if (places < 0).any() or (places >= len(self.owner)).any():
            raise MemoryFault("a copy to an address that is not of shared memory")
        return places

    def _source(self, sources: Any, size: int, lengths: Any) -> Any:
        offsets = np.arange(size)
        there = offsets < lengths[:, None]
        return np.where(there, self.memory.bytes[sources.astype(np.int64)[:, None] + offsets * there], np.uint8(0))

    def _finish(self, batch: _Batch) -> None:
        size = batch.data.shape[1]
        if (self._source(batch.sources, size, batch.lengths) != batch.data).any():
            raise MemoryFault("memory changes while a copy from it is on its way")
        if self.note is not None:
            self.note(batch.targets, size, batch.threads)
        self.memory.bytes[batch.targets.astype(np.int64)[:, None] + np.arange(size)] = batch.data
        self.owner[self._places(batch.targets, size)] = batch.threads.astype(np.int64)[:, None] + 1
