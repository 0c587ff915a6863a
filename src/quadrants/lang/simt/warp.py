"""`qd.simt.warp`: the older names for what a subgroup does. `mask`, the members that take part, is taken for all of them:
members under a condition of their own are refused where subgroups meet."""

from __future__ import annotations

from typing import Any

from quadrants.lang.simt import subgroup

__all__ = [
    "all_nonzero",
    "any_nonzero",
    "ballot",
    "shfl_down_f32",
    "shfl_down_i32",
    "shfl_sync_f32",
    "shfl_sync_i32",
    "shfl_up_f32",
    "shfl_up_i32",
    "shfl_xor_i32",
    "sync",
    "unique",
]


def all_nonzero(mask: Any, predicate: Any) -> Any:
    """Whether the predicate holds in all members."""
    return subgroup.all_true(predicate != 0)


def any_nonzero(mask: Any, predicate: Any) -> Any:
    """Whether the predicate holds in some member."""
    return subgroup.any_true(predicate != 0)


def unique(mask: Any, predicate: Any) -> Any:
    """Whether the predicate is the same in all members."""
    return subgroup.all_equal(predicate)


def ballot(predicate: Any) -> Any:
    """A bit for each member, set where the predicate holds."""
    return subgroup.ballot(predicate != 0)


def shfl_sync_i32(mask: Any, val: Any, offset: Any) -> Any:
    """The value of the member of that number."""
    return subgroup.shuffle(val, offset)


def shfl_up_i32(mask: Any, val: Any, offset: Any) -> Any:
    """The value of the member `offset` before this one."""
    return subgroup.shuffle_up(val, offset)


def shfl_down_i32(mask: Any, val: Any, offset: Any) -> Any:
    """The value of the member `offset` behind this one."""
    return subgroup.shuffle_down(val, offset)


def shfl_xor_i32(mask: Any, val: Any, offset: Any) -> Any:
    """The value of the member whose number is this one's xor `offset`."""
    return subgroup.shuffle_xor(val, offset)


shfl_sync_f32, shfl_up_f32, shfl_down_f32 = shfl_sync_i32, shfl_up_i32, shfl_down_i32


def sync(mask: Any) -> None:
    """Waits until all members are here."""
    subgroup.sync()
