"""Memory of fields and ndarrays on a GPU, given to other packages without a copy: DLPack, and CUDA's interface for arrays.

From then on the GPU's memory is what counts: the host asks for it anew whenever it looks, and what the host writes goes there at
once. Whoever takes it is promised that its stream waits for what kernels were launched before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants import blocks
from quadrants.targets.device import dlpack
from quadrants.targets.device.views import driver_stream, sharing_device

if TYPE_CHECKING:
    from quadrants.lang.storage import Storage

__all__ = ["array_interface", "capsule", "device_of", "place_of"]


def device_of() -> Any:
    """The device whose memory is shared; None where fields and ndarrays lie in the host's."""
    return sharing_device()


def place_of(device: Any) -> tuple[int, int]:
    """What `__dlpack_device__` gives."""
    assert device.dlpack_device is not None
    return device.dlpack_device


def _shared(storage: Storage, view: np.ndarray, device: Any) -> tuple[int, Any]:
    """The address of a storage's first element on the device, and what holds the memory."""
    start = view.ctypes.data
    block = blocks.holding(start, start)
    assert block is not None, "storage lies in blocks"
    copy = block.share(device)
    return copy.address + start - block.start, copy


def capsule(
    storage: Storage,
    view: np.ndarray,
    device: Any,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """What `__dlpack__` gives, with its parameters. BufferError for what cannot be had without a copy."""
    if dl_device is not None and tuple(dl_device) != device.dlpack_device:
        raise BufferError(f"the memory is on the device {device.dlpack_device} of DLPack: ask for a copy, to_numpy()")
    if copy:
        raise BufferError("the memory is given without a copy: copy what you get, or ask for to_numpy()")
    address, keep = _shared(storage, view, device)
    if stream != -1:
        device.driver.order(device.driver.stream, driver_stream(1 if stream is None else stream))
    versioned = max_version is not None and max_version[0] >= 1
    return dlpack.give(address, storage._scalar, view.shape, view.strides, device.dlpack_device, keep, versioned)


def array_interface(storage: Storage, view: np.ndarray, device: Any) -> dict[str, Any]:
    """What `__cuda_array_interface__` gives; the stream is the one that kernels are launched to."""
    address, _ = _shared(storage, view, device)
    return {
        "shape": view.shape,
        "typestr": view.dtype.str,
        "data": (address, False),
        "strides": view.strides,
        "version": 3,
        "stream": device.driver.stream or 1,
    }
