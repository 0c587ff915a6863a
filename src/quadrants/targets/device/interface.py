"""What a device offers to the host's part of a kernel: memory, and tasks that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType
from quadrants.records import Record
from quadrants.targets.device.tasks import Task

__all__ = ["Device", "DeviceArray", "Memory", "Room", "Runnable"]


class Memory(Protocol):
    """Bytes of the device; given back when nothing refers to them."""

    size: int

    def write(self, offset: int, data: bytes) -> None:
        """Copies bytes of the host there, behind everything launched before."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """Waits for everything launched before, and copies bytes from there."""
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


class Room(Protocol):
    """What gives memory."""

    def allocate(self, size: int) -> Memory:
        """New memory, its content undefined. MemoryError where there is none."""
        ...


class Device(Room, Protocol):
    """One device: all kernels that run on it get the same object, for blocks of memory stay with it."""

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> Runnable:
        """Compiles tasks; `module` has the functions that they call."""
        ...
