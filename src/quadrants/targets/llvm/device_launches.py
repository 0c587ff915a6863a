"""A GPU as the host's part of kernels sees it, on top of a driver that loads modules and launches their kernels.

One driver has one device: blocks of fields and arrays stay in the memory of the device that a kernel first brought them to.

Law: after a failed check no task does anything any more, and the host hears of it before it uses a number from the device.
"""

from __future__ import annotations

import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.ir.nodes import Module, Op
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.targets.artifact import decode_prints
from quadrants.targets.device import live
from quadrants.targets.device.failures import failed
from quadrants.targets.device.interface import DeviceArray, HostCode
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, memory_bytes
from quadrants.targets.llvm.device_driver import LaunchDriver
from quadrants.targets.llvm.device_host import Plan, Services, compiled
from quadrants.targets.llvm.device_state import STATE, State
from quadrants.targets.llvm.emit_device import CompiledTasks
from quadrants.targets.llvm.emit_host import PLAN, LaunchShape, temporaries
from quadrants.targets.llvm.emit_threads import block_of

__all__ = ["Compiler", "LaunchDevice"]

_PRINT_BYTES = 1 << 20
_MOST_BLOCKS = (1 << 31) - 1
_WAVES = 8
"""Blocks of a launch, at most, for each multiprocessor: each thread then takes several iterations."""


Compiler = Callable[[Module, Sequence[Task], knobs.Options], CompiledTasks]
"""Compiles tasks, and the functions of the module that they call."""


class LaunchDevice:
    """The device of one driver; how tasks become what it loads is the target's."""

    def __init__(self, driver: LaunchDriver, compiler: Compiler) -> None:
        self.driver = driver
        self.dlpack_device: tuple[int, int] | None = None
        """The device as DLPack names it, where other packages can have its memory."""
        self._compiler = compiler
        self.services = Services(self)
        self.speaking: weakref.WeakSet[_Tasks] = weakref.WeakSet()
        """The kernels that may fail a check."""
        live.add(self)

    def allocate(self, size: int) -> _Memory:
        return _Memory(self, self.driver.allocate(size))

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> _Tasks:
        loops = [task.loop for task in tasks]
        made = _Tasks(self, self._compiler(module, tasks, options), loops, len(temporaries(module)))
        self.services.plans[made.plan.address] = made.plan
        return made

    def host_code(
        self, module: Module, tasks: Sequence[Task], prepared: _Tasks, options: knobs.Options
    ) -> HostCode | None:
        launch = self.driver.native_launch()
        if launch is None:
            return None
        made = prepared.compiled
        launched = list(zip(tasks, made.frames))
        level = 1 if options.opt_level else 0
        code = compiled(module, launched, launch, self.shape, bool(made.messages), level, options.verify)
        symbols = {**self.services.symbols, **launch.symbols, PLAN: prepared.plan.address}
        return HostCode(*code, symbols, self, prepared, bool(made.messages or made.prints))

    def provide(self, plan: Plan, number: int, size: int) -> int:
        """Memory for a temporary array; where there is none left, the other kernels have to do without theirs."""
        stream = self.driver.stream
        try:
            return plan.provide(stream, number, size, self.allocate)
        except MemoryError:
            self.driver.synchronise()
            for other in tuple(self.services.plans.values()):
                if other is not plan:
                    other.drop()
            return plan.provide(stream, number, size, self.allocate)

    def shape(self, loop: Op) -> LaunchShape:
        """The threads of a parallel loop's launches."""
        block = block_of(loop)
        blocks = _MOST_BLOCKS if block.whole else self.driver.multiprocessors * _WAVES
        return LaunchShape(block.threads, 32, blocks, block.whole)

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before, if a check may have failed there."""
        for tasks in tuple(self.speaking):
            tasks.check()

    def synchronise(self) -> None:
        """Waits for everything launched before; the error of a check that failed. A GPU that was lost is not asked again."""
        if not self.driver.is_lost:
            self.driver.synchronise()
            self.check()

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the device, behind everything launched before."""
        self.check()
        return self.driver.read(address, size)

    def error_of(self, code: int) -> Exception:
        """What the driver says to a code of its own."""
        return self.driver.error_of(code)


class _Memory:
    """The driver's memory; who reads it hears of checks that failed first."""

    def __init__(self, device: LaunchDevice, memory: Any) -> None:
        self._device, self._memory = device, memory
        self.address: int = memory.address
        self.size: int = memory.size

    def write(self, offset: int, data: bytes) -> None:
        self._memory.write(offset, data)

    def read(self, offset: int, size: int) -> bytes:
        self._device.check()
        return self._memory.read(offset, size)


class _Tasks:
    """A kernel's tasks, assembled when first launched."""

    def __init__(self, device: LaunchDevice, compiled: CompiledTasks, loops: list[Op], arrays: int) -> None:
        self.compiled = compiled
        self.plan = Plan(arrays, len(loops))
        self._device = device
        self._driver = device.driver
        self._ranks = [loop.attribute("rank") for loop in loops]
        self._shapes = [device.shape(loop) for loop in loops]
        self._kernels: list[Any] = []
        self._state: State | None = None

    def get_ready(self) -> None:
        """Loads the kernels, unless that is done."""
        if self._kernels or not self._ranks:
            return
        loaded = self._driver.load(self.compiled.code)
        kernels = [loaded.kernel(symbol) for symbol in self.compiled.symbols]
        variable = loaded.variable(STATE)
        if variable is not None and (self.compiled.messages or self.compiled.prints):
            room = _PRINT_BYTES if self.compiled.prints else 0
            self._state = State(self._driver.allocate, room)
            self._driver.write(variable, struct.pack("<Q", self._state.address))
        if self.compiled.messages:
            self._device.speaking.add(self)
        self._kernels = kernels
        if self._driver.native_launch() is not None:
            self.plan.fill(list(map(int, kernels)))

    def launch(self, number: int, values: Sequence[Any]) -> None:
        self.get_ready()
        rank = self._ranks[number]
        count = 1
        for low, high in zip(values[:rank], values[rank : 2 * rank]):
            count *= max(int(high) - int(low), 0)
        if count == 0:
            return
        blocks, threads = self._shapes[number].of(count)
        self.plan.launched = True
        self._driver.launch(self._kernels[number], blocks, threads, _filled(self.compiled.frames[number], values))

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before."""
        if self._state is None or not self.plan.launched:
            return
        self.plan.launched = False
        if failure := self._state.take_failure():
            number, words = failure
            raise failed(self.compiled.messages[number], words)

    def finish(self) -> None:
        if self._state is None:
            return
        self._driver.synchronise(self._driver.stream)
        try:
            if self.compiled.messages:
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
