"""Adjacent parallel loops over one domain become one: data that both touch comes from memory once, and threads meet once.

Law: two parallel loops that follow one another may run as one if whatever different iterations of the two do to memory
commutes, and the second takes no result of the first. What stands between the loops moves in front of the first or behind
the second, where that changes nothing.

Loops over two arrays have one domain if the arrays have one shape, which is known when the kernel runs: there the joined
loop runs, and elsewhere the loops as they were.

Joined are loops that LLVM vectorises in the same way: straight lines with one another, and lines with conditions with one
another. Loops with loops within are left alone: lanes are chosen for each by what it does.
"""

from __future__ import annotations

from functools import reduce

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Location, Module, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import MatrixType
from quadrants.passes.accesses import Access, accesses_of
from quadrants.passes.affine import Form, Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cse import merge_in
from quadrants.passes.dependence import Space, independent
from quadrants.passes.forward_stores import forward_in
from quadrants.passes.memory import Effects, MemoryEffects
from quadrants.passes.nest import Nest, carried_arguments, counters, highs, inits, lows
from quadrants.passes.parallelise import CHUNK
from quadrants.passes.rewrite import replace_uses
from quadrants.passes.summaries import Summaries

__all__ = ["run"]

# Operations (elements of matrices counted one by one) and arrays of a joined loop: beyond, registers run out, and the
# processor follows no more streams of memory. Loops that share no array are joined only up to the smaller numbers.
_MOST_OPS, _MOST_ARRAYS = 200, 12
_MOST_OPS_APART, _MOST_ARRAYS_APART = 40, 6
_MOST_BETWEEN = 64
_MOST_PAIRS = 400
_ACCESSES = frozenset({"load", "store", "update"})


def run(module: Module, context: PassContext) -> None:
    """Joins the parallel loops of the kernel; stage `tasks`, before values are widened and atomics dropped."""
    kernel = module.kernel
    if not kernel.attributes.get("may_alias") and _has_neighbours(kernel.body):
        _Fuser(module, context).block(kernel.body)


def _has_neighbours(block: Block) -> bool:
    loops = 0
    for op in block.ops:
        if op.attribute("parallel"):
            loops += 1
            if loops > 1:
                return True
        elif op.regions:
            loops = 0
            if any(_has_neighbours(region) for region in op.regions):
                return True
    return False


class _Line:
    """What one loop's body is, as far as it decides on joining; `kind` is '' for a loop that is never joined."""

    __slots__ = ("arrays", "kind", "size")

    def __init__(self, loop: Op) -> None:
        self.kind = "straight"
        self.size = 0
        self.arrays: set[Value] = set()
        for op in walk(loop.regions[0]):
            if op.kind == "if":
                self.kind = self.kind and "branches"
            elif op.kind in _ACCESSES:
                self.arrays.add(op.operands[0 if op.kind == "load" else 1])
            elif op.kind != "yield" and OPS[op.kind].effects != "pure":
                self.kind = ""
            self.size += _width(op)

    def suits(self, other: _Line) -> bool:
        """Whether a loop of both bodies is worth having."""
        if not self.kind or self.kind != other.kind:
            return False
        size, arrays = self.size + other.size, len(self.arrays | other.arrays)
        if self.arrays.isdisjoint(other.arrays):
            return size <= _MOST_OPS_APART and arrays <= _MOST_ARRAYS_APART
        return size <= _MOST_OPS and arrays <= _MOST_ARRAYS


def _width(op: Op) -> int:
    for value in op.results or op.operands[:1]:
        if type(value.type) is MatrixType:
            return value.type.count
    return 0 if op.kind in ("constant", "dim", "yield") else 1


class _Group:
    """Loops that are joined: the first takes in the others. `originals` are copies of what they were, in order, `sizes` the
    pairs of values that must be equal for the joined loop to run in place of these."""

    __slots__ = ("loop", "originals", "places", "sizes", "values")

    def __init__(self, loop: Op) -> None:
        self.loop = loop
        self.places: list[Location | None] = [loop.location]
        self.originals: list[Op] = []
        self.sizes: list[tuple[Value, Value]] = []
        self.values: dict[Value, Value] = {}

    def keep(self, loop: Op) -> None:
        """Notes a loop as it is."""
        self.originals += clone_ops([loop], self.values)


