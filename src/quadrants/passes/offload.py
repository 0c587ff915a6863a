"""Splits a kernel into what a host does and what it launches on a device, for targets whose record says `launches`.

The host keeps constants, sizes, arithmetic on numbers that it knows, and the control flow around parallel loops. All else
that stands between parallel loops, above all accesses to memory, becomes parallel loops of one iteration (`serial`). What such a
stretch computes for later lies in temporary arrays of the device: other loops read it there, and the host only where its
control flow, a size or a result asks for it. Behind a loop of a single block of threads (`single`), which combines what others have,
its first thread does such a stretch: that saves a launch.
"""

from __future__ import annotations

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Location, Module, Op, Value, walk
from quadrants.ir.ops import TERMINATORS, is_pure
from quadrants.ir.types import ArrayType, array_type, i64, scalar_of, u1
from quadrants.passes.context import PassContext
from quadrants.passes.cuts import parts_of
from quadrants.passes.nest import Nest
from quadrants.passes.places import shown
from quadrants.passes.structure import loop_jumps, with_inner
from quadrants.passes.task_size import TaskSizes, tell_if_large

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """In place; the last pass of stage `lowered`. Law: the order of accesses to memory stays."""
    if context.record is None or not context.record.launches:
        return
    kernel = module.kernel
    offloader = _Offloader(Nest(kernel), TaskSizes(module), context)
    offloader.known.update(value for value in kernel.parameters if type(value.type) is not ArrayType)
    offloader.block(kernel.body)
    context.count("serial stretches on the device", offloader.stretches)


