"""`qd.simt.subgroup`: threads side by side, as many as `group_size` says."""

from __future__ import annotations

from typing import Any

from quadrants.lang import ops
from quadrants.lang.simt.declare import declared, family


@declared("subgroup")
def shuffle(value: Any, index: Any) -> Any:
    """The value of the subgroup's member of that number; the thread's own where there is none."""


@declared("subgroup")
def shuffle_up(value: Any, offset: Any) -> Any:
    """The value of the member `offset` before this one; the thread's own where there is none."""


@declared("subgroup")
def shuffle_down(value: Any, offset: Any) -> Any:
    """The value of the member `offset` behind this one; the thread's own where there is none."""


@declared("subgroup")
def shuffle_xor(value: Any, mask: Any) -> Any:
    """The value of the member whose number is this one's xor `mask`; the thread's own where there is none."""


@declared("subgroup")
def broadcast(value: Any, index: Any) -> Any:
    """The value of one member, the same for all."""


@declared("subgroup")
def broadcast_first(value: Any) -> Any:
    """The value of the first member."""


@declared("subgroup")
def invocation_id() -> Any:
    """The thread's number in its subgroup, from 0."""


@declared("subgroup")
def group_size() -> Any:
    """How many threads a subgroup has, known at compile time."""


@declared("subgroup")
def log2_group_size() -> Any:
    """The logarithm of `group_size` to base 2."""


@declared("subgroup")
def elect() -> Any:
    """Whether this is the first member."""


@declared("subgroup")
def sync() -> None:
    """Waits until all members are here; what they wrote is seen by all."""


@declared("subgroup")
def mem_fence() -> None:
    """What this thread wrote is seen by its subgroup before what it writes from here on."""


@declared("subgroup")
def ballot(predicate: Any) -> Any:
    """A bit for each member, set where the predicate holds: u32, or u64 for subgroups of 64."""


@declared("subgroup")
def any_true(predicate: Any) -> Any:
    """Whether the predicate holds in some member."""


@declared("subgroup")
def all_true(predicate: Any) -> Any:
    """Whether the predicate holds in all members."""


@declared("subgroup")
def all_equal(value: Any) -> Any:
    """Whether the value is the same in all members."""


@declared("subgroup")
def lanemask_lt() -> Any:
    """The bits of the members before this one."""


@declared("subgroup")
def lanemask_le() -> Any:
    """The bits of the members up to and with this one."""


@declared("subgroup")
def lanemask_eq() -> Any:
    """The bit of this member."""


@declared("subgroup")
def lanemask_gt() -> Any:
    """The bits of the members behind this one."""


@declared("subgroup")
def lanemask_ge() -> Any:
    """The bits of this member and those behind it."""


def ballot_first_n(predicate: Any, n: Any) -> Any:
    """The bits of `ballot` of the first `n` members."""
    return ballot(predicate and invocation_id() < n)


barrier, memory_barrier, ballot_full_subgroup = sync, mem_fence, ballot  # older names


def bitonic_sort_kv(key: Any, value: Any) -> tuple[Any, Any]:
    """The pairs of the members in ascending order of their keys, one a member; all members are there."""
    size = 2
    while size <= group_size():
        partner = size // 2
        while partner > 0:
            other_key, other_value = shuffle_xor(key, partner), shuffle_xor(value, partner)
            low, up = invocation_id() & partner == 0, invocation_id() & size == 0
            takes = other_key < key if low == up else key < other_key
            key, value = ops.select(takes, other_key, key), ops.select(takes, other_value, value)
            partner //= 2
        size *= 2
    return key, value


def _combining(value: Any) -> Any: ...


def _combining_tiled(value: Any, log2_size: int) -> Any: ...


globals().update(family("subgroup", _combining))
globals().update(
    family("subgroup", _combining_tiled, "_tiled", " Of parts of the subgroup, 2 ** log2_size members each.")
)

__all__ = [
    "all_equal",
    "all_true",
    "any_true",
    "ballot",
    "ballot_first_n",
    "ballot_full_subgroup",
    "barrier",
    "bitonic_sort_kv",
    "broadcast",
    "broadcast_first",
    "elect",
    "group_size",
    "invocation_id",
    "lanemask_eq",
    "lanemask_ge",
    "lanemask_gt",
    "lanemask_le",
    "lanemask_lt",
    "log2_group_size",
    "mem_fence",
    "memory_barrier",
    "shuffle",
    "shuffle_down",
    "shuffle_up",
    "shuffle_xor",
    "sync",
]
