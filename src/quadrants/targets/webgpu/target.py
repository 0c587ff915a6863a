"""The Vulkan target: WGSL for any GPU that `wgpu` finds a driver for."""

from __future__ import annotations

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Module
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.host import HostProgram
from quadrants.targets.webgpu.device import device

__all__ = ["build", "missing", "record"]

VERSION = "1"


def record() -> CapabilityRecord:
    """What the GPU can do."""
    found = device()
    dtypes = {"u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32"}
    if "shader-f64" in found.features:
        dtypes.add("f64")
    info = found.adapter.info
    return CapabilityRecord(
        name="vulkan",
        version=f"webgpu-{VERSION}/{info['device']}/{info['description']}",
        dtypes=frozenset(dtypes),
        launches=True,
        threads=False,
        functions_take_buffers=True,
        fused_multiply_add="f32" in found.driver.fused,
    )


def missing() -> str:
    """Why there is no such GPU here; '' where there is one."""
    try:
        device()
    except QuadrantsUnsupportedError as error:
        return str(error)
    return ""


def build(module: Module, options: knobs.Options) -> HostProgram:
    """A kernel, ready to run."""
    return HostProgram(module, device())
