"""Iterations of a parallel loop shared by teams of a device's threads: what an iteration adds up in a loop within is added up by
32 threads, which take its iterations in turns, and their sums are combined in a tree.

So threads that stand side by side read neighbours of a row, where threads with a row each would read what lies a row apart; and
few iterations keep more of the device busy. Which of both forms runs, the sizes tell: the host asks before the launch.
    Law: sums of a row are combined in one order, which the length of the row alone tells. All threads of a team do what stands
in front of and between the loops that they share, one of them what stands behind the last.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.ops import OPS, TERMINATORS
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.affine import Form, Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.dependence import FINE
from quadrants.passes.grid_code import (
    GridLoop,
    combined_in_teams,
    extents_of,
    flat_counters,
    product_of,
    replace_where,
    rounded_up,
    when,
)
from quadrants.passes.independence import Independence
from quadrants.passes.nest import Nest, counters, lows
from quadrants.passes.privatise import identity
from quadrants.passes.reductions import recognise
from quadrants.passes.structure import host_knows, loop_jumps, with_inner
from quadrants.passes.summaries import Summaries
from quadrants.records import Record

__all__ = ["run"]

_TEAM = 32
_THREADS = 256
_SHORTEST = 32
"""Iterations of a shared loop from which every thread of a team has one."""
_SHORTEST_ON_AVERAGE = 16
"""The same where lengths are in memory: half of a team then reads neighbours."""
_FEW = 1 << 14
"""Iterations of the parallel loop that leave most of a large device idle, if each is one thread."""
_READS = frozenset({"for", "if", "while", "load", "constant", "dim", *TERMINATORS} - {"return"})

_NOT_BY_ONE = frozenset({"for", "while", "call", "external", "slot", "random", "compare_exchange", "print", "check"})
"""What one thread does not do for a team behind the shared loops: what takes long, and what others may want to know of."""


class _Row(Record):
    """A loop within an iteration that a team shares: how what it carries is combined; whether the host knows its length, or else
    an array of which each iteration takes an element, so that its size tells how long loops are on average."""

    loop: Op
    combiners: tuple[str, ...]
    is_known: bool
    measure: Value | None


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The parallel loops of the kernel, where the record has blocks of threads that exchange values."""
    record = context.record
    if record is None or record.block_threads < _THREADS or min(record.subgroup_sizes, default=0) < _TEAM:
        return
    if not module.kernel.attributes.get("may_alias"):
        _block(module.kernel.body, module, context)


def _block(block: Block, module: Module, context: PassContext) -> None:
    for op in list(block.ops):
        if op.attribute("parallel"):
            found = _Finder(module.kernel, op, module).find() if not op.results and _has_loop(op) else None
            if found is not None and context.permit():
                _replace(block, op, *found)
                context.count("loops shared by teams", len(found[0]))
        else:
            for region in op.regions:
                _block(region, module, context)


def _has_loop(loop: Op) -> bool:
    ops = loop.regions[0].ops
    return not any("threads" in op.attributes for op in ops) and any(
        inner.kind == "for" for op in ops for inner in with_inner(op)
    )


