"""Reductions made fast and exact: reassociation allowed, float sums in blocks with wider partials, fixed chunks.

A sum of f32 in a parallel loop is right to 1e-6 on 1e8 values. Where the body is such that vector lanes add it up, it is
f32 over blocks of iterations, and f64 over the blocks; else it is f64 throughout, at the same speed. f16 and bf16 are
likewise, with f32 in the blocks. Where the target has no f64, f32 takes its place, and sums of f32 stay as they are. Where a sum goes on through inner loops, these are cut in blocks, and all around them is
f64.
"""

from __future__ import annotations

from collections.abc import Iterable

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, Type, f32, f64, scalar_of, with_scalar
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.cost import estimate, iteration_cost, most_trips, trip_count
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest, carried_arguments, counters, highs, inits, lows
from quadrants.passes.parallelise import CHUNK
from quadrants.passes.reductions import Chain, recognise
from quadrants.passes.rewrite import replace_uses
from quadrants.passes.structure import loop_jumps

__all__ = ["run"]

# Values that a lane adds up in a block at most, with an error below 1e-6 even if all are equal; iterations of a block at
# most, where 32 lanes add up; below which number a sum is f64 throughout; trips of an inner loop that is not cut.
_VALUES = 64
_BLOCK = 32 * _VALUES
_SMALLEST_BLOCK = 8
_SHORT = 16
# Nanoseconds of an iteration up to which blocks have their full length.
_CHEAP = 4.0
# Iterations of a chunk where each is of a length that is not known.
_FEW = 16


def run(module: Module, context: PassContext) -> None:
    """Stage `tasks`. Float reductions of all functions may reassociate; the kernel's parallel ones get wide partials and a
    `chunk`."""
    for function in context.functions(module):
        if _carries(function.body):
            _Widener(function, context).block(function.body)


def _carries(block: Block) -> bool:
    """Whether a loop in a block carries floats, or anything in parallel."""
    for op in block.ops:
        if op.regions:
            if op.kind == "for" and op.results:
                if op.attribute("parallel") or any(scalar_of(value.type).is_float for value in op.results):
                    return True
            if any(_carries(region) for region in op.regions):
                return True
    return False


def _below(number: float) -> int:
    """The largest power of two that is not above a number (1 for smaller ones)."""
    return 1 << max(int(number), 1).bit_length() - 1


def _longest_block(context: PassContext) -> int:
    """Iterations of a block at most: code generators add up at least two vectors side by side, of 256 bits and more four."""
    record = context.record
    if record is None or not record.vector_bits:
        return _BLOCK
    side_by_side = 4 if record.vector_bits >= 256 else 2
    return min(_VALUES * side_by_side * record.lanes(f32), _BLOCK)


