"""AMD's GPUs as the host's part of kernels sees them: launched as all GPUs of LLVM's are, with code objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.targets.device.interface import Device
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.amdgpu.compile import Compiled, compile_tasks, supported
from quadrants.targets.llvm.device_driver import LaunchDriver
from quadrants.targets.llvm.device_launches import LaunchDevice

__all__ = ["Driver", "device_of"]


class Driver(Protocol):
    """AMD's driver, or what takes its place; `processor` is the GPU's name (`gfx942:sramecc+:xnack-`), `device` its memory and
    launches."""

    processor: str

    @property
    def device(self) -> Device: ...


def device_of(driver: LaunchDriver, processor: str) -> LaunchDevice:
    """The device of a driver whose GPU has that name."""

    def compiled(module: Module, tasks: Sequence[Task], options: knobs.Options) -> Compiled:
        level = 2 if options.opt_level else 0
        return compile_tasks(module, tasks, supported(processor), level, options.verify)

    return LaunchDevice(driver, compiled)
