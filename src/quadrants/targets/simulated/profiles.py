"""Capability records of targets that are not here, for the simulated device to play: what they refuse, and that nothing
which they lack is left in what they would run, shows on any machine.

What the adapters have is what WebGPU's implementation (wgpu) offers there: no f64 but on Vulkan; integers of 64 bits on all
three. WGSL has no functions beyond arithmetic that are exact enough, so elementary functions are our own.
"""

from __future__ import annotations

from quadrants.ir.types import scalar_types
from quadrants.records import replace
from quadrants.targets import reference
from quadrants.targets.capability import CapabilityRecord

__all__ = ["APART", "D3D12", "METAL", "PLAIN", "PROFILES"]

PLAIN = replace(
    reference.RECORD,
    name="simulated",
    launches=True,
    calls_c=False,
    finds_races=False,
    block_threads=1024,
    subgroup_sizes=(32,),
    shared_memory_bytes=48 * 1024,
    tensor_products=frozenset(["f16", "bf16", "tf32"]),
    asynchronous_copies=True,
)
"""What the reference can do, on a device with memory of its own that runs the threads of blocks at once."""

APART = replace(
    PLAIN,
    block_threads=0,
    subgroup_sizes=(),
    shared_memory_bytes=0,
    tensor_products=frozenset(),
    asynchronous_copies=False,
)
"""A device that runs one thread of a block at a time: block loops are taken apart for it, as for CPUs."""

_WITHOUT_F64 = frozenset(scalar.name for scalar in scalar_types if scalar.name != "f64")

METAL: CapabilityRecord = replace(
    PLAIN,
    name="metal",
    version="simulated-metal-1",
    dtypes=_WITHOUT_F64,
    float_atomics=frozenset(["f32"]),
    fused_multiply_add=True,
    subgroup_sizes=(32,),
    shared_memory_bytes=32 * 1024,
    tensor_products=frozenset(),
    asynchronous_copies=False,
    functions=frozenset(),
)
"""An Apple GPU of the last years."""

D3D12: CapabilityRecord = replace(
    PLAIN,
    name="d3d12",
    version="simulated-d3d12-1",
    dtypes=_WITHOUT_F64,
    float_atomics=frozenset(),
    fused_multiply_add=False,
    subgroup_sizes=(4, 8, 16, 32, 64, 128),
    shared_memory_bytes=32 * 1024,
    tensor_products=frozenset(),
    asynchronous_copies=False,
    functions=frozenset(),
)
"""Windows, shader model 6.6."""

PROFILES: dict[str, CapabilityRecord] = {"metal": METAL, "d3d12": D3D12}