class _Widener:
    def __init__(self, function: Function, context: PassContext) -> None:
        self.function = function
        self.context = context
        self.wide = f64 if context.record is None or context.record.has_dtype(f64) else f32
        self.spread = context.record is not None and bool(context.record.block_threads)
        self.longest = _longest_block(context)
        self.nest = Nest(function)
        self.forms = Forms(self.nest)

    def block(self, block: Block) -> None:
        """Treats the loops of a block, outer ones first."""
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            if op.kind == "for" and op.results:
                position += self.loop(op, block, position)
            for region in op.regions:
                self.block(region)
            position += 1

    def loop(self, loop: Op, block: Block, position: int) -> int:
        """Treats one loop; how many operations it has put before it and behind it."""
        chains = [recognise(loop, number, self.nest) for number in range(len(loop.results))]
        for chain in chains:
            if chain is not None:
                _allow_reassociation(chain)
        if not loop.attribute("parallel"):
            return 0
        wide = {
            chain.position: chain
            for chain in chains
            if chain is not None and chain.combiner == "add" and self._is_narrow(scalar_of(chain.argument.type))
        }
        added = 0
        if wide and self.context.permit():
            added = self._widen_parallel(loop, wide, block, position)
            self.context.count("sums widened", len(wide))
        self._chunk(loop)
        return added

    def _is_narrow(self, scalar: ScalarType) -> bool:
        return scalar.is_float and scalar.bits < self.wide.bits

    def _chunk(self, loop: Op) -> None:
        """Law: a chunk depends on the code alone, so that sums have the same bits whatever the number of threads."""
        length = iteration_cost(loop, self.forms)
        most = CHUNK
        if any(_is_open(op, self.forms) for op in loop.regions[0].ops):
            most = _FEW
        loop.attributes = {**(loop.attributes or {}), "chunk": min(_below(CHUNK / length), most)}

    def _widen_parallel(self, loop: Op, wide: dict[int, Chain], block: Block, position: int) -> int:
        before, behind = Block(), Block()
        start, end = Builder(before, loop.location), Builder(behind, loop.location)
        rank: int = loop.attribute("rank")
        for number in wide:
            narrow = loop.results[number]
            wider = with_scalar(narrow.type, self.wide)
            place = 2 * rank + number
            init = start.cast(loop.operands[place], wider)
            loop.operands = (*loop.operands[:place], init, *loop.operands[place + 1 :])
            result = end.emit("cast", narrow, type=narrow.type)
            replace_uses(self.nest, narrow, result)
            narrow.type = wider
        _Widening(self.nest, self.forms, wide, self.wide, self.spread, self.longest).loop(loop, set(wide), start)
        block.ops[position : position + 1] = [*before.ops, loop, *behind.ops]
        self.nest = Nest(self.function)
        self.forms = Forms(self.nest)
        return len(before.ops) + len(behind.ops)


def _allow_reassociation(chain: Chain) -> None:
    for op, _ in chain.steps:
        if scalar_of(op.results[0].type).is_float and not op.attribute("reassociate"):
            op.attributes = {**(op.attributes or {}), "reassociate": True}


def _is_open(op: Op, forms: Forms) -> bool:
    """Whether an operation takes a time that the code does not tell."""
    if op.kind in ("while", "call"):
        return True
    if op.kind == "for" and most_trips(op, forms) is None:
        return True
    return any(_is_open(inner, forms) for region in op.regions for inner in region.ops)


