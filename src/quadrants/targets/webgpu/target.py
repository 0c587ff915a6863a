"""The targets that run WGSL on any GPU that `wgpu` finds a driver for: Vulkan, Metal and D3D12."""

from __future__ import annotations

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.targets.capability import IEEE, CapabilityRecord, Facts
from quadrants.targets.device.host import HostProgram
from quadrants.targets.webgpu.device import CHOICES
from quadrants.targets.webgpu.emit import WORKGROUP
from quadrants.targets.webgpu.probe import Driver

__all__ = ["D3D12", "METAL", "VULKAN", "WebTarget"]

VERSION = "1"
_TASK_OPERATIONS = 800
"""Measured with Mesa's software driver: 700 operations of arithmetic and memory take it a second, four times as many ten."""


def _atomics(driver: Driver) -> dict[str, str]:
    """How updates that meet are done."""
    loops = "loops of compare and exchange"
    wide = "32 and 64" if driver.updates_wide else "32"
    return {
        "integers": f"instructions of {wide} bits, else {loops}, as for extremes of integers with a sign",
        "sums of floats": f"instructions for f32, else {loops}" if driver.adds_floats else loops,
        "extremes and products of floats": loops,
    }


class WebTarget:
    """The target of one interface of systems to GPUs: the code is the same, what GPUs have by it is not."""

    def __init__(self, name: str, backend: str) -> None:
        self._name = name
        self._choice = CHOICES[backend]

    def record(self) -> CapabilityRecord:
        """What the GPU can do."""
        found = self._choice.current()
        dtypes = {"u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32"}
        if "shader-f64" in found.features:
            dtypes.add("f64")
        info = found.adapter.info
        return CapabilityRecord(
            name=self._name,
            version=f"webgpu-{VERSION}/{info['backend_type']}/{info['device']}/{info['description']}",
            dtypes=frozenset(dtypes),
            launches=True,
            task_operations=_TASK_OPERATIONS,
            float_atomics=frozenset(["f32"] if found.driver.adds_floats else []),
            subgroup_sizes=(found.driver.subgroup,) if found.driver.subgroup else (),
            team_barriers=False,
            block_fences=False,
            block_threads=found.device.limits["max-compute-invocations-per-workgroup"],
            shared_memory_bytes=found.device.limits["max-compute-workgroup-storage-size"],
            threads=False,
            fused_multiply_add="f32" in found.driver.fused,
        )

    def facts(self) -> Facts:
        """What users are told of it: WGSL promises less of floats than the drivers keep that kernels have been run on."""
        found = self._choice.current()
        floats = dict(IEEE)
        if not found.driver.fused:
            floats["contraction"] = "never: the driver rounds products on their own"
        if found.driver.opaque:
            floats["NaN"] = floats["signed zeros"] = (
                "kept, by hiding every result from a driver that takes floats for real numbers"
            )
        else:
            floats["NaN"] = "kept as far as the driver keeps it: WGSL does not promise it"
            floats["denormals"] = "kept as far as the driver keeps them: WGSL does not promise it"
        limits = {
            "bytes of a piece of memory": found.heap.span,
            "threads of a workgroup": WORKGROUP,
            "bindings": found.most_bindings,
        }
        info = found.adapter.info
        toolchain = {"wgpu": found.wgpu.__version__, "device": info["device"], "driver": info["description"]}
        return Facts(floats, _atomics(found.driver), limits, toolchain)

    def missing(self) -> str:
        """Why there is no such GPU here; '' where there is one."""
        return self._choice.missing()

    def build(self, module: Module, options: knobs.Options) -> HostProgram:
        """A kernel, ready to run."""
        return HostProgram(module, self._choice.current(), options)


VULKAN = WebTarget("vulkan", "Vulkan")
METAL = WebTarget("metal", "Metal")
D3D12 = WebTarget("d3d12", "D3D12")
