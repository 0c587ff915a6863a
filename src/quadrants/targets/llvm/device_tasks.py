"""A kernel's tasks in a driver's hands: loaded when first launched, and what their checks and prints leave behind."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.records import Record
from quadrants.targets.artifact import Message, PrintFormat, decode_prints
from quadrants.targets.device.failures import failed, told_lost
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, memory_bytes
from quadrants.targets.llvm.device_graphs import GraphLaunches
from quadrants.targets.llvm.device_host import Plan
from quadrants.targets.llvm.device_state import STATE, State
from quadrants.targets.llvm.graph_order import Access, accesses_of
from quadrants.targets.llvm.host_loops import HostLoops

if TYPE_CHECKING:
    from quadrants.targets.llvm.device_launches import LaunchDevice
    from quadrants.targets.llvm.emit_device import CompiledTasks

__all__ = ["LaunchedTasks", "TaskCode", "Tasks"]

_PRINT_BYTES = 1 << 20


class TaskCode(Record):
    """What a driver loads, and what its kernels' names and the ids of their messages and prints are; `arrays`: how many
    temporary arrays the host's part makes; `title`: the kernel, and where it stands; `accesses`: the arrays of each task; `asked`: the bytes of
    shared memory that its launches ask for; `is_recursive`: whether functions call themselves."""

    code: Any
    symbols: tuple[str, ...]
    messages: dict[int, Message]
    prints: dict[int, PrintFormat]
    arrays: int
    title: str
    accesses: tuple[tuple[Access, ...], ...]
    asked: tuple[int, ...]
    is_recursive: bool


class Tasks:
    """A kernel's tasks, assembled when first launched."""

    def __init__(self, device: LaunchDevice, code: TaskCode) -> None:
        self.code = code
        self.plan = Plan(code.arrays, len(code.symbols), device.services.epochs)
        device.services.plans[self.plan.address] = self.plan
        native = device.driver.native_launch()
        self.graph = GraphLaunches(native.graphs) if native is not None else None
        if self.graph is not None:
            device.services.graphs[self.graph.address] = self.graph
        self._device = device
        self._driver = device.driver
        self._kernels: list[Any] = []
        self._state: State | None = None

    @property
    def title(self) -> str:
        """The kernel, and where it stands."""
        return self.code.title

    def report(self, module: Module | None) -> list[str]:
        """How the launches are made, where that is not one after the other, or is not what was asked for; `module`: the kernel,
        where it was compiled in this process."""
        if self.graph is None:
            return []
        if told := self.graph.report():
            return [told]
        if module is None or not module.kernel.attributes.get("graph"):
            return []
        loops = HostLoops(module)
        if not loops.is_graph(True):
            return ["launched one by one: the host looks at numbers in between, or carries some from round to round"]
        if loops.is_graph(False):
            return []
        return ["launched one by one: loops are not the GPU's (graph_loops), or its driver has none"]

    def get_ready(self) -> None:
        """Loads the kernels, unless that is done."""
        if self._kernels or not self.code.symbols:
            return
        try:
            loaded = self._driver.load(self.code.code)
        except QuadrantsRuntimeError as error:
            raise QuadrantsRuntimeError(f"{error}\n  in kernel {self.title}") from None
        if self.code.is_recursive:
            self._driver.allow_recursion()
        kernels = [loaded.kernel(symbol) for symbol in self.code.symbols]
        for kernel, asked in zip(kernels, self.code.asked):
            if asked:
                self._driver.allow_shared(kernel, asked)
        variable = loaded.variable(STATE)
        if variable is not None and (self.code.messages or self.code.prints):
            room = _PRINT_BYTES if self.code.prints else 0
            self._state = State(self._driver.allocate, room)
            self._driver.write(variable, struct.pack("<Q", self._state.address))
            if self.graph is not None and self.code.messages:
                self.graph.failure = self._state.address
        self._device.ready.add(self)
        if self._state is not None and self.code.messages:
            self._device.checking.add(self)
        self._kernels = kernels
        if self._driver.native_launch() is not None:
            self.plan.fill(list(map(int, kernels)))
        if self.graph is not None and not (self.code.messages or self.code.prints):
            # What is printed, and which check is the first that fails, is decided by the order of launches.
            self.graph.accesses = dict(zip(map(int, kernels), self.code.accesses))

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before."""
        if self._state is None or not self.code.messages or not self.plan.launched:
            return
        self.plan.launched = False
        if failure := self._state.take_failure():
            number, words = failure
            raise failed(self.code.messages[number], words)

    def finish(self) -> None:
        if self._state is None:
            return
        try:
            self._driver.synchronise(self._driver.stream)
        except QuadrantsRuntimeError as error:
            raise self._device.named(error) from None
        try:
            if self.code.messages:
                self.check()
        finally:
            self._print()

    def _print(self) -> None:
        if self._state is None or not self.code.prints:
            return
        records, lost = self._state.take_prints()
        text = "".join(decode_prints(records, self.code.prints))
        if lost:
            text += told_lost(lost, self._state.room)
        sys.stdout.write(text)


class LaunchedTasks(Tasks):
    """Tasks that Python can launch, too."""

    def __init__(
        self, device: LaunchDevice, compiled: CompiledTasks, tasks: Sequence[Task], arrays: int, title: str
    ) -> None:
        accesses = tuple([accesses_of(task, frame) for task, frame in zip(tasks, compiled.frames)])
        made = (compiled.code, compiled.symbols, compiled.messages, compiled.prints)
        code = TaskCode(*made, arrays, title, accesses, compiled.asked, compiled.is_recursive)
        super().__init__(device, code)
        self.compiled = compiled
        self.frames = compiled.frames
        self._ranks = [task.loop.attribute("rank") for task in tasks]
        self.shapes = [device.shape(*pair) for pair in zip(tasks, compiled.asked)]

    def launch(self, number: int, values: Sequence[Any]) -> None:
        self.get_ready()
        rank = self._ranks[number]
        count = 1
        for low, high in zip(values[:rank], values[rank : 2 * rank]):
            count *= max(int(high) - int(low), 0)
        if count == 0:
            return
        shape = self.shapes[number]
        frame = _filled(self.frames[number], values)
        self.plan.launched = True
        self._driver.launch(self._kernels[number], *shape.of(count), frame, shape.asked)


def _filled(frame: Frame, values: Sequence[Any]) -> bytes:
    """The frame of a launch."""
    made = bytearray(max(frame.size, 8))
    for value, type_, offset in zip(values, frame.parameter_types, frame.parameters):
        if type(type_) is ArrayType:
            assert type(value) is DeviceArray
            words = (value.memory.address + value.offset, *value.shape, *value.strides)
            struct.pack_into(f"<Q{len(words) - 1}q", made, offset, *words)
        else:
            assert type(type_) is ScalarType
            data = memory_bytes(type_, np.asarray(value))
            made[offset : offset + len(data)] = data
    return bytes(made)
