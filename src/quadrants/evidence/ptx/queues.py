"""The streams of a GPU that is played. Nothing runs before something waits for it, and what may run in any order runs in
the one that is least likely: whoever forgets to wait, or to order, finds out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from quadrants.collector import collector_off

__all__ = ["DEFAULT", "LEGACY", "OWN", "Event", "Queues"]

DEFAULT, LEGACY, OWN = 0, 1, 2
"""The handle of the default stream, which and the streams that are not `free` wait for one another; another name of it; the default
stream of a thread's own, which is not free (there is one: who plays with several threads has to tell them apart)."""


def _named(stream: int) -> int:
    return DEFAULT if stream == LEGACY else stream


class Event:
    """A place in a stream: done once what stood in front of it has run. One that was never recorded is done. `passed_at`: the
    time of a timed one, None before it is done."""

    def __init__(self) -> None:
        self.stream = DEFAULT
        self.number = -1
        self.is_timed = False
        self.passed_at: float | None = None


class _Item:
    __slots__ = ("number", "work")

    def __init__(self, number: int, work: Callable[[], None]) -> None:
        self.number, self.work = number, work


class Queues:
    """What was asked for and has not run, by stream. `free`: the streams that do not wait for the default one."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[_Item]] = {DEFAULT: deque(), OWN: deque()}
        self._free: set[int] = set()
        self._count = 0
        self._lock = threading.RLock()

    def open(self, is_free: bool) -> int:
        """A new stream."""
        self._count += 1
        handle = 0x5000 + 16 * self._count
        self._waiting[handle] = deque()
        if is_free:
            self._free.add(handle)
        return handle

    def close(self, stream: int) -> None:
        """The stream is done with; what waits in it runs first."""
        self.wait_for(stream)
        del self._waiting[stream]
        self._free.discard(stream)

    def has(self, stream: int) -> bool:
        """Whether there is a stream of that handle."""
        return _named(stream) in self._waiting

    def add(self, stream: int, work: Callable[[], None]) -> None:
        """Work to be done behind all that is in the stream."""
        self._count += 1
        self._waiting[_named(stream)].append(_Item(self._count, work))

    def record(self, event: Event, stream: int) -> None:
        """The event is done when what is in the stream has run."""
        self._count += 1
        event.stream, event.number = _named(stream), self._count

    def hold(self, stream: int, event: Event) -> None:
        """What is added to a stream from now on runs behind an event, as it is recorded now."""
        other, number = event.stream, event.number
        if self.has(other):
            self.add(stream, lambda: self._run(other, number))

    def wait_for(self, stream: int) -> None:
        """Runs what waits in a stream, and what it waits for."""
        self._come(_named(stream), self._count)

    def come_to(self) -> None:
        """Runs what something new in the default stream waits for."""
        for other in reversed(self._bound()):
            self._come(other, self._count)
        self._come(DEFAULT, self._count)

    def wait_for_event(self, event: Event) -> None:
        """Runs what stands in front of an event."""
        if self.has(event.stream):
            self._come(event.stream, event.number)

    def wait_for_all(self) -> None:
        """Runs everything: the newest streams first."""
        for stream in reversed(tuple(self._waiting)):
            self._come(stream, self._count)

    def _come(self, stream: int, until: int) -> None:
        """Runs a stream's items for the host. Meanwhile no finaliser of the host's does, which would wait for items that stand behind
        one that is not done; nor do its other threads."""
        with self._lock, collector_off():
            self._run(stream, until)

    def _bound(self) -> list[int]:
        return [other for other in self._waiting if other != DEFAULT and other not in self._free]

    def _run(self, stream: int, until: int) -> None:
        """Runs a stream's items up to a number, each behind those of other streams that it waits for."""
        waiting = self._waiting.get(stream)
        while waiting and waiting[0].number <= until:
            item = waiting.popleft()
            if stream == DEFAULT:
                for other in reversed(self._bound()):
                    self._run(other, item.number)
            elif stream not in self._free:
                self._run(DEFAULT, item.number)
            item.work()
