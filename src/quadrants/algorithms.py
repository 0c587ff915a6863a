"""Algorithms on whole fields and arrays: `qd.algorithms`."""

from __future__ import annotations

from quadrants.library.prefix_sum import PrefixSumExecutor
from quadrants.library.sort import parallel_sort

__all__ = ["PrefixSumExecutor", "parallel_sort"]