class _Fuser:
    def __init__(self, module: Module, context: PassContext) -> None:
        self.module = module
        self.context = context
        self.kernel: Function = module.kernel
        self.summaries = Summaries(module)
        # Kept up to date with each join. What a finished group's loop becomes is of no account to the loops behind it.
        self.nest = Nest(self.kernel)
        self.effects = MemoryEffects(module)

    def block(self, block: Block) -> None:
        """Joins the loops of a block, and of the blocks within that are no parallel loop's."""
        position = 0
        while position < len(block.ops):
            op = block.ops[position]
            if op.attribute("parallel"):
                position = self._gather(block, position)
            else:
                for region in op.regions:
                    if _has_neighbours(region):
                        self.block(region)
            position += 1

    def _gather(self, block: Block, position: int) -> int:
        """Joins to one loop those that follow; gives its place."""
        group = _Group(block.ops[position])
        while True:
            place = _next_loop(block, position)
            if place is None or not self._join(block, position, place, group):
                break
            position = block.ops.index(group.loop)
        if len(group.places) > 1:
            position = self._finish(block, position, group)
        return position

    def _finish(self, block: Block, position: int, group: _Group) -> int:
        region = group.loop.regions[0]
        merge_in(region, self.context)
        forward_in(region, self.kernel, MemoryEffects(self.module), self.context)
        if group.sizes:
            made = _choice(group)
            block.ops[position : position + 1] = made
            position += len(made) - 1
        lines = ", ".join([str(found.line) for found in group.places if found is not None])
        condition = ", where the arrays have one shape" if group.sizes else ""
        self.context.notice("fuse", f"the loops at lines {lines} run as one{condition}", *group.places)
        self.context.count("loops fused", len(group.places) - 1)
        return position

    def _join(self, block: Block, position: int, place: int, group: _Group) -> bool:
        first, second = block.ops[position], block.ops[place]
        line, other = _Line(first), _Line(second)
        if not line.suits(other) or not _may_join(first, second):
            return False
        sizes = self._sizes(first, second)
        if sizes is None or (sizes and line.arrays.isdisjoint(other.arrays)):
            return False
        parted = self._part(block.ops[position + 1 : place], first, second)
        if parted is None or not self._commute(first, second, sizes) or not self.context.permit():
            return False
        if not group.originals:
            group.keep(first)
        group.keep(second)
        group.places.append(second.location)
        group.sizes += sizes
        early, late = parted
        self._merge(first, second)
        block.ops[position : place + 1] = [*early, first, *late]
        return True

    # What stands between.

    def _part(self, between: list[Op], first: Op, second: Op) -> tuple[list[Op], list[Op]] | None:
        """The operations between two loops that move in front of both, and those that move behind; None if one can
        do neither."""
        wanted = set(second.operands)
        for op in walk(second.regions[0]):
            wanted.update(op.operands)
        early: list[Op] = []
        late: list[Op] = []
        for op in reversed(between):
            is_early = not wanted.isdisjoint(op.results)
            (early if is_early else late).insert(0, op)
            if is_early:
                wanted.update(op.operands)
        if not wanted.isdisjoint(first.results):
            return None
        passed, ahead = self.effects.block(first.regions[0]), self.effects.block(second.regions[0])
        skipped = Effects(set(passed.reads), set(passed.writes))
        members = set(early)
        for op in between:
            reached = _reach(op)
            if reached is None:
                return None
            if op in members:
                if reached.writes or _conflict(reached, skipped):
                    return None
            else:
                skipped.add(reached)
                if _conflict(reached, ahead):
                    return None
        return early, late

    # Dependence.

    def _sizes(self, first: Op, second: Op) -> list[tuple[Value, Value]] | None:
        """The pairs of sizes of arrays that must be equal for the loops to have one domain; None if they have two."""
        forms = Forms(self.nest)
        sizes: list[tuple[Value, Value]] = []
        for mine, other in zip((*lows(first), *highs(first)), (*lows(second), *highs(second))):
            if mine is other:
                continue
            if not (forms.exact(mine) and forms.exact(other)):
                return None  # what wraps may differ although the polynomials are equal
            distance = forms.of(mine).plus(forms.of(other), -1)
            if not distance.terms:
                continue
            atoms = {count: monomial[0] for monomial, count in distance.terms.items() if len(monomial) == 1}
            if len(distance.terms) != 2 or atoms.keys() != {1, -1} or not all(map(_is_size, atoms.values())):
                return None
            sizes.append((atoms[1], atoms[-1]))
        return sizes

    def _commute(self, first: Op, second: Op, sizes: list[tuple[Value, Value]]) -> bool:
        """Whether different iterations of loops over one domain never depend on one another."""
        forms = Forms(self.nest)
        for size, equal in sizes:
            forms.equate(equal, Form.of(size))
        for counter, other in zip(counters(first), counters(second)):
            forms.equate(other, Form.of(counter))
        mine = accesses_of(first, self.nest, forms, self.summaries.of)
        others = accesses_of(second, self.nest, forms, self.summaries.of)
        space = Space(first, forms)
        return (
            len(mine) * len(others) <= _MOST_PAIRS
            and _own_updates(mine, space)
            and _own_updates(others, space)
            and all(_ordered(access, other, space) for access in mine for other in others)
        )

    def _merge(self, first: Op, second: Op) -> None:
        """Takes the second loop into the first."""
        rank: int = first.attribute("rank")
        self.effects.join(first.regions[0], second.regions[0])
        for counter, other in zip(counters(first), counters(second)):
            replace_uses(self.nest, other, counter)
        self.nest.join(first, second)
        body, more = first.regions[0], second.regions[0]
        for argument in carried_arguments(second):
            argument.owner = body
            body.arguments.append(argument)
        for result in second.results:
            result.owner = first
            first.results.append(result)
        first.operands = (*first.operands[: 2 * rank], *inits(first), *inits(second))
        end, last = body.ops.pop(), more.ops.pop()
        end.operands = (*end.operands, *last.operands)
        body.ops += [*more.ops, end]
        attributes = dict(first.attributes)
        reductions = (*(first.attribute("reductions") or ()), *(second.attribute("reductions") or ()))
        if reductions:
            attributes |= {"reductions": reductions, "chunk": CHUNK}
        if second.attribute("undecided"):
            attributes["undecided"] = True
        first.attributes = attributes


