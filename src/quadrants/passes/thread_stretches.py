"""The body of a block's threads as code of the block: loops over the threads for the stretches between meetings.

A stretch is a row of operations that no thread waits within. What a later stretch needs of an earlier one is computed
again where that is a little arithmetic; else it goes through scratch, private memory of the block: an element a thread, or
one for all where the value is the same in all threads. Control flow around meetings becomes control flow around stretches
(`thread_control.py`); what it carries and yields lies in scratch. What threads cannot do is refused before (`thread_checks.py`).

Laws: scratch of a value is written by its definition alone, and read in other stretches only, at their start. What differs
between threads and is carried or yielded lies in an element a thread, which is read before it is written; what is the same
is carried and yielded by the block. What a thread brings to a meeting has scratch of its own, written in the stretch before, read
behind.
"""

from __future__ import annotations

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Location, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.threads import TEAM_OPS
from quadrants.ir.types import ArrayType, MatrixType, Type, i64, matrix_type, scalar_of, shape_of
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.places import shown
from quadrants.passes.thread_checks import Together, meets
from quadrants.passes.thread_control import BRANCH, Frame
from quadrants.passes.thread_meetings import MEET, fold
from quadrants.records import Record

__all__ = ["Scratch", "Stretches"]

_LITTLE = 24.0
"""Arithmetic of at most so many nanoseconds is done again rather than kept."""
_MOST_SCRATCH = 8 << 20
_JUMPS = ("break", "continue")


class Scratch(Record):
    """Where values of all threads of a block lie; `each`: an element a thread."""

    slot: Value
    each: bool


class _Stretch:
    """A loop over the threads, with its code in `block`: `loads` come first; `known`: what stands there for values from
    elsewhere."""

    __slots__ = ("block", "known", "loads", "op", "thread")

    def __init__(self, op: Op, block: Block) -> None:
        self.op = op
        self.block = block
        self.thread = op.regions[0].arguments[0]
        self.loads = 0
        self.known: dict[Value, Value] = {}


