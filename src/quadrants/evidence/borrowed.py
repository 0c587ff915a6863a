"""Metal and D3D12 without their systems: their targets' shaders on a driver of Vulkan that has no more than they have.

It shows that programs get along without what these lack. Of the code that Metal or D3D12 run, which wgpu makes of the same
shaders, it shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quadrants.targets.webgpu.adapters import find_adapter
from quadrants.targets.webgpu.device import CHOICES, WebDevice, open_device

__all__ = ["LIMITS", "borrowed"]

LIMITS: Mapping[str, int] = {"max-storage-buffers-per-shader-stage": 8, "max-storage-buffer-binding-size": 1 << 27}
"""What every adapter has."""

_LACKING = frozenset(["shader-f64"])


class _Adapter:
    """An adapter of Vulkan by another interface's name."""

    def __init__(self, adapter: Any, backend: str) -> None:
        self._adapter = adapter
        self.features = frozenset(adapter.features) - _LACKING
        self.info = {**adapter.info, "backend_type": backend, "device": f"{adapter.info['device']} in its place"}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)


@contextmanager
def borrowed(backend: str) -> Iterator[WebDevice]:
    """While it is open, the target of that interface runs on a driver of Vulkan. QuadrantsRuntimeError where there is none."""
    device = open_device(LIMITS, backend, _Adapter(find_adapter("Vulkan"), backend))
    with CHOICES[backend].using(device):
        yield device
