"""Large contractions on devices whose blocks of threads share memory: a block has a tile of rows and columns, for each
stretch of the depth its threads bring both factors into shared memory once, and each of them adds up a small tile of sums in
registers.

An element of a factor is loaded once a block instead of once for each sum that it is part of. Products are added in the order of the
depth, and all of them to what the sum begins with. Small contractions keep the loops that the user wrote.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.types import ScalarType, f32
from quadrants.passes.context import PassContext
from quadrants.passes.contractions import Contraction, find_contractions
from quadrants.passes.fold import number_of
from quadrants.passes.stage_code import StageShape, StageWriter
from quadrants.passes.structure import host_knows
from quadrants.passes.tensor_code import TensorShape, TensorWriter, factors_of

__all__ = ["run", "shape_of_stages", "shape_on_tensor_cores"]

_LEAST = 16
"""Rows, columns and depth from which tiles pay."""
_SMALLEST = 64**3
"""Products below which the loops are left as they are."""


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The parallel contractions of the kernel, where the record has blocks of threads."""
    record = context.record
    if record is None:
        return
    for contraction in find_contractions(module.kernel):
        if not contraction.parallel or _is_surely_small(contraction) or not _is_known_to_host(contraction):
            continue
        writer = _writer_on_tensor_cores(contraction, record) or _writer(contraction, record)
        if writer is not None and context.permit():
            _replace(contraction, writer)
            context.count(f"contractions {'on tensor cores' if type(writer) is TensorWriter else 'in shared memory'}")


def _writer(contraction: Contraction, record: Any) -> StageWriter | None:
    shape = shape_of_stages(record, contraction.scalar)
    return StageWriter(contraction, shape) if shape is not None else None


def _writer_on_tensor_cores(contraction: Contraction, record: Any) -> StageWriter | None:
    """Where both factors are f16 or bf16 and the sums f32; f32 factors only on the user's word, for they are rounded."""
    config: dict[str, Any] = contraction.outer.attribute("config") or {}
    wish = config.get("tensor_cores")
    if wish is False:
        return None
    narrow, scalar = factors_of(contraction)
    if scalar is f32 and wish != "tf32":
        return None
    shape = shape_on_tensor_cores(record, scalar)
    return TensorWriter(narrow, shape) if shape is not None else None


def shape_on_tensor_cores(record: Any, scalar: ScalarType) -> TensorShape | None:
    """Tiles for factors of a type; None where a record has no tensor cores for it, or no room."""
    name = "tf32" if scalar is f32 else scalar.name
    shape = TensorShape(8, 8, 128, 128, 16, scalar.bits)
    room = record.shared_memory_bytes >= shape.elements * scalar.bytes and record.block_threads >= shape.threads
    return shape if name in record.tensor_products and room else None


def shape_of_stages(record: Any, scalar: ScalarType) -> StageShape | None:
    """The tiles that a record's blocks have room for: as many sums a thread as leave registers for two of its blocks to run at
    once. None where there is no room."""
    own = 4 if scalar.bytes > 4 else 8
    shape = StageShape(own, own, 64 if own == 4 else 128, 64 if own == 4 else 128, 8)
    if record.block_threads < shape.threads or record.shared_memory_bytes < shape.elements * scalar.bytes:
        return None
    return shape


def _is_surely_small(contraction: Contraction) -> bool:
    """Whether the code tells that the sizes are below those from which tiles pay."""
    total = 1
    for part in (contraction.row, contraction.column, contraction.depth):
        low, high = number_of(part.low), number_of(part.high)
        if low is None or high is None:
            return False
        if high - low < _LEAST:
            return True
        total *= high - low
    return total < _SMALLEST


def _is_known_to_host(contraction: Contraction) -> bool:
    """Whether the host can tell the sizes without waiting for the device."""
    ranges = (contraction.row, contraction.column, contraction.depth)
    return all(host_knows(bound) for part in ranges for bound in (part.low, part.high))


def _replace(contraction: Contraction, writer: StageWriter) -> None:
    """The nest becomes a branch: tiles for large sizes, the nest itself for others."""
    outer = contraction.outer
    front, staged, plain = Block(), Block(), Block()
    builder = Builder(front, outer.location)
    extents = [builder.sub(part.high, part.low) for part in (contraction.row, contraction.column, contraction.depth)]
    large = _is_large(builder, extents)
    inside = Builder(staged, outer.location)
    writer.write(inside)
    inside.op("yield")
    plain.ops = [outer, Op("yield", location=outer.location)]
    builder.op("if", large, regions=(staged, plain), types=())
    at = contraction.block.ops.index(outer)
    contraction.block.ops[at : at + 1] = front.ops


def _is_large(builder: Builder, extents: list[Value]) -> Value:
    total = builder.mul(builder.mul(extents[0], extents[1]), extents[2])
    enough = builder.ge(total, builder.index(_SMALLEST))
    for extent in extents:
        enough = builder.bit_and(enough, builder.ge(extent, builder.index(_LEAST)))
    return enough
