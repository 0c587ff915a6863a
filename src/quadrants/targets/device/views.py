"""Arrays of other packages that lie on a GPU, as kernels take them.

Three protocols are known: torch's tensors by their methods, `__cuda_array_interface__` (CuPy, Numba), and DLPack. A kernel is
launched in our stream: it waits for what the array's owner launched before, and where the owner says in which stream
it works, that waits for the kernel.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeTypeError
from quadrants.ir.types import ScalarType, parse_type, scalar_of_numpy
from quadrants.targets import table
from quadrants.targets.device.dlpack import CPU, CUDA, Taken, dense, exchange_of, take

__all__ = ["DeviceView", "driver_stream", "is_foreign", "sharing_device", "view_of"]

_DEFAULT_STREAM = 1
"""The default stream as the protocols name it; 0 is none of their names for it."""


class DeviceView(np.ndarray):
    """An array whose memory is a device's: shape, strides and address are what NumPy has of it, its elements are out of reach.

    scalar: what its elements are (bf16 is none of NumPy's types); `source` is the array as its owner has it; `keep` holds the memory;
    `stream`: where its owner works, None where nobody knows."""

    scalar: ScalarType
    source: Any
    keep: Any
    stream: int | None
    address: int

    def __repr__(self) -> str:
        return f"<an array of {self.scalar} of shape {self.shape} on a GPU>"

    __str__ = __repr__


def is_foreign(value: Any) -> bool:
    """Whether an object of another package may be an array on a GPU."""
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(kind, "_array_type"):
        return False
    if hasattr(kind, "data_ptr"):
        return value.device.type != "cpu"
    return hasattr(value, "__cuda_array_interface__") or hasattr(kind, "__dlpack_device__")


def sharing_device() -> Any:
    """The device of the present target, where its memory may be other packages', too; else None."""
    device = getattr(table.find(knobs.current.arch), "shared_device", None)
    return None if device is None else device()


def view_of(value: Any, error: Callable[[str], Exception] = QuadrantsRuntimeTypeError) -> np.ndarray:
    """An array of another package; a NumPy array where it lies in the host's memory. What `error` makes for one that the present
    target cannot reach."""
    kind = type(value)
    if hasattr(kind, "data_ptr"):
        shown = f"a torch tensor on {value.device}"
        _fitting(_place_of_torch(value), error, shown)
        if value.is_neg():
            raise error(f"{shown} of which torch has only noted that it is negated: pass .resolve_neg()")
        return _made(value, _of_torch(value), _stream_of_torch(value), error, shown)
    if hasattr(value, "__cuda_array_interface__"):
        described = value.__cuda_array_interface__
        shown = f"an array of {kind.__name__} on a GPU"
        return _made(value, _of_interface(described, value), described.get("stream"), error, shown)
    place = tuple(map(int, value.__dlpack_device__()))
    if place[0] == CPU:
        return np.from_dlpack(value)
    shown = f"an array of {kind.__name__} on a device of DLPack's kind {place[0]}"
    device = _fitting(place, error, shown)
    ours = device.driver.stream or _DEFAULT_STREAM
    exchange = exchange_of(kind, kind)
    stream = None if exchange is None else exchange.stream(place)
    return _made(value, take(value.__dlpack__(stream=ours)), stream, error, shown)


def _of_torch(tensor: Any) -> Taken:
    try:
        scalar: Any = parse_type(_TORCH.get(str(tensor.dtype).removeprefix("torch."), "none"))
    except ValueError:
        scalar = None
    size = tensor.element_size()
    strides = tuple(stride * size for stride in tensor.stride())
    return Taken(tensor.data_ptr(), scalar, tuple(tensor.shape), strides, _place_of_torch(tensor), False, tensor)


def _place_of_torch(tensor: Any) -> tuple[int, int]:
    return CUDA if tensor.device.type == "cuda" else 0, tensor.device.index or 0


_TORCH = {
    "bool": "u1",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}


def _stream_of_torch(tensor: Any) -> int:
    torch: Any = sys.modules["torch"]
    return int(torch.cuda.current_stream(tensor.device).cuda_stream) or _DEFAULT_STREAM


def _of_interface(described: dict[str, Any], value: Any) -> Taken:
    dtype = np.dtype(described["typestr"])
    shape = tuple(described["shape"])
    address, read_only = described["data"]
    strides = described.get("strides") or dense(shape, dtype.itemsize)
    if described.get("mask") is not None:
        raise QuadrantsRuntimeTypeError("a masked array on a GPU, whose mask a kernel would not see")
    return Taken(address or 0, scalar_of_numpy(dtype), shape, tuple(strides), (CUDA, 0), bool(read_only), value)


def _fitting(place: tuple[int, ...], error: Callable[[str], Exception], shown: str) -> Any:
    device = sharing_device()
    if device is None or device.dlpack_device != place:
        there = f"{knobs.current.arch.name if knobs.current.arch is not None else 'CPU'} kernels"
        if device is not None and device.dlpack_device[0] == place[0]:
            raise error(f"{shown} cannot be used: kernels run on the GPU number {device.dlpack_device[1]}")
        raise error(f"{shown} cannot be used by {there}: copy it to the host (.cpu()), or choose qd.init(arch=qd.cuda)")
    return device


def _made(source: Any, taken: Taken, stream: int | None, error: Callable[[str], Exception], shown: str) -> DeviceView:
    device = _fitting(taken.device, error, shown)
    if taken.scalar is None:
        raise error(f"{shown} has elements of a type that kernels do not have")
    held = np.dtype(np.uint16) if taken.scalar.numpy is None else taken.scalar.numpy
    reach = [(size - 1) * stride for size, stride in zip(taken.shape, taken.strides)]
    below = 0 if 0 in taken.shape else -sum(step for step in reach if step < 0)
    above = 0 if 0 in taken.shape else sum(step for step in reach if step > 0) + held.itemsize
    memory: Any = (ctypes.c_char * max(below + above, 1)).from_address(taken.address - below)
    made = np.ndarray.__new__(DeviceView, taken.shape, held, memory, below, taken.strides)
    made.scalar, made.address = taken.scalar, taken.address
    made.source, made.keep, made.stream = source, taken.keep, stream
    made.flags.writeable = not taken.is_read_only
    if stream is not None:
        device.driver.order(driver_stream(stream), device.driver.stream)
    return made


def driver_stream(stream: int) -> int:
    """A stream by the driver's number for it."""
    return 0 if stream == _DEFAULT_STREAM else stream
