"""A GPU as the host's part of kernels sees it, on top of a driver that loads modules and launches their kernels.

One driver has one device: blocks of fields and arrays stay in the memory of the device that a kernel first brought them to.

Law: after a failed check no task does anything any more, and the host hears of it before it uses a number from the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.nodes import Module
from quadrants.targets.device import live
from quadrants.targets.device.interface import HostCode, HostText
from quadrants.targets.device.staging import Staging
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.device_driver import LaunchDriver
from quadrants.targets.llvm.device_graphs import LOOP_MARKS, graph_symbols
from quadrants.targets.llvm.device_host import Plan, Services, compiled
from quadrants.targets.llvm.device_tasks import LaunchedTasks, TaskCode, Tasks
from quadrants.targets.llvm.device_timing import DriverSpan
from quadrants.targets.llvm.emit_device import CompiledTasks
from quadrants.targets.llvm.emit_host import PLAN, LaunchShape, temporaries
from quadrants.targets.llvm.emit_threads import block_of
from quadrants.targets.llvm.host_loops import HostLoops

__all__ = ["Compiler", "LaunchDevice"]

_MOST_BLOCKS = (1 << 31) - 1
_MOST_TITLES = 8
_WAVES = 8
"""Blocks of a launch, at most, for each multiprocessor: each thread then takes several iterations."""


Compiler = Callable[[Module, Sequence[Task], knobs.Options], CompiledTasks]
"""Compiles tasks, and the functions of the module that they call."""


class LaunchDevice:
    """The device of one driver; how tasks become what it loads is the target's."""

    patience = 0

    def __init__(self, driver: LaunchDriver, compiler: Compiler) -> None:
        self.driver = driver
        self.dlpack_device: tuple[int, int] | None = None
        """The device as DLPack names it, where other packages can have its memory."""
        self._compiler = compiler
        self.services = Services(self)
        self.staging = Staging(self)
        self.ready: weakref.WeakSet[Tasks] = weakref.WeakSet()
        """The kernels that were loaded."""
        self.checking: weakref.WeakSet[Tasks] = weakref.WeakSet()
        """Those of them that check."""
        live.add(self)

    def allocate(self, size: int) -> _Memory:
        try:
            return _Memory(self, self.driver.allocate(size))
        except MemoryError:
            self.staging.drop()
            return _Memory(self, self.driver.allocate(size))

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> LaunchedTasks:
        compiled_tasks = self._compiler(module, tasks, options)
        place = module.kernel.location
        title = f"{module.entry} ({place.file}:{place.line})" if place is not None else module.entry
        return LaunchedTasks(self, compiled_tasks, tasks, len(temporaries(module)), title)

    def host_code(
        self, module: Module, tasks: Sequence[Task], prepared: LaunchedTasks, options: knobs.Options
    ) -> HostCode | None:
        launch = self.driver.native_launch()
        if launch is None:
            return None
        launched = list(zip(tasks, prepared.frames))
        level = 1 if options.opt_level else 0
        has_loops: bool | None = None
        loops = HostLoops(module)
        if loops.is_graph(False):
            has_loops = False
        elif options.graph_loops and loops.is_graph(True) and launch.graphs.has_loops():
            has_loops = True
        text = launch.text if has_loops is None else launch.graph_text
        objects, entry, externals = compiled(module, launched, text, has_loops, prepared.shapes, level, options.verify)
        return self._over(HostText(objects, entry, externals), prepared)

    def restored(self, text: HostText, code: TaskCode) -> HostCode | None:
        """The host's part of a kernel and its tasks, as they were kept."""
        launch = self.driver.native_launch()
        if launch is None or (not set(LOOP_MARKS).isdisjoint(text.externals) and not launch.graphs.has_loops()):
            return None
        return self._over(text, Tasks(self, code))

    def _over(self, text: HostText, tasks: Tasks) -> HostCode:
        launch = self.driver.native_launch()
        assert launch is not None and tasks.graph is not None
        symbols = {**self.services.symbols, **launch.symbols, PLAN: tasks.plan.address, **graph_symbols(tasks.graph)}
        code = tasks.code
        return HostCode(
            text.objects, text.entry, text.externals, symbols, self, tasks, bool(code.messages or code.prints)
        )

    def measure(self) -> DriverSpan:
        return DriverSpan(self)

    def provide(self, plan: Plan, number: int, size: int) -> int:
        """Memory for a temporary array; where there is none left, the other kernels have to do without theirs."""
        return self.services.provide(plan, self.driver.stream, number, size, self.allocate, self.driver.synchronise)

    def shape(self, task: Task, asked: int) -> LaunchShape:
        """The threads of a task's launches, which ask for so many bytes of shared memory."""
        block = block_of(task)
        blocks = _MOST_BLOCKS if block.whole or block.iterations else self.driver.multiprocessors * _WAVES
        return LaunchShape(block.threads, blocks, block.whole, asked)

    def check(self) -> None:
        """The error of a check that failed; waits for everything launched before, if a check may have failed there."""
        for tasks in tuple(self.checking):
            tasks.check()

    def synchronise(self) -> None:
        """Waits for everything launched before; the error of a check that failed. A GPU that was lost is not asked again."""
        if not self.driver.is_lost:
            epoch = self.services.epochs.begin()
            with self.naming():
                self.driver.synchronise()
            self.check()
            self.services.epochs.end(epoch)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the device, behind everything launched before."""
        data = bytearray(size)
        self.read_into(address, memoryview(data))
        return bytes(data)

    def read_into(self, address: int, place: memoryview) -> None:
        """As `read`, straight to a place of the host."""
        epoch = self.services.epochs.begin()
        if self.checking:
            self.check()
        try:
            self.driver.read_into(address, place)
        except QuadrantsRuntimeError as error:
            raise self.named(error) from None
        self.services.epochs.end(epoch)

    def named(self, error: QuadrantsRuntimeError) -> QuadrantsRuntimeError:
        """An error of the driver's with the kernels that may have caused it: those that were launched since the host last waited."""
        titles = sorted({tasks.title for tasks in tuple(self.ready) if tasks.plan.launched})
        if not titles:
            return error
        shown = ", ".join(titles[:_MOST_TITLES]) + (", …" if len(titles) > _MOST_TITLES else "")
        return QuadrantsRuntimeError(f"{error}\n  launched since the host last waited: {shown}")

    @contextmanager
    def naming(self) -> Iterator[None]:
        """While it is open, errors of the driver's are told so."""
        try:
            yield
        except QuadrantsRuntimeError as error:
            raise self.named(error) from None

    def error_of(self, code: int) -> Exception:
        """What the driver says to a code of its own."""
        return self.driver.error_of(code)


class _Memory:
    """The driver's memory; who reads it hears of checks that failed first."""

    def __init__(self, device: LaunchDevice, memory: Any) -> None:
        self._device, self._memory = device, memory
        self.address: int = memory.address
        self.size: int = memory.size

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._device.driver.write(self.address + offset, data)

    def read(self, offset: int, size: int) -> bytes:
        return self._device.read(self.address + offset, size)

    def read_into(self, offset: int, place: memoryview) -> None:
        self._device.read_into(self.address + offset, place)
