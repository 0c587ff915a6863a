"""`qd.simt.subgroup`: threads side by side, as many as `group_size` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants import knobs
from quadrants.lang import math, ops
from quadrants.lang.simt.absent import lacking
from quadrants.lang.simt.declare import declared, family, older
from quadrants.lang.types import Template

if TYPE_CHECKING:
    _Static = Any
else:
    _Static = Template


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
    """The value of the first member that is there."""


@declared("subgroup")
def invocation_id() -> Any:
    """The thread's number in its subgroup, from 0."""


@declared("subgroup", on_host=True)
def group_size() -> int:
    """How many threads a subgroup has, known at compile time; on the host, too (`qd.init(subgroup_size=…)`)."""
    return knobs.current.subgroup_size


@declared("subgroup", on_host=True)
def log2_group_size() -> int:
    """The logarithm of `group_size` to base 2."""
    return group_size().bit_length() - 1


@declared("subgroup")
def _part_size(log2_size: int) -> Any:
    """2 ** log2_size, which is at most `group_size`; known at compile time."""


@declared("subgroup")
def elect() -> Any:
    """Whether this is the first member that is there: so of those who ask together, one is."""


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
    """Whether the value is the same in all members that are there."""


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


barrier = older("subgroup", "barrier", sync)
memory_barrier = older("subgroup", "memory_barrier", mem_fence)
ballot_full_subgroup = older("subgroup", "ballot_full_subgroup", ballot)


def bitonic_sort_kv(key: Any, value: Any) -> tuple[Any, Any]:
    """The pairs of the members in ascending order of their keys, one a member; all members are there."""
    return _sorted(key, value, group_size())


def bitonic_sort_kv_tiled(key: Any, value: Any, log2_size: _Static) -> tuple[Any, Any]:
    """The same for each part of the subgroup, 2 ** log2_size members each."""
    return _sorted(key, value, _part_size(log2_size))


def _sorted(key: Any, value: Any, count: _Static) -> tuple[Any, Any]:
    """Batcher's network: runs of pairs in ascending and descending order are merged into runs twice as long."""
    member = invocation_id() % count
    size = 2
    while size <= count:
        partner = size // 2
        while partner > 0:
            other_key, other_value = shuffle_xor(key, partner), shuffle_xor(value, partner)
            low, up = member & partner == 0, member & size == 0
            takes = other_key < key if low == up else key < other_key
            key, value = ops.select(takes, other_key, key), ops.select(takes, other_value, value)
            partner //= 2
        size *= 2
    return key, value


def _segment_total(value: Any, head: Any, log2_size: _Static, combine: Any) -> Any:
    """The values of the members of this member's segment, combined in their order; members that are not there count for
    nothing. A segment starts where `head` holds, and with each part of 2 ** log2_size members."""
    size = _part_size(log2_size)
    start = invocation_id() // size * size
    there, heads = ballot(True), ballot(head)
    mine = math.popcnt((heads & lanemask_le()) >> (start + 1))
    segment, found, total = 0, False, value
    for member in range(start, start + size):
        if member > start:
            segment += (heads >> member) & 1
        other = shuffle(value, member)
        if segment == mine and (there >> member) & 1 == 1:
            total = combine(total, other) if found else other
            found = True
    return total


def _segmented(by: str, combine: Any) -> dict[str, Any]:
    """`segmented_reduce_<by>` and its form for parts of a subgroup."""

    def whole(value: Any, head: Any) -> Any:
        return _segment_total(value, head, log2_group_size(), combine)

    def tiled(value: Any, head: Any, log2_size: _Static) -> Any:
        return _segment_total(value, head, log2_size, combine)

    text = (
        f"The values of a segment's members combined by {by}, in their order; every member gets it. A segment starts "
    )
    whole.__doc__ = text + "where `head` holds, and with the subgroup."
    tiled.__doc__ = text + "where `head` holds, and with each part of the subgroup, 2 ** log2_size members each."
    functions = {f"segmented_reduce_{by}": whole, f"segmented_reduce_{by}_tiled": tiled}
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
    return functions


def _added(a: Any, b: Any) -> Any:
    return a + b


def _multiplied(a: Any, b: Any) -> Any:
    return a * b


def _and(a: Any, b: Any) -> Any:
    return a & b


def _or(a: Any, b: Any) -> Any:
    return a | b


def _xor(a: Any, b: Any) -> Any:
    return a ^ b


_BY = {"add": _added, "mul": _multiplied, "min": ops.min, "max": ops.max, "and": _and, "or": _or, "xor": _xor}


def _combining(value: Any) -> Any: ...


def _combining_tiled(value: Any, log2_size: int) -> Any: ...


_FAMILIES = family("subgroup", _combining)
_FAMILIES |= family("subgroup", _combining_tiled, "_tiled", " Of parts of the subgroup, 2 ** log2_size members each.")
for _by, _combine in _BY.items():
    _FAMILIES |= _segmented(_by, _combine)
globals().update(_FAMILIES)


def __dir__() -> list[str]:
    return sorted({*__all__, *_FAMILIES})


__getattr__ = lacking("subgroup")


__all__ = [
    "all_equal",
    "all_true",
    "any_true",
    "ballot",
    "ballot_first_n",
    "ballot_full_subgroup",
    "barrier",
    "bitonic_sort_kv",
    "bitonic_sort_kv_tiled",
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
