"""The memory that arrays lie in: segments of at most what one binding reaches, with one row of addresses over all of them.

Segment k holds the addresses from k * span on, as many as its buffer has bytes. An array that fits into a segment lies in one;
a larger one goes through several that follow one another, of which all but the last are full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["ALIGNMENT", "BASE", "Heap", "Piece"]

ALIGNMENT = 256
BASE = 1 << 40
"""What machine code knows the heap's first byte by: no address is 0, and lower halves are those of the heap."""
_SMALLEST = 1 << 20
_STAGED = 1 << 16
"""Bytes from which on reading goes through a buffer of our own: the queue's own way copies once more, and waits longer."""


class Piece:
    """A piece of the heap: `offset` is its address, `address` that for machine code."""

    def __init__(self, owner: Heap, offset: int, size: int) -> None:
        self._owner = owner
        self.offset = offset
        self.address = BASE + offset
        self.size = size

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._owner.write(self.offset + offset, data)

    def read(self, offset: int, size: int) -> bytes:
        return self._owner.read(self.offset + offset, size)

    def read_into(self, offset: int, place: memoryview) -> None:
        place[:] = self._owner.read(self.offset + offset, len(place))

    def __del__(self) -> None:
        self._owner.returned.append((self.offset, self.size))


class Heap:
    """`returned`: pieces that finalisers gave back, at any time, and nothing more: what is in the queue still sees them as they
    were, since whoever gets them next stands behind it. `span_bits`: a segment has at most 2**span_bits bytes; `submit`: hands
    over what waits to run."""

    def __init__(self, wgpu: Any, device: Any, span_bits: int, submit: Callable[[], None]) -> None:
        self._wgpu = wgpu
        self._device = device
        self._submit = submit
        self._staging: Any = None
        self.span_bits = span_bits
        self.segments: list[Any] = []
        self._free: list[tuple[int, int]] = []
        self.returned: deque[tuple[int, int]] = deque()
        self._add(min(_SMALLEST, self.span))

    @property
    def span(self) -> int:
        return 1 << self.span_bits

    def buffer(self, size: int) -> Any:
        """A buffer of the device that shaders reach. MemoryError where there is none."""
        usage = self._wgpu.BufferUsage
        try:
            return self._device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        except self._wgpu.GPUError as error:
            raise MemoryError(
                f"the device has no memory for {size} more bytes ({str(error).strip().splitlines()[0]})"
            ) from None

    def allocate(self, size: int) -> Piece:
        """A piece of the heap, which grows if it has to."""
        wanted = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        while True:
            self._take_returned()
            for k, (start, length) in enumerate(self._free):
                place = self._place(start, wanted)
                if place + wanted <= start + length:
                    rest = [(start, place - start), (place + wanted, start + length - place - wanted)]
                    self._free[k : k + 1] = [piece for piece in rest if piece[1]]
                    return Piece(self, place, wanted)
            self._grow(wanted)

    def _place(self, start: int, wanted: int) -> int:
        """The first address from `start` on where that many bytes touch as few segments as they can."""
        at = start % self.span
        return start if not at or at + wanted <= self.span else start - at + self.span

    def _grow(self, wanted: int) -> None:
        """More room for a piece of that size: the last segment grows, or more are made."""
        size = self.segments[-1].size
        if size + wanted <= self.span:
            self._replace_last(min(max(2 * size, size + wanted), self.span))
            return
        for _ in range(wanted >> self.span_bits):
            self._make_last_full()
            self._add(self.span)
        if rest := wanted % self.span:
            self._make_last_full()
            self._add(max(rest, min(_SMALLEST, self.span)))

    def _make_last_full(self) -> None:
        """Only the last segment may be short: behind it there are addresses without memory."""
        if self.segments[-1].size < self.span:
            self._replace_last(self.span)

    def _add(self, size: int) -> None:
        self.segments.append(self.buffer(size))
        self.returned.append(((len(self.segments) - 1) << self.span_bits, size))

    def _replace_last(self, size: int) -> None:
        """A larger buffer for the last segment, with its content."""
        old = self.segments[-1]
        new = self.buffer(size)
        self._submit()
        encoder = self._device.create_command_encoder()
        encoder.copy_buffer_to_buffer(old, 0, new, 0, old.size)
        self._device.queue.submit([encoder.finish()])
        self.segments[-1] = new
        self.returned.append((((len(self.segments) - 1) << self.span_bits) + old.size, size - old.size))
        old.destroy()

    def _take_returned(self) -> None:
        """Joins neighbours among the free pieces."""
        if not self.returned:
            return
        pieces = self._free
        while self.returned:
            pieces.append(self.returned.popleft())
        merged: list[tuple[int, int]] = []
        for start, length in sorted(pieces):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged

    def _parts(self, address: int, size: int) -> Iterator[tuple[Any, int, int]]:
        """(buffer, first byte, bytes) of what lies from an address on."""
        while size:
            at = address % self.span
            count = min(size, self.span - at)
            yield self.segments[address >> self.span_bits], at, count
            address += count
            size -= count

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copies bytes there. The queue writes whole words: of the first and the last one the rest stays."""
        before, behind = address % 4, -(address + len(data)) % 4
        if before or behind:
            data = self.read(address - before, before) + bytes(data) + self.read(address + len(data), behind)
            address -= before
        self._submit()
        done = 0
        for buffer, at, count in self._parts(address, len(data)):
            self._device.queue.write_buffer(buffer, at, data, done, count)
            done += count

    def read(self, address: int, size: int) -> bytes:
        """Waits for all that was launched, and copies bytes from there."""
        if not size:
            return b""
        self._submit()
        start = address & -4
        end = -(-(address + size) // 4) * 4
        found = b"".join([self._read_words(*part) for part in self._parts(start, end - start)])
        return found if len(found) == size else found[address - start : address - start + size]

    def _read_words(self, buffer: Any, at: int, count: int) -> bytes:
        queue = self._device.queue
        if count < _STAGED:
            return bytes(queue.read_buffer(buffer, at, count))
        staging = self._staging
        if staging is None or staging.size < count:
            if staging is not None:
                staging.destroy()
            usage = self._wgpu.BufferUsage
            self._staging = staging = self._device.create_buffer(size=count, usage=usage.MAP_READ | usage.COPY_DST)
        encoder = self._device.create_command_encoder()
        encoder.copy_buffer_to_buffer(buffer, at, staging, 0, count)
        queue.submit([encoder.finish()])
        staging.map_sync(self._wgpu.MapMode.READ, 0, count)
        try:
            return bytes(staging.read_mapped(0, count, copy=False))
        finally:
            staging.unmap()  # law: nothing that is mapped is in a submission, which would end the process