class Stretches:
    """Appends to `body`, code of one block, what `region` is for each of `width` threads, at most `size`."""

    def __init__(
        self,
        body: Block,
        region: Block,
        thread: Value,
        width: Value,
        size: int,
        together: Together,
        location: Location | None,
    ) -> None:
        self.outer = body
        self.level = body
        self.region = region
        self.thread = thread
        self.width = width
        self.size = size
        self.location = location
        self.together = together
        self.uniform = together.uniform
        self.slots: list[Op] = []
        self.bytes = 0
        self.stretch: _Stretch | None = None
        self.home: dict[Value, _Stretch | None] = {thread: None}
        self.scratch: dict[Value, Scratch] = {}
        self.memory: dict[Value, Scratch] = {}
        self.costs: dict[Value, float | None] = {thread: 0.0}
        self.frames = [Frame("thread", [])]
        self.operands: dict[Op, tuple[Value, ...]] = {}
        self.mask: Scratch | None = None

    def run(self) -> None:
        self.ops(self.region.ops, False)
        self.finish(self.region.ops[-1], last=True)
        self.outer.ops[:0] = self.slots
        self.outer.ops.append(Op("yield", location=self.location))
        if self.bytes > _MOST_SCRATCH:
            raise QuadrantsUnsupportedError.at(
                shown(self.location),
                "a block of this loop needs too much memory",
                found=f"{self.bytes} bytes for {self.size} threads",
                expected=f"at most {_MOST_SCRATCH}",
                hint="a smaller block_dim, or smaller shared arrays",
            )

    # Operations in order.

    def ops(self, ops: list[Op], meets_later: bool) -> None:
        """All operations of a block but its terminator; `meets_later`: threads meet behind the block."""
        later = [False] * len(ops)
        for position in range(len(ops) - 2, -1, -1):
            later[position] = later[position + 1] or meets(ops[position + 1])
        for position, op in enumerate(ops[:-1]):
            if op.kind in TEAM_OPS:
                MEET[op.kind](self, op)
            elif op in self.together.apart:
                BRANCH[op.kind](self, op, meets_later or later[position])
            elif op.kind == "slot":
                self.memory[op.results[0]] = self.slot(op.attributes["type"], True, op.results[0].name)
            else:
                self.add(op)

    def add(self, op: Op) -> None:
        """An operation of the stretch at hand."""
        stretch = self.open(op.location)
        self.operands[op] = op.operands
        self.rewrite(op, stretch)
        stretch.block.ops.append(op)
        for result in op.results:
            self.home[result] = stretch

    def rewrite(self, op: Op, stretch: _Stretch) -> None:
        """What an operation takes from other stretches, from its own."""
        position = ARRAY_POSITION.get(op.kind)
        if position is not None and op.operands[position] in self.memory:
            scratch = self.memory[op.operands[position]]
            place = self.place(scratch, stretch)
            before, indices = op.operands[:position], op.operands[position + 1 :]
            op.operands = (
                *[self.use(operand, stretch) for operand in before],
                scratch.slot,
                *place,
                *[self.use(operand, stretch) for operand in indices],
            )
        else:
            op.operands = tuple([self.use(operand, stretch, op) for operand in op.operands])
        for region in op.regions:
            region.ops = [inner for inner in region.ops if not self._is_of_the_block(inner)]
            for inner in region.ops:
                self.rewrite(inner, stretch)

    def _is_of_the_block(self, op: Op) -> bool:
        """Memory of the block, which is made once for all stretches, and the block's fences, which are nothing where threads
        run in turn: wherever they stand."""
        if op.kind == "shared":
            MEET["shared"](self, op)
        return op.kind == "shared" or (op.kind == "fence" and op.attributes["scope"] != "grid")

    # Values.

    def use(self, value: Value, stretch: _Stretch, user: Op | None = None) -> Value:
        """What stands for a value in a stretch."""
        if value not in self.home:
            return self.used_memory(value, user) if type(value.type) is ArrayType else value
        if value is self.thread:
            return stretch.thread
        if self.home[value] is stretch:
            return value
        found = stretch.known.get(value)
        if found is None:
            found = self.again(value, stretch) if self.cost(value) is not None else self.loaded(value, stretch)
            stretch.known[value] = found
        return found

    def used_memory(self, value: Value, user: Op | None) -> Value:
        scratch = self.memory.get(value)
        if scratch is None:
            return value
        if scratch.each:
            raise QuadrantsUnsupportedError.at(
                shown(user.location if user is not None else self.location),
                "a local vector or matrix that is indexed at run time cannot be passed on where threads of a block meet",
                hint="write the function's code here, or use a shared array",
            )
        return scratch.slot

    def cost(self, value: Value) -> float | None:
        """What computing a value again costs, from what is the same everywhere in the block; None: it is kept."""
        if value not in self.home:
            return 0.0
        if value not in self.costs:
            owner, found = value.owner, None
            if type(owner) is Op and OPS[owner.kind].effects == "pure" and type(value.type) is not MatrixType:
                parts = [self.cost(operand) for operand in self.operands[owner] if type(operand.type) is not ArrayType]
                known = [part for part in parts if part is not None]
                total = OPS[owner.kind].cost + sum(known)
                found = total if len(known) == len(parts) and total <= _LITTLE else None
            self.costs[value] = found
        return self.costs[value]

    def again(self, value: Value, stretch: _Stretch) -> Value:
        """A value computed once more."""
        owner = value.owner
        assert type(owner) is Op
        operands = tuple([self.use(operand, stretch, owner) for operand in self.operands[owner]])
        copy = Op(owner.kind, operands, (value.type,), dict(owner.attributes), (), owner.location)
        stretch.block.ops.append(copy)
        return copy.results[0]

    def loaded(self, value: Value, stretch: _Stretch) -> Value:
        scratch = self.kept(value)
        op = Op("load", (scratch.slot, *self.place(scratch, stretch)), (value.type,), location=self.location)
        stretch.block.ops.insert(stretch.loads, op)
        stretch.loads += 1
        return op.results[0]

    def kept(self, value: Value) -> Scratch:
        """The scratch of a value, written where it is defined."""
        found = self.scratch.get(value)
        if found is None:
            home = self.home[value]
            assert home is not None
            found = self.scratch[value] = self.slot(value.type, value in self.uniform.varying, value.name)
            owner = value.owner
            assert type(owner) is Op
            store = Op("store", (value, found.slot, *self.place(found, home)), location=owner.location)
            home.block.ops.insert(home.block.ops.index(owner) + 1, store)
        return found

    def define(self, value: Value, found: Value, stretch: _Stretch) -> None:
        """`found`, computed in a stretch, is what a value is; what others brought is not there to compute it again."""
        assert type(found.owner) is Op
        self.home[value] = stretch
        self.costs[value] = None
        value.owner = found.owner
        value.owner.results = [value]

    def slot(self, type_: Type, each: bool, name: str = "") -> Scratch:
        shape = shape_of(type_)
        whole = matrix_type(scalar_of(type_), (self.size, *shape)) if each else type_
        builder = Builder(Block(), self.location)
        slot = builder.slot(type=whole)
        slot.name = name
        self.slots += builder.block.ops
        count = whole.count if type(whole) is MatrixType else 1
        self.bytes += count * scalar_of(type_).bytes
        return Scratch(slot, each)

    def place(self, scratch: Scratch, stretch: _Stretch) -> tuple[Value, ...]:
        return (stretch.thread,) if scratch.each else ()

    def in_block(self, value: Value) -> Value:
        """A value that is the same in all threads, for the code of the block."""
        if value not in self.home:
            return value
        owner = value.owner
        if type(owner) is Op and self.cost(value) is not None:
            op = Op(owner.kind, tuple(map(self.in_block, self.operands[owner])), (value.type,), dict(owner.attributes))
            op.location = self.location
            self.level.ops.append(op)
            return op.results[0]
        return self._of_those_there(self.kept(value))

    def _of_those_there(self, scratch: Scratch) -> Value:
        """The value of scratch that is the same in all threads that are on, in the code of the block. It has an element a thread where
        what is handed on under the same names differs elsewhere: behind a loop that threads leave one by one, say."""
        builder, mask = Builder(self.level, self.location), self.mask
        if not scratch.each:
            return builder.load(scratch.slot)
        first = builder.index(0)
        if mask is None:
            return builder.load(scratch.slot, first)

        def one(inside: Builder, thread: Value, before: Value) -> Value:
            return inside.select(inside.load(mask.slot, thread), thread, before)

        return builder.load(scratch.slot, fold(builder, first, self.width, first, one))

    # Stretches.

    def open(self, location: Location | None = None) -> _Stretch:
        """The stretch at hand, a new one if there is none."""
        if self.stretch is None:
            builder = Builder(self.level, location or self.location)
            region = Block()
            region.add_argument(i64, "thread")
            op = builder.op("for", builder.index(0), self.width, regions=(region,), rank=1)
            self.stretch = _Stretch(op, self.masked(region))
        return self.stretch

    def masked(self, region: Block) -> Block:
        """Where in a loop over the threads the code goes: under the mask, if there is one."""
        if self.mask is None:
            return region
        yes, no = Block(), Block()
        builder = Builder(region, self.location)
        Builder(no, self.location).op("yield")
        builder.op("if", builder.load(self.mask.slot, region.arguments[0]), regions=(yes, no))
        return yes

    def close(self) -> None:
        if self.stretch is not None:
            for block in dict.fromkeys((self.stretch.block, self.stretch.op.regions[0])):
                block.ops.append(Op("yield", location=self.location))
            self.stretch = None

    def put(self, value: Value, scratch: Scratch) -> None:
        """Writes a value to scratch, at the end of a stretch."""
        stretch = self.open()
        stored = self.use(value, stretch)
        stretch.block.ops.append(
            Op("store", (stored, scratch.slot, *self.place(scratch, stretch)), location=self.location)
        )

    def finish(self, end: Op, last: bool = False) -> None:
        """The end of a block: what it hands on goes to scratch, and the code of the block goes the same way."""
        frame = self.frames[-1]
        if end.kind in _JUMPS:
            frame = next(frame for frame in reversed(self.frames) if frame.kind != "if")
        for value, target in zip(end.operands, frame.targets):
            if target is not None:
                self.put(value, target)
        self.close()
        if not last:
            together = [value for value, target in zip(end.operands, frame.targets) if target is None]
            self.level.ops.append(Op(end.kind, tuple(map(self.in_block, together)), location=end.location))

    def keep_in(self, value: Value, scratch: Scratch) -> None:
        self.home[value] = None
        self.costs[value] = None
        self.scratch[value] = scratch
