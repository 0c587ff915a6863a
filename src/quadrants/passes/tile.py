"""Large contractions in tiles: sums of a block of rows and columns stay in registers, from panels that are packed once.

A nest becomes: for each block of rows and columns, for each stretch of the depth, both factors are copied into panels
whose elements are in the order of their use; a tile of sums in registers runs over two panels; what the nest does with a
sum is done when the block is complete. Small contractions keep the loops that the user wrote. What is rounded how does
not depend on the number of threads: stretches of the depth have one length, and sums are added in their order.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.types import ScalarType
from quadrants.passes.context import PassContext
from quadrants.passes.contractions import Contraction, find_contractions
from quadrants.passes.fold import number_of
from quadrants.passes.tile_code import TileShape, TileWriter

__all__ = ["run", "shape_of_tiles"]

# Products below which packing costs more than it gives.
_SMALLEST = 64**3
# Depth from which a tile of sums is worth its loads and stores.
_SHALLOWEST = 16


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The contractions of the kernel, where the target has vectors and the options leave the lanes to the
    compiler."""
    record = context.record
    if record is None or not record.maximum_vector_bits or context.options.lanes:
        return
    for contraction in find_contractions(module.kernel):
        shape = shape_of_tiles(record, contraction.scalar)
        if not _is_surely_small(contraction, shape) and context.permit():
            _replace(contraction, shape)
            context.count("contractions in tiles")


def shape_of_tiles(record: Any, scalar: ScalarType) -> TileShape:
    """Vectors of columns by as many rows as leave registers for a row of the right factor and an element of the left;
    rows in fours, which are transposed in registers; blocks of which the panels stay in the caches next to the processor."""
    lanes = record.maximum_vector_bits // (8 * scalar.bytes)
    rows, vectors = (12, 2) if record.vector_registers >= 32 else (4, 3)
    return TileShape(rows, vectors, lanes, 240, 480 * 4 // max(scalar.bytes, 4), 256)


def _is_surely_small(contraction: Contraction, shape: TileShape) -> bool:
    """Whether the code tells that the sizes are below those from which tiles pay."""
    total = 1
    for part, least in (
        (contraction.row, shape.rows),
        (contraction.column, shape.columns),
        (contraction.depth, _SHALLOWEST),
    ):
        low, high = number_of(part.low), number_of(part.high)
        if low is None or high is None:
            return False
        if high - low < least:
            return True
        total *= high - low
    return total < _SMALLEST


def _replace(contraction: Contraction, shape: TileShape) -> None:
    """The nest becomes a branch: tiles for large sizes, the nest itself for others."""
    outer = contraction.outer
    front, tiled, plain = Block(), Block(), Block()
    builder = Builder(front, outer.location)
    extents = [builder.sub(part.high, part.low) for part in (contraction.row, contraction.column, contraction.depth)]
    large = _is_large(builder, extents, shape)
    inside = Builder(tiled, outer.location)
    TileWriter(contraction, shape, inside).write()
    inside.op("yield")
    plain.ops = [outer, Op("yield", location=outer.location)]
    builder.op("if", large, regions=(tiled, plain), types=())
    at = contraction.block.ops.index(outer)
    contraction.block.ops[at : at + 1] = front.ops


def _is_large(builder: Builder, extents: list[Value], shape: TileShape) -> Value:
    rows, columns, depth = extents
    enough = builder.ge(rows, builder.index(shape.rows))
    enough = builder.bit_and(enough, builder.ge(columns, builder.index(shape.columns)))
    enough = builder.bit_and(enough, builder.ge(depth, builder.index(_SHALLOWEST)))
    total = builder.mul(builder.mul(rows, columns), depth)
    return builder.bit_and(enough, builder.ge(total, builder.index(_SMALLEST)))
