"""A GPU through `wgpu`: one buffer is the heap that all arrays lie in; tasks are compute pipelines over its views.

Errors that `wgpu` finds in a submission end the process, so all that could be wrong there is checked here first.
"""

from __future__ import annotations

import importlib
import struct
import sys
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.device.failures import failed
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import memory_bytes
from quadrants.targets.webgpu import status
from quadrants.targets.webgpu.emit import VIEWS, WORKGROUP, EmittedTask, emit_task
from quadrants.targets.webgpu.probe import probe

__all__ = ["WebDevice", "device"]

_ALIGNMENT = 256
_FEATURES = ("shader-f64", "shader-int64", "shader-int64-atomic-all-ops")
_MOST_GROUPS = 65535
_MOST_WAITING = 256
"""Launches that are submitted together at most: a submission costs as much as ten launches."""


class _Memory:
    """A piece of the heap."""

    def __init__(self, owner: WebDevice, offset: int, size: int) -> None:
        self._owner = owner
        self.offset = offset
        self.size = size

    def write(self, offset: int, data: bytes) -> None:
        self._owner.write(self.offset + offset, data)

    def read(self, offset: int, size: int) -> bytes:
        return self._owner.read(self.offset + offset, size)

    def __del__(self) -> None:
        self._owner.returned.append((self.offset, self.size))


class WebDevice:
    """A device of `wgpu` with its heap. `returned`: pieces that finalisers gave back, at any time, and nothing more: what is
    in the queue still sees them as they were, since whoever gets them next stands behind it. `messages` and `prints`: what
    the status may speak of."""

    def __init__(self, wgpu: Any, adapter: Any) -> None:
        self.wgpu = wgpu
        self.adapter = adapter
        self.features = frozenset(name for name in _FEATURES if name in adapter.features)
        self.device = adapter.request_device_sync(required_features=sorted(self.features))
        self.limit = min(
            self.device.limits["max-storage-buffer-binding-size"], self.device.limits["max-buffer-size"], 1 << 31
        )
        self.driver = probe(wgpu, self.device, "shader-f64" in self.features)
        self.heap = self._buffer(1 << 20)
        self._free: list[tuple[int, int]] = []
        self.returned: deque[tuple[int, int]] = deque([(0, 1 << 20)])
        self.status = self._buffer(status.SIZE)
        self.messages: dict[int, Message] = {}
        self.prints: dict[int, PrintFormat] = {}
        self.parameters = self._buffer(1 << 16)
        self._waiting: list[tuple[_Compiled, bytes, int]] = []

    def _buffer(self, size: int) -> Any:
        usage = self.wgpu.BufferUsage
        return self.device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)

    def allocate(self, size: int) -> _Memory:
        """A piece of the heap, which grows if it has to."""
        wanted = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        while True:
            self._take_returned()
            for k, (start, length) in enumerate(self._free):
                if length >= wanted:
                    self._free[k : k + 1] = [(start + wanted, length - wanted)] if length > wanted else []
                    return _Memory(self, start, wanted)
            self._grow(wanted)

    def _grow(self, wanted: int) -> None:
        size = self.heap.size
        bigger = max(2 * size, size + wanted)
        if bigger > self.limit:
            bigger = self.limit // _ALIGNMENT * _ALIGNMENT
            if bigger - size < wanted:
                raise MemoryError(
                    f"the device's memory is full: {wanted} more bytes are needed, and a kernel reaches {self.limit} bytes"
                )
        self.submit()
        new = self._buffer(bigger)
        encoder = self.device.create_command_encoder()
        encoder.copy_buffer_to_buffer(self.heap, 0, new, 0, size)
        self.device.queue.submit([encoder.finish()])
        self.heap.destroy()
        self.heap = new
        self.returned.append((size, bigger - size))

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

    def write(self, offset: int, data: bytes) -> None:
        """Copies bytes there. The queue writes whole words: of the first and the last one the rest stays."""
        before, behind = offset % 4, -(offset + len(data)) % 4
        if before or behind:
            data = self.read(offset - before, before) + data + self.read(offset + len(data), behind)
            offset -= before
        self.submit()
        if data:
            self.device.queue.write_buffer(self.heap, offset, data)

    def read(self, offset: int, size: int) -> bytes:
        if not size:
            return b""
        self.submit()
        start = offset & -4
        end = -(-(offset + size) // 4) * 4
        found = bytes(self.device.queue.read_buffer(self.heap, start, end - start))
        return found[offset - start : offset - start + size]

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> _Tasks:
        return _Tasks(self, module, tasks)

    def launch(self, compiled: _Compiled, parameters: bytes, groups: int) -> None:
        """Runs a shader behind everything launched before; it starts at the next submission."""
        self._waiting.append((compiled, parameters, groups))
        if len(self._waiting) >= _MOST_WAITING:
            self.submit()

    def submit(self) -> None:
        """Hands over what waits, in order: their parameters, and one pass."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        data = bytearray()
        places: list[int] = []
        for _, parameters, _ in waiting:
            places.append(len(data))
            data += parameters + bytes(-len(parameters) % _ALIGNMENT)
        if len(data) > self.parameters.size:
            self.parameters = self._buffer(1 << len(data).bit_length())
        self.device.queue.write_buffer(self.parameters, 0, data)
        encoder = self.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        for (compiled, parameters, groups), place in zip(waiting, places):
            work.set_pipeline(compiled.pipeline)
            work.set_bind_group(0, compiled.group(self, len(parameters)), [place])
            work.dispatch_workgroups(groups)
        work.end()
        self.device.queue.submit([encoder.finish()])

    def look(self) -> None:
        """Prints what was printed, raises what has failed, and wipes what was used of the status."""
        self.submit()
        queue = self.device.queue
        head = np.frombuffer(queue.read_buffer(self.status, 0, 4 * status.PRINTS), np.uint32).tolist()
        wanted = head[status.PRINT_CURSOR]
        used = min(wanted, status.PRINT_WORDS)
        text = ""
        if used:
            words = np.frombuffer(queue.read_buffer(self.status, 4 * status.PRINTS, 4 * used), np.uint32).tolist()
            text = "".join(status.printed(words, self.prints))
        if head[status.FAILED] or used:
            queue.write_buffer(self.status, 0, bytes(4 * (status.PRINTS + used)))
        if text:
            sys.stdout.write(text)
        if wanted > used:
            raise QuadrantsUnsupportedError("a kernel has printed more than its device keeps: print less in a launch")
        if head[status.FAILED]:
            message = self.messages[head[status.FORM] | head[status.FORM + 1] << 32]
            raise failed(message, status.record_words(head[status.FORM_VALUES :], message.types))


class _Compiled:
    """A task's shader and pipeline."""

    def __init__(self, owner: WebDevice, emitted: EmittedTask) -> None:
        device, wgpu = owner.device, owner.wgpu
        self.emitted = emitted
        self.bindings = [0, *[k + 1 for k, view in enumerate(VIEWS) if view in emitted.views]]
        entries = [
            {
                "binding": k,
                "visibility": wgpu.ShaderStage.COMPUTE,
                "buffer": {"type": "storage", "has_dynamic_offset": k == 0},
            }
            for k in self.bindings
        ]
        self._group: Any = None
        self._bound: tuple[Any, Any] = (None, None)
        self.layout = device.create_bind_group_layout(entries=entries)
        layout = device.create_pipeline_layout(bind_group_layouts=[self.layout])
        module = device.create_shader_module(code=emitted.text)
        self.pipeline = device.create_compute_pipeline(layout=layout, compute={"module": module, "entry_point": "main"})

    def group(self, owner: WebDevice, size: int) -> Any:
        """What launches bind: their parameters at a place that each tells, and views of the heap."""
        if self._group is None or self._bound != (owner.heap, owner.parameters):
            self._bound = (owner.heap, owner.parameters)
            entries = [{"binding": 0, "resource": {"buffer": owner.parameters, "offset": 0, "size": size}}]
            for k in self.bindings[1:]:
                buffer = owner.status if list(VIEWS)[k - 1] == "status" else owner.heap
                entries.append({"binding": k, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}})
            self._group = owner.device.create_bind_group(layout=self.layout, entries=entries)
        return self._group


