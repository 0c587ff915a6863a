"""What a device offers to the host's part of a kernel: memory, and tasks that it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType
from quadrants.records import Record
from quadrants.targets.device.tasks import Task
from quadrants.targets.device.timing import Span

__all__ = ["Device", "DeviceArray", "HostCode", "HostText", "Memory", "Room", "Runnable"]


class Memory(Protocol):
    """Bytes of the device; given back when nothing refers to them."""

    size: int

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Copies bytes of the host there, behind everything launched before."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Waits for everything launched before, and copies bytes from there."""
        ...

    def read_into(self, offset: int, place: memoryview) -> None:
        """As `read`, straight to a place of the host, as many bytes as that has."""
        ...


class DeviceArray(Record):
    """An array in a device's memory: the byte at which its first element lies, its sizes and its strides in bytes."""

    type: ArrayType
    memory: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Runnable(Protocol):
    """A kernel's tasks, ready to run."""

    def launch(self, number: int, values: Sequence[Any]) -> None:
        """Runs a task behind all launched before: `values` are its parameters', numbers and DeviceArrays. It may return
        before the task is done. QuadrantsAssertionError and its kinds for a check that failed in this or an earlier task."""
        ...

    def finish(self) -> None:
        """Prints what the tasks printed; the errors of `launch`. Waits until all tasks are done, where any of them prints or
        checks."""
        ...


class HostText(Record):
    """The host's part of a kernel as machine code for any process: objects, entry and externals as an Artifact has them."""

    objects: tuple[tuple[str, bytes], ...]
    entry: str
    externals: tuple[str, ...]


class HostCode(HostText):
    """The same for this process. It takes frames whose arrays lie on the device.

    symbols: the addresses of what only this kernel's code calls.
    speaks: whether its tasks print or check, or runs of it have to be made one at a time: then Python stands around each. An entry that gives something other than 0 has noted an error (failures.py).
    """

    symbols: Mapping[str, int]
    device: Any
    tasks: LaunchableCode
    speaks: bool


class LaunchableCode(Protocol):
    """Tasks that machine code launches; `code` is what of them can be kept (TaskCode)."""

    code: Any

    def report(self, module: Module | None) -> list[str]:
        """How the launches are made, in words; `module`: the kernel, where it was compiled in this process."""
        ...

    def finish(self) -> None:
        """As `Runnable` has it."""
        ...

    def get_ready(self) -> None:
        """To be called in front of the first launch."""
        ...


class Room(Protocol):
    """What gives memory."""

    def allocate(self, size: int) -> Memory:
        """New memory, its content undefined. MemoryError where there is none."""
        ...


class Device(Room, Protocol):
    """One device: all kernels that run on it get the same object, for blocks of memory stay with it.

    `patience`: how often a kernel's host's part is interpreted before machine code is made of it; `staging`: memory for copies of
    arrays that are not ours, for one launch each."""

    @property
    def staging(self) -> Room: ...

    patience: int

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> Runnable:
        """Compiles tasks; `module` has the functions that they call."""
        ...

    def host_code(
        self, module: Module, tasks: Sequence[Task], prepared: Any, options: knobs.Options
    ) -> HostCode | None:
        """The host's part of a kernel whose tasks were prepared, as machine code; None where the device has to be launched
        from Python."""
        ...

    def measure(self) -> Span:
        """Begins to measure what is launched from now on."""
        ...
