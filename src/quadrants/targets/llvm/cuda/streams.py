"""The calls of NVIDIA's driver for streams and events.

Streams are those that the default stream waits for, and that wait for it: copies, which go there, see what was launched before to
any of them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["StreamCalls"]

_WAITS_FOR_DEFAULT = 0  # CU_STREAM_DEFAULT
_TIMED, _UNTIMED = 0, 2  # CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING


class _Launching:
    """A generator's context would cost a launch twice as many calls of Python."""

    __slots__ = ("_before", "_stream", "_words")

    def __init__(self, words: Any, stream: int) -> None:
        self._words, self._stream = words, stream
        self._before = 0

    def __enter__(self) -> None:
        self._before, self._words[1] = self._words[1], self._stream

    def __exit__(self, *_: object) -> None:
        self._words[1] = self._before


class StreamCalls:
    """`_cuda`: the module `cuda.bindings.driver`; `_words`: the context and the stream that is launched to, which machine code
    reads, too."""

    _cuda: Any
    _words: Any

    def _here(self) -> None:
        """The context is each thread's own affair."""
        raise AssertionError("the driver says how its context is taken")

    def _call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives behind its result code; MemoryError, QuadrantsRuntimeError."""
        raise AssertionError("the driver says how its functions are called")

    @property
    def stream(self) -> int:
        """The stream that is launched to; 0 is the default one."""
        return self._words[1]

    def launching_to(self, stream: int) -> _Launching:
        """While it is open, launches go to that stream."""
        return _Launching(self._words, stream)

    def open_stream(self) -> int:
        self._here()
        return int(self._call(self._cuda.cuStreamCreate, _WAITS_FOR_DEFAULT))

    def close_stream(self, stream: int) -> None:
        """The driver waits for what was launched to it."""
        self._here()
        self._call(self._cuda.cuStreamSynchronize, stream)
        self._call(self._cuda.cuStreamDestroy, stream)

    def make_event(self, is_timed: bool = False) -> int:
        self._here()
        return int(self._call(self._cuda.cuEventCreate, _TIMED if is_timed else _UNTIMED))

    def record_event(self, event: int, stream: int) -> None:
        self._here()
        self._call(self._cuda.cuEventRecord, event, stream)

    def wait_for_event(self, stream: int, event: int) -> None:
        """What is launched to a stream from now on waits for an event."""
        self._here()
        self._call(self._cuda.cuStreamWaitEvent, stream, event, 0)

    def synchronise_event(self, event: int) -> None:
        self._here()
        self._call(self._cuda.cuEventSynchronize, event)

    def elapsed(self, first: int, then: int) -> float:
        """The milliseconds between two timed events that are passed."""
        self._here()
        return float(self._call(self._cuda.cuEventElapsedTime, first, then))

    def drop_event(self, event: int) -> None:
        self._here()
        self._call(self._cuda.cuEventDestroy, event)

    def order(self, first: int, then: int) -> None:
        """What is launched to the stream `then` from now on waits for what the stream `first` has to do now."""
        if first != then:
            event = self.make_event()
            self.record_event(event, first)
            self.wait_for_event(then, event)
            self.drop_event(event)
