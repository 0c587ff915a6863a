"""Small matrices that a team of 32 threads holds together, as `team_multiply` takes and gives them.

Thread t, with g = t // 4 and q = t % 4, holds of the factor with 16 rows, of the one with 8 columns, and of the sums the
elements that `LEFT`, `RIGHT` and `SUMS` say, in that order. Factors of 16 bits are 16 deep, those of 32 bits 8. These are the places
that the instructions of NVIDIA's tensor cores want (`mma.sync`, m16n8k16 and m16n8k8).

`team_load` brings them elements of a block's memory so (`ldmatrix`): matrices have 8 rows of 16 bytes; thread 8 m + r says where row
r of matrix m starts, and thread t gets of each matrix its row g's elements from `held_of` times q on, or, transposed, its column g's.
Law: rows start at multiples of 16 bytes, and threads that give no row say the start of some.

Law: products are exact, f32 factors count with the first 10 bits of their fraction alone (which is tf32), and what sums of f32
are rounded to is the hardware's: an element is off by at most `depth + 1` roundings down to a number of 24 bits of its largest
addend. Here they are added exactly and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["COUNTS", "LEFT", "RIGHT", "SUMS", "THREADS", "depth_of", "held_of", "loaded", "multiplied", "shortened"]

THREADS = 32
ROWS, COLUMNS = 16, 8

LEFT: dict[int, tuple[tuple[int, int, int, int], ...]] = {
    16: tuple([(1, 8 * (k // 2 % 2), 2, k % 2 + 8 * (k // 4)) for k in range(8)]),
    8: tuple([(1, 8 * (k % 2), 1, 4 * (k // 2)) for k in range(4)]),
}
"""By depth: element k is in row a * g + b and in depth c * q + d, for (a, b, c, d)."""
RIGHT: dict[int, tuple[tuple[int, int], ...]] = {
    16: tuple([(2, k % 2 + 8 * (k // 2)) for k in range(4)]),
    8: tuple([(1, 4 * k) for k in range(2)]),
}
"""By depth: element k is in column g and in depth a * q + b, for (a, b)."""
SUMS = tuple([(8 * (k // 2), k % 2) for k in range(4)])
"""Element k is in row g + a and in column 2 * q + b, for (a, b)."""
COUNTS = {depth: (len(LEFT[depth]), len(RIGHT[depth])) for depth in LEFT}
"""By depth: how many elements of either factor a thread holds."""


def depth_of(bits: int) -> int:
    """How deep factors of so many bits are."""
    return 16 if bits == 16 else 8


def held_of(bits: int) -> int:
    """How many elements of a matrix of 8 rows of 16 bytes a thread gets."""
    return 32 // bits


def loaded(memory: Any, starts: Sequence[int], count: int, transposed: bool, bits: int) -> list[list[Any]]:
    """What the threads get of `count` matrices of numbers of so many bits in a block's memory, whose rows start where they say."""
    length, each = 128 // bits, held_of(bits)
    found: list[list[Any]] = [[] for _ in range(THREADS)]
    for matrix in range(count):
        rows = [memory[start : start + length] for start in starts[8 * matrix : 8 * matrix + 8]]
        if any(len(row) < length for row in rows) or any(start < 0 or start % length for start in starts):
            raise IndexError("a row of a matrix that is not one of the memory's")
        for thread, values in enumerate(found):
            g, q = divmod(thread, 4)
            places = range(each * q, each * q + each)
            values += [rows[k][g] if transposed else rows[g][k] for k in places]
    return found


def multiplied(held: Sequence[Sequence[Any]], depth: int) -> np.ndarray[Any, Any]:
    """What the threads get, a row of sums each, for what they hold: left factor, right factor, sums."""
    left, right, sums = np.zeros((ROWS, depth)), np.zeros((depth, COLUMNS)), np.zeros((ROWS, COLUMNS))
    first, second = COUNTS[depth]
    for thread, values in enumerate(held):
        g, q = divmod(thread, 4)
        numbers = [float(value) for value in values]
        for (a, b, c, d), number in zip(LEFT[depth], numbers):
            left[a * g + b, c * q + d] = number
        for (a, b), number in zip(RIGHT[depth], numbers[first:]):
            right[a * q + b, g] = number
        for (a, b), number in zip(SUMS, numbers[first + second :]):
            sums[g + a, 2 * q + b] = number
    if depth == 8:
        left, right = shortened(left), shortened(right)
    with np.errstate(all="ignore"):
        found = (left @ right + sums).astype(np.float32)
    rows = [[found[t // 4 + a, 2 * (t % 4) + b] for a, b in SUMS] for t in range(THREADS)]
    return np.array(rows, np.float32)


def shortened(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """f32 with 10 bits of fraction."""
    bits: Any = np.float32(matrix)
    return (bits.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
