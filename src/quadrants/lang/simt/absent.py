"""Names that programs for GPUs are written with elsewhere, and what does their work here: for the errors of those who ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["lacking"]

_SYNC = "qd.simt.block.sync() waits for all threads of the block"
_THREAD = "qd.simt.block.thread_idx() is the thread's number in its block"
_BLOCK = "a block's number is the iteration's, divided by the block's size: `i // 64` with qd.loop_config(block_dim=64)"
_SIZE = "qd.loop_config(block_dim=…) in front of the loop says how many threads a block has"
_SHARED = "qd.simt.block.SharedArray(shape, dtype) is memory that the threads of a block share"
_LANE = "qd.simt.subgroup.invocation_id() is the thread's number in its subgroup"
_WARP = "a subgroup's number is qd.simt.block.thread_idx() // qd.simt.subgroup.group_size()"
_WARP_SIZE = "qd.simt.subgroup.group_size() is how many threads a subgroup has"
_WARP_SYNC = "qd.simt.subgroup.sync() waits for the members of the subgroup that come to it"
_GRID_SYNC = (
    "blocks do not wait for one another: end the loop here, the next one sees what all blocks of this one wrote"
)
_FENCE = "qd.simt.grid.mem_fence() is for all blocks, qd.simt.block.mem_fence() for the threads of one"
_SHUFFLE = "qd.simt.subgroup.shuffle, shuffle_up, shuffle_down and shuffle_xor give values to other members"
_VOTE = "qd.simt.subgroup.ballot, any_true, all_true and all_equal are votes; qd.simt.block.sync_any_nonzero is one of the block"
_ATOMIC = "qd.atomic_add and its like take elements of shared arrays, too"
_COUNT = "qd.math.popcnt, clz and ffs count bits"

_INSTEAD = {
    **dict.fromkeys(("syncthreads", "barrier", "synchronize", "wait", "block_sync"), _SYNC),
    **dict.fromkeys(
        ("sync_threads", "threadgroup_barrier", "workgroup_barrier", "group_barrier", "debug_barrier"), _SYNC
    ),
    **dict.fromkeys(
        ("thread_id", "threadidx", "tid", "local_id", "get_local_id", "thread_rank", "thread_index"), _THREAD
    ),
    **dict.fromkeys(
        ("block_idx", "block_id", "blockidx", "block_index", "group_id", "get_group_id", "program_id"), _BLOCK
    ),
    **dict.fromkeys(
        ("block_dim", "blockdim", "block_size", "local_size", "num_threads", "grid_dim", "griddim", "dim"), _SIZE
    ),
    **dict.fromkeys(("shared", "shared_array", "shared_memory", "array", "local_array", "tile"), _SHARED),
    **dict.fromkeys(("lane_id", "laneid", "lane", "lane_idx", "local_invocation_id"), _LANE),
    **dict.fromkeys(("warp_id", "warpid", "subgroup_id", "warp_idx"), _WARP),
    **dict.fromkeys(("warp_size", "warpsize", "subgroup_size", "size", "num_lanes"), _WARP_SIZE),
    **dict.fromkeys(("syncwarp", "sync_warp", "warp_sync"), _WARP_SYNC),
    **dict.fromkeys(("threadfence", "thread_fence", "fence", "threadfence_block"), _FENCE),
    **dict.fromkeys(
        ("shfl", "shfl_sync", "shfl_up", "shfl_down", "shfl_xor", "shfl_down_sync", "shuffle_sync"), _SHUFFLE
    ),
    **dict.fromkeys(("any", "all", "any_sync", "all_sync", "ballot_sync", "vote", "vote_any", "vote_all"), _VOTE),
    **dict.fromkeys(("activemask",), "qd.simt.subgroup.ballot(True) tells which members are there"),
    **dict.fromkeys(("atomic", "atomic_add", "atomic_cas", "atomic_max", "atomic_min"), _ATOMIC),
    **dict.fromkeys(("popc", "popcnt", "popcount", "clz", "ffs"), _COUNT),
}
_OF_SCOPE = {("grid", "sync"): _GRID_SYNC, ("grid", "barrier"): _GRID_SYNC}


def lacking(scope: str) -> Callable[[str], Any]:
    """The `__getattr__` of the module `qd.simt.<scope>`: AttributeError, with what is meant where the name tells."""

    def refuse(name: str) -> Any:
        instead = _OF_SCOPE.get((scope, name)) or _INSTEAD.get(name.lower())
        hint = f": {instead}" if instead else ""
        raise AttributeError(f"qd.simt.{scope} has no '{name}'{hint}", name=name)

    return refuse
