"""Host arrays of other packages: NumPy, torch (imported only when asked for), DLPack."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from quadrants.ir import types as ir_types
from quadrants.ir.types import ScalarType

__all__ = ["as_numpy", "bfloat16_to_torch", "from_gpu", "is_for_gpu", "numpy_dtype", "to_torch"]


def numpy_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of a data type, Python type or NumPy dtype; TypeError if there is none."""
    if isinstance(dtype, ScalarType):
        if dtype.numpy is None:
            raise TypeError(f"NumPy has no dtype for {dtype}")
        return dtype.numpy
    return np.dtype(dtype)


def as_numpy(array: Any) -> np.ndarray:
    """`array` as a NumPy array, without a copy where that is possible: a NumPy array or scalar, a torch tensor (on any
    device, with or without gradient), or what has `__array_interface__`, `__array__` or `__dlpack__`; TypeError else."""
    if isinstance(array, (np.ndarray, np.generic)):
        values = np.asarray(array)
    elif hasattr(array, "detach") and hasattr(array, "cpu"):
        values = _torch_values(array.detach().cpu())
    elif hasattr(array, "__array_interface__") or hasattr(array, "__array__"):
        values = np.asarray(array)
    elif hasattr(array, "__dlpack__"):
        values = np.from_dlpack(array)
    else:
        raise TypeError(f"a NumPy array or torch tensor is expected, not {type(array).__name__}")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise TypeError(f"arrays of dtype {values.dtype} are not supported")
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _torch_values(tensor: Any) -> np.ndarray:
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()
    return tensor.resolve_neg().numpy()


def to_torch(view: np.ndarray, scalar: ScalarType, device: Any, copy: bool | None) -> Any:
    """A torch tensor of `view`: over the same memory if `copy` is None or False and `device` is the CPU or None.

    ValueError if `copy` is False and the device is another one, or torch has no such dtype; ImportError without torch.
    """
    try:
        tensor = _torch().from_numpy(view)
    except TypeError as error:
        raise ValueError(f"Zero-copy not available for dtype={scalar}: {error}") from None
    return _on_device(tensor, device, copy)


def bfloat16_to_torch(bits: np.ndarray, device: Any, copy: bool | None) -> Any:
    """A torch.bfloat16 tensor of bf16 bit patterns; see `to_torch`."""
    torch = _torch()
    return _on_device(torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16), device, copy)


def _torch() -> Any:
    return importlib.import_module("torch")


def _on_device(tensor: Any, device: Any, copy: bool | None) -> Any:
    moved = tensor if device is None else tensor.to(device)
    if moved is not tensor:
        if copy is False:
            raise ValueError(f"copy=False cannot move host memory to device {device}")
        return moved
    return tensor.clone() if copy else tensor


def is_for_gpu(device: Any) -> bool:
    """Whether torch can have an array on a GPU, and one is asked for; with None it is wherever the memory is."""
    torch = _torch()
    return bool(torch.cuda.is_available()) and (device is None or torch.device(device).type == "cuda")


def from_gpu(storage: Any, device: Any, copy: bool | None) -> Any:
    """A torch tensor of a storage's memory on the GPU; as `to_torch`."""
    return _on_device(_torch().from_dlpack(storage), device, copy)


_TORCH_NAMES: dict[str, ScalarType] = {
    "bfloat16": ir_types.bf16,
    **{scalar.numpy.name: scalar for scalar in ir_types.scalar_types if scalar.numpy is not None},
}
