"""The host's part of kernels for GPUs as machine code, and the services that it calls back for (targets/llvm/emit_host.py)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from quadrants.ir.nodes import Module
from quadrants.records import Record
from quadrants.targets.device.failures import note
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.device_graphs import GraphDriver, GraphLaunches
from quadrants.targets.llvm.elf import undefined_symbols
from quadrants.targets.llvm.emit_host import EPOCH, Shapes, emit_host

__all__ = ["Epochs", "NativeLaunch", "Plan", "Services", "StreamOrder", "compiled"]


class Addressed(Protocol):
    """Memory of the device."""

    address: int
    size: int


class NativeLaunch(Record):
    """How machine code launches a kernel: LLVM text that defines `qd_launch` (emit_host.py), the same for kernels that are graphs,
    with `qd_graph_end` (device_graphs.py), and the addresses of what they call beside `void qd_device_failed(i32 code)`, after which it gives back `NOTED`.
    `order` tells how it has streams wait."""

    text: str
    graph_text: str
    symbols: dict[str, int]
    graphs: GraphDriver
    order: Callable[[], StreamOrder]


class StreamOrder(Record):
    """How machine code has streams wait for one another: where the number of the stream stands that is launched to, the context,
    an event, and the addresses of functions that take a context, record an event, and wait for one."""

    stream: int
    context: int
    event: int
    enter: int
    record: int
    wait: int


class Epochs:
    """When the host waited for all that was launched. Each wait begins an epoch: what another thread launches meanwhile is not among
    what was waited for."""

    def __init__(self) -> None:
        # The present epoch, which machine code reads, and the last one that was waited for.
        self._words = (ctypes.c_uint64 * 2)(1, 0)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    @property
    def present(self) -> int:
        return self._words[0]

    def begin(self) -> int:
        """Before a wait: gives the epoch that ends."""
        ending = self._words[0]
        self._words[0] = ending + 1
        return ending

    def end(self, epoch: int) -> None:
        """Behind a wait: all launches of that epoch, and of those before, have run."""
        self._words[1] = max(self._words[1], epoch)

    def is_under_way(self, epoch: int) -> bool:
        """Whether a launch of an epoch may not have run."""
        return epoch > self._words[1]


class Plan:
    """What the host's part of one kernel reads and writes (emit_host.py): the epoch of its last launch, the memory of temporary
    arrays, and the driver's kernels."""

    def __init__(self, arrays: int, tasks: int, epochs: Epochs) -> None:
        self._epochs = epochs
        self._words = (ctypes.c_uint64 * (2 + 2 * arrays + tasks))()
        self._first = 2 + 2 * arrays
        self._memory: dict[int, list[Addressed | None]] = {}

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    @property
    def launched(self) -> bool:
        """Whether the kernel was launched since the host last waited for all, or since this was made False."""
        return self._epochs.is_under_way(self._words[0])

    @launched.setter
    def launched(self, value: bool) -> None:
        self._words[0] = self._epochs.present if value else 0

    def fill(self, kernels: Sequence[int]) -> None:
        """Notes the driver's kernels."""
        self._words[self._first :] = list(kernels)

    def provide(self, stream: int, number: int, size: int, allocate: Callable[[int], Addressed]) -> int:
        """Memory for a temporary array of the runs in a stream; gives its address. MemoryError."""
        if stream != self._words[1]:
            self._words[1] = stream
            for k, memory in enumerate(self._of(stream)):
                self._note(k, memory)
        held = self._of(stream)
        if size > self._words[3 + 2 * number]:
            self._note(number, None)
            held[number] = None
            held[number] = memory = allocate(size)
            self._note(number, memory)
        return self._words[2 + 2 * number]

    def _of(self, stream: int) -> list[Addressed | None]:
        return self._memory.setdefault(stream, [None] * (self._first // 2 - 1))

    def _note(self, number: int, memory: Addressed | None) -> None:
        self._words[2 + 2 * number] = 0 if memory is None else memory.address
        self._words[3 + 2 * number] = 0 if memory is None else memory.size

    def drop(self) -> None:
        """Gives the memory back; nothing that was launched with it may be running any more."""
        self._memory.clear()
        for k in range(self._first // 2 - 1):
            self._note(k, None)


class Caller(Protocol):
    """The device that machine code calls back."""

    def provide(self, plan: Plan, number: int, size: int) -> int: ...

    def read(self, address: int, size: int) -> bytes: ...

    def error_of(self, code: int) -> Exception: ...


class Services:
    """The functions that machine code calls, for one device. What they raise is noted."""

    def __init__(self, device: Caller) -> None:
        self._device = device
        self.plans: weakref.WeakValueDictionary[int, Plan] = weakref.WeakValueDictionary()
        """The plans of the kernels, by their addresses."""
        self.graphs: weakref.WeakValueDictionary[int, GraphLaunches] = weakref.WeakValueDictionary()
        """The graphs of those that are launched so, by theirs."""
        self._kept: list[Any] = []
        self.epochs = Epochs()
        self.symbols = {
            EPOCH: self.epochs.address,
            "qd_device_read": self.exported(self._read, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64),
            "qd_device_allocate": self.exported(self._allocate, *[ctypes.c_int64] * 3),
            "qd_graph_note": self.exported(
                self._note, *[ctypes.c_int64] * 3, *[ctypes.c_int32] * 3, *[ctypes.c_int64] * 2
            ),
            "qd_graph_wait": self.exported(self._wait, ctypes.c_int64),
            "qd_graph_finish": self.exported(self._finish, ctypes.c_int64),
            "qd_device_failed": self._kept_alive(ctypes.CFUNCTYPE(None, ctypes.c_int32)(self._failed)),
        }

    def provide(
        self,
        plan: Plan,
        stream: int,
        number: int,
        size: int,
        allocate: Callable[[int], Addressed],
        wait: Callable[[], object],
    ) -> int:
        """Memory for a temporary array; where there is none left, the other kernels have to do without theirs. `wait`: until
        nothing reaches that any more."""
        try:
            return plan.provide(stream, number, size, allocate)
        except MemoryError:
            wait()
            for other in tuple(self.plans.values()):
                if other is not plan:
                    other.drop()
            return plan.provide(stream, number, size, allocate)

    def exported(self, function: Callable[..., object], *types: Any) -> int:
        """The address of a function for machine code, with a `ptr code` in front of its arguments: 0 is written there once it is done.

        Machine code presets `NOTED`. What a function for C gives back cannot tell: an interrupt that Python handles at the first
        instruction, in front of any `try`, leaves ctypes with nothing to give."""

        def called(code: int, *given: Any) -> None:
            try:
                function(*given)
            except BaseException as error:  # an interrupt, too: it is raised when the machine code is left
                note(error)
            else:
                ctypes.c_int32.from_address(code).value = 0

        return self._kept_alive(ctypes.CFUNCTYPE(None, ctypes.c_int64, *types)(called))

    def _kept_alive(self, made: Any) -> int:
        self._kept.append(made)
        address = ctypes.cast(made, ctypes.c_void_p).value
        assert address is not None
        return address

    def _read(self, to: int, address: int, size: int) -> None:
        ctypes.memmove(to, self._device.read(address, size), size)

    def _allocate(self, plan: int, number: int, size: int) -> None:
        self._device.provide(self.plans[plan], number, size)

    def _note(
        self, graph: int, number: int, kernel: int, blocks: int, threads: int, asked: int, frame: int, size: int
    ) -> None:
        self.graphs[graph].note(number, kernel, blocks, threads, asked, ctypes.string_at(frame, size))

    def _wait(self, graph: int) -> None:
        self.graphs[graph].wait()

    def _finish(self, graph: int) -> None:
        self.graphs[graph].finish()

    def _failed(self, code: int) -> None:
        try:
            note(self._device.error_of(code))
        except BaseException as error:  # as above
            note(error)


def compiled(
    module: Module,
    launched: Sequence[tuple[Task, Frame]],
    launch_text: str,
    has_loops: bool | None,
    shapes: Shapes,
    level: int,
    verify: bool,
) -> tuple[tuple[tuple[str, bytes], ...], str, tuple[str, ...]]:
    """The host's part of a kernel: objects, entry, externals. `launch_text`, `has_loops`: how it launches (emit_host.py)."""
    from quadrants.targets.llvm.x64 import target as x64

    machine = x64.host_machine()
    header = optimise.header(machine)
    made = emit_host(module, launched, x64.record(), header, launch_text, shapes, has_loops)
    content = optimise.compile_text(made.text, machine, min(level, 1), verify)
    return ((made.entry, content),), made.entry, tuple(sorted(undefined_symbols(content)))
