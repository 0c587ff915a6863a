"""Stencils on devices whose blocks of threads share memory: what the iterations of a block read of an array, a box and its halo, is
loaded once into shared memory, and read there.

Only where that takes less time by the model, for a subgroup's iterations: the longer one of what its accesses take and what its
instructions take. A load of neighbouring elements that do not begin where a line of memory does takes two of its lines, in shared memory
one. Each point is a load and an operation; an element of a box costs its place and the array's border, too. Caches serve squares of nine
points as well with less than half of the instructions; squares of 25 are staged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.affine import Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.grid_code import GridLoop, extents_of, product_of, replace_where, rounded_up, when
from quadrants.passes.nest import Nest, counters, highs, lows
from quadrants.passes.structure import loop_jumps
from quadrants.records import Record

__all__ = ["run"]

_SHAPES = {1: (256,), 2: (8, 32), 3: (4, 4, 16)}
"""Iterations of a block along each counter; powers of two."""
_ISSUED = 4.0
"""Instructions that hardware issues while it makes one access."""
_POINT, _PLAIN, _BOXED, _ELEMENT = 2, 32, 45, 25
"""Instructions: of a point, of an iteration of the loop beside its points, of a thread with a box, of an element of a box."""
_STAGED = 2.0
"""Accesses of an element of a box."""
_ROOM = 48 << 10
"""Bytes of boxes, at most: multiprocessors have 64 to 228 KiB, and what waits for boxes needs several blocks there to hide it."""
_GAIN = 1.2
"""How many times the time with boxes has to be more without."""
_WRITES = frozenset({"store", "update", "compare_exchange"})
_NEVER = frozenset({"call", "external", "random", "check", "print", "return"})


class _Pattern(Record):
    """What loads of a loop have in common: `axes` of the array go with the loop's counters, in order; `fixed` are the indices of
    the other axes."""

    array: Value
    axes: tuple[int, ...]
    fixed: tuple[Value | None, ...]

    @property
    def key(self) -> tuple[object, ...]:
        return (self.array, self.axes, tuple([_number_or_value(index) for index in self.fixed]))

    @property
    def dynamic_axes(self) -> range:
        """The axes whose sizes the code does not tell."""
        type_ = self.array.type
        assert type(type_) is ArrayType
        return range(type_.rank - len(type_.trailing))


class _Box(Record):
    """Loads of one pattern, by the offsets of their indices from the counters; `low`: the smallest offsets, `sizes`: elements
    along each counter that a block of iterations reads."""

    pattern: _Pattern
    loads: dict[Op, tuple[int, ...]]
    low: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def volume(self) -> int:
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        return self.volume * scalar_of(self.pattern.array.type).bytes

    def gain(self, threads: int) -> float:
        """Time without a box by time with it."""
        places = set(self.loads.values())
        points, each = len(places), self.volume / threads
        lines = sum(1 if place[-1] == 0 else 2 for place in places)
        without = max(lines, (_POINT * points + _PLAIN) / _ISSUED)
        return without / max(points + _STAGED * each, (_POINT * points + _BOXED + _ELEMENT * each) / _ISSUED)


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`. The parallel loops of the kernel, where the record has blocks of threads."""
    record = context.record
    kernel = module.kernel
    if record is None or not record.block_threads or kernel.attributes.get("may_alias"):
        return
    _block(kernel.body, module, context)


def _block(block: Block, module: Module, context: PassContext) -> None:
    for op in list(block.ops):
        if op.attribute("parallel"):
            shape = _SHAPES.get(op.attribute("rank"))
            if shape is None or op.results or math.prod(shape) > context.record.block_threads:
                continue
            boxes = _boxes(op, shape, module, min(context.record.shared_memory_bytes, _ROOM))
            if boxes and context.permit():
                _replace(block, op, boxes, shape)
                context.count("boxes in shared memory", len(boxes))
        else:
            for region in op.regions:
                _block(region, module, context)


# Which loads.


def _boxes(loop: Op, shape: tuple[int, ...], module: Module, room: int) -> list[_Box]:
    """The boxes that pay and have room, the best first."""
    ops = list(walk(loop.regions[0]))
    if any(op.kind in _NEVER or "threads" in op.attributes for op in ops):
        return []
    if any(jump.kind != "continue" for jump in loop_jumps(loop.regions[0])):
        return []
    written = {op.operands[1] for op in ops if op.kind in _WRITES}
    forms = Forms(Nest(module.kernel))
    found: dict[tuple[object, ...], tuple[_Pattern, dict[Op, tuple[int, ...]]]] = {}
    inside = {result for op in ops for result in op.results} | {
        value for op in ops for r in op.regions for value in r.arguments
    }
    for op in ops:
        if op.kind == "load" and op.operands[0] not in written:
            place = _place(op, loop, forms, inside)
            if place is not None:
                found.setdefault(place[0].key, (place[0], {}))[1][op] = place[1]
    boxes = [_box(pattern, loads, shape) for pattern, loads in found.values()]
    threads = math.prod(shape)
    chosen: list[_Box] = []
    for box in sorted(boxes, key=lambda box: -box.gain(threads)):
        if box.gain(threads) >= _GAIN and box.bytes <= room:
            chosen.append(box)
            room -= box.bytes
    return chosen


