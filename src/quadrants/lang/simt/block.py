"""`qd.simt.block`: the threads of one block, and the memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants.lang import ops
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


globals().update(family("block", _combining))


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

__all__ = [
    "SharedArray",
    "exclusive_scan",
    "global_thread_idx",
    "inclusive_scan",
    "mem_fence",
    "reduce",
    "reduce_all",
    "sync",
    "sync_all_nonzero",
    "sync_any_nonzero",
    "sync_count_nonzero",
    "thread_idx",
]
