"""The simulated device: a host that launches tasks on memory apart from its own, where the interpreter runs them.

It shows, on any machine, what targets with a device rely on: which values the host has, what is copied, in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsInternalError
from quadrants.ir import evaluate as ev
from quadrants.ir.interpret import prepare
from quadrants.ir.nodes import Function, Module, walk
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.targets import reference
from quadrants.targets.capability import CapabilityRecord, Facts
from quadrants.targets.device.host import HostProgram
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.tasks import Task
from quadrants.targets.device.timing import WallSpan
from quadrants.targets.simulated.profiles import PLAIN

__all__ = ["RECORD", "build", "device", "facts", "playing", "record"]

RECORD = PLAIN
_played: CapabilityRecord = RECORD


class _Memory:
    def __init__(self, size: int) -> None:
        self.size = size
        self.content = np.full(size, 0xA5, np.uint8)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self.content[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size].tobytes()

    def read_into(self, offset: int, place: memoryview) -> None:
        place[:] = self.read(offset, len(place))


class _Tasks:
    """Tasks run by the interpreter, at once; `debug`: its own checks are made."""

    def __init__(self, module: Module, tasks: Sequence[Task], debug: bool) -> None:
        self._runs = [prepare(_module_of(task, module), debug=debug) for task in tasks]

    def launch(self, number: int, values: Sequence[Any]) -> None:
        self._runs[number]([_in_memory(value) if type(value) is DeviceArray else value for value in values])

    def finish(self) -> None:
        return


class _Device:
    patience = 0

    @property
    def staging(self) -> _Device:
        """Memory costs nothing here."""
        return self

    def allocate(self, size: int) -> _Memory:
        return _Memory(size)

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> _Tasks:
        return _Tasks(module, tasks, options.debug)

    def host_code(self, module: Module, tasks: Sequence[Task], prepared: Any, options: knobs.Options) -> None:
        """The interpreter runs the host's part, too."""

    def measure(self) -> WallSpan:
        return WallSpan(lambda: None)  # nothing is under way when `launch` returns


def record() -> CapabilityRecord:
    """What the reference target can do, on a device; or what the device that is played can do."""
    return _played


@contextmanager
def playing(device_record: CapabilityRecord) -> Iterator[None]:
    """While it is open, the device has what that record says, and no more: kernels are compiled for it."""
    global _played
    before, _played = _played, device_record
    try:
        yield
    finally:
        _played = before


def facts() -> Facts:
    """What users are told of it."""
    return reference.facts()


def build(module: Module, options: knobs.Options) -> HostProgram:
    """A kernel, ready to run. QuadrantsInternalError where tasks need what the record says that the device lacks."""
    program = HostProgram(module, device(), options)
    for task in program.tasks:
        _check(task.function)
    for name, function in module.functions.items():
        if name != module.entry:
            _check(function)
    return program


def _check(function: Function) -> None:
    """Law: what a record lacks is in no task of it: passes that write arithmetic out keep to the record, too."""
    for op in walk(function.body):
        for value in (*op.results, *op.operands):
            if not _played.has_dtype(scalar_of(value.type)):
                raise QuadrantsInternalError(
                    f"{op.kind} in {function.name} needs {scalar_of(value.type)}, which {_played.name} has not"
                )


@lru_cache(maxsize=1)
def device() -> _Device:
    """The device."""
    return _Device()


def _module_of(task: Task, module: Module) -> Module:
    made = Module(task.function.name, module.stage)
    made.functions = {name: function for name, function in module.functions.items() if name != module.entry}
    made.add(task.function)
    return made


def _in_memory(array: DeviceArray) -> np.ndarray[Any, Any]:
    type_: ArrayType = array.type
    held = np.dtype(np.uint16) if type_.scalar.name == "bf16" else ev.held_dtype(type_.scalar)
    return np.ndarray(array.shape, held, array.memory.content, array.offset, array.strides)