class _Widening:
    """Widens the sums of one parallel loop. `chains` are by the position at which that loop carries them; `spread`: its
    iterations are spread over threads, one by one, so that none adds up neighbours; `longest`: iterations of a block at
    most."""

    def __init__(
        self, nest: Nest, forms: Forms, chains: dict[int, Chain], wide: ScalarType, spread: bool, longest: int
    ) -> None:
        self.nest = nest
        self.forms = forms
        self.chains = chains
        self.wide = wide
        self.spread = spread
        self.longest = longest
        self.values = {value for chain in chains.values() for value in chain.values}
        self.steps = {op: place for chain in chains.values() for op, place in chain.steps}
        self.inner = {loop for chain in chains.values() for loop in chain.loops}

    def loop(self, loop: Op, positions: set[int], start: Builder) -> None:
        """Widens what a loop carries at some positions; its inits and results are wide already."""
        deep = [inner for inner in self.inner if self._next_inside(inner, loop)]
        length = self._block_length(loop)
        spread = loop.attribute("parallel") and self.spread
        broken = spread or loop.kind == "while" or any(jump.kind == "break" for jump in loop_jumps(loop.regions[-1]))
        if not deep and not broken and length >= _SMALLEST_BLOCK and self._is_straight(loop.regions[0], loop):
            self._cut(loop, positions, length, start)
            return
        self._widen_body(loop, positions)
        for inner in deep:
            self._inner(inner)

    def _block_length(self, loop: Op) -> int:
        return _below(self.longest / max(estimate(loop.regions[-1], self.forms) / _CHEAP, 1.0))

    def _is_straight(self, block: Block, loop: Op) -> bool:
        """Whether lanes can run a body: no memory at data-dependent places, nothing but arithmetic under conditions."""
        for op in block.ops:
            if op.kind in ("load", "store"):
                if block is not loop.regions[0] and not self._is_short(self.nest.parent[op] or loop):
                    return False
                indices = op.operands[ARRAY_POSITION[op.kind] + 1 :]
                if not all(self._is_known(atom, loop) for index in indices for atom in self.forms.of(index).atoms()):
                    return False
            elif op.regions:
                fits = op.kind == "if" or (op.kind == "for" and self._is_short(op))
                if not fits or not all(self._is_straight(region, loop) for region in op.regions):
                    return False
            elif OPS[op.kind].effects != "pure" and op.kind not in ("yield", "continue"):
                return False
        return True

    def _is_known(self, atom: Value, loop: Op) -> bool:
        return atom in self.nest.counter or self.forms.invariant(atom, loop)

    def _is_short(self, loop: Op) -> bool:
        trips = trip_count(loop, self.forms) if loop.kind == "for" else None
        return trips is not None and trips <= _SHORT

    def _next_inside(self, inner: Op, loop: Op) -> bool:
        """Whether `inner` is a long loop in `loop`, with no other long one that carries a sum between them."""
        if self._is_short(inner):
            return False
        for around in self.nest.around(inner):
            if around is loop:
                return True
            if around in self.inner and not self._is_short(around):
                return False
        return False

    def _inner(self, loop: Op) -> None:
        """A long loop within a loop that is wide."""
        rank: int = loop.attribute("rank", 0)
        positions = {place - 2 * rank for place in range(2 * rank, len(loop.operands)) if self._carried(loop, place)}
        holder = self._block_of(loop)
        before = Block()
        self.loop(loop, positions, Builder(before, loop.location))
        at = holder.ops.index(loop)
        holder.ops[at:at] = before.ops

    def _carried(self, loop: Op, place: int) -> bool:
        rank: int = loop.attribute("rank", 0)
        return loop.results[place - 2 * rank] in self.values

    def _block_of(self, op: Op) -> Block:
        around = self.nest.parent[op]
        assert around is not None
        return next(region for region in around.regions if op in region.ops)

    def _widen_body(self, loop: Op, positions: Iterable[int]) -> None:
        """Makes the versions of the sums in a loop's body wide, but not those within long loops in it."""
        rank: int = loop.attribute("rank", 0)
        for region in loop.regions:
            for position in positions:
                value = region.arguments[rank + position]
                value.type = with_scalar(value.type, self.wide)
            self._retype(region, self.wide)

    def _retype(self, block: Block, scalar: ScalarType) -> None:
        """The versions defined in a block in another type; what is added to them is cast to it."""
        out: list[Op] = []
        for op in block.ops:
            if op in self.steps and op.results[0] in self.values:
                self._cast_other(op, self.steps[op], scalar, out)
            out.append(op)
            for result in op.results:
                if result in self.values:
                    result.type = with_scalar(result.type, scalar)
            if op.kind == "if" and op.attribute("types"):
                op.attributes = {**(op.attributes or {}), "types": tuple([result.type for result in op.results])}
            if op in self.inner and scalar is self.wide and not self._is_short(op):
                continue
            for region in op.regions:
                for argument in region.arguments:
                    if argument in self.values:
                        argument.type = with_scalar(argument.type, scalar)
                self._retype(region, scalar)
        block.ops = out

    def _cast_other(self, op: Op, place: int, scalar: ScalarType, out: list[Op]) -> None:
        operands = list(op.operands)
        other = operands[1 - place]
        cast = Op("cast", (other,), (with_scalar(other.type, scalar),), None, (), op.location)
        cast.attributes = {"type": cast.results[0].type}
        operands[1 - place] = cast.results[0]
        op.operands = tuple(operands)
        out.append(cast)

    def _cut(self, loop: Op, positions: set[int], length: int, start: Builder) -> None:
        """Cuts a loop into blocks: within one the sums start at 0 and are narrow, behind it they are added up."""
        body = loop.regions[0]
        narrow = {position: carried_arguments(loop)[position].type for position in positions}
        for position, type_ in narrow.items():
            if scalar_of(type_).bits < 32:
                narrow[position] = with_scalar(type_, f32)
                carried_arguments(loop)[position].type = narrow[position]
        if any(scalar_of(chain.argument.type).bits < 32 for chain in self.chains.values()) or any(
            scalar_of(value.type).bits < 32 for value in self.values
        ):
            self._retype_narrow(body)
        _Cutter(loop, narrow, length, start).run()

    def _retype_narrow(self, body: Block) -> None:
        """f16 and bf16 sums are f32 within a block."""
        wide = {value for value in self.values if scalar_of(value.type).bits >= 32}
        kept, self.values = self.values, self.values - wide
        self._retype(body, f32)
        self.values = kept


