"""The devices of this process that run what was launched while the host does something else."""

from __future__ import annotations

import weakref
from typing import Protocol

__all__ = ["add", "synchronise"]


class _Device(Protocol):
    def synchronise(self) -> None: ...


_devices: weakref.WeakSet[_Device] = weakref.WeakSet()


def add(device: _Device) -> None:
    """From now on whoever synchronises waits for that device, too."""
    _devices.add(device)


def synchronise() -> None:
    """Waits until everything launched has run; the errors of what was launched."""
    for device in tuple(_devices):
        device.synchronise()
