"""`qd.simt.warp`: the older names for what a subgroup does. `mask` has the bits of the members that take part; those of
them that are not there count for nothing, and members that are not in it get values without a meaning."""

from __future__ import annotations

from typing import Any

from quadrants.lang.simt import subgroup
from quadrants.lang.simt.absent import lacking

__all__ = [
    "active_mask",
    "all_nonzero",
    "any_nonzero",
    "ballot",
    "match_all",
    "match_any",
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


def __dir__() -> list[str]:
    return __all__


__getattr__ = lacking("warp")


def active_mask() -> Any:
    """The bits of the members that are there."""
    return subgroup.ballot(True)


def all_nonzero(mask: Any, predicate: Any) -> Any:
    """Whether the predicate holds in all members of the mask."""
    return subgroup.ballot(predicate == 0) & mask == 0


def any_nonzero(mask: Any, predicate: Any) -> Any:
    """Whether the predicate holds in some member of the mask."""
    return subgroup.ballot(predicate != 0) & mask != 0


def unique(mask: Any, predicate: Any) -> Any:
    """Whether the predicate is the same in all members of the mask."""
    there, holds = active_mask() & mask, subgroup.ballot(predicate != 0) & mask
    return holds == 0 or holds == there


def ballot(predicate: Any) -> Any:
    """A bit for each member, set where the predicate holds."""
    return subgroup.ballot(predicate != 0)


def match_any(mask: Any, value: Any) -> Any:
    """The bits of the mask's members that have this member's value."""
    there = active_mask() & mask
    same = there & 0
    for member in range(subgroup.group_size()):
        if subgroup.shuffle(value, member) == value:
            same |= there & (there & 0 | 1) << member
    return same


def match_all(mask: Any, value: Any) -> Any:
    """The bits of the mask's members that are there if all have one value, else 0."""
    there = active_mask() & mask
    return there if match_any(mask, value) == there else there & 0


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
    """Waits until the members are here."""
    subgroup.sync()
