"""Spans of a GPU through `wgpu`, by the time stamps that it writes at the beginnings and ends of passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from quadrants.targets.webgpu.launches import Launches

__all__ = ["FEATURE", "PassSpan", "tick"]

FEATURE = "timestamp-query"
_BYTES = 8


def tick(device: Any) -> float | None:
    """The nanoseconds between two numbers of a device's clock; None where it has none, or does not tell. `wgpu` has no call for it in
    Python, its library has."""
    if FEATURE not in device.features:
        return None
    from wgpu.backends import wgpu_native

    ask = getattr(wgpu_native.lib, "wgpuQueueGetTimestampPeriod", None)
    period = 0.0 if ask is None else float(ask(device.queue._internal))
    return period if period > 0.0 else None


class PassSpan:
    """The passes between its making and `stop`, which wait for no other launches and which none waits for (device/timing.py)."""

    def __init__(self, wgpu: Any, device: Any, launches: Launches, tick: float) -> None:
        self._wgpu, self._device, self._launches, self._tick = wgpu, device, launches, tick
        self._stamps: list[Any] = []
        launches.submit()
        launches.span = self

    def begun(self, encoder: Any) -> tuple[Any, Any]:
        """A pass of the encoder that stamps its beginning and end, and what it stamps."""
        stamps = self._device.create_query_set(type=self._wgpu.QueryType.timestamp, count=2)
        writes = {"query_set": stamps, "beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1}
        return encoder.begin_compute_pass(timestamp_writes=writes), stamps

    def ended(self, encoder: Any, stamps: Any) -> None:
        """Behind the pass: its stamps are kept where the host can read them."""
        usage = self._wgpu.BufferUsage
        buffer = self._device.create_buffer(size=2 * _BYTES, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        encoder.resolve_query_set(stamps, 0, 2, buffer, 0)
        self._stamps.append(buffer)

    def stop(self) -> None:
        self._launches.submit()
        self._launches.span = None

    def milliseconds(self) -> float:
        ticks = 0
        for buffer in self._stamps:
            first, last = np.frombuffer(self._device.queue.read_buffer(buffer), np.uint64).tolist()
            ticks += max(last - first, 0)
        self._stamps.clear()
        return ticks * self._tick * 1e-6

    def drop(self) -> None:
        if self._launches.span is self:
            self._launches.span = None
        self._stamps.clear()
