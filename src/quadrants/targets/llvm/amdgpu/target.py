"""The AMDGPU target: kernels for AMD's GPUs, as code objects that HIP loads."""

from __future__ import annotations

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Module
from quadrants.targets.capability import CapabilityRecord, Facts
from quadrants.targets.device.host import HostProgram
from quadrants.targets.llvm.amdgpu import compile, drivers, lld
from quadrants.targets.llvm.device_facts import facts_of

__all__ = ["build", "facts", "record"]


def record() -> CapabilityRecord:
    """The capability record of the process's GPU."""
    try:
        return compile.record_of(compile.supported(drivers.current().processor))
    except ValueError as error:
        raise QuadrantsUnsupportedError(f"AMD's GPUs cannot be used: {error}") from None


def facts() -> Facts:
    """What users are told of it."""
    return facts_of(record(), {"linker": lld.find()})


def build(module: Module, options: knobs.Options) -> HostProgram:
    """A kernel, ready to run on the process's GPU."""
    return HostProgram(module, drivers.current().device, options)
