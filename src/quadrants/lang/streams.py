"""Streams and events: what is launched to different streams of a GPU may run at once. Elsewhere there is one order, and nothing
to be done.

Streams wait for what was launched without one, and the other way round; so do copies, so whoever looks at data sees what
kernels in any stream have written.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.targets.device.views import sharing_device

__all__ = ["Event", "Stream", "create_event", "create_stream", "launched_to"]

_alive: weakref.WeakSet[_Handle] = weakref.WeakSet()


class _Handle:
    """Something of the driver's that lasts until it is destroyed, or until the next `qd.init` or `qd.reset`."""

    __slots__ = ("__weakref__", "_driver", "_is_open", "handle")
    _kind = ""

    def __init__(self) -> None:
        device = sharing_device()
        self._driver: Any = None if device is None else device.driver
        self._is_open = True
        self.handle: int = 0 if self._driver is None else self._made()
        _alive.add(self)

    def _made(self) -> int:
        raise AssertionError("a kind of handles says how they are made")

    def _unmake(self) -> None:
        raise AssertionError("a kind of handles says how they are given back")

    def _open(self) -> Any:
        """The driver, None where there is none. QuadrantsRuntimeError after `destroy`, `qd.reset` and `qd.init`."""
        if not self._is_open:
            raise QuadrantsRuntimeError(
                f"this {self._kind} was destroyed, by itself or by qd.reset() or qd.init(): make another"
            )
        return self._driver

    def destroy(self) -> None:
        """Gives the driver's part back, when what was launched has run. Later uses raise QuadrantsRuntimeError; once more does
        nothing."""
        if self._is_open:
            self._is_open = False
            if self._driver is not None:
                self._unmake()

    def __repr__(self) -> str:
        return f"<qd.{type(self).__name__} handle={self.handle:#x}>"


class Stream(_Handle):
    """A row of launches: `kernel(…, qd_stream=stream)`. `handle` is the driver's number, an int, 0 where there are none. In a
    `with` statement it is destroyed at the end."""

    __slots__ = ()
    _kind = "stream"

    def _made(self) -> int:
        return self._driver.open_stream()

    def _unmake(self) -> None:
        self._driver.close_stream(self.handle)

    def synchronize(self) -> None:
        """Wait until everything launched to the stream has run."""
        driver = self._open()
        if driver is not None:
            driver.synchronise(self.handle)

    def __enter__(self) -> Stream:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()


class Event(_Handle):
    """A place in a stream that others can wait for; before `record` it is passed."""

    __slots__ = ()
    _kind = "event"

    def _made(self) -> int:
        return self._driver.make_event()

    def _unmake(self) -> None:
        self._driver.drop_event(self.handle)

    def record(self, stream: Stream | None = None) -> None:
        """Put the event behind everything launched to a stream so far (None: to none)."""
        driver = self._open()
        if driver is not None:
            driver.record_event(self.handle, _handle(stream))

    def wait(self, qd_stream: Stream | None = None) -> None:
        """What is launched to a stream (None: to none) from now on waits for the event."""
        driver = self._open()
        if driver is not None:
            driver.wait_for_event(_handle(qd_stream), self.handle)

    def synchronize(self) -> None:
        """Wait here until the event is passed."""
        driver = self._open()
        if driver is not None:
            driver.synchronise_event(self.handle)


def _handle(stream: Stream | None) -> int:
    if stream is None:
        return 0
    if not isinstance(stream, Stream):
        raise TypeError(f"a stream is expected (qd.create_stream()), not {type(stream).__name__}")
    stream._open()
    return stream.handle


def create_stream() -> Stream:
    """A new stream of the present target's GPU, to be launched to by `kernel(…, qd_stream=stream)`."""
    return Stream()


def create_event() -> Event:
    """A new event of the present target's GPU: a place in the order of launches that kernels of other streams can wait for."""
    return Event()


def launched_to(stream: Stream | None) -> AbstractContextManager[None]:
    """While it is open, kernels are launched to that stream (None: to none). TypeError for what is no stream."""
    handle = _handle(stream)
    driver = stream._driver if stream is not None else None
    return nullcontext() if driver is None else driver.launching_to(handle)


@knobs.on_reset
def _close_all() -> None:
    for handle in list(_alive):
        handle.destroy()