class _Offloader:
    """One walk over the host's part of a kernel.

    `known`: numbers that the host has; `places`: the temporary array that holds a number which only the device has.
    """

    def __init__(self, nest: Nest, sizes: TaskSizes, context: PassContext) -> None:
        self.nest = nest
        self.sizes = sizes
        self.context = context
        self.known: set[Value] = set()
        self.places: dict[Value, Value] = {}
        self.stretches = 0

    def block(self, block: Block) -> None:
        done = Block()
        pending: list[Op] = []
        released: list[Op] = []  # behind what is pending, which may use it
        self.known.update(value for value in block.arguments if type(value.type) is not ArrayType)
        for op in block.ops:
            if self._is_the_devices(op):
                pending.append(op)
                continue
            if pending and op.kind == "release":
                released.append(op)
                continue
            if pending and not (self._moves_freely(op) and self._has_all(op)):
                self._flush(done, pending)
                done.ops += released
                pending, released = [], []
            self._keep(done, op)
        block.ops = done.ops

    def _is_the_devices(self, op: Op) -> bool:
        if op.kind in TERMINATORS or op.kind in ("constant", "dim", "temporary", "release", "random"):
            return False
        if op.kind == "external_pure":
            return True  # the device's assembly
        if op.regions:
            return not _is_the_hosts(op)
        return not (is_pure(op.kind) and all(operand in self.known for operand in op.operands))

    def _has_all(self, op: Op) -> bool:
        """Whether the host has an operation's numbers without the operations that are pending."""
        return all(value in self.known or value in self.places for value in op.operands)

    def _moves_freely(self, op: Op) -> bool:
        return not op.regions and (is_pure(op.kind) or op.kind in ("temporary", "random"))

    def _keep(self, done: Block, op: Op) -> None:
        """An operation that stays with the host."""
        if op.attribute("parallel"):
            self._use_places(op.regions[0], op.location)
        if op.kind not in ("dim", "release"):
            op.operands = tuple([self._fetched(done, value, op.location) for value in op.operands])
        for region in op.regions if not op.attribute("parallel") else ():
            places = dict(self.places)
            self.block(region)
            self.places = places  # what a region has computed is not to be seen behind it
        self.known.update(value for value in op.results if type(value.type) is not ArrayType)
        done.ops.append(op)

    def _fetched(self, done: Block, value: Value, location: Location | None) -> Value:
        place = self.places.get(value)
        if place is None:
            return value
        builder = Builder(done, location)
        return builder.load(place)

    def _place_slot(self, builder: Builder, op: Op) -> None:
        """Private memory that several loops reach is memory of the device."""
        (slot,) = op.results
        type_ = slot.type
        assert type(type_) is ArrayType
        sizes = [builder.index(size) for size in type_.trailing]
        always = builder.constant(True, u1)
        made = builder.op("temporary", always, *sizes, type=array_type(type_.scalar, type_.rank))
        array = made.results[0]
        array.name = slot.name
        for user, position in self.nest.users.get(slot, ()):
            if user.kind == "call":
                raise QuadrantsUnsupportedError.at(
                    shown(user.location),
                    "a matrix that several parallel loops share cannot be given to a function by reference here",
                    hint="call the function in one of the loops, or keep the matrix in an array",
                )
            operands = list(user.operands)
            operands[position] = array
            user.operands = tuple(operands)

    def _flush(self, done: Block, pending: list[Op]) -> None:
        """Makes loops of one iteration of operations that the device runs in order: one, unless that would be too large."""
        most: int = self.context.record.task_operations
        parts = parts_of(pending, self.sizes, most) if most else [pending]
        for part in parts:
            if part:
                self._flush_part(done, part)
                if most:
                    tell_if_large(self.context, sum([self.sizes.of(op) for op in part]), part[0].location)

    def _flush_part(self, done: Block, pending: list[Op]) -> None:
        self.stretches += 1
        location = pending[0].location
        builder = Builder(done, location)
        before = _single_block(done)
        if before is not None:
            done.ops.remove(before)
        body = Block()
        inner = Builder(body, location)
        always = builder.constant(True, u1)
        inside = {inner_op for op in pending for inner_op in with_inner(op)}
        places: dict[Value, Value] = {}
        for op in pending:
            seen = [value for value in op.results if self._is_used_outside(value, inside)]
            if op.kind == "slot" and seen:
                self._place_slot(builder, op)
                continue
            body.ops.append(op)
            for value in seen:
                made = builder.op("temporary", always, type=array_type(scalar_of(value.type), 0))
                places[value] = made.results[0]
                inner.op("store", value, places[value])
        inner.op("yield")
        self._use_places(body, location)
        if before is not None:
            _append(before, body)
            done.ops.append(before)
        else:
            body.add_argument(i64)
            zero, one = builder.index(0), builder.index(1)
            attributes = {"lanes": 1, "lanes_reason": "it runs in order", "cost": 1}
            builder.op("for", zero, one, regions=(body,), rank=1, parallel=True, serial=True, **attributes)
        self.places.update(places)

    def _is_used_outside(self, value: Value, inside: set[Op]) -> bool:
        return any(user not in inside for user, _ in self.nest.users.get(value, ()))

    def _use_places(self, region: Block, location: Location | None) -> None:
        """Numbers that only the device has are read at the start of a region that the device runs."""
        front = Block()
        builder = Builder(front, location)
        loaded: dict[Value, Value] = {}
        for op in walk(region):
            if any(operand in self.places for operand in op.operands):
                for operand in op.operands:
                    if operand in self.places and operand not in loaded:
                        loaded[operand] = builder.load(self.places[operand])
                op.operands = tuple([loaded.get(operand, operand) for operand in op.operands])
        region.ops = front.ops + region.ops


def _single_block(done: Block) -> Op | None:
    """The loop of a single block of threads that the host launches last, with nothing behind it but what may as well stand in
    front of it."""
    for op in reversed(done.ops):
        if op.attribute("single"):
            return op
        if op.regions or not (is_pure(op.kind) or op.kind in ("temporary", "constant", "dim")):
            return None
    return None


def _append(loop: Op, body: Block) -> None:
    """The first thread of a single block does what is in a region, when it has done its part."""
    threads = next(op for op in loop.regions[0].ops if "threads" in op.attributes).regions[0]
    end = threads.ops.pop()
    builder = Builder(threads, loop.location)
    first = builder.eq(threads.arguments[0], builder.index(0))
    otherwise = Block()
    Builder(otherwise, loop.location).op("yield")
    builder.op("if", first, regions=(body, otherwise), types=())
    threads.ops.append(end)


def _is_the_hosts(op: Op) -> bool:
    """Whether an operation with regions is the host's: a parallel loop, or control flow around one, or out of the kernel."""
    if op.attribute("parallel"):
        return True
    for region in op.regions:
        if any(_stays(inner) for inner in walk(region)):
            return True
    return op.kind == "if" and any(loop_jumps(region) for region in op.regions)


def _stays(op: Op) -> bool:
    return bool(op.attribute("parallel")) or op.kind in ("temporary", "release", "return")