def _place(load: Op, loop: Op, forms: Forms, inside: set[Value]) -> tuple[_Pattern, tuple[int, ...]] | None:
    """The pattern of a load and its offsets, if each counter of the loop stands in one index, in order, plus a constant."""
    array, *indices = load.operands
    type_ = array.type
    if type(type_) is not ArrayType or not type_.has_descriptor:
        return None
    left = counters(loop)
    axes: list[int] = []
    offsets: list[int] = []
    fixed: list[Value | None] = []
    for axis, index in enumerate(indices):
        form = forms.of(index)
        factor = form.coefficient(left[0]) if left else None
        if factor is not None and factor.constant == 1 and (offset := form.without(left[0]).constant) is not None:
            axes.append(axis)
            offsets.append(offset)
            fixed.append(None)
            left = left[1:]
        elif (index not in inside and index not in counters(loop)) or (
            type(index.owner) is Op and index.owner.kind == "constant"
        ):
            fixed.append(index)
        else:
            return None
    return (_Pattern(array, tuple(axes), tuple(fixed)), tuple(offsets)) if not left else None


def _number_or_value(index: Value | None) -> object:
    op = index.owner if index is not None else None
    return op.attribute("value") if type(op) is Op and op.kind == "constant" else index


def _box(pattern: _Pattern, loads: dict[Op, tuple[int, ...]], shape: tuple[int, ...]) -> _Box:
    low = tuple(map(min, zip(*loads.values())))
    high = tuple(map(max, zip(*loads.values())))
    return _Box(pattern, loads, low, tuple([n + b - a for n, a, b in zip(shape, low, high)]))


# The code.


def _replace(block: Block, loop: Op, boxes: list[_Box], shape: tuple[int, ...]) -> None:
    """The loop becomes a branch: boxes where the arrays have elements, the loop itself elsewhere."""
    builder = Builder(Block(), loop.location)
    there = None
    for box in boxes:
        for axis in box.pattern.dynamic_axes:
            some = builder.gt(builder.emit("dim", box.pattern.array, axis=axis), builder.index(0))
            there = some if there is None else builder.bit_and(there, some)
    assert there is not None
    replace_where(block, loop, builder, there, _Staging(loop, boxes, shape).write)


