"""Targets whose hardware is not here, played by software of ours: for tests and evidence."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from quadrants.knobs import Arch
from quadrants.targets import table

__all__ = ["EMULATED", "PROCESSOR", "SM", "emulation", "missing"]

EMULATED = (Arch.cuda, Arch.amdgpu, Arch.metal, Arch.d3d12)
"""CUDA's PTX is executed by an interpreter; code for AMD's GPUs is made and linked, and then tasks run by the IR's interpreter;
the shaders of Metal and D3D12 run on a driver of Vulkan without what those lack."""
_BACKENDS = {Arch.metal: "Metal", Arch.d3d12: "D3D12"}

SM = 80
PROCESSOR = "gfx942"


def emulation(
    arch: Arch, always: bool = False, sm: int = SM, processor: str = PROCESSOR
) -> AbstractContextManager[Any]:
    """While the context is open, what plays a target's hardware is its driver, if the hardware is not here, or `always`.
    Gives that driver, which notes the code that was made; None where nothing is played."""
    if arch not in EMULATED or not (always or table.missing(arch)):
        return nullcontext()
    if arch is Arch.cuda:
        from quadrants.evidence.ptx.driver import played

        return played(sm)
    if arch in _BACKENDS:
        from quadrants.evidence.borrowed import borrowed

        return nullcontext() if table.missing(Arch.vulkan) else borrowed(_BACKENDS[arch])
    from quadrants.evidence.amdgpu.driver import assembled
    from quadrants.targets.llvm.amdgpu import lld

    return nullcontext() if lld.missing() else assembled(processor)


def missing(arch: Arch) -> str:
    """What a target lacks on this machine, its hardware apart where that can be played; '' for nothing."""
    with emulation(arch):
        return table.missing(arch)
