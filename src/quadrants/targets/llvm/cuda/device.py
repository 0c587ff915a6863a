"""NVIDIA's GPUs as the host's part of kernels sees them: launched as all GPUs of LLVM's are, with PTX that the driver assembles."""

from __future__ import annotations

from collections.abc import Sequence
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
    """NVIDIA's driver, or what takes its place; `sm` is the GPU's number, `device` its memory and launches (`device_of`)."""

    sm: int
    device: LaunchDevice


def device_of(driver: LaunchDriver, sm: int) -> LaunchDevice:
    """The device of a driver whose GPU has that number."""

    def compiled(module: Module, tasks: Sequence[Task], options: knobs.Options) -> CompiledTasks:
        return compile_tasks(module, tasks, generation(sm), 2 if options.opt_level else 0, options.verify)

    device = LaunchDevice(driver, compiled)
    device.dlpack_device = (CUDA, 0)
    return device
