"""Whether launches reach no more memory than is said of them, on a GPU that is played: graphs are put in order by that
(targets/llvm/graph_order.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadrants.evidence.ptx.machine import Machine
from quadrants.evidence.ptx.memory import MemoryFault, Piece
from quadrants.targets.llvm.graph_order import Reach

__all__ = ["ReachOf", "bounded"]

ReachOf = Callable[[int, bytes], "Reach | None"]
"""What a launch of a kernel, by its handle, may reach with a frame; None where nothing is said of it."""


@contextmanager
def bounded(machine: Machine, reach: Reach, owned: Sequence[Piece]) -> Iterator[None]:
    """While it is open, reaching memory that the host has allocated (`owned`) beyond `reach` is a fault; what a module has, and
    what threads share, is the launch's own."""
    places = [(piece.address, piece.address + piece.size) for piece in owned]

    def check(addresses: Any, widths: Any, writes: bool) -> None:
        first = np.atleast_1d(np.asarray(addresses)).astype(np.int64)
        width = np.broadcast_to(np.asarray(widths).astype(np.int64), first.shape)
        is_owned, is_told = (np.zeros(first.shape, np.bool_) for _ in range(2))
        for low, high in places:
            is_owned |= (first >= low) & (first < high)
        for low, high, may_write in reach:
            if may_write or not writes:
                is_told |= (first >= low) & (first + width <= high)
        wrong = np.flatnonzero(is_owned & ~is_told)
        if len(wrong):
            what, at = "writes" if writes else "reads", wrong[0]
            raise MemoryFault(f"a launch {what} {width[at]} bytes at {int(first[at]):#x}, of which nothing is said")

    load, store, atomic, begin_copies = machine.load, machine.store, machine.atomic, machine.begin_copies

    def watched_load(addresses: Any, width: int) -> Any:
        check(addresses, width, False)
        return load(addresses, width)

    def watched_store(addresses: Any, width: int, values: Any) -> None:
        check(addresses, width, True)
        store(addresses, width, values)

    def watched_atomic(kind: str, dtype: Any, addresses: Any, *values: Any) -> Any:
        check(addresses, dtype.itemsize, True)
        return atomic(kind, dtype, addresses, *values)

    def watched_copies(targets: Any, sources: Any, size: int, lengths: Any, threads: Any) -> None:
        length = np.broadcast_to(lengths, np.shape(sources))
        check(np.asarray(sources)[length > 0], length[length > 0], False)
        begin_copies(targets, sources, size, lengths, threads)

    instead = {"load": watched_load, "store": watched_store, "atomic": watched_atomic, "begin_copies": watched_copies}
    before = {name: machine.__dict__[name] for name in instead if name in machine.__dict__}
    machine.__dict__.update(instead)
    try:
        yield
    finally:
        for name in instead:
            del machine.__dict__[name]
        machine.__dict__.update(before)
