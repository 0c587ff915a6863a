"""NVIDIA's GPUs as the host's part of kernels sees them: launched as all GPUs of LLVM's are, with PTX that the driver assembles."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.targets.device.dlpack import CUDA
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.cuda.compile import compile_tasks, generation
from quadrants.targets.llvm.device_driver import LaunchDriver
from quadrants.targets.llvm.device_launches import LaunchDevice
from quadrants.targets.llvm.emit_device import CompiledTasks

__all__ = ["Driver", "device_of"]


class Driver(LaunchDriver, Protocol):
    """NVIDIA's driver, or what takes its place; `sm` is the GPU's number, `shared_memory` the bytes that a block of its shares at most, `device` its
    memory and launches (`device_of`)."""

    sm: int
    shared_memory: int
    device: LaunchDevice
    shared_products: Container[str]

    @property
    def may_warpgroups(self) -> bool:
        """Whether `warpgroups` may be true, without asking the GPU."""
        ...

    @property
    def knows_warpgroups(self) -> bool:
        """Whether `warpgroups` is known to be true: code that has them multiply was compiled behind that."""
        ...

    @property
    def warpgroups(self) -> bool:
        """Whether its warpgroups multiply matrices in shared memory, and did so rightly (probe.py)."""
        ...


def device_of(driver: Driver, sm: int) -> LaunchDevice:
    """The device of a driver whose GPU has that number."""

    def compiled(module: Module, tasks: Sequence[Task], options: knobs.Options) -> CompiledTasks:
        level = 2 if options.opt_level else 0
        return compile_tasks(module, tasks, generation(sm), level, options.verify, driver.knows_warpgroups)

    device = LaunchDevice(driver, compiled)
    device.dlpack_device = (CUDA, 0)
    return device