class _Finder:
    """Looks at one parallel loop."""

    def __init__(self, function: Function, loop: Op, module: Module) -> None:
        self.loop = loop
        self.body = loop.regions[0].ops
        self.nest = Nest(function)
        self.forms = Forms(self.nest)
        self.independence = Independence(self.nest, self.forms, Summaries(module))

    def find(self) -> tuple[list[_Row], bool] | None:
        """The loops that a team shares, in program order, and whether its threads read neighbours there; None where it cannot,
        or where threads with an iteration each read neighbours."""
        if any(jump.kind != "continue" for jump in loop_jumps(self.loop.regions[0])):
            return None
        rows = self._rows(self.body)
        if not rows or not self._is_lawful(rows):
            return None
        if not any(row.is_known or row.measure is not None for row in rows):
            return None
        strided = any(self._is_strided(op, row.loop) for row in rows for op in walk(row.loop.regions[0]))
        return (rows, strided) if not self._reads_neighbours() else None

    def _rows(self, ops: list[Op]) -> list[_Row]:
        """The loops that a team can share, in program order, also under conditions: all threads of a team decide alike."""
        found: list[_Row] = []
        for op in ops:
            if op.kind == "for":
                row = self._row(op)
                found += [row] if row is not None and (ops is self.body or op.results) else []
            elif op.kind == "if" and _only_reads(op) and all(region.ops[-1].kind == "yield" for region in op.regions):
                for region in op.regions:
                    found += self._rows(region.ops)
        return found

    def _row(self, loop: Op) -> _Row | None:
        if loop.attribute("rank") != 1 or any(jump.kind != "continue" for jump in loop_jumps(loop.regions[0])):
            return None
        if not loop.results:
            free = all(
                op.kind in _READS or _is_pure(op) or op.kind in ("store", "update") for op in walk(loop.regions[0])
            )
            return self._made(loop, ()) if free and self.independence.of(loop, strict=True) is FINE else None
        if not all(map(_only_reads, loop.regions[0].ops)):
            return None
        chains = [recognise(loop, position, self.nest) for position in range(len(loop.results))]
        combiners: list[str] = []
        for chain, result in zip(chains, loop.results):
            if chain is None or not chain.combiner or chain.keeps_nan:
                return None
            is_float = scalar_of(result.type).is_float
            if (
                is_float
                and not all(step.attribute("reassociate") for step, _ in chain.steps)
                and chain.combiner == "add"
            ):
                return None
            combiners.append(chain.combiner)
        return self._made(loop, tuple(combiners))

    def _made(self, loop: Op, combiners: tuple[str, ...]) -> _Row:
        is_known = self._is_known(loop)
        return _Row(loop, combiners, is_known, None if is_known else self._measure(loop))

    def _measure(self, loop: Op) -> Value | None:
        """An array with an element for each iteration of the loop in all iterations of the parallel one."""
        for op in loop.regions[0].ops:
            if op.kind == "load" and len(op.operands) == 2 and not self.nest.defined_in(op.operands[0], self.loop):
                if self._form(op.operands[1]) == Form.of(counters(loop)[0]) and self._moves(loop.operands[0]):
                    return op.operands[0]
        return None

    def _is_known(self, loop: Op) -> bool:
        return all(
            host_knows(bound, lambda value: self.nest.defined_in(value, self.loop)) for bound in loop.operands[:2]
        )

    def _is_lawful(self, rows: list[_Row]) -> bool:
        """Whether all threads may do what stands in front of the last shared loop, and one what stands behind: what is written
        is read in one place only."""
        shared = {row.loop for row in rows}
        last = _position(self.body, rows[-1].loop)
        for op in self.body[:last]:
            if op not in shared and not (
                _is_pure(op) or op.kind in ("load", "constant", "dim") or (op.kind == "if" and _only_reads(op))
            ):
                return False
        behind = self.body[last + 1 :]
        if any(inner.kind in _NOT_BY_ONE for op in behind for inner in with_inner(op)):
            return False
        places: dict[Value, set[int]] = {}
        written: set[Value] = set()
        for position, op in enumerate(self.body):
            for inner in with_inner(op):
                array = _array(inner)
                if array is not None:
                    places.setdefault(array, set()).add(min(position, last + 1))
                    if inner.kind != "load":
                        written.add(array)
        return all(len(places[array]) == 1 for array in written)

    # Which threads read neighbours.

    def _is_strided(self, op: Op, row: Op) -> bool:
        """Whether a load reaches the next element in the next iteration of a shared loop, but not in the parallel loop's."""
        if op.kind != "load" or len(op.operands) < 2:
            return False
        *outer, last = op.operands[1:]
        factor = self._form(last).coefficient(counters(row)[0])
        return factor is not None and factor.constant == 1 and any(map(self._moves, (*outer, row.operands[0])))

    def _form(self, index: Value) -> Form:
        """What an index is where it does not count from the end."""
        op = index.owner
        while type(op) is Op and op.kind == "select":
            index = op.operands[2]
            op = index.owner
        return self.forms.of(index)

    def _moves(self, index: Value) -> bool:
        return not all(self.forms.invariant(atom, self.loop) for atom in self._form(index).atoms())

    def _reads_neighbours(self) -> bool:
        """Whether a load within the parallel loop's loops reaches the next element in its next iteration."""
        fastest = counters(self.loop)[-1]
        for op in walk(self.loop.regions[0]):
            if op.kind == "load" and len(op.operands) > 1 and self.nest.parent[op] is not self.loop:
                factor = self._form(op.operands[-1]).coefficient(fastest)
                if factor is not None and factor.constant == 1:
                    return True
        return False


def _position(body: list[Op], loop: Op) -> int:
    """Where in a body a loop stands, or the branch that it is in."""
    return next(position for position, op in enumerate(body) if loop in with_inner(op))


def _is_pure(op: Op) -> bool:
    return OPS[op.kind].effects == "pure" and not op.regions


def _only_reads(op: Op) -> bool:
    return all(_is_pure(inner) or inner.kind in _READS for inner in with_inner(op))


def _array(op: Op) -> Value | None:
    if op.kind == "load":
        return op.operands[0]
    found = [operand for operand in op.operands if type(operand.type) is ArrayType]
    return found[0] if found and op.kind != "dim" else None


def _replace(block: Block, loop: Op, rows: list[_Row], strided: bool) -> None:
    """The loop becomes a branch: teams for long rows, the loop itself for others."""
    builder = Builder(Block(), loop.location)
    extents = extents_of(builder, loop)
    total = product_of(builder, extents)
    long = None
    for row in rows:
        if row.is_known:
            known = _computed_in_front(builder, row.loop.operands[:2], loop)
            enough = builder.ge(builder.sub(known[1], known[0]), builder.index(_SHORTEST))
        elif row.measure is not None:
            least = builder.mul(total, builder.index(_SHORTEST_ON_AVERAGE))
            enough = builder.ge(builder.emit("dim", row.measure, axis=0), least)
        else:
            continue
        long = enough if long is None else builder.bit_or(long, enough)
    assert long is not None
    if not strided:
        long = builder.bit_and(long, builder.lt(total, builder.index(_FEW)))
    replace_where(block, loop, builder, long, _Sharing(loop, rows, total, extents).write)


