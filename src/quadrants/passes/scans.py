"""Loops in order whose carried values are prefixes: they run in parallel, block by block.

    for i in range(n):          for each block, in parallel: its own sum
        y[i] = s          ->    in order, over the blocks: what is in front of each
        s += x[i]               for each block, in parallel: the loop as it was, from there on

Law: integers wrap, so that sums, products, minima, maxima and bits may be grouped as one likes; floats may not. Whatever
else iterations do must be independent, and what the sums are made of must not be written before it is read. A store at a
sum that never goes back, where it goes on by a number above 0, meets no other: `if …: out[n] = x[i]; n += 1`.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, i32, i64, matrix_type, scalar_of
from quadrants.passes.accesses import accesses_of, by_array
from quadrants.passes.affine import Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cost import estimate
from quadrants.passes.dependence import Space, independent
from quadrants.passes.fold import number_of
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest, carried_arguments, inits
from quadrants.passes.privatise import identity
from quadrants.passes.reductions import Chain, recognise
from quadrants.passes.structure import loop_jumps
from quadrants.passes.summaries import Summaries

__all__ = ["run"]

_BLOCKS = 64
_SHORTEST_BLOCK = 4096
_FEWEST = 32768  # iterations: fewer are over before threads have met twice
_MOST_CARRIED = 4
_MOST_PAIRS = 400
_LEAST_GAIN = 1.2  # of time, with the threads that there are: what the sums are made of is computed twice


def run(module: Module, context: PassContext) -> None:
    """Splits the scans of the kernel that stand in no parallel loop; stage `tasks`."""
    kernel = module.kernel
    threads = context.options.cpu_max_num_threads > 1 and (context.record is None or context.record.threads)
    if threads and not kernel.attributes.get("may_alias") and _has_candidates(kernel.body):
        _Splitter(module, context).block(kernel.body)


def _has_candidates(block: Block) -> bool:
    for op in block.ops:
        if op.regions and not op.attribute("parallel"):
            if _is_candidate(op) or any(map(_has_candidates, op.regions)):
                return True
    return False


def _is_candidate(op: Op) -> bool:
    """Whether a loop in order carries integers and writes memory."""
    if op.kind != "for" or not 0 < len(op.results) <= _MOST_CARRIED or op.attribute("rank") != 1:
        return False
    if any(type(value.type) is not ScalarType or value.type.is_float for value in op.results):
        return False
    asked: dict[str, Any] = op.attribute("config") or {}
    if op.attribute("parallel") or asked.get("parallelize") == 1 or loop_jumps(op.regions[0]):
        return False
    kinds = {inner.kind for inner in walk(op.regions[0])}
    known = all(OPS[kind].effects in ("pure", "reads", "control") or kind in ("store", "update") for kind in kinds)
    return known and "store" in kinds and not kinds & {"call", "while", "break", "return"}


class _Splitter:
    def __init__(self, module: Module, context: PassContext) -> None:
        self.context = context
        self.kernel: Function = module.kernel
        self.summaries = Summaries(module)
        self.nest = Nest(self.kernel)

    def block(self, block: Block) -> None:
        """Splits the scans of a block; of loops within one another the outer ones first."""
        for op in list(block.ops):
            if op.attribute("parallel") or not op.regions:
                continue
            if _is_candidate(op) and self._split(block, op):
                self.nest = Nest(self.kernel)
            else:
                for region in op.regions:
                    self.block(region)

    def _split(self, block: Block, loop: Op) -> bool:
        copy = clone_ops([loop], {})[0]
        kept = _reduce(loop, copy)
        if kept is None or not self._reads_first(loop, kept) or not self._pays(loop, copy):
            return False
        place = block.ops.index(loop)
        block.ops.insert(place, copy)
        nest = Nest(self.kernel)
        chains = [recognise(copy, position, nest) for position in range(len(copy.results))]
        combiners = [chain.combiner for chain in chains if chain is not None and not chain.keeps_nan]
        forms = Forms(nest)
        rising = {chain.position for chain in chains if chain is not None and _never_falls(chain, forms)}
        del block.ops[place]
        if len(combiners) < len(chains) or not all(combiners) or not self._independent(loop, rising):
            return False
        if not self.context.permit():
            return False
        block.ops[place : place + 1] = _Parts(loop, copy, combiners).ops()
        self._tell(loop)
        return True

    def _tell(self, loop: Op) -> None:
        self.context.notices[:] = [
            notice
            for notice in self.context.notices
            if notice.pass_name != "parallelise" or notice.locations[:1] != (loop.location,)
        ]
        line = f" at line {loop.location.line}" if loop.location is not None else ""
        self.context.notice("scans", f"the loop{line} runs in parallel blocks: it carries prefixes", loop.location)
        self.context.count("scans")

    def _reads_first(self, loop: Op, kept: set[Op]) -> bool:
        """Whether what the carried values are made of is read, in an iteration, before anything is written there."""
        written: set[Value] = set()
        inside: set[Value] = set()
        for op in walk(loop.regions[0]):
            if op.kind in ("store", "update"):
                written.add(op.operands[1])
                if self._in_loop(op, loop):
                    inside.add(op.operands[1])
            elif op.kind == "load" and op in kept:
                array = op.operands[0]
                if array in written:
                    return False
                inside.update([array] if self._in_loop(op, loop) else ())
        loads = {op.operands[0] for op in walk(loop.regions[0]) if op.kind == "load" and op in kept}
        return not (loads & written & inside)

    def _in_loop(self, op: Op, loop: Op) -> bool:
        return next(around for around in self.nest.around(op) if around.kind != "if") is not loop

    def _pays(self, loop: Op, copy: Op) -> bool:
        forms = Forms(self.nest)
        once, twice = estimate(loop.regions[0], forms), estimate(copy.regions[0], forms)
        return self.context.options.cpu_max_num_threads * once >= _LEAST_GAIN * (once + twice)

    def _independent(self, loop: Op, rising: set[int]) -> bool:
        """Whether different iterations meet in nothing but the carried values, of which those at `rising` never fall."""
        forms = Forms(self.nest)
        space = Space(loop, forms)
        accesses = accesses_of(loop, self.nest, forms, self.summaries.of)
        for array, found in by_array(accesses, False).items():
            writes = [access for access in found if access.writes]
            if len(writes) * len(found) > _MOST_PAIRS:
                return False
            if writes and self._appends(loop, array, forms, rising):
                continue
            if not all(independent(one, other, space) for one in writes for other in found):
                return False
        return True

    def _appends(self, loop: Op, array: Value, forms: Forms, rising: set[int]) -> bool:
        """Whether the only accesses to an array are stores at a carried value that then goes on."""
        arguments = {argument for place, argument in enumerate(carried_arguments(loop)) if place in rising}
        for op in walk(loop.regions[0]):
            position = ARRAY_POSITION.get(op.kind)
            if position is None or op.operands[position] is not array:
                continue
            index = _uncast(op.operands[position + 1]) if len(op.operands) > position + 1 else None
            if op.kind != "store" or index not in arguments or not self._goes_on(op, index, loop):
                return False
            start = inits(loop)[carried_arguments(loop).index(index)]
            if op.attribute("wrap") and not forms.at_least(forms.of(start), 0):
                return False
        return True

    def _goes_on(self, store: Op, sum_: Value, loop: Op) -> bool:
        """Whether the carried value surely grows in an iteration that stores at it."""
        position = carried_arguments(loop).index(sum_)
        around = self.nest.parent[store]
        assert around is not None
        block = next(region for region in around.regions if store in region.ops)
        end = block.ops[-1]
        for op in block.ops:
            if op.kind == "add" and op.operands[0] is sum_ and (number_of(op.operands[1]) or 0) > 0:
                return end.kind == "yield" and self._reaches(op.results[0], end, around, loop, position)
        return False

    def _reaches(self, value: Value, end: Op, around: Op, loop: Op, position: int) -> bool:
        """Whether a value that a block may hand on becomes the carried one."""
        if around is loop:
            return end.operands[position] is value
        if around.kind != "if" or value not in end.operands:
            return False
        result = around.results[end.operands.index(value)]
        outer = self.nest.parent[around]
        assert outer is not None
        region = next(region for region in outer.regions if around in region.ops)
        return self._reaches(result, region.ops[-1], outer, loop, position)


def _never_falls(chain: Chain, forms: Forms) -> bool:
    """Whether a sum is at no step less than before."""
    others = [op.operands[1 - place] for op, place in chain.steps]
    return all(op.kind == "add" for op, _ in chain.steps) and all(forms.at_least(forms.of(o), 0) for o in others)


def _uncast(value: Value) -> Value:
    op = value.owner
    return op.operands[0] if type(op) is Op and op.kind == "cast" and op.operands[0].type in (i32, i64) else value


def _reduce(loop: Op, copy: Op) -> set[Op] | None:
    """Takes all out of a copy of the loop that the carried values are not made of; gives the loop's operations that are
    left, None where one does more than compute."""
    originals = dict(zip(walk(copy.regions[0]), list(walk(loop.regions[0]))))
    _prune(copy.regions[0])
    left = list(walk(copy.regions[0]))
    if any(OPS[op.kind].effects not in ("pure", "reads", "control") for op in left):
        return None
    return {originals[op] for op in left}


def _prune(block: Block) -> set[Value]:
    """Drops what the block's last operation is not made of; gives all values that are left in use."""
    end = block.ops[-1]
    wanted = set(end.operands)
    kept = [end]
    for op in reversed(block.ops[:-1]):
        if not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(op.operands)
            for region in op.regions:
                wanted |= _prune(region)
    block.ops = kept[::-1]
    return wanted


