"""Large contractions on devices whose blocks of threads share memory: a block has a tile of rows and columns, for each
stretch of the depth its threads bring both factors into shared memory once, and each of them adds up a small tile of sums in
registers.

An element of a factor is loaded once a block instead of once for each sum that it is part of. Products are added in the order of the
depth, and all of them to what the sum begins with. Small contractions keep the loops that the user wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Location, Module, Op, Value
from quadrants.ir.types import ScalarType, f32
from quadrants.passes.context import PassContext
from quadrants.passes.contractions import Contraction, find_contractions
from quadrants.passes.fold import number_of
from quadrants.passes.shared_tensor_code import SharedCopyWriter, SharedTensorShape, SharedTensorWriter
from quadrants.passes.stage_code import StageShape, StageWriter
from quadrants.passes.stage_copies import CopyWriter, source_of
from quadrants.passes.structure import host_knows
from quadrants.passes.tensor_code import TensorShape, TensorWriter, factors_of
from quadrants.passes.tensor_copies import TensorCopyWriter
from quadrants.records import Record

__all__ = ["run", "shapes_of_copies", "shapes_of_stages", "shapes_of_tensor_copies", "shapes_on_tensor_cores"]

_LEAST = 16
"""Rows, columns and depth from which tiles pay."""
_SMALLEST = 64**3
"""Products below which the loops are left as they are."""
_ENOUGH = 96
"""Tiles from which a device is busy: it has about as many multiprocessors."""


_RESERVED = 1 << 10
"""Bytes of a multiprocessor's shared memory that each block takes beside its own. There is room for those of one block of the most bytes."""


class _Pipeline(Record):
    """Tiles of `sizes` rows and columns, of which a multiprocessor's registers hold so many `blocks`; `stretches`: how deep, and how many in
    shared memory, those first that make threads wait least."""

    sizes: tuple[int, int]
    blocks: int
    stretches: tuple[tuple[int, int], ...]

    def chosen(self, record: Any, scalar: ScalarType) -> tuple[int, int]:
        """The first that takes no more memory than as many blocks have there; the last one where none does."""
        room = (record.shared_memory_bytes + _RESERVED) // self.blocks - _RESERVED
        each = sum(self.sizes) * scalar.bytes
        fitting = [(depth, stages) for depth, stages in self.stretches if depth * stages * each <= room]
        return fitting[0] if fitting else self.stretches[-1]


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The parallel contractions of the kernel, where the record has blocks of threads."""
    record = context.record
    if record is None:
        return
    for contraction in find_contractions(module.kernel):
        if not contraction.parallel or _is_surely_small(contraction) or not _is_known_to_host(contraction):
            continue
        writers = _on_tensor_cores(contraction, record) or _in_shared_memory(contraction, record)
        if writers and context.permit():
            _replace(contraction, writers)
            context.count(f"contractions {_counted(writers[0])}")


def _counted(writer: StageWriter) -> str:
    if isinstance(writer, (SharedCopyWriter, SharedTensorWriter)):
        return "on tensor cores that read shared memory"
    return "on tensor cores" if isinstance(writer, TensorWriter) else "in shared memory"


def _in_shared_memory(contraction: Contraction, record: Any) -> Sequence[StageWriter]:
    if record.asynchronous_copies and _has_sources(contraction):
        return [CopyWriter(contraction, *shape) for shape in shapes_of_copies(record, contraction.scalar)]
    return [StageWriter(contraction, shape) for shape in shapes_of_stages(record, contraction.scalar)]


def _on_tensor_cores(contraction: Contraction, record: Any) -> Sequence[StageWriter]:
    """Where both factors are f16 or bf16 and the sums f32; f32 factors only on the user's word, for they are rounded."""
    config: dict[str, Any] = contraction.outer.attribute("config") or {}
    wish = config.get("tensor_cores")
    if wish is False:
        return ()
    narrow, scalar = factors_of(contraction)
    if scalar is f32 and wish != "tf32":
        return ()
    if ("tf32" if scalar is f32 else scalar.name) in record.shared_products:
        if record.asynchronous_copies and scalar is not f32 and _has_sources(narrow):
            return [SharedCopyWriter(narrow, *shape) for shape in shapes_of_shared_copies(record, scalar)]
        return [SharedTensorWriter(narrow, shape) for shape in shapes_in_teams(record, scalar)]
    if record.asynchronous_copies and scalar is not f32 and _has_sources(narrow):
        return [TensorCopyWriter(narrow, *shape) for shape in shapes_of_tensor_copies(record, scalar)]
    return [TensorWriter(narrow, shape) for shape in shapes_on_tensor_cores(record, scalar)]


