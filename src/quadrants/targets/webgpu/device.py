"""A GPU through `wgpu`: the heap that all arrays lie in, and launches of compute pipelines over views of it.

Errors that `wgpu` finds in a submission end the process, so all that could be wrong there is checked here first.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants import knobs
from quadrants.blocks import busy
from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.nodes import Module
from quadrants.records import replace
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.device import live
from quadrants.targets.device.choice import Choice
from quadrants.targets.device.failures import failed, told_lost
from quadrants.targets.device.interface import HostCode
from quadrants.targets.device.tasks import Task
from quadrants.targets.device.timing import Span, WallSpan
from quadrants.targets.webgpu import status
from quadrants.targets.webgpu.adapters import BACKENDS, absent, find_adapter
from quadrants.targets.webgpu.heap import Heap, Piece
from quadrants.targets.webgpu.launches import Launches
from quadrants.targets.webgpu.probe import probe
from quadrants.targets.webgpu.tasks import Tasks
from quadrants.targets.webgpu.timing import FEATURE, PassSpan, tick

if TYPE_CHECKING:
    from quadrants.targets.webgpu.native import NativeHost

__all__ = ["CHOICE", "CHOICES", "WebDevice", "open_device"]

_FEATURES = ("shader-f64", "shader-int64", "shader-int64-atomic-all-ops", "shader-float32-atomic", "subgroup")
_REACH = "max-storage-buffer-binding-size"
_BINDINGS = "max-storage-buffers-per-shader-stage"
_LARGEST = 31
"""Segments have less than 2**31 bytes each: drivers that allow more are known to count in 32 bits."""


_PATIENCE = 10
"""Runs of a kernel by the interpreter: what LLVM takes for the host's part is a thousand of them."""


class WebDevice:
    """A device of `wgpu` with its heap. `limits`: what it is to do with, where that is less than it could. `messages` and
    `prints`: what the status may speak of."""

    def __init__(self, wgpu: Any, adapter: Any, limits: Mapping[str, int]) -> None:
        self._process = os.getpid()
        self.wgpu = wgpu
        self.adapter = adapter
        self.features = frozenset(name for name in _FEATURES if name in adapter.features)
        wanted = sorted({*self.features, *({FEATURE} & set(adapter.features))})
        self.device = adapter.request_device_sync(required_features=wanted, required_limits=dict(limits))
        self._tick = tick(self.device)
        reach = min(self.device.limits[_REACH], self.device.limits["max-buffer-size"])
        self.most_bindings: int = self.device.limits[_BINDINGS]
        self.driver = replace(
            probe(wgpu, self.device, "shader-f64" in self.features, self._has_fixed_subgroups()),
            adds_floats="shader-float32-atomic" in self.features,
            updates_wide="shader-int64-atomic-all-ops" in self.features,
        )
        self.launches = Launches(wgpu, self.device)
        self.heap = Heap(wgpu, self.device, min(reach.bit_length() - 1, _LARGEST - 1), self.launches.submit)
        self.status = self.heap.buffer(status.SIZE)
        self.messages: dict[int, Message] = {}
        self.prints: dict[int, PrintFormat] = {}
        self._native: NativeHost | None = None
        live.add(self)

    patience = _PATIENCE
    dlpack_device: tuple[int, int] | None = None

    def _has_fixed_subgroups(self) -> bool:
        """Whether subgroups have one size in all shaders: the adapter says so, or is software, which has one."""
        info = self.adapter.info
        sizes = [value for name, value in info.items() if name.endswith(("group_min_size", "group_max_size"))]
        return "subgroup" in self.features and (len(set(sizes)) == 1 or info["adapter_type"] == "CPU")

    def synchronise(self) -> None:
        """Waits until everything launched has run; what it printed and where it failed has been told by then."""
        if os.getpid() != self._process:
            return  # what waits is the parent's
        with busy():
            self.launches.submit()
            if self.launches.running:
                self.device.queue.read_buffer(self.status, 0, 4)  # wgpu 0.32 has no other way to wait that works
                self.launches.running = False

    @property
    def staging(self) -> WebDevice:
        """The heap keeps what is given back."""
        return self

    def allocate(self, size: int) -> Piece:
        self.check_process()
        return self.heap.allocate(size)

    def check_process(self) -> None:
        """QuadrantsRuntimeError in a process that was forked: the driver's threads are not there, and nothing would ever end."""
        if os.getpid() != self._process:
            raise QuadrantsRuntimeError(
                "the GPU was opened by the process that this one was forked from, and drivers do not work behind a fork: start "
                "processes by multiprocessing's `spawn`, or use the GPU in one of the two only"
            )

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> Tasks:
        self.check_process()
        return Tasks(self, module, tasks)

    def host_code(
        self, module: Module, tasks: Sequence[Task], prepared: Tasks, options: knobs.Options
    ) -> HostCode | None:
        """None where tasks print or check: each is then looked at before the next."""
        if prepared.speaks or knobs.host_arch() is not knobs.Arch.x64:
            return None
        from quadrants.targets.webgpu.native import NativeHost, can_be_native

        if not can_be_native(module, prepared):
            return None
        with busy():  # one for all threads: whoever looks at the device asks one for what was noted
            if self._native is None:
                self._native = NativeHost(self)
                self.launches.take_noted = self._native.flush
        return self._native.host_code(module, tasks, prepared, options)

    def measure(self) -> Span:
        if self._tick is None:
            return WallSpan(self.synchronise)
        return PassSpan(self.wgpu, self.device, self.launches, self._tick)

    def look(self) -> None:
        """Prints what was printed, raises what has failed, and wipes what was used of the status."""
        self.launches.submit()
        queue = self.device.queue
        head = np.frombuffer(queue.read_buffer(self.status, 0, 4 * status.PRINTS), np.uint32).tolist()
        wanted = head[status.PRINT_CURSOR]
        used = min(wanted, status.PRINT_WORDS)
        text = ""
        if used:
            words = np.frombuffer(queue.read_buffer(self.status, 4 * status.PRINTS, 4 * used), np.uint32).tolist()
            text = "".join(status.printed(words, self.prints))
        if head[status.FAILURE] or used:
            queue.write_buffer(self.status, 0, bytes(4 * (status.PRINTS + used)))
        if wanted > used:
            text += told_lost(4 * (wanted - used), 4 * status.PRINT_WORDS)
        if text:
            sys.stdout.write(text)
        if head[status.FAILURE]:
            message = self.messages[head[status.FORM] | head[status.FORM + 1] << 32]
            raise failed(message, status.record_words(head[status.FORM_VALUES :], message.types))


def open_device(limits: Mapping[str, int] | None = None, backend: str = "Vulkan", adapter: Any = None) -> WebDevice:
    """A device of its own. `adapter`: one that takes the place of those that are found. QuadrantsRuntimeError without a driver,
    or without what kernels need."""
    adapter = find_adapter(backend) if adapter is None else adapter
    if "shader-int64" not in adapter.features:
        raise QuadrantsRuntimeError(f"the GPU {adapter.info['device']} has no integers of 64 bits (shader-int64)")
    return WebDevice(importlib.import_module("wgpu"), adapter, limits or {})


def _choice(backend: str) -> Choice[WebDevice]:
    return Choice(backend, lambda: absent(backend), lambda: open_device(None, backend), lambda _: "")


CHOICES: dict[str, Choice[WebDevice]] = {backend: _choice(backend) for backend in BACKENDS}
"""The devices that kernels run on, by the interface that drives them."""
CHOICE = CHOICES["Vulkan"]
