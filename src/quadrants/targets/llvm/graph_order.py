"""Which launches of a graph wait for which: those that reach the same memory, where one of them may write.

What a launch reaches is read from its frame: the bytes between the first and the last element of each of its arrays. All launches
of a loop wait for what stands in front of it, and what follows waits for the loop.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from quadrants.ir.types import ArrayType
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame

__all__ = ["LOOP_BEGINS", "LOOP_ENDS", "Access", "Reach", "accesses_of", "is_row", "mask_of", "reach_of", "waits"]

Access = tuple[int, int, int, bool]
"""An array of a task: where in the frame its descriptor is, its rank, the bytes of an element, whether it may be written."""
Reach = tuple[tuple[int, int, bool], ...]
"""The first byte, the one behind the last, and whether they may be written."""

LOOP_BEGINS, LOOP_ENDS = "begins", "ends"
_MOST = 64
"""Launches between two loops that are compared with one another; more follow one another."""


def accesses_of(task: Task, frame: Frame) -> tuple[Access, ...]:
    """The arrays of a task."""
    constant, found = task.constant_arrays, []
    for parameter, offset in zip(task.function.parameters, frame.parameters):
        type_ = parameter.type
        if type(type_) is ArrayType:
            found.append((offset, type_.rank, type_.scalar.bytes, parameter not in constant))
    return tuple(found)


def reach_of(accesses: Sequence[Access], frame: bytes) -> Reach:
    """The memory that a launch with that frame reaches. An array without elements counts as one of one element."""
    found = []
    for offset, rank, size, is_written in accesses:
        first, *words = struct.unpack_from(f"<{1 + 2 * rank}q", frame, offset)
        last = first
        for count, stride in zip(words[:rank], words[rank:]):
            span = max(count - 1, 0) * stride
            first, last = first + min(span, 0), last + max(span, 0)
        found.append((first, last + size, is_written))
    return tuple(found)


def mask_of(accesses: Sequence[Access], size: int) -> Any:
    """A frame whose bits are set where it says where arrays are: a launch in which others differ reaches the same memory."""
    mask = ctypes.create_string_buffer(max(size, 1))
    for offset, rank, _, _ in accesses:
        ctypes.memset(ctypes.addressof(mask) + offset, 255, 8 * (1 + 2 * rank))
    return mask


def waits(steps: Sequence[Reach | str | None]) -> list[tuple[int, ...]]:
    """The steps in front of it that each waits for, without those that they wait for themselves.

    A step is a launch's reach, None for one that waits for all in front of it and for which all that follow wait, or the
    beginning or the end of a loop. What follows the beginning waits for nothing outside of the loop: the loop does.
    """
    levels = [_Level()]
    found: list[tuple[int, ...]] = []
    for number, step in enumerate(steps):
        if step == LOOP_BEGINS:
            found.append(levels[-1].join(number))
            levels.append(_Level())
        elif step == LOOP_ENDS:
            found.append(levels.pop().join(number))
        else:
            assert not isinstance(step, str)
            found.append(levels[-1].add(number, step))
    return found


def is_row(steps: Sequence[Reach | str | None], order: Sequence[tuple[int, ...]]) -> bool:
    """Whether each step waits for the one in front of it, in its loop."""
    last: list[tuple[int, ...]] = [()]
    for number, (step, before) in enumerate(zip(steps, order)):
        if before != (last.pop() if step == LOOP_ENDS else last[-1]):
            return False
        if step != LOOP_ENDS:
            last[-1] = (number,)
        if step == LOOP_BEGINS:
            last.append(())
    return True


class _Level:
    """The launches of a graph, or of a loop's body, behind the last point at which all met. `ends`: those that nothing waits for."""

    def __init__(self) -> None:
        self._met: tuple[int, ...] = ()
        self._reaches: dict[int, Reach] = {}
        self._ancestors: dict[int, set[int]] = {}
        self._ends: set[int] = set()

    def join(self, number: int) -> tuple[int, ...]:
        """A step that waits for all, and for which all wait."""
        before = tuple(sorted(self._ends)) or self._met
        self._met = (number,)
        self._reaches, self._ancestors, self._ends = {}, {}, set()
        return before

    def add(self, number: int, reach: Reach | None) -> tuple[int, ...]:
        if reach is None or len(self._reaches) >= _MOST:
            return self.join(number)
        before: list[int] = []
        ancestors: set[int] = set()
        for other in reversed(self._reaches):
            if other not in ancestors and _meet(reach, self._reaches[other]):
                before.append(other)
                ancestors |= self._ancestors[other] | {other}
        self._reaches[number], self._ancestors[number] = reach, ancestors
        self._ends = self._ends.difference(before) | {number}
        return tuple(sorted(before)) or self._met


def _meet(reach: Reach, other: Reach) -> bool:
    """Whether two launches reach the same memory, and one of them may write there."""
    return any(
        low < other_high and other_low < high and (is_written or other_written)
        for low, high, is_written in reach
        for other_low, other_high, other_written in other
    )