def shapes_in_teams(record: Any, scalar: ScalarType) -> Sequence[SharedTensorShape]:
    """Tiles for factors of a type that teams of 128 threads multiply where they lie, the largest first."""
    depth = 64 // scalar.bytes
    shapes = [SharedTensorShape.of(size, size, depth, scalar) for size in (128, 64)]
    return [shape for shape in shapes if _has_room(record, shape, scalar)]


def shapes_of_shared_copies(record: Any, scalar: ScalarType) -> Sequence[tuple[SharedTensorShape, int]]:
    """The same where copies go on meanwhile, with the number of stretches that shared memory has. The widest tile brings a quarter less than
    the next one for each product.

    Products are waited for at the end of each stretch: of 64 that is a quarter as often as of 16. Registers hold one block of the two large tiles
    (256 threads of 250 or of 180), which may have all of a multiprocessor's memory: 192 or 128 KiB of an H100's 228. Of the small tile (128
    threads of 160) they hold three, of 64 KiB each."""
    pipelines = (
        _Pipeline((128, 256), 1, ((64, 4), (16, 4))),
        _Pipeline((128, 128), 1, ((64, 4), (32, 3))),
        _Pipeline((64, 64), 3, ((64, 4), (32, 4))),
    )
    chosen = [(one.sizes, *one.chosen(record, scalar)) for one in pipelines]
    made = [(SharedTensorShape.of(*sizes, depth, scalar), stages) for sizes, depth, stages in chosen]
    return [(shape, stages) for shape, stages in made if _has_stages(record, shape, stages, scalar)]


def shapes_on_tensor_cores(record: Any, scalar: ScalarType) -> Sequence[TensorShape]:
    """Tiles for factors of a type, the largest first; none where a record has no tensor cores for it, or no room."""
    if ("tf32" if scalar is f32 else scalar.name) not in record.tensor_products:
        return ()
    shapes = (TensorShape(8, 8, 128, 128, 16, scalar.bits), TensorShape(4, 8, 64, 64, 16, scalar.bits))
    return [shape for shape in shapes if _has_room(record, shape, scalar)]


def shapes_of_tensor_copies(record: Any, scalar: ScalarType) -> Sequence[tuple[TensorShape, int]]:
    """The same where copies go on meanwhile, with the number of stretches that shared memory has. Its lines need no padding.

    Registers hold two blocks of the large tile (128 threads of 250) and three of the small one (128 of 160), and multiprocessors have less to do
    where memory holds fewer. So of 228 KiB (sm_90, sm_100) a block of the large tile has 96, of 164 (sm_80) 64, and of 100 (sm_86, 89, 120) the
    48 that two have there in any case; of the small tile 64, 48 and 32. A stretch of 64 has half as many barriers as two of 32; one more
    stretch on its way hides more of the time that memory takes."""
    if scalar.name not in record.tensor_products:
        return ()
    large, small = (
        _Pipeline((128, 128), 2, ((64, 3), (32, 4), (32, 3))),
        _Pipeline((64, 64), 3, ((64, 4), (64, 3), (32, 4))),
    )
    made: list[tuple[TensorShape, int]] = []
    for own, pipeline in (((8, 16), large), ((4, 8), small)):
        depth, stages = pipeline.chosen(record, scalar)
        made.append((TensorShape(*own, *pipeline.sizes, depth, scalar.bits), stages))
    return [(shape, stages) for shape, stages in made if _has_stages(record, shape, stages, scalar)]


