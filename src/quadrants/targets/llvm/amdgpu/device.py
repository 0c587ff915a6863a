"""AMD's GPUs as the host's part of kernels sees them: launched as CUDA's tasks are, compiled to code objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quadrants.ir.nodes import Module
from quadrants.targets.device.interface import Device
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.amdgpu.compile import Compiled, compile_tasks, supported
from quadrants.targets.llvm.cuda.device import LaunchDevice, LaunchDriver

__all__ = ["AmdDevice", "Driver"]


class Driver(Protocol):
    """AMD's driver, or what takes its place; `processor` is the GPU's name (`gfx942:sramecc+:xnack-`)."""

    processor: str

    def device(self, level: int, verify: bool) -> Device:
        """The device of one kernel, whose code is made at an optimisation level, and verified if asked for."""
        ...


class AmdDevice(LaunchDevice):
    """The device of one kernel on a driver."""

    def __init__(self, driver: LaunchDriver, processor: str, level: int = 2, verify: bool = False) -> None:
        super().__init__(driver)
        self._processor = supported(processor)
        self._level, self._verify = level, verify

    def compile(self, module: Module, tasks: Sequence[Task]) -> Compiled:
        """Compiles tasks and the functions that they call to a code object."""
        return compile_tasks(module, tasks, self._processor, self._level, self._verify)
