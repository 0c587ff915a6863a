"""Algorithms on whole fields and arrays: `qd.algorithms`. What has a `scratch` is called at a kernel's top level."""

from __future__ import annotations

from quadrants.library.in_kernels import (
    exclusive_scan_add,
    exclusive_scan_max,
    exclusive_scan_min,
    exclusive_scan_scratch_slots,
    reduce_add,
    reduce_by_key_add,
    reduce_by_key_scratch_slots,
    reduce_max,
    reduce_min,
    reduce_scratch_slots,
    select,
    select_scratch_slots,
    sort,
    sort_scratch_slots,
)
from quadrants.library.prefix_sum import PrefixSumExecutor
from quadrants.library.sort import parallel_sort

__all__ = [
    "PrefixSumExecutor",
    "exclusive_scan_add",
    "exclusive_scan_max",
    "exclusive_scan_min",
    "exclusive_scan_scratch_slots",
    "parallel_sort",
    "reduce_add",
    "reduce_by_key_add",
    "reduce_by_key_scratch_slots",
    "reduce_max",
    "reduce_min",
    "reduce_scratch_slots",
    "select",
    "select_scratch_slots",
    "sort",
    "sort_scratch_slots",
]
