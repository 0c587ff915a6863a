"""The GPUs that `wgpu` finds, by the interface of the system that they are driven by."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from quadrants.errors import QuadrantsRuntimeError

__all__ = ["BACKENDS", "absent", "find_adapter"]

BACKENDS: dict[str, tuple[str, str]] = {
    "Vulkan": ("", ""),
    "Metal": ("darwin", "macOS"),
    "D3D12": ("win32", "Windows"),
}
"""The interfaces by wgpu's names for them; the system that alone has one, as `sys.platform` and as people call it."""

_KINDS = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")


def absent(backend: str) -> str:
    """What is missing before any driver is asked for; '' for nothing."""
    platform, system = BACKENDS[backend]
    if platform and sys.platform != platform:
        return f"there is no {backend} on this system: it is a part of {system}"
    if importlib.util.find_spec("wgpu") is None:
        return "the package wgpu is not installed: pip install 'quadrants[gpu]'"
    return ""


def find_adapter(backend: str) -> Any:
    """The fastest GPU that is driven by that interface. QuadrantsRuntimeError where there is none."""
    wgpu: Any = importlib.import_module("wgpu")
    why = ""
    try:
        usual = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        if usual.info["backend_type"] == backend:
            return usual
        found = [adapter for adapter in wgpu.gpu.enumerate_adapters_sync() if adapter.info["backend_type"] == backend]
        if found:
            return min(found, key=_rank)
    except Exception as error:  # whatever the driver's loader says is the reason that the user is told
        why = f" ({str(error).splitlines()[0]})"
    raise QuadrantsRuntimeError(f"no driver of {backend} was found{why}")


def _rank(adapter: Any) -> int:
    kind = adapter.info["adapter_type"]
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