def _next_loop(block: Block, position: int) -> int | None:
    """The place of the parallel loop that follows with nothing but single operations between."""
    for place in range(position + 1, min(len(block.ops), position + 2 + _MOST_BETWEEN)):
        op = block.ops[place]
        if op.attribute("parallel"):
            return place
        if op.regions:
            return None
    return None


def _may_join(first: Op, second: Op) -> bool:
    """Whether what the user asked for, and the shape, leave it open to join two loops."""
    mine, other = dict(first.attribute("config") or {}), dict(second.attribute("config") or {})
    if mine.pop("fuse", None) is False or other.pop("fuse", None) is False or mine != other:
        return False
    return first.attribute("rank") == second.attribute("rank")


def _is_size(value: Value) -> bool:
    return type(value.owner) is Op and value.owner.kind == "dim"


def _choice(group: _Group) -> list[Op]:
    """The joined loop where the sizes are equal, and the loops as they were elsewhere."""
    loop, before = group.loop, Block()
    builder = Builder(before, loop.location)
    same = [builder.emit("eq", size, other) for size, other in dict.fromkeys(group.sizes)]
    equal = reduce(lambda one, other: builder.emit("bit_and", one, other), same)
    results = loop.results
    loop.results = [Value(result.type, loop, result.name) for result in results]
    for original in group.originals:
        original.attributes = {**original.attributes, "spare": True}
    kept = [result for original in group.originals for result in original.results]
    branches = (_ended([loop], loop.results), _ended(group.originals, kept))
    types = {"types": tuple([result.type for result in results])} if results else None
    chosen = Op("if", (equal,), (), types, branches, loop.location)
    chosen.results = results
    for result in results:
        result.owner = chosen
    return [*before.ops, chosen]


def _ended(ops: list[Op], results: list[Value]) -> Block:
    block = Block()
    block.ops = [*ops, Op("yield", tuple(results))]
    return block


def _reach(op: Op) -> Effects | None:
    """What a single operation does to memory; None for what does anything else."""
    if op.kind == "load":
        return Effects({op.operands[0]})
    if op.kind == "store":
        return Effects(set(), {op.operands[1]})
    if op.kind == "update":
        return Effects({op.operands[1]}, {op.operands[1]})
    return Effects() if OPS[op.kind].effects == "pure" else None


def _conflict(one: Effects, other: Effects) -> bool:
    return not (
        one.writes.isdisjoint(other.reads)
        and one.writes.isdisjoint(other.writes)
        and one.reads.isdisjoint(other.writes)
    )


def _own_updates(accesses: list[Access], space: Space) -> bool:
    """Whether no two iterations of one loop meet in updates: those that do are made in private copies, loop by loop."""
    updates = [access for access in accesses if access.is_update]
    return all(
        one.array is not other.array or independent(one, other, space)
        for place, one in enumerate(updates)
        for other in updates[place:]
    )


def _ordered(mine: Access, other: Access, space: Space) -> bool:
    """Whether no different iterations of the loops, `mine` of the first and `other` of the second, have to keep order."""
    if mine.array is not other.array or not (mine.writes or other.writes):
        return True
    return independent(mine, other, space)
