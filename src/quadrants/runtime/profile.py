"""What was measured of launches, by kernel. Kernels are timed only with `qd.init(kernel_profiler=True)`: then every call takes the
slow path (`lang/kernel.py`), so that a launch by machine code knows nothing of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from quadrants import knobs
from quadrants.blocks import busy
from quadrants.records import MutableRecord
from quadrants.targets.device.timing import Span, watching

__all__ = ["MOST_TRACED", "Times", "clear", "note", "of_kernel", "timed", "times", "traced"]

R = TypeVar("R")

MOST_TRACED = 1 << 16
"""How many launches are remembered one by one; the others are in the sums."""
_MOST_OPEN = 256
"""How many launches a device may have measured that nobody has asked it about: their spans hold memory of its driver's."""


class Times(MutableRecord):
    """How often a kernel was launched, and how long that took, in milliseconds."""

    counter: int = 0
    min: float = 0.0
    max: float = 0.0
    total: float = 0.0

    @property
    def avg(self) -> float:
        """The mean of a launch, 0.0 without any."""
        return self.total / self.counter if self.counter else 0.0

    def add(self, other: Times) -> None:
        """Takes the launches of another in."""
        if other.counter:
            self.min = min(self.min, other.min) if self.counter else other.min
            self.max = max(self.max, other.max)
            self.counter, self.total = self.counter + other.counter, self.total + other.total


_lock = threading.RLock()
_times: dict[str, Times] = {}
_trace: deque[tuple[str, float]] = deque(maxlen=MOST_TRACED)
_open: deque[tuple[str, list[Span]]] = deque()


def note(kernel: str, milliseconds: float) -> None:
    """A launch of a kernel took so long."""
    with _lock:
        _times.setdefault(kernel, Times()).add(Times(1, milliseconds, milliseconds, milliseconds))
        _trace.append((kernel, milliseconds))


def timed(kernel: str, run: Callable[[], R]) -> R:
    """Runs a kernel once, and notes how long its launches took: what the device says, which is asked later, else the whole run by the
    host's clock."""
    with watching() as spans:
        start = time.perf_counter()
        try:
            result = run()
        except BaseException:  # an interrupt, too: a check may fail behind launches that were measured
            for span in spans:
                span.drop()
            raise
        seconds = time.perf_counter() - start
    if not spans:
        note(kernel, seconds * 1e3)
        return result
    with _lock:
        _open.append((kernel, spans))
        is_full = len(_open) > _MOST_OPEN
    if is_full:
        _ask(_MOST_OPEN // 2)
    return result


def _ask(left: int = 0) -> None:
    """Asks devices about the oldest launches until so many are left; waits for them."""
    with busy(), _lock:
        while len(_open) > left:
            kernel, spans = _open.popleft()
            note(kernel, sum(span.milliseconds() for span in spans))


def times() -> dict[str, Times]:
    """What was measured since the last `clear`, by kernel."""
    with busy(), _lock:
        _ask()
        return dict(_times)


def of_kernel(name: str) -> Times:
    """The launches of all kernels of a name: a function's own, or with its class in front (`Solver.step`)."""
    found = Times()
    for kernel, measured in times().items():
        if kernel == name or kernel.endswith(f".{name}"):
            found.add(measured)
    return found


def traced() -> list[tuple[str, float]]:
    """The last launches in their order: kernel and milliseconds."""
    with busy(), _lock:
        _ask()
        return list(_trace)


@knobs.on_reset
def clear() -> None:
    """Forgets everything that was measured."""
    with busy(), _lock:
        for _, spans in _open:
            for span in spans:
                span.drop()
        for store in (_times, _trace, _open):
            store.clear()
