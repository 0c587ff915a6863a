"""`qd.simt.Tile16x16` and `Tile32x32`: square matrices of which each of as many threads side by side holds a row.

The functions are written in the language; the compiler calls them for what a tile does (`frontend/tiles.py`). `row` is the
thread's row; rows of other threads come by shuffles, so no memory is shared and no block waits.
"""

from __future__ import annotations

from typing import Any

from quadrants.errors import QuadrantsSyntaxError
from quadrants.frontend import protocol
from quadrants.lang import ops
from quadrants.lang.simt import subgroup

__all__ = ["Tile16x16", "Tile32x32", "outer"]


class Tile:
    """A kind of tile: `SIZE` rows and columns, one row a thread."""

    __slots__ = ("SIZE", "_name", "eye", "zeros")

    def __init__(self, size: int) -> None:
        self.SIZE = size
        self._name = f"Tile{size}x{size}"

        def zeros(dtype: Any = None) -> Any:
            """A tile of zeros, of the default float type if none is given."""
            raise QuadrantsSyntaxError(f"qd.simt.{self._name}.zeros works in the loops of kernels only")

        def eye(dtype: Any = None) -> Any:
            """The unit matrix."""
            raise QuadrantsSyntaxError(f"qd.simt.{self._name}.eye works in the loops of kernels only")

        self.zeros, self.eye = zeros, eye
        for function in (zeros, eye):
            protocol.register_intrinsic(function, f"simt.{self._name}.{function.__name__}")

    def __repr__(self) -> str:
        return f"qd.simt.{self._name}"


Tile16x16, Tile32x32 = Tile(16), Tile(32)


def outer(a: Any, b: Any) -> Any:
    """The product of a column and a row, for `tile -= qd.outer(a, b)` and `+=`: of parts `A[r0:r1, k]` of arrays, of
    vectors, or of numbers, of which each thread gives its own. Behind the end of a part or vector there are zeros."""
    raise QuadrantsSyntaxError("qd.outer works in the loops of kernels only")


protocol.register_intrinsic(outer, "simt.outer")


def _first(size: int) -> Any:
    """The number in its subgroup of the thread that has a tile's first row."""
    return subgroup.invocation_id() // size * size


def _eye(row: Any) -> Any:
    own = subgroup.invocation_id() % row.n
    for column in range(row.n):
        row[column] = 1 if column == own else 0
    return row


def _load(
    row: Any, array: Any, top: Any, bottom: Any, left: Any, right: Any, before: Any, between: Any, behind: Any
) -> Any:
    place = top + subgroup.invocation_id() % row.n
    if place < bottom:
        for column in range(row.n):
            if column < right - left:
                row[column] = array[before, place, between, left + column, behind]
    return row


def _store(
    row: Any, array: Any, top: Any, bottom: Any, left: Any, right: Any, before: Any, between: Any, behind: Any
) -> None:
    place = top + subgroup.invocation_id() % row.n
    if place < bottom:
        for column in range(row.n):
            if column < right - left:
                array[before, place, between, left + column, behind] = row[column]


def _element(array: Any, size: int, low: Any, high: Any, before: Any, behind: Any) -> Any:
    place = low + subgroup.invocation_id() % size
    return array[before, place, behind] if place < high else 0


def _element_of_vector(vector: Any, size: int) -> Any:
    own = subgroup.invocation_id() % size
    return vector[own] if own < vector.n else 0


def _add_outer(row: Any, a: Any, b: Any) -> Any:
    first = _first(row.n)
    for column in range(row.n):
        row[column] += a * subgroup.shuffle(b, first + column)
    return row


def _subtract_outer(row: Any, a: Any, b: Any) -> Any:
    first = _first(row.n)
    for column in range(row.n):
        row[column] -= a * subgroup.shuffle(b, first + column)
    return row


def _cholesky(row: Any, least: Any) -> Any:
    """L with L @ L.T the tile, of which what is above the diagonal is not read; there L is 0. Pivots below `least` are taken
    as that. Columns from left to right, each subtracted from those behind it (Golub, Van Loan, "Matrix Computations", 4.2)."""
    first = _first(row.n)
    own = subgroup.invocation_id() - first
    for k in range(row.n):
        pivot = ops.sqrt(max(subgroup.shuffle(row[k], first + k), least))
        below = row[k] / pivot if own > k else ops.zero(pivot)
        row[k] = pivot if own == k else below
        for column in range(k + 1, row.n):
            other = subgroup.shuffle(below, first + column)
            if own >= column:
                row[column] -= below * other
    return row


def _solve_lower(row: Any, right: Any) -> Any:
    """X with X @ L.T the right side, L the lower triangle of the tile: every row for itself."""
    first = _first(row.n)
    for k in range(row.n):
        total = right[k]
        for column in range(k):
            total -= right[column] * subgroup.shuffle(row[column], first + k)
        right[k] = total / subgroup.shuffle(row[k], first + k)
    return right


def _solve_upper(row: Any, right: Any) -> Any:
    """X with X @ U.T the right side, U the upper triangle of the tile."""
    first = _first(row.n)
    for step in range(row.n):
        k = row.n - 1 - step
        total = right[k]
        for column in range(k + 1, row.n):
            total -= right[column] * subgroup.shuffle(row[column], first + k)
        right[k] = total / subgroup.shuffle(row[k], first + k)
    return right


for _function in (
    *(_eye, _load, _store, _element, _element_of_vector),
    *(_add_outer, _subtract_outer, _cholesky, _solve_lower, _solve_upper),
):
    protocol.register_library(f"tile.{_function.__name__[1:]}", _function)
