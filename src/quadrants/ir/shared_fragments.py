"""Sums that a team of 128 threads holds together, and factors in memory that its block shares, as `team_multiply_shared` takes them.

A factor has `width` rows (the left one) or columns (the right one) and a depth. It lies in an array of five axes: stage, place along the
depth, place along the width, line, element of the line. A line is 16 bytes, neighbours along the depth or along the width, as the
attribute `left` or `right` says; eight lines, side by side along the other one, are a core matrix. So element (w, d), with n elements in
a line, is at [stage, d // n, w // 8, w % 8, d % n] where lines are along the depth, and at
[stage, d // 8, w // n, d % 8, w % n] where they are along the width, which only factors of 16 bits are. All of a stage's depth is taken; of the
left factor the 64 rows from core matrix `unit` on.

Thread t, with w = t // 32, g = t % 32 // 4 and q = t % 4, holds of each 8 columns four sums: `SUMS` says which. These are the places that
the instructions of NVIDIA's Hopper want (`wgmma`, m64nNk16 and m64nNk8).

Law: both factors were written in front of a barrier, behind which every thread that wrote them has passed a `fence` of the scope
"products"; what is rounded is said in `fragments.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadrants.ir.fragments import shortened
from quadrants.ir.types import ArrayType, Type, bf16, f16, f32
from quadrants.records import Record

__all__ = [
    "CORE",
    "LINE_BYTES",
    "ROWS",
    "SUMS",
    "TEAM",
    "Factor",
    "factor_of",
    "multiplied_in_teams",
    "places_of_sums",
    "products_of",
]

TEAM = 128
ROWS = 64
CORE = 8
"""Lines of a core matrix."""
LINE_BYTES = 16
STEP_BYTES = 32
"""The depth that one instruction takes, in bytes."""
MOST_COLUMNS = 256

SUMS = tuple([(8 * (k // 2), k % 2) for k in range(4)])
"""Sum k of 8 columns is in row 16 * w + g + a and in column 2 * q + b of them, for (a, b)."""

_AXES = 5


class Factor(Record):
    """How a factor lies: elements of a `line`, whether lines are along the `width`, how many elements one stage has of either axis;
    `across`: core matrices along the width."""

    line: int
    along_width: bool
    width: int
    depth: int

    @property
    def across(self) -> int:
        return self.width // (self.line if self.along_width else CORE)

    @property
    def step(self) -> int:
        """The depth that one instruction takes."""
        return 2 * self.line


def factor_of(type_: Type, along: str) -> Factor:
    """How a factor of an array type lies; a TypeError where it cannot."""
    if along not in ("depth", "width"):
        raise TypeError(f"lines are along the depth or the width, not {along}")
    if type(type_) is not ArrayType or type_.layout != "B" or len(type_.trailing) != _AXES:
        raise TypeError(f"a factor is memory that a block shares, of {_AXES} axes, not {type_}")
    scalar, (_, deep, wide, core, line) = type_.scalar, type_.trailing
    if scalar not in (f16, bf16, f32) or core != CORE or line * scalar.bytes != LINE_BYTES:
        raise TypeError(f"core matrices are {CORE} lines of {LINE_BYTES} bytes of f16, bf16 or f32, not {type_}")
    if along == "width" and scalar is f32:
        raise TypeError("lines of f32 are along the depth")
    by_depth, by_width = (CORE, line) if along == "width" else (line, CORE)
    found = Factor(line, along == "width", wide * by_width, deep * by_depth)
    if found.depth % found.step:
        raise TypeError(f"the depth is a multiple of {found.step}, not {found.depth}")
    return found


def products_of(operands: Sequence[Type], attributes: dict[str, Any]) -> tuple[Factor, Factor]:
    """The factors of an operation; a TypeError where its operands do not fit."""
    if attributes["width"] != TEAM:
        raise TypeError(f"these sums are held by {TEAM} threads, not {attributes['width']}")
    left, right = (factor_of(type_, attributes[side]) for type_, side in zip(operands, ("left", "right")))
    if operands[0].scalar is not operands[1].scalar or left.depth != right.depth:
        raise TypeError(f"factors of one type and depth are expected, not {operands[0]} and {operands[1]}")
    if left.width % ROWS or right.width % CORE or not 0 < right.width <= MOST_COLUMNS:
        raise TypeError(f"multiples of {ROWS} rows and of {CORE} columns, not {left.width} and {right.width}")
    return left, right


def multiplied_in_teams(
    left: Any,
    right: Any,
    place: tuple[int, int],
    factors: tuple[Factor, Factor],
    held: Sequence[Sequence[Any]],
) -> Any:
    """What the threads get, a row of sums each, for the sums that they hold. `place`: stage and unit."""
    stage, unit = place
    rows, columns = _matrix(left[stage], factors[0]), _matrix(right[stage], factors[1])
    first = unit * (factors[0].line if factors[0].along_width else CORE)
    sums = np.array([[float(value) for value in values] for values in held])
    row, column = places_of_sums(factors[1].width)
    matrix = np.zeros((ROWS, factors[1].width))
    matrix[row, column] = sums
    with np.errstate(all="ignore"):
        found: Any = (rows[first : first + ROWS] @ columns.T + matrix).astype(np.float32)
    return found[row, column]


def _matrix(cores: Any, factor: Factor) -> Any:
    """A factor by width and depth."""
    axes = (1, 3, 0, 2) if factor.along_width else (1, 2, 0, 3)
    found = cores.transpose(axes).reshape(factor.width, factor.depth).astype(np.float64)
    return shortened(found) if factor.line == LINE_BYTES // 4 else found


def places_of_sums(columns: int) -> tuple[Any, Any]:
    """(row, column) of each sum, by thread and number."""
    thread, number = np.arange(TEAM)[:, None], np.arange(columns // 2)
    parts = np.array(SUMS)[number % 4]
    rows = thread // 32 * 16 + thread % 32 // 4 + parts[:, 0]
    return rows, number // 4 * 8 + 2 * (thread % 4) + parts[:, 1]