class _Cutter:
    """Makes `for last` into `for block { for last of the block }` in place: the operation becomes the outer loop."""

    def __init__(self, loop: Op, narrow: dict[int, Type], length: int, start: Builder) -> None:
        self.loop = loop
        self.narrow = narrow
        self.length = length
        self.start = start

    def run(self) -> None:
        loop = self.loop
        body = loop.regions[0]
        rank: int = loop.attribute("rank")
        outer_counters, last = counters(loop)[: rank - 1], counters(loop)[rank - 1]
        low, high = lows(loop)[-1], highs(loop)[-1]
        carried = carried_arguments(loop)
        body.arguments = [last, *carried]
        types = [value.type for value in inits(loop)]
        if rank == 1:
            self._blocks(loop, low, high, body, types, self.start)
            return
        rows = Block()
        for counter in outer_counters:
            counter.owner = rows
        rows.arguments = list(outer_counters)
        arguments = [rows.add_argument(type_) for type_ in types]
        within = Builder(rows, loop.location)
        inner = Op("for", (low, high, *arguments), tuple(types), {"rank": 1}, (body,), loop.location)
        self._blocks(inner, low, high, body, types, within)
        rows.ops.append(inner)
        within.op("yield", *inner.results)
        loop.operands = (*lows(loop)[:-1], *highs(loop)[:-1], *inits(loop))
        loop.attributes = {**(loop.attributes or {}), "rank": rank - 1}
        loop.regions = (rows,)

    def _blocks(self, loop: Op, low: Value, high: Value, body: Block, types: list[Type], before: Builder) -> None:
        """Makes `loop` the loop over blocks, with `body` within a loop over the iterations of one."""
        count, shift = self.length, self.length.bit_length() - 1
        padded = before.add(before.sub(high, low), before.index(count - 1))
        blocks = before.shr(padded, before.index(shift))
        zero = before.index(0)
        outer = Block()
        number = outer.add_argument(zero.type, "block")
        sums = [outer.add_argument(type_, argument.name) for type_, argument in zip(types, body.arguments[1:])]
        builder = Builder(outer, self.loop.location)
        first = builder.add(low, builder.shl(number, builder.index(shift)))
        stop = builder.min(builder.add(first, builder.index(count)), high)
        partials = self._fold(builder, body, first, stop, sums)
        builder.op("yield", *partials)
        loop.operands = (zero, blocks, *inits(loop))
        loop.regions = (outer,)

    def _fold(self, builder: Builder, body: Block, first: Value, stop: Value, sums: list[Value]) -> list[Value]:
        """The loop over one block, and the sums with it."""
        starts = [
            builder.constant(0, self.narrow[position]) if position in self.narrow else value
            for position, value in enumerate(sums)
        ]
        inner = builder.op("for", first, stop, *starts, regions=(body,), rank=1)
        return [
            builder.emit("add", value, builder.cast(found, scalar_of(value.type)), reassociate=True)
            if position in self.narrow
            else found
            for position, (value, found) in enumerate(zip(sums, inner.results))
        ]