class _Parts:
    """The code for a loop, made of the loop itself and of the copy that only adds up."""

    def __init__(self, loop: Op, copy: Op, combiners: list[str]) -> None:
        self.loop = loop
        self.copy = copy
        self.combiners = combiners
        self.low, self.high = loop.operands[:2]
        self.types = [result.type for result in loop.results]

    def ops(self) -> list[Op]:
        """An `if`: blocks where there are many iterations, else the loop as it was."""
        before, results = Block(), self.loop.results
        builder = Builder(before, self.loop.location)
        count = builder.emit("sub", self.high, self.low)
        many = builder.emit("ge", count, builder.index(_FEWEST))
        short = Block()
        short.ops = clone_ops([self.loop], {})
        Builder(short, self.loop.location).op("yield", *short.ops[0].results)
        self.loop.results = [Value(result.type, self.loop, result.name) for result in results]
        types = {"types": tuple(self.types)}
        choice = Op("if", (many,), (), types, (self._blocks(count), short), self.loop.location)
        choice.results = results
        for result in results:
            result.owner = choice
        return [*before.ops, choice]

    def _blocks(self, count: Value) -> Block:
        block = Block()
        builder = Builder(block, self.loop.location)
        most = builder.index(_BLOCKS)
        share = builder.emit("floordiv", builder.emit("add", count, builder.index(_BLOCKS - 1)), most)
        length = builder.emit("max", share, builder.index(_SHORTEST_BLOCK))
        last = builder.emit("sub", builder.emit("add", count, length), builder.index(1))
        number = builder.emit("floordiv", last, length)
        sums = [builder.emit("slot", type=matrix_type(scalar_of(type_), (_BLOCKS,))) for type_ in self.types]
        starts = [builder.constant(identity(kind, type_), type_) for kind, type_ in zip(self.combiners, self.types)]
        self._in_blocks(builder, number, length, self.copy, starts, sums, True)
        totals = self._combine(builder, number, sums)
        self._in_blocks(builder, number, length, self.loop, None, sums, False)
        builder.op("yield", *totals)
        return block

    def _in_blocks(
        self,
        builder: Builder,
        number: Value,
        length: Value,
        loop: Op,
        starts: list[Value] | None,
        sums: list[Value],
        keeps: bool,
    ) -> None:
        """A parallel loop over the blocks, with a loop over each one's iterations: from `starts` (what is in front of the
        block, if None); what it comes to is kept in `sums`, if wanted."""
        body = Block()
        place = body.add_argument(i64)
        inner = Builder(body, loop.location)
        first = inner.emit("add", self.low, inner.emit("mul", place, length))
        last = inner.emit("min", inner.emit("add", first, length), self.high)
        before = starts or [inner.emit("load", array, place) for array in sums]
        loop.operands = (first, last, *before)
        loop.attributes = {**loop.attributes, "expected_trips": _SHORTEST_BLOCK}
        body.ops.append(loop)
        if keeps:
            for result, array in zip(loop.results, sums):
                inner.op("store", result, array, place)
        inner.op("yield")
        builder.op("for", builder.index(0), number, regions=(body,), rank=1, parallel=True)

    def _combine(self, builder: Builder, number: Value, sums: list[Value]) -> list[Value]:
        """Each block's sum becomes that of all before it; gives those of all blocks."""
        body = Block()
        place = body.add_argument(i64)
        carried = [body.add_argument(type_) for type_ in self.types]
        inner = Builder(body, self.loop.location)
        following: list[Value] = []
        for kind, before, array in zip(self.combiners, carried, sums):
            own = inner.emit("load", array, place)
            inner.op("store", before, array, place)
            following.append(inner.emit(kind, before, own))
        inner.op("yield", *following)
        starts = self.loop.operands[2:]
        return builder.op("for", builder.index(0), number, *starts, regions=(body,), rank=1).results
