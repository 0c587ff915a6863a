"""The host's part of a kernel: the interpreter on what `offload` left to it, which launches tasks on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.blocks import busy
from quadrants.ir import interpret
from quadrants.ir.nodes import Module, Op
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.targets.device.interface import Device, DeviceArray, HostCode
from quadrants.targets.device.placing import Placement, written_parameters
from quadrants.targets.device.tasks import parallel_loops, task_of
from quadrants.targets.device.timing import measured
from quadrants.targets.frame import from_memory

__all__ = ["HostProgram"]

Environment = interpret.Environment
Step = interpret.Step


class HostProgram:
    """A kernel ready to run on a device: `run` takes what the interpreter takes and gives what it gives."""

    def __init__(self, module: Module, device: Device, options: knobs.Options) -> None:
        loops = parallel_loops(module)
        self.module = module
        self.tasks = [task_of(loop, f"{module.entry}.task.{k}") for k, loop in enumerate(loops)]
        self._device = device
        self._options = options
        self._numbers = {loop: k for k, loop in enumerate(loops)}
        self._tasks = device.prepare(module, self.tasks, options)
        types = [value.type for value in module.kernel.parameters]
        self._arrays = [(k, type_) for k, type_ in enumerate(types) if type(type_) is ArrayType]
        self._written = written_parameters(module)
        self.steps: Mapping[str, Callable[[Any, Op], Step]] = {
            "for": self._for,
            "load": self._load,
            "temporary": self._temporary,
        }
        self.run = interpret.prepare(module, host=self)

    @property
    def patience(self) -> int:
        """How often the kernel is to be interpreted before machine code is made of the host's part."""
        return self._device.patience

    def host_code(self) -> HostCode | None:
        """The host's part as machine code; None where it has to be interpreted."""
        return self._device.host_code(self.module, self.tasks, self._tasks, self._options)

    @contextmanager
    def running(self, bound: list[Any]) -> Iterator[list[Any]]:
        """The arguments with arrays in the device's memory; behind it those written are back in the host's."""
        with busy():
            placement = Placement(self._device, [bound[k] for k, _ in self._arrays], self._device.staging)
            placed = list(bound)
            for (k, _), array in zip(self._arrays, placement.placed([type_ for _, type_ in self._arrays])):
                placed[k] = array
            try:
                with measured(self._device):
                    yield placed
                self._tasks.finish()
            finally:
                placement.take_back([at for at, (k, _) in enumerate(self._arrays) if k in self._written])

    def _for(self, program: Any, op: Op) -> Step:
        if not op.attribute("parallel"):
            return interpret.FOR(program, op)
        number, tasks = self._numbers[op], self._tasks
        operands = self.tasks[number].operands
        rank = op.attribute("rank")
        bounds = list(zip(op.operands[:rank], op.operands[rank : 2 * rank]))

        def run(env: Environment) -> None:
            if all(env[low] < env[high] for low, high in bounds):
                tasks.launch(number, [env[operand] for operand in operands])

        return run

    def _load(self, program: Any, op: Op) -> Step:
        """A number that only the device has."""
        array_value, result = op.operands[0], op.results[0]
        scalar = scalar_of(result.type)

        def run(env: Environment) -> None:
            array: DeviceArray = env[array_value]
            env[result] = from_memory(scalar, array.memory.read(array.offset, scalar.bytes), 0, 1)[0]

        return run

    def _temporary(self, program: Any, op: Op) -> Step:
        condition, *sizes = op.operands
        array_value, there = op.results
        type_ = array_value.type
        assert type(type_) is ArrayType
        room, padding = self._device.staging, int(op.attribute("padding", 0))

        def run(env: Environment) -> None:
            wanted = bool(env[condition])
            shape = tuple([max(int(env[size]), 0) if wanted else 0 for size in sizes])
            strides: list[int] = []
            size_in_bytes = type_.scalar.bytes
            for size in reversed(shape):
                strides.insert(0, size_in_bytes)
                size_in_bytes *= size
            memory = room.allocate(max(size_in_bytes, type_.scalar.bytes) + padding)
            env[array_value] = DeviceArray(type_, memory, 0, shape, tuple(strides))
            env[there] = np.bool_(wanted)

        return run