class _Tasks:
    """The tasks of a kernel. A shader is made when its task is first launched."""

    def __init__(self, owner: WebDevice, module: Module, tasks: Sequence[Task]) -> None:
        self._owner = owner
        self.emitted = [emit_task(task, module, owner.driver) for task in tasks]
        self._tasks = list(tasks)
        self._compiled: dict[int, _Compiled] = {}
        self._speaks = any("status" in emitted.views for emitted in self.emitted)
        for emitted in self.emitted:
            owner.messages.update(emitted.messages)
            owner.prints.update(emitted.prints)

    def launch(self, number: int, values: Sequence[Any]) -> None:
        compiled = self._compiled.get(number)
        if compiled is None:
            compiled = self._compiled[number] = _Compiled(self._owner, self.emitted[number])
        task = self._tasks[number]
        rank = task.loop.attribute("rank")
        count = 1
        for low, high in zip(values[:rank], values[rank : 2 * rank]):
            count *= max(int(high) - int(low), 0)
        groups = min(-(-count // WORKGROUP), _MOST_GROUPS)
        self._owner.launch(compiled, b"\0\0\0\0" + _frame(compiled.emitted, task, values), groups)
        if compiled.emitted.messages:
            self._owner.look()

    def finish(self) -> None:
        self._owner.submit()
        if self._speaks:
            self._owner.look()


def _frame(emitted: EmittedTask, task: Task, values: Sequence[Any]) -> bytes:
    frame = bytearray(emitted.frame.size)
    for value, parameter, offset in zip(values, task.function.parameters, emitted.frame.parameters):
        if type(parameter.type) is ArrayType:
            array: DeviceArray = value
            start = array.memory.offset + array.offset
            struct.pack_into(f"<{1 + 2 * len(array.shape)}q", frame, offset, start, *array.shape, *array.strides)
        else:
            data = memory_bytes(scalar_of(parameter.type), np.asarray(value))
            frame[offset : offset + len(data)] = data
    return bytes(frame)


@lru_cache(maxsize=1)
def device() -> WebDevice:
    """The device of this process. QuadrantsUnsupportedError without a driver, or without what kernels need."""
    wgpu: Any = importlib.import_module("wgpu")
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except Exception as error:  # whatever the driver's loader says is the reason that the user is told
        raise QuadrantsUnsupportedError(f"no driver was found ({str(error).splitlines()[0]})") from None
    if "shader-int64" not in adapter.features:
        raise QuadrantsUnsupportedError(f"the GPU {adapter.info['device']} has no integers of 64 bits (shader-int64)")
    return WebDevice(wgpu, adapter)
