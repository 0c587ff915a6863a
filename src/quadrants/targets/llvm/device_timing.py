"""Spans of a GPU by the driver's events."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["DriverSpan", "TimingDriver"]


class TimingDriver(Protocol):
    """What a driver does for events that know when they were passed."""

    is_lost: bool

    @property
    def stream(self) -> int:
        """The stream that is launched to."""
        ...

    def make_event(self, is_timed: bool = False) -> int: ...

    def record_event(self, event: int, stream: int) -> None:
        """Puts an event behind everything launched to a stream so far."""
        ...

    def synchronise_event(self, event: int) -> None:
        """Waits until an event is passed."""
        ...

    def elapsed(self, first: int, then: int) -> float:
        """The milliseconds between two timed events that are passed."""
        ...

    def drop_event(self, event: int) -> None: ...


class _TimedDevice(Protocol):
    @property
    def driver(self) -> TimingDriver: ...

    def naming(self) -> AbstractContextManager[None]:
        """While it is open, an error of the driver's is told with the kernels that may have caused it."""
        ...


class DriverSpan:
    """Two events of the stream that is launched to, around what is launched (device/timing.py)."""

    def __init__(self, device: _TimedDevice) -> None:
        self._device, self._driver = device, device.driver
        self._stream = self._driver.stream
        with device.naming():
            self._events = (self._driver.make_event(True), self._driver.make_event(True))
            self._driver.record_event(self._events[0], self._stream)

    def stop(self) -> None:
        with self._device.naming():
            self._driver.record_event(self._events[1], self._stream)

    def milliseconds(self) -> float:
        first, then = self._events
        try:
            with self._device.naming():
                self._driver.synchronise_event(then)
                return self._driver.elapsed(first, then)
        finally:
            self.drop()

    def drop(self) -> None:
        """A GPU that was lost takes nothing back."""
        if not self._driver.is_lost:
            for event in self._events:
                self._driver.drop_event(event)