def _computed_in_front(builder: Builder, bounds: tuple[Value, ...], loop: Op) -> list[Value]:
    """Bounds that are constants or sizes taken within the loop, in front of it."""
    inside = set(walk(loop.regions[0]))
    values: dict[Value, Value] = {}

    def make(value: Value) -> None:
        op = value.owner
        if type(op) is Op and op in inside and value not in values:
            for operand in op.operands:
                make(operand)
            builder.block.ops += clone_ops([op], values)

    for bound in bounds:
        make(bound)
    return [values.get(bound, bound) for bound in bounds]


class _Sharing:
    """Writes the grid loop: a team for each iteration."""

    def __init__(self, loop: Op, rows: list[_Row], total: Value, extents: list[Value]) -> None:
        self.loop = loop
        self.rows = {row.loop: row for row in rows}
        self.last = rows[-1].loop
        self.total = total
        self.extents = extents
        self.lane: Value

    def write(self, builder: Builder) -> None:
        loop, teams = self.loop, _THREADS // _TEAM
        grid = GridLoop(builder, rounded_up(builder, self.total, teams), _THREADS)
        block, inside = grid.block, grid.inside
        first = block.mul(grid.number, block.index(teams), exact=True)
        left = block.min(block.sub(self.total, first, exact=True), block.index(teams))
        team = inside.shr(grid.thread, inside.index(_TEAM.bit_length() - 1))
        self.lane = inside.bit_and(grid.thread, inside.index(_TEAM - 1))
        place = inside.add(first, team, exact=True)
        own = flat_counters(inside, place, lows(loop), self.extents)
        values = dict(zip(counters(loop), own))
        self._body(inside, values)
        reason = f"its rows are shared by teams of {_TEAM} threads"
        width = block.mul(left, block.index(_TEAM), exact=True)
        cost = int(loop.attribute("cost", 1)) * teams
        grid.close(width, cost=cost, lanes=1, lanes_reason=reason)

    def _body(self, builder: Builder, values: dict[Value, Value]) -> None:
        ops = self.loop.regions[0].ops
        at = _position(ops, self.last)
        self._together(builder, ops[: at + 1], values)

        def rest(inner: Builder) -> None:
            inner.block.ops += clone_ops(ops[at + 1 : -1], values)

        if len(ops) > at + 2:
            when(builder, builder.eq(self.lane, builder.index(0)), rest)

    def _together(self, builder: Builder, ops: list[Op], values: dict[Value, Value]) -> None:
        """What all threads of a team do."""
        for op in ops:
            if op in self.rows:
                self._row(builder, self.rows[op], values)
            elif op.kind == "if" and not self.rows.keys().isdisjoint(with_inner(op)):
                self._branch(builder, op, values)
            else:
                builder.block.ops += clone_ops([op], values)

    def _branch(self, builder: Builder, op: Op, values: dict[Value, Value]) -> None:
        regions: list[Block] = []
        for region in op.regions:
            inner = Builder(Block(), op.location)
            self._together(inner, region.ops[:-1], values)
            inner.op("yield", *[values.get(value, value) for value in region.ops[-1].operands])
            regions.append(inner.block)
        types = tuple([result.type for result in op.results])
        condition = values.get(op.operands[0], op.operands[0])
        made = builder.op("if", condition, regions=tuple(regions), types=types)
        values.update(zip(op.results, made.results))

    def _row(self, builder: Builder, row: _Row, values: dict[Value, Value]) -> None:
        """Every thread's turns, and what all of them give."""
        loop = row.loop
        low, high, *starts = [values.get(operand, operand) for operand in loop.operands]
        left = builder.sub(high, builder.add(low, self.lane, exact=True), exact=True)
        padded = builder.add(builder.max(left, builder.index(0)), builder.index(_TEAM - 1), exact=True)
        turns = builder.shr(padded, builder.index(_TEAM.bit_length() - 1))
        body = Block()
        turn = body.add_argument(turns.type)
        inner = Builder(body, loop.location)
        own: dict[Value, Value] = dict(values)
        for argument in loop.regions[0].arguments[1:]:
            own[argument] = body.add_argument(argument.type, argument.name)
        step = inner.mul(turn, inner.index(_TEAM), exact=True)
        start = inner.add(low, self.lane, exact=True)
        own[counters(loop)[0]] = inner.add(start, step, exact=True)
        body.ops += clone_ops(loop.regions[0].ops, own)
        types = [result.type for result in loop.results]
        nothing = [builder.constant(identity(by, type_), type_) for by, type_ in zip(row.combiners, types)]
        made = builder.op("for", builder.index(0), turns, *nothing, regions=(body,), rank=1)
        found = combined_in_teams(builder, self.lane, made.results, row.combiners, _TEAM)
        some = builder.lt(low, high)
        for result, by, initial, value in zip(loop.results, row.combiners, starts, found):
            values[result] = builder.select(some, builder.emit(by, initial, value), initial)