def shapes_of_stages(record: Any, scalar: ScalarType) -> Sequence[StageShape]:
    """The tiles that a record's blocks have room for, the largest first: as many sums a thread as registers hold."""
    if scalar.bytes > 4:
        shapes = StageShape(4, 4, 64, 64, 8), StageShape(4, 4, 32, 32, 8)
    else:
        shapes = StageShape(8, 8, 128, 128, 8), StageShape(4, 4, 64, 64, 16)
    return [shape for shape in shapes if _has_room(record, shape, scalar)]


def shapes_of_copies(record: Any, scalar: ScalarType) -> Sequence[tuple[StageShape, int]]:
    """The same where copies go on meanwhile, with the number of stretches that shared memory has."""
    if scalar.bytes > 4:
        shapes = (StageShape(4, 4, 64, 64, 8), 3), (StageShape(4, 4, 32, 32, 8), 3)
    else:
        shapes = (StageShape(8, 8, 128, 128, 8), 4), (StageShape(4, 4, 64, 64, 16), 3)
    return [
        (shape, stages)
        for shape, stages in shapes
        if _has_place(record, shape.threads, stages * shape.elements * scalar.bytes)
    ]


def _has_sources(contraction: Contraction) -> bool:
    """Whether both factors may be copied as they are."""
    sides = ((contraction.left, contraction.row), (contraction.right, contraction.column))
    return all(source_of(contraction, factor, part) is not None for factor, part in sides)


def _has_room(record: Any, shape: StageShape, scalar: ScalarType) -> bool:
    return _has_place(record, shape.threads, shape.elements * scalar.bytes)


def _has_stages(record: Any, shape: TensorShape, stages: int, scalar: ScalarType) -> bool:
    return _has_place(record, shape.threads, stages * shape.depth * (shape.rows + shape.columns) * scalar.bytes)


def _has_place(record: Any, threads: int, size: int) -> bool:
    """Whether a block has so many threads and bytes of shared memory."""
    return record.block_threads >= threads and record.shared_memory_bytes >= size


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


def _replace(contraction: Contraction, writers: Sequence[StageWriter]) -> None:
    """The nest becomes a branch: tiles for large sizes, the nest itself for others."""
    outer = contraction.outer
    front, plain = Block(), Block()
    builder = Builder(front, outer.location)
    extents = [builder.sub(part.high, part.low) for part in (contraction.row, contraction.column, contraction.depth)]
    large = _is_large(builder, extents)
    plain.ops = [outer, Op("yield", location=outer.location)]
    builder.op("if", large, regions=(_in_tiles(writers, outer.location), plain), types=())
    at = contraction.block.ops.index(outer)
    contraction.block.ops[at : at + 1] = front.ops


def _in_tiles(writers: Sequence[StageWriter], location: Location | None) -> Block:
    """Tiles of the first kind where there are enough of them to keep a device busy, else of the next."""
    made = Block()
    builder = Builder(made, location)
    first, *rest = writers
    if rest:
        inside = Builder(Block(), location)
        first.write(inside)
        inside.op("yield")
        enough = builder.ge(first.count(builder), builder.index(_ENOUGH))
        builder.op("if", enough, regions=(inside.block, _in_tiles(rest, location)), types=())
    else:
        first.write(builder)
    builder.op("yield")
    return made


def _is_large(builder: Builder, extents: list[Value]) -> Value:
    total = builder.mul(builder.mul(extents[0], extents[1]), extents[2])
    enough = builder.ge(total, builder.index(_SMALLEST))
    for extent in extents:
        enough = builder.bit_and(enough, builder.ge(extent, builder.index(_LEAST)))
    return enough
