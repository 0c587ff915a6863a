"""Sums that a team of 128 threads holds together, and factors in memory that its block shares, as `team_multiply_shared` takes them.

A factor has `rows` (the left one) or `columns` (the right one), its width, and a `depth`. It lies in an array of one axis, in lines of 16 bytes:
n neighbours along the depth or along the width, as the attribute `left` or `right` says. Eight lines, side by side along the other one, are a
core matrix, core matrices along the width follow one another, and then those of the next depths. So element (w, d) is at
((d // n) * (width // 8) + w // 8) * 8 * n + w % 8 * n + d % n where lines are along the depth, and at
((d // 8) * (width // n) + w // n) * 8 * n + d % 8 * n + w % n where they are along the width, which only factors of 16 bits are. An operation
takes all of the depth; of the left factor 64 rows. It says where the first of these rows and the first column start, at a multiple of a line.

Thread t, with w = t // 32, g = t % 32 // 4 and q = t % 4, holds of each 8 columns four sums: `SUMS` says which. These are the places that
the instructions of NVIDIA's Hopper want (`wgmma`, m64nNk16 and m64nNk8).

With `pending` = 1 the products of an operation may go on while threads do, until the team's next operation with `pending` is done, or `team_multiplied`.
Law: until then no thread writes the factors, other teams' threads not before the next barrier either, and nothing takes the sums but the team's next
operation, of the same shape, and `team_multiplied`.

Law: every thread that wrote a factor has passed a `fence` of the scope "products" afterwards, and then all a barrier; what is rounded is
said in `fragments.py`.
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
    "multiplied_in_teams",
    "places_of",
    "places_of_sums",
    "products_of",
]

TEAM = 128
ROWS = 64
CORE = 8
"""Lines of a core matrix."""
LINE_BYTES = 16
MOST_COLUMNS = 256

SUMS = tuple([(8 * (k // 2), k % 2) for k in range(4)])
"""Sum k of 8 columns is in row 16 * w + g + a and in column 2 * q + b of them, for (a, b)."""


class Factor(Record):
    """How a factor lies: elements of a `line`, whether lines are along the width, how many elements it has along either axis;
    `across`: core matrices along the width, `step`: the depth that one instruction takes."""

    line: int
    along_width: bool
    width: int
    depth: int

    @property
    def across(self) -> int:
        return self.width // (self.line if self.along_width else CORE)

    @property
    def step(self) -> int:
        return 2 * self.line


def _factor(type_: Type, along: str, width: int, depth: int) -> Factor:
    """How a factor lies in an array; a TypeError where it cannot."""
    if along not in ("depth", "width"):
        raise TypeError(f"lines are along the depth or the width, not {along}")
    if type(type_) is not ArrayType or type_.layout != "B" or type_.rank != 1:
        raise TypeError(f"a factor is memory that a block shares, of one axis, not {type_}")
    scalar = type_.scalar
    if scalar not in (f16, bf16, f32) or (along == "width" and scalar is f32):
        raise TypeError(f"no product has factors of {scalar} with lines along the {along}")
    found = Factor(LINE_BYTES // scalar.bytes, along == "width", width, depth)
    if depth <= 0 or depth % found.step or width % (found.line if found.along_width else CORE):
        raise TypeError(f"{width} by {depth} elements are not made of core matrices, {found.step} deep")
    if width * depth > type_.trailing[0]:
        raise TypeError(f"{width} by {depth} elements in {type_}")
    return found


def products_of(operands: Sequence[Type], attributes: dict[str, Any]) -> tuple[Factor, Factor]:
    """The factors of an operation, its first and third operand; a TypeError where its operands do not fit."""
    if attributes["width"] != TEAM:
        raise TypeError(f"these sums are held by {TEAM} threads, not {attributes['width']}")
    first, second = operands[0], operands[2]
    rows, columns, depth = (attributes[name] for name in ("rows", "columns", "depth"))
    left = _factor(first, attributes["left"], rows, depth)
    right = _factor(second, attributes["right"], columns, depth)
    if first.scalar is not second.scalar:
        raise TypeError(f"factors of one type are expected, not {first} and {second}")
    if rows % ROWS or columns % CORE or not 0 < columns <= MOST_COLUMNS:
        raise TypeError(f"multiples of {ROWS} rows and of {CORE} columns, not {rows} and {columns}")
    return left, right


def multiplied_in_teams(
    memory: tuple[Any, Any], starts: tuple[int, int], factors: tuple[Factor, Factor], held: Sequence[Sequence[Any]]
) -> Any:
    """What the threads get, a row of sums each, for the sums that they hold. `starts`: where the factors do."""
    left = _matrix(memory[0], starts[0], factors[0], ROWS)
    right = _matrix(memory[1], starts[1], factors[1], factors[1].width)
    sums = np.array([[float(value) for value in values] for values in held])
    row, column = places_of_sums(factors[1].width)
    matrix = np.zeros((ROWS, factors[1].width))
    matrix[row, column] = sums
    with np.errstate(all="ignore"):
        found: Any = (left @ right.T + matrix).astype(np.float32)
    return found[row, column]


def _matrix(memory: Any, start: int, factor: Factor, width: int) -> Any:
    """Rows (or columns) of a factor, by width and depth."""
    found = memory[start + places_of(factor, width)].astype(np.float64)
    return shortened(found) if factor.line == LINE_BYTES // 4 else found


def places_of(factor: Factor, width: int) -> Any:
    """Where elements lie, by width and depth."""
    n, w, d = factor.line, np.arange(width)[:, None], np.arange(factor.depth)
    if factor.along_width:
        return (d // CORE * factor.across + w // n) * CORE * n + d % CORE * n + w % n
    return (d // n * factor.across + w // CORE) * CORE * n + w % CORE * n + d % n


def places_of_sums(columns: int) -> tuple[Any, Any]:
    """(row, column) of each sum, by thread and number."""
    thread, number = np.arange(TEAM)[:, None], np.arange(columns // 2)
    parts = np.array(SUMS)[number % 4]
    rows = thread // 32 * 16 + thread % 32 // 4 + parts[:, 0]
    return rows, number // 4 * 8 + 2 * (thread % 4) + parts[:, 1]
