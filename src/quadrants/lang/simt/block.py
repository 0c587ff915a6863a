"""`qd.simt.block`: the threads of one block, and the memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants.lang import atomics, math, ops
from quadrants.lang import types as dtypes
from quadrants.lang.loops import static
from quadrants.lang.simt import subgroup
from quadrants.lang.simt.absent import lacking
from quadrants.lang.simt.declare import declared, family
from quadrants.lang.types import Template

if TYPE_CHECKING:
    _Static = Any
else:
    _Static = Template


@declared("block")
def sync() -> None:
    """Waits until all threads of the block are here; what they wrote is seen by all."""


@declared("block")
def sync_all_nonzero(predicate: Any) -> Any:
    """`sync`; 1 if the predicate holds in all threads of the block, else 0."""


@declared("block")
def sync_any_nonzero(predicate: Any) -> Any:
    """`sync`; 1 if the predicate holds in some thread of the block, else 0."""


@declared("block")
def sync_count_nonzero(predicate: Any) -> Any:
    """`sync`; in how many threads of the block the predicate holds."""


@declared("block")
def mem_fence() -> None:
    """What this thread wrote is seen by its block before what it writes from here on."""


@declared("block")
def thread_idx() -> Any:
    """The thread's number in its block, from 0."""


@declared("block")
def global_thread_idx() -> Any:
    """The thread's number among those of all blocks of the loop, from 0."""


@declared("block")
def SharedArray(shape: Any, dtype: Any) -> Any:
    """Memory that the threads of a block share, undefined at first: sizes known at compile time, elements numbers, vectors
    or matrices."""


def _combining(value: Any, block_dim: int, dtype: Any = None) -> Any: ...


_FAMILIES = family("block", _combining)
globals().update(_FAMILIES)
_exclusive_add = _FAMILIES["exclusive_add"]


def __dir__() -> list[str]:
    return sorted({*__all__, *_FAMILIES})


__getattr__ = lacking("block")


def inclusive_scan(value: Any, block_dim: _Static, op: Any, dtype: Any) -> Any:
    """The values of the block's threads up to and with this one, combined by the function `op`, which is associative."""
    combined = SharedArray(block_dim, dtype)
    thread = thread_idx()
    combined[thread] = value
    sync()
    apart = 1
    while apart < block_dim:
        before = combined[thread - apart] if thread >= apart else combined[thread]
        sync()
        if thread >= apart:
            combined[thread] = op(before, combined[thread])
        sync()
        apart *= 2
    found = combined[thread]
    sync()
    return found


def exclusive_scan(value: Any, block_dim: _Static, op: Any, identity: Any, dtype: Any) -> Any:
    """The values of the block's threads before this one, combined by the function `op`; `identity` in the first."""
    combined = SharedArray(block_dim, dtype)
    thread = thread_idx()
    combined[thread] = inclusive_scan(value, block_dim, op, dtype)
    sync()
    found = combined[thread - 1] if thread > 0 else ops.cast(identity, dtype)
    sync()
    return found


def reduce_all(value: Any, block_dim: _Static, op: Any, dtype: Any) -> Any:
    """The values of all threads of the block combined by the function `op`, in their order; every thread gets it."""
    combined = SharedArray(block_dim, dtype)
    combined[thread_idx()] = inclusive_scan(value, block_dim, op, dtype)
    found = combined[sync_count_nonzero(True) - 1]
    sync()
    return found


reduce = reduce_all


def radix_rank_match_atomic_or(digit: Any, block_dim: _Static, radix_bits: _Static) -> Any:
    """The thread's place (i32) among the block's threads in ascending order of their digits, each of `radix_bits` bits;
    of equal digits the thread before comes first. So `shared[rank] = key` sorts the block's keys by one digit.

    The members of a subgroup with equal digits find one another by an atomic or into a word a digit; what subgroups
    before and smaller digits have is added up from the words' counts.
    """
    subgroups = static((block_dim + subgroup.group_size() - 1) // subgroup.group_size())
    words = static(subgroups << radix_bits)
    matches = SharedArray(words, dtypes.u64 if static(subgroup.group_size() > 32) else dtypes.u32)
    before = SharedArray(words, dtypes.i32)
    thread, threads = thread_idx(), sync_count_nonzero(True)
    for word in range(thread, words, threads):
        matches[word] = 0
    sync()
    own = digit * subgroups + thread // subgroup.group_size()
    atomics.atomic_or(matches[own], subgroup.lanemask_eq())
    sync()
    each = (words + threads - 1) // threads
    first, end = thread * each, min((thread + 1) * each, words)
    count = ops.cast(0, dtypes.i32)
    for word in range(first, end):
        count += math.popcnt(matches[word])
    place = _exclusive_add(count, block_dim)
    for word in range(first, end):
        before[word] = place
        place += math.popcnt(matches[word])
    sync()
    rank = before[own] + math.popcnt(matches[own] & subgroup.lanemask_lt())
    sync()
    return rank


__all__ = [
    "SharedArray",
    "exclusive_scan",
    "global_thread_idx",
    "inclusive_scan",
    "mem_fence",
    "radix_rank_match_atomic_or",
    "reduce",
    "reduce_all",
    "sync",
    "sync_all_nonzero",
    "sync_any_nonzero",
    "sync_count_nonzero",
    "thread_idx",
]
