"""The CUDA target: kernels for NVIDIA's GPUs, as PTX that the driver assembles."""

from __future__ import annotations

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord, Facts
from quadrants.targets.device.host import HostProgram
from quadrants.targets.device.interface import HostCode, HostText
from quadrants.targets.llvm.cuda import compile, drivers
from quadrants.targets.llvm.device_facts import facts_of
from quadrants.targets.llvm.device_launches import LaunchDevice
from quadrants.targets.llvm.device_tasks import TaskCode

__all__ = ["build", "facts", "record", "restored", "shared_device", "surroundings"]


def record() -> CapabilityRecord:
    """The capability record of the process's GPU, which is asked about its warpgroups when a kernel would use them."""
    driver = drivers.current()
    found = compile.record_of(compile.generation(driver.sm), driver.may_warpgroups, driver.shared_memory)
    return replace(found, shared_products=driver.shared_products) if driver.may_warpgroups else found


def facts() -> Facts:
    """What users are told of it."""
    return facts_of(record(), {})


def shared_device() -> LaunchDevice:
    """The device, whose memory other packages may share."""
    return drivers.current().device


def surroundings() -> str:
    """What code that was kept depends on: the GPU's kind, and how many multiprocessors launches are for. Whether its warpgroups
    multiply is asked of it when code is restored that says so: the probe may cost the process its GPU."""
    return f"{record().version}/{drivers.current().multiprocessors}"


def restored(text: HostText, code: TaskCode) -> HostCode | None:
    """A kernel as it was kept, for the process's GPU; None where that does not run it."""
    driver = drivers.current()
    if compile.uses_warpgroups(code.code) and not driver.warpgroups:
        return None
    return driver.device.restored(text, code)


def build(module: Module, options: knobs.Options) -> HostProgram:
    """A kernel, ready to run on the process's GPU."""
    return HostProgram(module, drivers.current().device, options)
