"""The tasks of a kernel on a device of `wgpu`: their shaders, made for the windows through which launches see their arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Module
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ArrayType, ScalarType, Type, scalar_of
from quadrants.passes.places import shown
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, memory_bytes
from quadrants.targets.webgpu.emit import WORKGROUP, EmittedTask, emit_task
from quadrants.targets.webgpu.heap import BASE
from quadrants.targets.webgpu.views import STATUS, Views
from quadrants.targets.webgpu.windows import ONE, Range, Windows, reached_from, segments_of, windows_of

if TYPE_CHECKING:
    from quadrants.targets.webgpu.device import WebDevice

__all__ = ["MOST_GROUPS", "Tasks", "packing"]

MOST_GROUPS = 65535
_MOST_BOUND = 16
_ZEROS = bytes(4)
_WORDS = {
    "u1": "?7x",
    "i8": "b7x",
    "i16": "h6x",
    "i32": "i4x",
    "i64": "q",
    "u8": "B7x",
    "u16": "H6x",
    "u32": "I4x",
    "u64": "Q",
    "f32": "f4x",
    "f64": "d",
}
"""How `struct` puts numbers into a frame's slots of eight bytes; for others (f16, bf16) their bytes are made first."""


class _Shader:
    """A task's pipeline for one way to see its arrays, and what its launches bind, by the buffers that are behind it."""

    def __init__(self, owner: WebDevice, emitted: EmittedTask) -> None:
        device, wgpu = owner.device, owner.wgpu
        self._owner = owner
        self._views = emitted.views
        self._bound: dict[tuple[Any, ...], Any] = {}
        self._size = 4 + emitted.frame.size
        entries = [
            {
                "binding": k,
                "visibility": wgpu.ShaderStage.COMPUTE,
                "buffer": {"type": "storage", "has_dynamic_offset": k == 0},
            }
            for k in range(1 + len(emitted.views))
        ]
        self._layout = device.create_bind_group_layout(entries=entries)
        layout = device.create_pipeline_layout(bind_group_layouts=[self._layout])
        module = device.create_shader_module(code=emitted.text)
        self.pipeline = device.create_compute_pipeline(layout=layout, compute={"module": module, "entry_point": "main"})

    def group(self, segments: Sequence[int]) -> Any:
        """The parameters, at a place that each launch tells, and the views of these segments."""
        owner = self._owner
        key = tuple([owner.heap.segments[segment] for segment in segments])
        found = self._bound.get(key)
        if found is None:
            if len(self._bound) >= _MOST_BOUND:
                self._bound.clear()
            found = self._bound[key] = owner.device.create_bind_group(layout=self._layout, entries=self._entries(key))
        return found

    def _entries(self, windows: tuple[Any, ...]) -> list[dict[str, Any]]:
        resources = [{"buffer": self._owner.launches.parameters, "offset": 0, "size": self._size}]
        for kind, window in self._views:
            buffer = self._owner.status if kind == STATUS else windows[window]
            resources.append({"buffer": buffer, "offset": 0, "size": buffer.size})
        return [{"binding": k, "resource": resource} for k, resource in enumerate(resources)]


