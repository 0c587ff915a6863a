"""The memory of fields and arrays, for functions of the host that change it by kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.ir.types import ScalarType
from quadrants.lang.interop import as_numpy
from quadrants.lang.storage import Storage
from quadrants.lang.types import scalar_of_numpy

__all__ = ["memory_of"]


def memory_of(array: Any) -> tuple[np.ndarray, ScalarType]:
    """A NumPy array over the memory of a field, ndarray, NumPy array or torch CPU tensor, shape and element shape as
    axes, and the type of its numbers (bf16 comes as uint16). TypeError for anything else."""
    if isinstance(array, Storage):
        return array._host(), array.dtype
    if isinstance(array, np.ndarray) or (hasattr(array, "detach") and array.device.type == "cpu"):
        memory = as_numpy(array)
        if not isinstance(array, np.ndarray) and memory.ctypes.data != array.data_ptr():
            raise TypeError(f"NumPy has no dtype for a tensor of {array.dtype}: it cannot be changed in place")
        if isinstance(array, np.ndarray) and not np.may_share_memory(memory, array):
            raise TypeError(f"an array of dtype {array.dtype} is not in this machine's byte order")
        return memory, scalar_of_numpy(memory.dtype)
    raise TypeError(f"a field, ndarray, NumPy array or torch tensor on the CPU is expected, not {type(array).__name__}")
