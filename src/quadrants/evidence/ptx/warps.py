"""What the lanes of a warp do together: shuffles, votes, matches, reductions.

Law: all lanes that a mask names are at the instruction, but those that have ended: `machine` waits for them, as hardware does.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from quadrants.evidence.ptx.memory import MemoryFault

__all__ = ["WARPS", "WarpError", "table_of"]

Array = Any


class WarpError(MemoryFault):
    """A lane reads one that need not be there."""


_OF_NOBODY = 0xA5A5A5A5
"""What a shuffle gives of a lane that has ended."""


def table_of(blocks: Array, lanes: Array, warps: Array) -> tuple[Array, Array]:
    """(the warp of each thread, by warp and lane the thread's place or -1)."""
    key = blocks.astype(np.int64) << 32 | warps
    _, numbers = np.unique(key, return_inverse=True)
    places = np.full((int(numbers.max()) + 1, 32), -1)
    places[numbers, lanes] = np.arange(len(lanes))
    return numbers, places


def _those(mask: Array, numbers: Array, places: Array) -> Array:
    """The lanes that are there of the masks, one a thread."""
    there = ((places >= 0) << np.arange(32)).sum(axis=1)[numbers]
    return np.broadcast_to(mask, numbers.shape).astype(np.int64) & there


def shuffle(mode: str, a: Array, b: Array, c: Array, mask: Array, *place: Array) -> tuple[Array, Array]:
    """`shfl.sync`: another lane's value, and whether there was one."""
    blocks, lanes, warps = place
    numbers, places = table_of(blocks, lanes, warps)
    _those(mask, numbers, places)
    lane = lanes.astype(np.int64)
    segment, bound = np.int64(c) >> 8 & 31, np.int64(c) & 31
    b = np.asarray(b).astype(np.int64) & 31
    last = (lane & segment) | (bound & ~segment & 31)
    other = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": (lane & segment) | (b & ~segment & 31)}[mode]
    valid = other >= last if mode == "up" else other <= last
    read = np.where(valid, other, lane)
    if (np.broadcast_to(mask, lanes.shape).astype(np.int64) >> read & 1 == 0).any():
        raise WarpError("a shuffle reads a lane that is none of those for which it waits")
    source = places[numbers, read]
    found = np.broadcast_to(a, lanes.shape)[source]
    return np.where(source < 0, found.dtype.type(_OF_NOBODY), found), valid


def ballot(wanted: Array, mask: Array, *place: Array) -> Array:
    """The lanes of the mask for which a condition holds."""
    blocks, lanes, warps = place
    numbers, places = table_of(blocks, lanes, warps)
    masks = _those(mask, numbers, places)
    bits = np.zeros(len(places), np.int64)
    np.bitwise_or.at(bits, numbers, np.where(wanted, np.int64(1) << lanes.astype(np.int64), np.int64(0)))
    return (bits[numbers] & masks).astype(np.uint32)


def vote(kind: str, wanted: Array, mask: Array, *place: Array) -> Array:
    """`vote.sync`: all, any, or uni: all alike."""
    there = ballot(np.ones_like(place[1], np.bool_), mask, *place)
    yes = ballot(np.broadcast_to(wanted, place[1].shape), mask, *place)
    return {"all": yes == there, "any": yes != 0, "uni": (yes == there) | (yes == 0)}[kind]


def _groups(mask: Array, place: tuple[Array, ...]) -> list[tuple[Array, list[int]]]:
    """For each thread the places of the threads in its mask."""
    blocks, lanes, warps = place
    numbers, places = table_of(blocks, lanes, warps)
    masks = _those(mask, numbers, places)
    return [
        (masks[k], [int(at) for lane, at in enumerate(places[numbers[k]]) if at >= 0 and masks[k] >> lane & 1])
        for k in range(len(lanes))
    ]


def match_any(a: Array, mask: Array, *place: Array) -> Array:
    """The lanes that have the same value."""
    lanes = place[1]
    values = np.broadcast_to(a, lanes.shape)
    found = [
        sum(1 << int(lanes[at]) for at in members if values[at] == values[k])
        for k, (_, members) in enumerate(_groups(mask, place))
    ]
    return np.array(found, np.uint32)


def match_all(a: Array, mask: Array, *place: Array) -> tuple[Array, Array]:
    """The mask where all its lanes have one value, else 0; and whether they do."""
    values = np.broadcast_to(a, place[1].shape)
    groups = _groups(mask, place)
    alike = np.array([len({values[at] for at in members}) == 1 for _, members in groups])
    return np.where(alike, np.array([m for m, _ in groups], np.uint32), np.uint32(0)), alike


_REDUCTIONS = {
    "add": lambda x, y: x + y,
    "min": min,
    "max": max,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


def reduction(kind: str, a: Array, mask: Array, *place: Array) -> Array:
    """`redux.sync`."""
    values = np.broadcast_to(a, place[1].shape)
    return np.array([reduce(_REDUCTIONS[kind], [values[at] for at in members]) for _, members in _groups(mask, place)])


WARPS = {function.__name__: function for function in (shuffle, ballot, vote, match_any, match_all, reduction)}
