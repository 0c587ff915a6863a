"""Reductions of parallel loops where blocks of a device's threads share memory: each thread combines iterations that lie as
far apart as there are threads, a block combines what its threads have, and one block combines what the blocks have.

How many blocks there are, and who combines what, depends on the number of iterations and the code alone: results have the same
bits in every run, on every device of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import array_type, i64, scalar_of, u1
from quadrants.passes.grid_code import GridLoop, combine_in_block, when
from quadrants.passes.nest import inits
from quadrants.passes.privatise import identity
from quadrants.passes.spread import Spread

__all__ = ["reduce_in_blocks"]

_THREADS = 256
"""Threads of a block; fewer where iterations are long, so that few of them keep more of the device busy."""
_FEW_THREADS = 64
_LONG = 64
"""Cost of an iteration (in nanoseconds of a CPU) from which it is long."""
_ITERATIONS = 8
"""Iterations of a thread, at least, before there are more blocks, where they are short."""
_BLOCKS = 1024
"""Blocks at most: as many threads as large devices run at once."""


def reduce_in_blocks(loop: Op, record: Any) -> list[Op]:
    """The code that takes a reduction's place."""
    return _Reduction(loop, record).write()


def _wish(loop: Op) -> int:
    """The threads of a block that the user wants, where trees can be made of them; else 0."""
    config: dict[str, Any] = loop.attribute("config") or {}
    wanted: int = config.get("block_dim") or 0
    return wanted if wanted & (wanted - 1) == 0 else 0


class _Reduction:
    def __init__(self, loop: Op, record: Any) -> None:
        self.loop = loop
        self.made = Block()
        self.builder = Builder(self.made, loop.location)
        self.combiners: Sequence[str] = loop.attribute("reductions")
        self.cost = int(loop.attribute("cost", 1))
        is_long = self.cost >= _LONG or any(op.kind in ("while", "call") for op in walk(loop.regions[0]))
        self.threads = min(_wish(loop) or (_FEW_THREADS if is_long else _THREADS), record.block_threads)
        self.least = 1 if is_long else _ITERATIONS
        self.subgroup = min(record.subgroup_sizes, default=1)

    def write(self) -> list[Op]:
        builder = self.builder
        spread = Spread(builder, self.loop, self.threads, self.least, _BLOCKS)
        partials = self._memory(spread.blocks)
        self._reduce(spread, partials)
        totals = self._memory()
        self._combine(spread.blocks, partials, totals)
        self._finish(spread.total, totals)
        for memory in (*partials, *totals):
            builder.op("release", memory)
        return self.made.ops

    def _memory(self, *sizes: Value) -> list[Value]:
        always = self.builder.constant(True, u1)
        types = [array_type(scalar_of(result.type), len(sizes)) for result in self.loop.results]
        return [self.builder.op("temporary", always, *sizes, type=type_).results[0] for type_ in types]

    def _starts(self, builder: Builder) -> list[Value]:
        types = [scalar_of(result.type) for result in self.loop.results]
        return [builder.constant(identity(name, type_), type_) for name, type_ in zip(self.combiners, types)]

    def _reduce(self, spread: Spread, partials: list[Value]) -> None:
        """A partial of each block."""
        grid = GridLoop(self.builder, spread.blocks, self.threads)
        found = spread.write(grid, self._starts(grid.inside))
        self._keep(grid, found, partials, [grid.number])
        kept = {name: self.loop.attributes[name] for name in ("lanes", "lanes_reason") if name in self.loop.attributes}
        grid.close(cost=self.cost * self.threads, **kept)

    def _keep(self, grid: GridLoop, values: Sequence[Value], memories: list[Value], place: list[Value]) -> None:
        """The first thread puts what all have, combined, into memory."""
        found = combine_in_block(grid, values, self.combiners, self.subgroup)

        def store(inner: Builder) -> None:
            for value, memory in zip(found, memories):
                inner.op("store", value, memory, *place)

        when(grid.inside, grid.inside.eq(grid.thread, grid.inside.index(0)), store)

    def _combine(self, blocks: Value, partials: list[Value], totals: list[Value]) -> None:
        """One block combines what the others have: each thread every so many."""
        outside = self.builder
        grid = GridLoop(outside, outside.index(1), self.threads)
        inside, size = grid.inside, self.threads
        body = Block()
        turn = body.add_argument(i64)
        carried = [body.add_argument(result.type) for result in self.loop.results]
        inner = Builder(body, self.loop.location)
        place = inner.add(inner.mul(turn, inner.index(size), exact=True), grid.thread, exact=True)
        loaded = [inner.load(partial, place) for partial in partials]
        inner.op("yield", *[inner.emit(by, one, other) for by, one, other in zip(self.combiners, carried, loaded)])
        left = inside.sub(inside.add(blocks, inside.index(size - 1), exact=True), grid.thread, exact=True)
        trips = inside.floordiv(left, inside.index(size))
        found = inside.op("for", inside.index(0), trips, *self._starts(inside), regions=(body,), rank=1).results
        self._keep(grid, found, totals, [])
        grid.close(cost=self.threads, single=True)

    def _finish(self, total: Value, totals: list[Value]) -> None:
        """The results: what the loop began with, combined with what all iterations gave."""
        builder, loop = self.builder, self.loop
        some = builder.gt(total, builder.index(0))
        found: list[Value] = []
        for name, start, memory in zip(self.combiners, inits(loop), totals):
            found.append(builder.select(some, builder.emit(name, start, builder.load(memory)), start))
        for op, result in zip([value.owner for value in found], loop.results):
            assert type(op) is Op
            op.results = [result]
            result.owner = op
