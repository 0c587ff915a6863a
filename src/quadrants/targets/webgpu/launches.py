"""Launches that wait to be handed over: a submission costs as much as ten launches, so several go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.targets.webgpu.encoding import Command, direct_encoder, encode

if TYPE_CHECKING:
    from quadrants.targets.webgpu.timing import PassSpan

__all__ = ["Launches"]

_MOST = 64
"""Launches that are submitted together at most: the device does not wait long for the first."""
_ROOM = 1 << 16


def _nothing() -> None: ...


class Launches:
    """What was launched and not yet submitted, in order. Their parameters lie one behind the other in one buffer, which a
    submission fills; the queue puts that behind what it was given before. `running`: whether something was submitted that nobody
    has waited for; `span`: what measures the passes, None for nothing; `take_noted` adds what machine code has noted and not yet
    told: to whoever looks at the device's memory it was launched."""

    def __init__(self, wgpu: Any, device: Any) -> None:
        usage = wgpu.BufferUsage
        self._device = device
        self._alignment = max(device.limits["min-storage-buffer-offset-alignment"], 4)
        self._data = bytearray()
        self._waiting: list[Command] = []
        self.encode = direct_encoder() or encode
        self.running = False
        self.span: PassSpan | None = None
        self.take_noted: Callable[[], None] = _nothing
        self.parameters = device.create_buffer(size=_ROOM, usage=usage.STORAGE | usage.COPY_DST)

    def add(self, pipeline: Any, group: Any, parameters: bytes, groups: int) -> None:
        """Runs a shader behind everything launched before; it starts at the next submission. ValueError for more parameters than
        there is room for."""
        size = -(-len(parameters) // self._alignment) * self._alignment
        if len(self._data) + size > _ROOM or len(self._waiting) >= _MOST:
            self.submit()
            if size > _ROOM:
                raise ValueError(f"{size} bytes of parameters are more than the {_ROOM} that a launch takes")
        self._waiting.append((pipeline, group, len(self._data), groups))
        self._data += parameters + bytes(size - len(parameters))

    def submit(self) -> None:
        """Hands over what waits: its parameters, and one pass."""
        self.take_noted()
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        data, self._data = self._data, bytearray()
        queue = self._device.queue
        queue.write_buffer(self.parameters, 0, data)
        encoder = self._device.create_command_encoder()
        span = self.span
        work, stamps = (encoder.begin_compute_pass(), None) if span is None else span.begun(encoder)
        self.encode(work, waiting)
        work.end()
        if span is not None:
            span.ended(encoder, stamps)
        queue.submit([encoder.finish()])
        self.running = True
