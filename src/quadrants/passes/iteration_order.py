"""Iterations of a parallel loop taken in the order of an index array.

Where iterations look at what is near them, and an index array lists what is near side by side (the particles of a
cell), iterations in that order find what they look at in the nearest cache. Any order will do for a parallel loop, as
long as each iteration is made once: a check in front finds out whether the array is a permutation of the iterations.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import array_type, i32, i64, u1
from quadrants.passes.nest import highs, lows
from quadrants.passes.parallelise import CHUNK

__all__ = ["take_in_order_of"]


def take_in_order_of(order: Value, loop: Op, builder: Builder, behind: Builder) -> tuple[Value, Value]:
    """Rewrites a loop of one dimension without results. What finds out goes to `builder`, in front of the loop; what gives
    memory back to `behind`. Gives whether the array is a permutation, and the place k in it of an iteration."""
    size = builder.emit("dim", order, axis=0)
    same = builder.bit_and(builder.eq(lows(loop)[0], builder.index(0)), builder.eq(highs(loop)[0], size))
    small = builder.lt(size, builder.index(i32.maximum))
    made = builder.op("temporary", builder.bit_and(same, small), size, type=array_type(i32, 1))
    marks, there = made.results
    marks.name = "marks"
    check, no = Block(), Block()
    inside = Builder(check, builder.location)
    inside.op("yield", _is_permutation(inside, order, marks, size))
    otherwise = Builder(no, builder.location)
    otherwise.op("yield", otherwise.constant(False, u1))
    permuted = builder.op("if", there, regions=(check, no), types=(there.type,)).results[0]
    behind.op("release", marks)
    return permuted, _renumber(loop, order, permuted)


def _is_permutation(builder: Builder, order: Value, marks: Value, size: Value) -> Value:
    """Each k leaves its number at the place order[k]: if it finds it there again, no other had that place.

    Law: as many different places as there are places are all of them.
    """
    first, second = Block(), Block()
    number = first.add_argument(i64, "k")
    one = Builder(first, builder.location)
    index, is_inside = _place(one, order, number, size)
    mark, empty = Block(), Block()
    within = Builder(mark, builder.location)
    within.op("store", within.cast(number, i32), marks, index)
    within.op("yield")
    Builder(empty, builder.location).op("yield")
    one.op("if", is_inside, regions=(mark, empty), types=())
    one.op("yield")
    zero = builder.index(0)
    builder.op("for", zero, size, regions=(first,), rank=1, parallel=True, short=True)
    number, lost = second.add_argument(i64, "k"), second.add_argument(i64, "lost")
    two = Builder(second, builder.location)
    index, is_inside = _place(two, order, number, size)
    found, missing = Block(), Block()
    within = Builder(found, builder.location)
    other = within.cast(within.emit("load", marks, index), i64)
    within.op("yield", within.cast(within.ne(other, number), i64))
    without = Builder(missing, builder.location)
    without.op("yield", without.index(1))
    more = two.op("if", is_inside, regions=(found, missing), types=(i64,)).results[0]
    two.op("yield", two.add(lost, more))
    counted = builder.op(
        "for", zero, size, zero, regions=(second,), rank=1, parallel=True, reductions=("add",), chunk=CHUNK, short=True
    )
    return builder.eq(counted.results[0], zero)


def _place(builder: Builder, order: Value, number: Value, size: Value) -> tuple[Value, Value]:
    index = builder.cast(builder.emit("load", order, number), i64)
    return index, builder.bit_and(builder.ge(index, builder.index(0)), builder.lt(index, size))


def _renumber(loop: Op, order: Value, permuted: Value) -> Value:
    """Iteration k becomes iteration order[k]."""
    region = loop.regions[0]
    counter = region.arguments[0]
    number = Value(i64, region, "k")
    region.arguments[0] = number
    taken, same = Block(), Block()
    builder = Builder(taken, loop.location)
    builder.op("yield", builder.cast(builder.emit("load", order, number), i64))
    Builder(same, loop.location).op("yield", number)
    choice = Op("if", (permuted,), (), {"types": (i64,)}, (taken, same), loop.location)
    counter.owner = choice
    choice.results = [counter]
    region.ops.insert(0, choice)
    return number
