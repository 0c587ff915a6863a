"""Where a long row of operations is cut into parts of limited size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.structure import with_inner
from quadrants.passes.task_size import TaskSizes

__all__ = ["is_made_anew", "is_slot", "parts_of"]


def is_made_anew(value: Value) -> bool:
    """Whether a later part makes the value again, rather than get it from an earlier one."""
    return isinstance(value.owner, Op) and value.owner.kind in ("constant", "dim")


def is_slot(value: Value) -> bool:
    return type(value.type) is ArrayType and value.type.is_slot


def parts_of(ops: Sequence[Op], sizes: TaskSizes, most: int) -> list[list[Op]]:
    """Neighbours that stay together, each part as large as `most` at most if it can be: cut where the fewest values go from one part
    to the next, and not where private memory lives that a function gets by reference."""
    passing, barred = _borders(ops)
    weights = [sizes.of(op) for op in ops]
    parts: list[list[Op]] = []
    start = 0
    while start < len(ops):
        end = _end(weights, passing, barred, start, most)
        parts.append(list(ops[start:end]))
        start = end
    return parts


def _borders(ops: Sequence[Op]) -> tuple[list[int], list[bool]]:
    """In front of each operation: how many values come from before and are used behind, and whether no part may end there."""
    last: dict[Value, int] = {value: k for k, op in enumerate(ops) for value in op.results}
    given: set[Value] = set()
    for k, op in enumerate(ops):
        for inner in with_inner(op):
            for operand in inner.operands:
                if operand in last:
                    last[operand] = k
                    if inner.kind == "call" and is_slot(operand):
                        given.add(operand)
    passing, barred = [0] * (len(ops) + 2), [0] * (len(ops) + 2)
    for k, op in enumerate(ops):
        for value in op.results:
            for counts, amount in ((passing, 0 if is_made_anew(value) else 1), (barred, 1 if value in given else 0)):
                counts[k + 1] += amount
                counts[last[value] + 1] -= amount
    return list(accumulate(passing)), [count > 0 for count in accumulate(barred)]


def _end(weights: list[int], passing: list[int], barred: list[bool], start: int, most: int) -> int:
    """Where the part that begins at `start` ends: the best place behind half of what fits; else the first one."""
    size, best = 0, 0
    for end in range(start + 1, len(weights)):
        size += weights[end - 1]
        if best and size > most:
            return best
        if not barred[end] and 2 * size >= most and (not best or passing[end] <= passing[best]):
            best = end
    size += weights[-1]
    return best if best and size > most else len(weights)
