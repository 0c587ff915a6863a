"""A GPU as the host's part of kernels sees it, on top of a driver: NVIDIA's, or one that plays it.

Law: after a failed check no task does anything any more, and the host hears of it before it uses a number from the device.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.targets.artifact import Message, PrintFormat, decode_prints
from quadrants.targets.device.failures import failed as failed_check
from quadrants.targets.device.interface import DeviceArray, Memory
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame
from quadrants.targets.llvm.cuda.compile import compile_tasks, generation
from quadrants.targets.llvm.cuda.words import BLOCK
from quadrants.targets.llvm.device_state import RECORDS, STATE, state_image

__all__ = ["CudaDevice", "Driver", "LaunchDevice", "LaunchDriver", "Loaded"]

_PRINT_BYTES = 1 << 20
_unchecked: WeakKeyDictionary[Any, set[_Tasks]] = WeakKeyDictionary()
"""By driver the kernels that may have failed a check since the host last asked them."""
_WAVES = 8
"""Blocks of a launch, at most, for each multiprocessor: each thread then takes several iterations."""


class Loaded(Protocol):
    """A module in the driver's hands."""

    def kernel(self, name: str) -> Any:
        """One of its kernels."""
        ...

    def variable(self, name: str) -> int | None:
        """The address of one of its variables, None where there is none of that name."""
        ...


class CompiledTasks(Protocol):
    """A kernel's tasks, compiled: what the driver loads, their symbols, their frames, what message and print ids stand for."""

    @property
    def code(self) -> Any: ...
    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def frames(self) -> tuple[Frame, ...]: ...
    @property
    def messages(self) -> dict[int, Message]: ...
    @property
    def prints(self) -> dict[int, PrintFormat]: ...


class LaunchDriver(Protocol):
    """What a driver does for us. Launches run in order; memory has an `address`."""

    multiprocessors: int

    def allocate(self, size: int) -> Any:
        """Memory (device/interface.py), with its `address`. MemoryError where there is none."""
        ...

    def load(self, code: Any, /) -> Loaded:
        """Makes a module ready to run: the `code` of compiled tasks."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copies bytes of the host to an address, behind everything launched before."""
        ...

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes) -> None:
        """Launches a kernel whose one parameter are those bytes; it may return before the kernel is done."""
        ...

    def synchronise(self) -> None:
        """Waits for everything launched before; an error where something went wrong there."""
        ...


class Driver(LaunchDriver, Protocol):
    """A driver of NVIDIA's."""

    sm: int


class LaunchDevice:
    """The device of one driver; subclasses compile."""

    def __init__(self, driver: LaunchDriver) -> None:
        self._driver = driver

    def compile(self, module: Module, tasks: Sequence[Task]) -> CompiledTasks:
        """Compiles tasks and the functions that they call."""
        raise NotImplementedError

    def allocate(self, size: int) -> Memory:
        return _Memory(self._driver, self._driver.allocate(size))

    def prepare(self, module: Module, tasks: Sequence[Task]) -> _Tasks:
        return _Tasks(self._driver, self.compile(module, tasks), [_loop_rank(task) for task in tasks])


class _Memory:
    """The driver's memory; who reads it hears of checks that failed first."""

    def __init__(self, driver: LaunchDriver, memory: Any) -> None:
        self._driver, self._memory = driver, memory
        self.address: int = memory.address
        self.size: int = memory.size

    def write(self, offset: int, data: bytes) -> None:
        self._memory.write(offset, data)

    def read(self, offset: int, size: int) -> bytes:
        for tasks in tuple(_unchecked.get(self._driver, ())):
            tasks.check()
        return self._memory.read(offset, size)


class CudaDevice(LaunchDevice):
    """The device of one driver of NVIDIA's."""

    def __init__(self, driver: Driver, level: int = 2, verify: bool = False) -> None:
        super().__init__(driver)
        self._sm = driver.sm
        self._level, self._verify = level, verify

    def compile(self, module: Module, tasks: Sequence[Task]) -> CompiledTasks:
        """Compiles tasks and the functions that they call to PTX."""
        return compile_tasks(module, tasks, generation(self._sm), self._level, self._verify)


def _loop_rank(task: Task) -> int:
    return task.loop.attribute("rank")


class _Tasks:
    """A kernel's tasks, assembled when first launched."""

    def __init__(self, driver: LaunchDriver, compiled: CompiledTasks, ranks: list[int]) -> None:
        self.compiled = compiled
        self._driver = driver
        self._ranks = ranks
        self._kernels: list[Any] = []
        self._state: Any = None

    def _load(self) -> None:
        loaded = self._driver.load(self.compiled.code)
        self._kernels = [loaded.kernel(symbol) for symbol in self.compiled.symbols]
        variable = loaded.variable(STATE)
        if variable is not None and (self.compiled.messages or self.compiled.prints):
            room = _PRINT_BYTES if self.compiled.prints else 0
            self._state = self._driver.allocate(RECORDS + room)
            self._state.write(0, state_image(room))
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
            _unchecked.setdefault(self._driver, set()).add(self)
        self._driver.launch(self._kernels[number], blocks, threads, _filled(self.compiled.frames[number], values))

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before."""
        _unchecked.get(self._driver, set()).discard(self)
        if self._state is None or not self.compiled.messages:
            return
        failed, number, count = struct.unpack_from("<ixxxxqq", self._state.read(0, 24))
        if failed:
            words = struct.unpack_from(f"<{count}q", self._state.read(24, 8 * count))
            self._state.write(0, bytes(24))
            raise failed_check(self.compiled.messages[number], words)

    def finish(self) -> None:
        self._driver.synchronise()
        try:
            self.check()
        finally:
            self._print()

    def _print(self) -> None:
        if self._state is None or not self.compiled.prints:
            return
        asked, cut, room = struct.unpack("<qqq", self._state.read(288, 24))
        if not asked:
            return
        used = asked if asked <= room else cut
        self._state.write(288, bytes(16))
        text = "".join(decode_prints(self._state.read(RECORDS, used), self.compiled.prints))
        if used < asked:
            text += f"[Quadrants] {asked - used} bytes of what a kernel printed are lost: there is room for {room}\n"
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
            data = _in_memory(type_, value)
            made[offset : offset + len(data)] = data
    return bytes(made)


def _in_memory(scalar: ScalarType, value: Any) -> bytes:
    if scalar.name == "bf16":
        return (np.float32(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    if scalar.bits == 1:
        return bytes([bool(value)])
    return np.asarray(value).tobytes()
