"""How long a device takes for the launches of a kernel, by its own clock where it has one: measured while somebody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

__all__ = ["Span", "WallSpan", "measured", "watching"]


class Span(Protocol):
    """What a device does from the making of the span on, until `stop`."""

    def stop(self) -> None:
        """The span ends behind what was launched so far."""
        ...

    def milliseconds(self) -> float:
        """What the launches took; waits until they have run. To be asked once: what the span holds is given back."""
        ...

    def drop(self) -> None:
        """Instead of `stop` or `milliseconds`: gives back what the span holds."""
        ...


class _Measures(Protocol):
    def measure(self) -> Span: ...


class WallSpan:
    """A span of a device without a clock: the host's clock, between two times that it waits for the device."""

    def __init__(self, synchronise: Callable[[], None]) -> None:
        self._synchronise = synchronise
        synchronise()
        self._seconds = 0.0
        self._start = time.perf_counter()

    def stop(self) -> None:
        self._synchronise()
        self._seconds = time.perf_counter() - self._start

    def milliseconds(self) -> float:
        return self._seconds * 1e3

    def drop(self) -> None:
        """It holds nothing."""


class _Watch(threading.local):
    """What this thread's launches are noted in; None while nobody watches."""

    spans: list[Span] | None = None


_watch = _Watch()


@contextmanager
def watching() -> Iterator[list[Span]]:
    """While it is open, devices measure what this thread launches. Gives the list of their spans."""
    before, _watch.spans = _watch.spans, []
    try:
        yield _watch.spans
    finally:
        _watch.spans = before


_UNWATCHED = nullcontext()


def measured(device: _Measures) -> AbstractContextManager[None]:
    """Around the launches of one kernel: measures them, if somebody watches."""
    spans = _watch.spans
    return _UNWATCHED if spans is None else _noted(device, spans)


@contextmanager
def _noted(device: _Measures, spans: list[Span]) -> Iterator[None]:
    span = device.measure()
    try:
        yield
        span.stop()
    except BaseException:  # an interrupt, too: a device keeps no open span
        span.drop()
        raise
    spans.append(span)
