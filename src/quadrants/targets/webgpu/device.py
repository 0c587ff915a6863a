"""A GPU through `wgpu`: one buffer is the heap that all arrays lie in; tasks are compute pipelines over its views.

Errors that `wgpu` finds in a submission end the process, so all that could be wrong there is checked here first.
"""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.targets.device.failures import failed
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.tasks import Task
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
        self._owner.free(self.offset, self.size)


class WebDevice:
    """A device of `wgpu` with its heap."""

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
        self._free: list[tuple[int, int]] = [(0, 1 << 20)]
        self.status = self._buffer(status.SIZE)
        self.parameters = self._buffer(1 << 16)
        self._waiting: list[tuple[_Compiled, bytes, int]] = []

    def _buffer(self, size: int) -> Any:
        usage = self.wgpu.BufferUsage
        return self.device.create_buffer(size=size, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)

    def allocate(self, size: int) -> _Memory:
        """A piece of the heap, which grows if it has to."""
        wanted = -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT
        while True:
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
        self.free(size, bigger - size)

    def free(self, offset: int, size: int) -> None:
        """Takes a piece back; what lies behind in the queue still sees it as it was."""
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self._free, (offset, size)]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._free = merged

    def write(self, offset: int, data: bytes) -> None:
        if offset % 4 or len(data) % 4:
            start = offset & -4
            end = -(-(offset + len(data)) // 4) * 4
            around = bytearray(self.read(start, end - start))
            around[offset - start : offset - start + len(data)] = data
            offset, data = start, bytes(around)
        self.submit()
        if data:
            self.device.queue.write_buffer(self.heap, offset, data)

    def read(self, offset: int, size: int) -> bytes:
        self.submit()
        start = offset & -4
        end = -(-(offset + size) // 4) * 4
        found = bytes(self.device.queue.read_buffer(self.heap, start, end - start))
        return found[offset - start : offset - start + size]

    def prepare(self, module: Module, tasks: Sequence[Task]) -> _Tasks:
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
        self._name = module.entry
        self.emitted = [emit_task(task, module, owner.driver) for task in tasks]
        self._tasks = list(tasks)
        self._compiled: dict[int, _Compiled] = {}
        self._speaks = any("status" in emitted.views for emitted in self.emitted)
        self._messages = {k: message for emitted in self.emitted for k, message in emitted.messages.items()}
        self._prints = {k: form for emitted in self.emitted for k, form in emitted.prints.items()}

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
            self._look()

    def finish(self) -> None:
        self._owner.submit()
        if self._speaks:
            self._look()

    def _look(self) -> None:
        """Prints what was printed, raises what has failed, and wipes the status."""
        self._owner.submit()
        queue, buffer = self._owner.device.queue, self._owner.status
        head = np.frombuffer(queue.read_buffer(buffer, 0, 4 * status.PRINTS), np.uint32).tolist()
        wanted = head[status.PRINT_CURSOR]
        if head[status.FAILED] or wanted:
            queue.write_buffer(buffer, 0, bytes(4 * status.PRINTS))
        if wanted:
            count = min(wanted, status.PRINT_WORDS)
            words = np.frombuffer(queue.read_buffer(buffer, 4 * status.PRINTS, 4 * count), np.uint32).tolist()
            sys.stdout.write("".join(status.printed(words, self._prints)))
            if wanted > count:
                raise QuadrantsUnsupportedError(
                    "a kernel has printed more than its device keeps: print less in a launch"
                )
        if head[status.FAILED]:
            number = head[status.FORM] | head[status.FORM + 1] << 32
            message = self._messages[number]
            words = status.record_words(head[status.FORM_VALUES :], message.types)
            raise failed(message, words)


def _frame(emitted: EmittedTask, task: Task, values: Sequence[Any]) -> bytes:
    frame = bytearray(emitted.frame.size)
    for value, parameter, offset in zip(values, task.function.parameters, emitted.frame.parameters):
        if type(parameter.type) is ArrayType:
            array: DeviceArray = value
            start = array.memory.offset + array.offset
            struct.pack_into(f"<{1 + 2 * len(array.shape)}q", frame, offset, start, *array.shape, *array.strides)
        else:
            data = _bits(scalar_of(parameter.type).name, value)
            frame[offset : offset + len(data)] = data
    return bytes(frame)


def _bits(name: str, value: Any) -> bytes:
    if name == "bf16":
        return (np.float32(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes() + b"\0\0"
    data = np.asarray(value).tobytes()
    return data + bytes(max(4 - len(data), 0))


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
