"""Copies into a block's memory (`copy_begin`), as the interpreter runs them: as late as they may, so that who reads too early finds
what no copy brings."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import scalar_of

__all__ = ["OwnCopies", "copy_steps", "lines_aligned"]

Environment = dict[Value, Any]
Note = Callable[[Op, Value, tuple[Any, tuple[int, ...]], Any], None]


class OwnCopies:
    """The copies of one thread: those of the group that is open, and the groups that are not done, the oldest first."""

    def __init__(self) -> None:
        self.open: list[Callable[[], None]] = []
        self.groups: list[list[Callable[[], None]]] = []

    def commit(self) -> None:
        """What was begun is a group."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, left: int) -> None:
        """Does all but the last groups."""
        while len(self.groups) > left:
            for copy in self.groups.pop(0):
                copy()


def _begin(op: Op, copies: Callable[[], OwnCopies], note: Note) -> Callable[[Environment], None]:
    memory, place, array, *indices, length = op.operands
    count, is_bf16 = op.attribute("elements"), scalar_of(array.type).name == "bf16"

    def run(env: Environment) -> None:
        rows, elements = env[memory], env[array]
        first, there = int(env[place]), int(env[length])
        *outer, last = [int(env[index]) for index in indices]
        ends = [*zip(outer, elements.shape), (last + there - 1, elements.shape[-1])]
        if not 0 <= there <= count or (there and (min([*outer, last]) < 0 or any(at >= end for at, end in ends))):
            raise IndexError(f"copy_begin: {there} elements from {(*outer, last)} on, of an array of {elements.shape}")
        if first < 0 or first + count > len(rows):
            raise IndexError(f"copy_begin: {count} elements to {first} in memory of {len(rows)}")
        whole = rows[first : first + count]
        places = [(rows, (place,)) for place in range(first, first + count)]
        for at in places:
            note(op, memory, at, None)
        whole[:] = np.nan if whole.dtype.kind == "f" else np.iinfo(whole.dtype).max

        def finish() -> None:
            whole[:] = 0
            if there:
                found = elements[(*outer, slice(last, last + there))]
                whole[:there] = (
                    (found.astype(np.uint32) << np.uint32(16)).view(np.float32)
                    if is_bf16 and found.dtype == np.uint16
                    else found
                )
            for at, value in zip(places, whole):
                note(op, memory, at, value)

        copies().open.append(finish)

    return run


def lines_aligned(program: Any, op: Op) -> Callable[[Environment], None]:
    """A closure that looks at an array's address and strides."""
    (array,), result, size = op.operands, op.results[0], op.attribute("bytes")

    def run(env: Environment) -> None:
        found = env[array]
        *outer, last = found.strides
        starts = [found.__array_interface__["data"][0], *outer]
        env[result] = np.bool_(last == found.itemsize and not any(start % size for start in starts))

    return run


def copy_steps(
    copies: Callable[[], OwnCopies], note: Note
) -> dict[str, Callable[[Any, Op], Callable[[Environment], None]]]:
    """The closures of copies; `copies`: those of the thread that runs; `note` hears of each element that one is written to."""
    return {
        "copy_begin": lambda program, op: _begin(op, copies, note),
        "copy_commit": lambda program, op: lambda env: copies().commit(),
        "copy_wait": lambda program, op: lambda env: copies().wait(op.attributes["groups"]),
    }
