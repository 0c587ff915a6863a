"""Sums scattered into small arrays on devices whose blocks of threads share memory: a block's threads add to a copy of the array
in shared memory, and what the copy comes to is added to the array once a block.

Histograms: threads of the whole device would wait for one another at a few elements. Whether an array is small, and the
iterations are many, the host asks before the launch.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, i64, scalar_of
from quadrants.passes.context import PassContext
from quadrants.passes.grid_code import GridLoop, extents_of, flat_counters, product_of, replace_where, when
from quadrants.passes.spread import Spread

__all__ = ["run"]

_THREADS = 256
_BYTES = 16 * 1024
"""Shared memory for copies, at most: several blocks of a device's multiprocessor have room then."""
_LEAST = 16
"""Iterations of a thread, at least."""
_BLOCKS = 512
"""Blocks, at most."""
_TIMES = 8
"""Iterations for each element of the arrays, at least: fewer meet too seldom."""


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The loops that `scatter` has marked, where the record has blocks of threads."""
    record = context.record
    if record is None or record.block_threads < _THREADS or record.shared_memory_bytes < _BYTES:
        return
    _block(module.kernel.body, context)


def _block(block: Block, context: PassContext) -> None:
    for op in list(block.ops):
        if op.attribute("parallel"):
            if op.attribute("scatter") and not op.results and context.permit():
                _replace(block, op)
                context.count("scattered sums in shared memory")
        else:
            for region in op.regions:
                _block(region, context)


def _targets(loop: Op) -> list[Value]:
    """The arrays that iterations may meet in."""
    updates = [op for op in walk(loop.regions[0]) if op.kind == "update" and op.attribute("atomic", True)]
    return list(dict.fromkeys(op.operands[1] for op in updates))


def _replace(block: Block, loop: Op) -> None:
    """The loop becomes a branch: copies for small arrays, the loop itself for others."""
    builder = Builder(Block(), loop.location)
    arrays = [_Copy(builder, array, _BYTES // len(_targets(loop))) for array in _targets(loop)]
    total, all_of_them = product_of(builder, extents_of(builder, loop)), builder.index(0)
    small = None
    for copy in arrays:
        fits = builder.le(copy.count, builder.index(copy.room))
        small = fits if small is None else builder.bit_and(small, fits)
        all_of_them = builder.add(all_of_them, copy.count)
    assert small is not None
    many = builder.ge(total, builder.mul(all_of_them, builder.index(_TIMES)))
    replace_where(block, loop, builder, builder.bit_and(small, many), lambda copies: _write(copies, loop, arrays))


class _Copy:
    """An array with its sizes; `room`: how many elements its copy has at most, `count`: how many it needs."""

    def __init__(self, builder: Builder, array: Value, size: int) -> None:
        self.array = array
        self.scalar = scalar_of(array.type)
        self.room = size // self.scalar.bytes
        type_ = array.type
        assert type(type_) is ArrayType
        self.sizes = [builder.emit("dim", array, axis=axis) for axis in range(type_.rank)]
        self.count = builder.index(1)
        for extent in self.sizes:
            self.count = builder.mul(self.count, extent)
        self.memory: Value


def _write(builder: Builder, loop: Op, copies: list[_Copy]) -> None:
    spread = Spread(builder, loop, _THREADS, _LEAST, _BLOCKS)
    grid = GridLoop(builder, spread.blocks, _THREADS)
    memories = {copy.array: copy for copy in copies}
    for copy in copies:
        copy.memory = grid.shared(copy.scalar, copy.room)
        _clear(grid, copy)
    grid.inside.op("barrier")
    spread.write(grid, rewrite=lambda body: _redirect(body, memories))
    grid.inside.op("barrier")
    for copy in copies:
        _add(grid, copy)
    reason = "a block's threads add to a copy of the array in shared memory"
    grid.close(cost=int(loop.attribute("cost", 1)) * _THREADS * _LEAST, lanes=1, lanes_reason=reason)


def _elements(grid: GridLoop, copy: _Copy, fill: Callable[[Builder, Value], None]) -> None:
    """Each thread visits every so many elements of a copy."""
    inside, body = grid.inside, Block()
    turn = body.add_argument(i64)
    inner = Builder(body, inside.location)
    place = inner.add(grid.thread, inner.mul(turn, inner.index(_THREADS), exact=True), exact=True)
    fill(inner, place)
    inner.op("yield")
    left = inside.sub(inside.add(copy.count, inside.index(_THREADS - 1), exact=True), grid.thread, exact=True)
    trips = inside.floordiv(left, inside.index(_THREADS))
    inside.op("for", inside.index(0), trips, regions=(body,), rank=1)


def _clear(grid: GridLoop, copy: _Copy) -> None:
    def clear(builder: Builder, place: Value) -> None:
        builder.op("store", builder.constant(0, copy.scalar), copy.memory, place)

    _elements(grid, copy, clear)


def _add(grid: GridLoop, copy: _Copy) -> None:
    """What a copy comes to is added to its array; what is 0 changes nothing there."""

    def add(builder: Builder, place: Value) -> None:
        value = builder.load(copy.memory, place)

        def update(inner: Builder) -> None:
            zeros = [inner.index(0)] * len(copy.sizes)
            inner.op("update", value, copy.array, *flat_counters(inner, place, zeros, copy.sizes), by="add")

        when(builder, builder.ne(value, builder.constant(0, copy.scalar)), update)

    _elements(grid, copy, add)


def _redirect(block: Block, copies: dict[Value, _Copy]) -> None:
    """Updates of the arrays become updates of their copies."""
    made = Block()
    for op in block.ops:
        for region in op.regions:
            _redirect(region, copies)
        copy = copies.get(op.operands[1]) if op.kind == "update" else None
        if copy is not None:
            value, _, *indices = op.operands
            builder = Builder(made, op.location)
            place = indices[0]
            for index, extent in zip(indices[1:], copy.sizes[1:]):
                place = builder.add(builder.mul(place, extent, exact=True), index, exact=True)
            op.operands = (value, copy.memory, place)
        made.ops.append(op)
    block.ops = made.ops