class _Staging:
    """Writes the grid loop: a block of threads for each box of iterations."""

    def __init__(self, loop: Op, boxes: list[_Box], shape: tuple[int, ...]) -> None:
        self.loop = loop
        self.boxes = boxes
        self.shape = shape
        self.threads = math.prod(shape)

    def write(self, builder: Builder) -> None:
        loop, shape = self.loop, self.shape
        counts = [rounded_up(builder, extent, width) for extent, width in zip(extents_of(builder, loop), shape)]
        grid = GridLoop(builder, product_of(builder, counts), self.threads)
        corner = self._corner(grid.block, grid.number, counts)
        inside = grid.inside
        memories = [grid.shared(scalar_of(box.pattern.array.type), box.volume) for box in self.boxes]
        for box, memory in zip(self.boxes, memories):
            self._fill(inside, grid.thread, box, memory, corner)
        inside.op("barrier")
        own = _digits(inside, grid.thread, shape)
        values = {
            counter: inside.add(first, digit, exact=True) for counter, first, digit in zip(counters(loop), corner, own)
        }
        there = None
        for counter, high in zip(counters(loop), highs(loop)):
            below = inside.lt(values[counter], high)
            there = below if there is None else inside.bit_and(there, below)
        assert there is not None

        def iteration(inner: Builder) -> None:
            known: dict[Op, Value] = {}
            for box, memory in zip(self.boxes, memories):
                known.update(self._read(inner, box, memory, own))
            inner.block.ops += _without(loop.regions[0].ops[:-1], values, known)

        when(inside, there, iteration)
        reason = f"blocks of {' x '.join(map(str, shape))} iterations read boxes of arrays from shared memory"
        grid.close(cost=int(loop.attribute("cost", 1)) * self.threads, lanes=1, lanes_reason=reason)

    def _corner(self, builder: Builder, number: Value, counts: list[Value]) -> list[Value]:
        """The counters of a block's first iteration."""
        found: list[Value] = []
        for position in range(len(counts) - 1, -1, -1):
            digit = builder.truncmod(number, counts[position]) if position else number
            number = builder.truncdiv(number, counts[position]) if position else number
            start = builder.mul(digit, builder.index(self.shape[position]), exact=True)
            found.append(builder.add(lows(self.loop)[position], start, exact=True))
        return found[::-1]

    def _fill(self, builder: Builder, thread: Value, box: _Box, memory: Value, corner: list[Value]) -> None:
        """Each thread loads every so many elements of a box; what lies outside of the array is read from its border, and
        by no iteration. So are fixed indices: no iteration may come to the loads that they are in."""
        first = [builder.add(start, builder.index(low), exact=True) for start, low in zip(corner, box.low)]
        pattern = box.pattern
        lasts = [_last(builder, pattern.array, axis) for axis in pattern.axes]
        fixed = [
            _within(builder, pattern, axis, index) if index is not None else None
            for axis, index in enumerate(pattern.fixed)
        ]

        def element(inner: Builder, flat: Value) -> None:
            digits = _digits(inner, flat, box.sizes)
            places = iter(
                [
                    inner.max(inner.min(inner.add(start, digit, exact=True), last), inner.index(0))
                    for start, digit, last in zip(first, digits, lasts)
                ]
            )
            indices = [next(places) if index is None else index for index in fixed]
            inner.op("store", inner.load(pattern.array, *indices), memory, flat)

        for turn in range(-(-box.volume // self.threads)):
            flat = builder.add(thread, builder.index(turn * self.threads), exact=True)
            if (turn + 1) * self.threads <= box.volume:
                element(builder, flat)
            else:
                inside = builder.lt(flat, builder.index(box.volume))
                when(builder, inside, lambda inner, flat=flat: element(inner, flat))

    def _read(self, builder: Builder, box: _Box, memory: Value, own: list[Value]) -> dict[Op, Value]:
        """What the loads of a box give: equal offsets are read once."""
        found: dict[tuple[int, ...], Value] = {}
        for offsets in dict.fromkeys(box.loads.values()):
            place = builder.index(0)
            for digit, offset, low, size in zip(own, offsets, box.low, box.sizes):
                place = builder.mul(place, builder.index(size), exact=True)
                place = builder.add(place, builder.add(digit, builder.index(offset - low), exact=True), exact=True)
            found[offsets] = builder.load(memory, place)
        return {load: found[offsets] for load, offsets in box.loads.items()}


def _without(ops: list[Op], values: dict[Value, Value], known: dict[Op, Value]) -> list[Op]:
    """Copies of operations, with values in place of some of them."""
    copies = clone_ops(ops, values)
    whole = Block()
    whole.ops = copies
    replaced: dict[Value, Value] = {}
    gone: set[Op] = set()
    for op, copy in zip(_all(ops), walk(whole)):
        copy.operands = tuple([replaced.get(operand, operand) for operand in copy.operands])
        if op in known:
            replaced[copy.results[0]] = known[op]
            gone.add(copy)
    _drop(whole, gone)
    return whole.ops


def _all(ops: list[Op]) -> Iterator[Op]:
    whole = Block()
    whole.ops = ops
    return walk(whole)


def _drop(block: Block, gone: set[Op]) -> None:
    block.ops = [op for op in block.ops if op not in gone]
    for op in block.ops:
        for region in op.regions:
            _drop(region, gone)


def _digits(builder: Builder, flat: Value, sizes: Sequence[int]) -> list[Value]:
    """The coordinates of a place in a box of known sizes, the last one fastest."""
    found: list[Value] = []
    for position in range(len(sizes) - 1, -1, -1):
        size = builder.index(sizes[position])
        found.append(builder.truncmod(flat, size) if position else flat)
        flat = builder.truncdiv(flat, size) if position else flat
    return found[::-1]


def _last(builder: Builder, array: Value, axis: int) -> Value:
    """The last index of an axis."""
    return builder.sub(builder.emit("dim", array, axis=axis), builder.index(1), exact=True)


def _within(builder: Builder, pattern: _Pattern, axis: int, index: Value) -> Value:
    """An index that is the same in all iterations, where the loop does not define it, or the array's border where it lies outside."""
    op = index.owner
    if type(op) is Op and op.kind == "constant":
        index = builder.index(op.attributes["value"])
        if axis not in pattern.dynamic_axes:
            return index
    return builder.max(builder.min(index, _last(builder, pattern.array, axis)), builder.index(0))
