"""Block loops: loops whose iterations run as the threads of blocks.

A `for` at a kernel's top level is a block loop where something in it, or in a function called there, is done by the threads
of a block together. Its iterations, in row-major order, are cut into blocks of `block_dim` (of its `config`); the last
block has as many threads as are left. Threads of a block that stand side by side, `width` at a time, are a team: a
subgroup, a part of one, or (width 0) the whole block.

What a team combines is combined in halves: what a team comes to is what its lower half comes to, combined with what its
upper half does, and so on down to single threads; what a thread of the upper half comes to up to itself is the lower half's,
combined with its own in the upper half. The halves are those of `width` threads, of a block those of the next power of two;
who is not there is left out. So the same bits come out whatever number of threads the hardware has side by side.

That is how users write them. For a target that runs the threads of a block at once, a loop takes the native form, in every
stage: a *grid loop* over the numbers of the blocks (a `for` at the kernel's top level, or in loops in order there, of rank 1 that
gives nothing, `parallel` once loops are decided), with one *threads loop* in its body (a `for` from 0 to the block's threads with the
attribute `threads`, the most that a block has, a constant), whose iterations run at once and may meet; the counter is the
thread's number.
    Laws. The grid loop's body beside the threads loop is the same for all threads: each may do it again, so that it writes
nothing but slots, which every thread has for itself, and draws no random numbers. The block's memory is made there (`shared`), and
is undefined at first in each block. Nothing leaves the threads loop but `continue`, which ends the thread. Threads of blocks
stand in the kernel: what they call does not meet. A meeting of a block is one that all of the threads that have not
ended come to. Memory that threads reach both, `shared` or not, is in order at barriers only: at a `barrier` for the
block's threads, at a `team_barrier` for the team's members that come to it together. What gives values, a shuffle or a
reduction, of the block's, too, orders nothing: hardware hands values on through registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quadrants.ir.nodes import Block, Module, Op, walk
from quadrants.ir.types import ScalarType

__all__ = [
    "COMBINERS",
    "COPIED",
    "COPIES",
    "DEFAULT_BLOCK",
    "MEETINGS",
    "MOST_THREADS",
    "ORDERING",
    "SHARED_ALIGNMENT",
    "TEAM_OPS",
    "block_size",
    "has_meetings",
    "is_of_block",
    "is_threads_loop",
    "neutral",
    "shared_places",
    "team_ops",
    "threads_loop_of",
    "uses_threads",
]

DEFAULT_BLOCK = 128
MOST_THREADS = 1024
MEETINGS = frozenset(
    {
        "barrier",
        "team_barrier",
        "shuffle",
        "ballot",
        "team_reduce",
        "team_scan",
        "team_multiply",
        "team_multiply_shared",
        "team_multiplied",
        "team_load",
    }
)
"""What no thread gets beyond before the others have come to it."""
COPIES = frozenset({"copy_begin", "copy_commit", "copy_wait"})
"""Copies from memory to the block's that go on while threads do something else. Law: from `copy_begin` to the thread's `copy_wait` for
its group no thread reaches the elements that are copied to, or writes those copied from; others than the thread see them behind the
next barrier."""
TEAM_OPS = MEETINGS | COPIES | {"shared", "thread_index", "fence"}
ORDERING = MEETINGS | COPIES | {"fence"}
"""What may put the memory accesses of threads in order: no access moves from one side of it to the other."""

COPIED = (4, 8, 16)
"""Bytes that one copy brings, from and to addresses that are multiples of them."""

SHARED_ALIGNMENT = 16
"""The bytes that the address of memory which a block shares is a multiple of."""


def shared_places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where arrays of so many bytes lie, one behind the other, in the memory of a block, and how much of it they take."""
    places, end = list[int](), 0
    for size in sizes:
        places.append(start := -(-end // SHARED_ALIGNMENT) * SHARED_ALIGNMENT)
        end = start + size
    return places, end


COMBINERS = {
    "add": "add",
    "mul": "mul",
    "min": "min",
    "max": "max",
    "and": "bit_and",
    "or": "bit_or",
    "xor": "bit_xor",
}
"""What `qd.simt` combines values by, and the operation that it is."""


def _outside_of_grids(block: Block) -> Iterator[Op]:
    for op in block.ops:
        if op.kind != "for" or threads_loop_of(op) is None:
            yield op
            for region in op.regions:
                yield from _outside_of_grids(region)


def team_ops(block: Block, module: Module, within: frozenset[str] = frozenset()) -> Iterator[Op]:
    """The operations on threads in a block, and those in functions that are called there; but those of grid loops."""
    for op in _outside_of_grids(block):
        if op.kind in TEAM_OPS:
            yield op
        elif op.kind == "call":
            name: str = op.attributes["callee"]
            if name not in within:
                yield from team_ops(module.functions[name].body, module, within | {name})


def uses_threads(block: Block, module: Module) -> bool:
    """Whether the threads of a block do something together there."""
    return next(team_ops(block, module), None) is not None


def is_threads_loop(op: Op) -> bool:
    """Whether an operation is the loop over the threads of a block in its native form."""
    return "threads" in op.attributes


def threads_loop_of(loop: Op) -> Op | None:
    """The threads loop of a grid loop; None of any other loop."""
    return next((op for op in loop.regions[0].ops if "threads" in op.attributes), None)


def has_meetings(block: Block) -> bool:
    """Whether threads meet in a block. Law: no pass makes two of a meeting between which threads choose one by one."""
    return any(op.kind in MEETINGS for op in walk(block))


def is_of_block(meeting: Op) -> bool:
    """Whether all threads of a block meet there, not those of smaller teams."""
    return meeting.kind == "barrier" or not meeting.attributes["width"]


def block_size(loop: Op) -> int:
    """How many threads a block of a block loop has."""
    config: dict[str, Any] = loop.attribute("config") or {}
    return config.get("block_dim") or DEFAULT_BLOCK


def neutral(by: str, scalar: ScalarType) -> float:
    """What the first of a team gets of an exclusive scan."""
    if by in ("min", "max"):
        if scalar.is_float:
            return float("inf") if by == "min" else float("-inf")
        return scalar.maximum if by == "min" else scalar.minimum
    return {"mul": 1, "bit_and": -1 if scalar.is_signed else scalar.maximum}.get(by, 0)
