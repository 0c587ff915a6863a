"""A GPU as the host's part of kernels sees it, on top of a driver that loads modules and launches their kernels.

One driver has one device: blocks of fields and arrays stay in the memory of the device that a kernel first brought them to.

Law: after a failed check no task does anything any more, and the host hears of it before it uses a number from the device.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.targets.artifact import decode_prints
from quadrants.targets.device.failures import failed
from quadrants.targets.device.interface import DeviceArray, Memory
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, memory_bytes
from quadrants.targets.llvm.device_driver import LaunchDriver
from quadrants.targets.llvm.device_state import STATE, State
from quadrants.targets.llvm.emit_device import BLOCK, CompiledTasks

__all__ = ["Compiler", "LaunchDevice"]

_PRINT_BYTES = 1 << 20
_WAVES = 8
"""Blocks of a launch, at most, for each multiprocessor: each thread then takes several iterations."""


Compiler = Callable[[Module, Sequence[Task], knobs.Options], CompiledTasks]
"""Compiles tasks, and the functions of the module that they call."""


class LaunchDevice:
    """The device of one driver; how tasks become what it loads is the target's."""

    def __init__(self, driver: LaunchDriver, compiler: Compiler) -> None:
        self.driver = driver
        self._compiler = compiler
        self.unchecked: set[_Tasks] = set()
        """The kernels that may have failed a check since the host last asked them."""

    def allocate(self, size: int) -> Memory:
        return _Memory(self, self.driver.allocate(size))

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> _Tasks:
        ranks = [task.loop.attribute("rank") for task in tasks]
        return _Tasks(self, self._compiler(module, tasks, options), ranks)


class _Memory:
    """The driver's memory; who reads it hears of checks that failed first."""

    def __init__(self, device: LaunchDevice, memory: Any) -> None:
        self._device, self._memory = device, memory
        self.address: int = memory.address
        self.size: int = memory.size

    def write(self, offset: int, data: bytes) -> None:
        self._memory.write(offset, data)

    def read(self, offset: int, size: int) -> bytes:
        for tasks in tuple(self._device.unchecked):
            tasks.check()
        return self._memory.read(offset, size)


class _Tasks:
    """A kernel's tasks, assembled when first launched."""

    def __init__(self, device: LaunchDevice, compiled: CompiledTasks, ranks: list[int]) -> None:
        self.compiled = compiled
        self._driver = device.driver
        self._unchecked = device.unchecked
        self._ranks = ranks
        self._kernels: list[Any] = []
        self._state: State | None = None

    def _load(self) -> None:
        loaded = self._driver.load(self.compiled.code)
        self._kernels = [loaded.kernel(symbol) for symbol in self.compiled.symbols]
        variable = loaded.variable(STATE)
        if variable is not None and (self.compiled.messages or self.compiled.prints):
            room = _PRINT_BYTES if self.compiled.prints else 0
            self._state = State(self._driver.allocate, room)
            self._driver.write(variable, struct.pack("<Q", self._state.address))

    def launch(self, number: int, values: Sequence[Any]) -> None:
        if not self._kernels:
            self._load()
        rank = self._ranks[number]
        count = 1
        for low, high in zip(values[:rank], values[rank : 2 * rank]):
            count *= max(int(high) - int(low), 0)
        if count == 0:
            return
        threads = min(-(-count // 32) * 32, BLOCK) if count > 1 else 1
        blocks = min(-(-count // threads), self._driver.multiprocessors * _WAVES)
        if self.compiled.messages:
            self._unchecked.add(self)
        self._driver.launch(self._kernels[number], blocks, threads, _filled(self.compiled.frames[number], values))

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before."""
        self._unchecked.discard(self)
        if self._state is None or not self.compiled.messages:
            return
        if failure := self._state.take_failure():
            number, words = failure
            raise failed(self.compiled.messages[number], words)

    def finish(self) -> None:
        self._driver.synchronise()
        try:
            self.check()
        finally:
            self._print()

    def _print(self) -> None:
        if self._state is None or not self.compiled.prints:
            return
        records, lost = self._state.take_prints()
        text = "".join(decode_prints(records, self.compiled.prints))
        if lost:
            room = self._state.room
            text += f"[Quadrants] {lost} bytes of what a kernel printed are lost: there is room for {room}\n"
        sys.stdout.write(text)


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
