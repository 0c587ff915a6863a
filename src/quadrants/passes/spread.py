"""The iterations of a parallel loop spread over the threads of blocks: each thread takes those that lie as far apart as there are
threads. How many blocks there are depends on the number of iterations alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import i64
from quadrants.passes.clone import clone_ops
from quadrants.passes.grid_code import GridLoop, Odometer, extents_of, product_of, rounded_up
from quadrants.passes.nest import carried_arguments, counters, lows
from quadrants.passes.structure import loop_jumps

__all__ = ["Spread"]


class Spread:
    """Blocks of `threads` for a loop: so many that a thread has `least` iterations or more, and at most `most` of them. What the
    host computes goes to the builder."""

    def __init__(self, builder: Builder, loop: Op, threads: int, least: int, most: int) -> None:
        self.loop = loop
        self.threads = threads
        one = builder.index(1)
        self.extents = extents_of(builder, loop)
        self.total = product_of(builder, self.extents)
        wanted = rounded_up(builder, self.total, threads * least)
        self.blocks = builder.min(builder.max(wanted, one), builder.index(most))
        self.step = builder.mul(self.blocks, builder.index(threads), exact=True)
        self.whole = builder.floordiv(self.total, self.step)
        self.rest = builder.sub(self.total, builder.mul(self.whole, self.step, exact=True), exact=True)
        self.odometer = Odometer(builder, self.extents, self.step)

    def write(
        self, grid: GridLoop, starts: Sequence[Value] = (), rewrite: Callable[[Block], None] = lambda block: None
    ) -> Sequence[Value]:
        """A thread's iterations, with what they carry from `starts` on; gives what they come to. `rewrite` changes the copy of the
        loop's body."""
        inside = grid.inside
        first = inside.mul(grid.number, inside.index(self.threads), exact=True)
        first = inside.add(first, grid.thread, exact=True)
        trips = inside.add(self.whole, inside.cast(inside.lt(first, self.rest), i64), exact=True)
        write = self._along if len(self.extents) == 1 else self._through
        return write(inside, first, trips, starts, rewrite)

    def _along(
        self, builder: Builder, first: Value, trips: Value, starts: Sequence[Value], rewrite: Callable[[Block], None]
    ) -> Sequence[Value]:
        """A thread's iterations of a loop with one counter."""
        loop, body, iteration = self.loop, Block(), Block()
        turn = body.add_argument(i64)
        carried = [body.add_argument(result.type) for result in loop.results]
        inner = Builder(body, loop.location)
        place = inner.add(first, inner.mul(turn, self.step, exact=True), exact=True)
        counter = inner.add(lows(loop)[0], place, exact=True)
        values = {counters(loop)[0]: counter, **dict(zip(carried_arguments(loop), carried))}
        iteration.ops = clone_ops(loop.regions[0].ops, values)
        rewrite(iteration)
        body.ops += iteration.ops
        return builder.op("for", builder.index(0), trips, *starts, regions=(body,), rank=1).results

    def _through(
        self, builder: Builder, first: Value, trips: Value, starts: Sequence[Value], rewrite: Callable[[Block], None]
    ) -> Sequence[Value]:
        """A thread's iterations of a nest: its counters are carried on."""
        loop, body, iteration = self.loop, Block(), Block()
        body.add_argument(i64)
        digits = [body.add_argument(i64) for _ in self.extents]
        carried = [body.add_argument(result.type) for result in loop.results]
        inner = Builder(body, loop.location)
        following = self.odometer.following(inner, digits)
        own = [inner.add(low, digit, exact=True) for low, digit in zip(lows(loop), digits)]
        values = {**dict(zip(counters(loop), own)), **dict(zip(carried_arguments(loop), carried))}
        iteration.ops = clone_ops(loop.regions[0].ops, values)
        last = iteration.ops[-1]
        for jump in [*loop_jumps(iteration), *([last] if last.kind == "yield" else [])]:
            jump.operands = (*following, *jump.operands)
        rewrite(iteration)
        body.ops += iteration.ops
        places = self.odometer.start(builder, first)
        made = builder.op("for", builder.index(0), trips, *places, *starts, regions=(body,), rank=1)
        return made.results[len(digits) :]