class _Task:
    """One task: its shaders by the windows of its arrays. A shader is made when a launch first needs it; the text for arrays that
    lie in one window is made at once, so that what WGSL lacks is told when the kernel is compiled."""

    def __init__(self, owner: WebDevice, module: Module, task: Task) -> None:
        self._owner = owner
        self._module = module
        self.task = task
        self.emitted = emit_task(task, module, owner.driver, Views(owner.heap.span_bits))
        self._check_shared()
        self._shaders: dict[tuple[Range, ...], _Shader] = {}
        self._arrays = [k for k, value in enumerate(task.function.parameters) if type(value.type) is ArrayType]
        self._in_one = Windows((0,), (ONE,) * len(self._arrays))
        self._each = WORKGROUP if threads_loop_of(task.loop) is None else 1
        self._packing, self._made = packing([value.type for value in task.function.parameters])

    def _check_shared(self) -> None:
        has: int = self._owner.device.limits["max-compute-workgroup-storage-size"]
        if self.emitted.shared_bytes > has:
            raise QuadrantsUnsupportedError.at(
                shown(self.task.loop.location),
                f"a block shares {self.emitted.shared_bytes} bytes here, where numbers of fewer than 32 bits take four bytes each;"
                f" the GPU has {has}",
                hint="share fewer numbers: use smaller blocks",
            )

    def launch(self, values: Sequence[Any]) -> None:
        heap = self._owner.heap
        if len(heap.segments) == 1:
            windows = self._in_one
        else:
            windows = windows_of([segments_of(values[k], heap.span_bits) for k in self._arrays], heap.span_bits)
        starts = [windows.segments[first] << heap.span_bits for first, _ in windows.ranges]
        self._launch(windows, self._parameters(values, starts), self._groups(values))

    def launch_frame(self, frame: bytes, groups: int) -> None:
        """The same with the parameters as machine code fills them in."""
        if len(self._owner.heap.segments) == 1:
            self._launch(self._in_one, _ZEROS + frame, groups)
            return
        windows, placed = self._placed(frame)
        self._launch(windows, _ZEROS + placed, groups)

    def _launch(self, windows: Windows, parameters: bytes, groups: int) -> None:
        owner = self._owner
        owner.check_process()
        shader = self._shaders.get(windows.ranges)
        if shader is None:
            shader = self._shaders[windows.ranges] = _Shader(owner, self._emitted(windows.ranges))
        owner.launches.add(shader.pipeline, shader.group(windows.segments), parameters, groups)

    def _placed(self, frame: bytes) -> tuple[Windows, bytes]:
        """The windows of a frame's arrays, and the frame with addresses behind the beginnings of their first ones."""
        span_bits = self._owner.heap.span_bits
        places: list[tuple[int, int]] = []
        reached: list[tuple[int, int]] = []
        for k in self._arrays:
            type_, offset = self.emitted.frame.parameter_types[k], self.emitted.frame.parameters[k]
            assert type(type_) is ArrayType
            address, *axes = struct.unpack_from(f"<{1 + 2 * type_.rank}q", frame, offset)
            places.append((offset, address - BASE))
            shape, strides = axes[: type_.rank], axes[type_.rank :]
            reached.append(reached_from(address - BASE, shape, strides, type_.scalar.bytes, span_bits))
        windows = windows_of(reached, span_bits)
        placed = bytearray(frame)
        for (offset, address), (first, _) in zip(places, windows.ranges):
            struct.pack_into("<q", placed, offset, address - (windows.segments[first] << span_bits))
        return windows, bytes(placed)

    def _emitted(self, ranges: tuple[Range, ...]) -> EmittedTask:
        """The text for these windows, with fewer views where there would be more than shaders may bind."""
        if all(window == ONE for window in ranges):
            return self.emitted
        most, span_bits = self._owner.most_bindings, self._owner.heap.span_bits
        for shared in (False, True):
            found = emit_task(self.task, self._module, self._owner.driver, Views(span_bits, shared), ranges)
            if 1 + len(found.views) <= most:
                return found
        raise QuadrantsUnsupportedError.at(
            shown(self.task.loop.location),
            f"the arrays of this loop lie in {max(first + count for first, count in ranges)} pieces of the device's memory, of"
            f" {1 << span_bits} bytes each; its shaders reach no more than {most - 1} of them at once",
            hint="split the loop in two that reach fewer arrays each, or use smaller arrays",
        )

    def _groups(self, values: Sequence[Any]) -> int:
        rank = self.task.loop.attribute("rank")
        count = 1
        for low, high in zip(values[:rank], values[rank : 2 * rank]):
            count *= max(int(high) - int(low), 0)
        return min(-(-count // self._each), MOST_GROUPS)

    def _parameters(self, values: Sequence[Any], starts: Sequence[int]) -> bytes:
        """The word of zeros and the frame; `starts`: for each array the address at which its first window begins."""
        words: list[Any] = []
        start_of = iter(starts)
        for value, made in zip(values, self._made):
            if type(value) is DeviceArray:
                words += (value.memory.offset + value.offset - next(start_of), *value.shape, *value.strides)
            else:
                words.append(value if made is None else memory_bytes(made, np.asarray(value)))
        return self._packing.pack(*words)


def packing(types: Sequence[Type]) -> tuple[struct.Struct, list[ScalarType | None]]:
    """The layout of parameters as `frame_layout` has it, behind one word of zeros; and by parameter the type of a number whose
    bytes have to be made first. An array is its address, sizes and strides."""
    form, made = "<4x", []
    for type_ in types:
        if type(type_) is ArrayType:
            form += f"{1 + 2 * type_.rank}q"
            made.append(None)
        else:
            scalar = scalar_of(type_)
            form += _WORDS.get(scalar.name, "8s")
            made.append(None if scalar.name in _WORDS else scalar)
    return struct.Struct(form), made


class Tasks:
    """The tasks of a kernel, ready to run."""

    def __init__(self, owner: WebDevice, module: Module, tasks: Sequence[Task]) -> None:
        self._owner = owner
        self.tasks = [_Task(owner, module, task) for task in tasks]
        emitted = [task.emitted for task in self.tasks]
        self.speaks = any((STATUS, 0) in found.views for found in emitted)
        for found in emitted:
            owner.messages.update(found.messages)
            owner.prints.update(found.prints)

    @property
    def frames(self) -> list[Frame]:
        """The frames of the tasks' parameters."""
        return [task.emitted.frame for task in self.tasks]

    @property
    def texts(self) -> list[str]:
        """The shaders of the tasks, for arrays in one window."""
        return [task.emitted.text for task in self.tasks]

    def launch(self, number: int, values: Sequence[Any]) -> None:
        task = self.tasks[number]
        task.launch(values)
        if task.emitted.messages:
            self._owner.look()

    def finish(self) -> None:
        if self.speaks:
            self._owner.look()
