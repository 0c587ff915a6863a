"""Prefix sums, by kernels: sums of chunks, their prefix sums, then every chunk for itself (G. E. Blelloch, "Prefix Sums
and Their Applications", 1990)."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.lang.kernel import kernel
from quadrants.lang.loops import loop_config
from quadrants.library.arrays import memory_of

__all__ = ["PrefixSumExecutor"]

_LEAST_CHUNK = 4096
_MOST_CHUNKS = 64


class PrefixSumExecutor:
    """Prefix sums of fields and arrays of `length` numbers along one axis; ValueError for a length below 1."""

    def __init__(self, length: int) -> None:
        if length < 1:
            raise ValueError(f"a prefix sum takes at least one number, not {length}")
        self._length = int(length)
        self._chunk = max(_LEAST_CHUNK, -(-self._length // _MOST_CHUNKS))

    def run(self, field: Any) -> None:
        """Replace every element of a field, ndarray or array by the sum of itself and all before it, in the element's
        own type: integers wrap, floats are summed in f64 and rounded once each. The same bits with any number of
        threads. ValueError for another shape than (length,), TypeError for u1 and bf16 and what is no array on the CPU.
        """
        memory, scalar = memory_of(field)
        if memory.shape != (self._length,):
            raise ValueError(f"this prefix sum is for shape ({self._length},), not {memory.shape}")
        if scalar.numpy is None or scalar.bits == 1:
            raise TypeError(f"there is no prefix sum of {scalar}")
        totals = np.zeros(-(-self._length // self._chunk), np.float64 if scalar.is_float else memory.dtype)
        _prefix_sum(memory, totals, np.int64(self._chunk))


@kernel
def _prefix_sum(numbers: Any, totals: Any, chunk: Any) -> None:
    n, chunks = len(numbers), len(totals)
    for c in range(chunks):
        total = totals[c] * 0
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            total += numbers[i]
        totals[c] = total
    before = totals[0] * 0
    loop_config(serialize=True)
    for c in range(chunks):
        found = totals[c]
        totals[c] = before
        before += found
    for c in range(chunks):
        total = totals[c]
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            total += numbers[i]
            numbers[i] = total
