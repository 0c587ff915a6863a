"""The code of a contraction of 16-bit factors on tensor cores, where devices copy into shared memory while threads compute
(`stage_copies`), and teams load small matrices from it (`ir/fragments.py`).

A line of shared memory is what lies side by side in memory: a row's (or column's) depths, or a depth's rows (columns); a team
loads matrices of the latter kind transposed. Lines are cut into pieces of 16 bytes, and where a line keeps a piece depends on the
line. Law: the eight rows of a matrix, which stand in eight lines, lie in all banks; so do eight pieces that are copied side by side.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.fragments import THREADS
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, scalar_of
from quadrants.passes.contraction_code import sum_of, times
from quadrants.passes.contractions import Contraction
from quadrants.passes.grid_code import GridLoop
from quadrants.passes.stage_code import Part, Side
from quadrants.passes.stage_copies import CopyWriter
from quadrants.passes.tensor_code import TensorShape, TensorWriter
from quadrants.passes.tile_code import loop

__all__ = ["TensorCopyWriter"]

_PIECE = 8
"""Numbers of a piece of a line."""
_BANKS = 64
"""Numbers that lie in all banks once."""
_ALONG = 16
"""Rows, columns and depths of what is loaded at once."""
_BATCH = 8
"""Elements that a thread loads one by one before it stores them."""


class TensorCopyWriter(CopyWriter, TensorWriter):
    """Writes a contraction whose factors `factors_of` has taken, and have a source."""

    def __init__(self, contraction: Contraction, shape: TensorShape, stages: int) -> None:
        super().__init__(contraction, shape, stages)
        self.lane: Value
        self.offsets: dict[Value, list[list[Value]]] = {}

    def parts(self, grid: GridLoop) -> tuple[Part, Part]:
        self.lane = grid.inside.bit_and(grid.thread, grid.inside.index(THREADS - 1))
        return super().parts(grid)

    def scalar(self, factor: Value) -> ScalarType:
        return scalar_of(self.contraction.left.type)

    def vector(self, side: Side) -> int:
        return _PIECE

    def room(self, width: int) -> int:
        return self.shape.depth * width

    # Lines.

    def _length(self, side: Side) -> int:
        """Numbers of a line."""
        return side.width if self.source(side).across else self.shape.depth

    def _kept(self, builder: Builder, side: Side, line: Value, piece: Value) -> Value:
        """Where a line keeps a piece. Law: lines a multiple of eight apart keep it alike."""
        length = self._length(side)
        shift = max(_BANKS // length, 1).bit_length() - 1
        mask = min(length // _PIECE, 8) - 1
        if not mask:
            return piece
        turned = builder.bit_and(builder.shr(line, builder.index(shift)), builder.index(mask))
        return builder.bit_xor(piece, turned)

    def position(self, builder: Builder, side: Side, at: Value, own: Value) -> Value:
        line, along = (at, own) if self.source(side).across else (own, at)
        piece = builder.shr(along, builder.index(_PIECE.bit_length() - 1))
        within = builder.bit_and(along, builder.index(_PIECE - 1))
        kept = times(builder, self._kept(builder, side, line, piece), _PIECE)
        return sum_of(builder, times(builder, line, self._length(side)), kept, within)

    def bring_singly(self, builder: Builder, thread: Value, side: Side, begin: Value, base: Value) -> None:
        """Copies bring four bytes at least: single numbers come by way of registers."""
        shape, across = self.shape, self.source(side).across
        width = side.width if across else shape.depth
        turns = side.width * shape.depth // shape.threads

        def batch(outer: Builder, number: Value, _: list[Value]) -> tuple[Value, ...]:
            first = sum_of(outer, thread, times(outer, number, _BATCH * shape.threads))
            found: list[tuple[Value, Value]] = []
            for turn in range(min(_BATCH, turns)):
                flat = sum_of(outer, first, outer.index(turn * shape.threads))
                line = outer.shr(flat, outer.index(width.bit_length() - 1))
                along = outer.bit_and(flat, outer.index(width - 1))
                at, own = (line, along) if across else (along, line)
                value = self._element(outer, side, sum_of(outer, begin, at), sum_of(outer, side.first, own))
                found.append((value, sum_of(outer, base, self.position(outer, side, at, own))))
            for value, place in found:
                outer.op("store", value, side.memory, place)
            return ()

        loop(builder, builder.index(0), builder.index(-(-turns // _BATCH)), batch)

    def _element(self, builder: Builder, side: Side, at: Value, own: Value) -> Value:
        """An element of a factor, zero behind the end of the depth."""
        depth, part = self.contraction.depth, side.range
        last, deepest = (builder.sub(of.high, builder.index(1), exact=True) for of in (part, depth))
        counters = {part.counter: builder.min(own, last), depth.counter: builder.min(at, deepest)}
        value = self.computed(builder, side.factor, counters)
        return builder.select(builder.le(at, deepest), value, builder.constant(0, value.type))

    # Matrices.

    def prepare(self, builder: Builder, sides: tuple[Side, Side]) -> None:
        self.offsets = {side.factor: self._offsets(builder, side, side is sides[0]) for side in sides}

    def _offsets(self, builder: Builder, side: Side, is_left: bool) -> list[list[Value]]:
        """Where in a stretch the thread's row of a matrix is, by 16 rows (or columns) of its team and by step.

        Four matrices are loaded at once, of 16 of these and 16 depths: thread t has row t % 8 of matrix t // 8. Of rows the first two are those
        of the first 8 depths, of columns those of the first 8 columns: so `team_multiply` takes them.
        """
        row = builder.bit_and(self.lane, builder.index(7))
        low, high = (builder.bit_and(builder.shr(self.lane, builder.index(bit)), builder.index(1)) for bit in (3, 4))
        deep, wide = (high, low) if is_left else (low, high)
        across, count = self.source(side).across, self._count(side, is_left)
        origin = builder.shr(side.part.origin, builder.index(_PIECE.bit_length() - 1))
        line = sum_of(builder, times(builder, deep if across else wide, _PIECE), row)
        found: list[list[Value]] = []
        for number in range(count):
            offsets: list[Value] = []
            for step in range(self.shape.steps):
                if across:
                    piece = sum_of(builder, origin, wide, builder.index(2 * number))
                    start = sum_of(builder, line, builder.index(_ALONG * step))
                else:
                    piece = sum_of(builder, deep, builder.index(2 * step))
                    start = sum_of(builder, side.part.origin, line, builder.index(_ALONG * number))
                kept = times(builder, self._kept(builder, side, line, piece), _PIECE)
                offsets.append(sum_of(builder, times(builder, start, self._length(side)), kept))
            found.append(offsets)
        return found

    def _count(self, side: Side, is_left: bool) -> int:
        """How many times 16 rows (or columns) a team has."""
        return side.part.own * (8 if is_left else 4) // _ALONG

    def steps(self, builder: Builder, bases: list[Value], totals: list[Value], sides: tuple[Side, Side]) -> list[Value]:
        left, right = sides
        for step in range(self.shape.steps):
            lefts = self._loaded_matrices(builder, left, bases[0], step)
            rights = [
                pair for held in self._loaded_matrices(builder, right, bases[1], step) for pair in (held[:4], held[4:])
            ]
            totals = self.multiplied(builder, lefts, rights, totals)
        return totals

    def _loaded_matrices(self, builder: Builder, side: Side, base: Value, step: int) -> list[list[Value]]:
        transposed = self.source(side).across
        return [
            list(
                builder.op(
                    "team_load",
                    side.memory,
                    sum_of(builder, base, offsets[step]),
                    count=4,
                    transposed=transposed,
                    width=THREADS,
                ).results
            )
            for offsets in self.offsets[side.factor]
        ]
