"""Random expressions of block programs: each as text and as what it is in a `World` (`block_worlds.py`).

Integers wrap, so that any of them may be combined; floats are whole numbers that stay small, so that sums of them are the
same in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from quadrants.evidence.fuzz.block_code import Expression
from quadrants.evidence.fuzz.block_worlds import COMBINE, Mask, World, held, team_reduce, team_scan, team_shuffle

__all__ = ["FLOATS", "NARROW", "WIDE", "Values", "bits_of", "cast"]

WIDE = ("i32", "i32", "i32", "i64", "u32", "u64")
NARROW = ("i8", "u8", "i16", "u16")
FLOATS = ("f32", "f32", "f64")
_LARGEST = 64

_Run = Callable[[World, Mask], np.ndarray]


def bits_of(dtype: str) -> int:
    return int(dtype[1:])


def cast(value: Expression, dtype: str) -> Expression:
    """The value in another type; floats are small, so that every integer type of 8 bits or more holds them."""
    if value.dtype == dtype:
        return value
    to = held(dtype)
    if dtype[0] == "u" and value.dtype[0] == "f":
        value = cast(value, "i32")
    return Expression(f"qd.{dtype}({value.text})", dtype, lambda w, m: value.run(w, m).astype(to), value.uniform)


def made(
    text: str, dtype: str, function: Callable[..., np.ndarray], *operands: Expression, uniform: bool | None = None
) -> Expression:
    to = held(dtype)

    def run(world: World, mask: Mask) -> np.ndarray:
        return np.asarray(function(*(operand.run(world, mask) for operand in operands))).astype(to)

    same = all(operand.uniform for operand in operands) if uniform is None else uniform
    return Expression(text.format(*(operand.text for operand in operands)), dtype, run, same)


class Values:
    """Makes expressions from what is in scope. `names`: variables with their types, those that are the same for all threads
    of a block in `together`; `counters`: of loops, i32; `reads`: what else gives a value."""

    def __init__(self, source: random.Random, subgroup: int) -> None:
        self.random = source
        self.subgroup = subgroup
        self.size = 0
        self.columns = 0
        self.low = 0
        self.blocks_meet = False
        self.names: dict[str, str] = {}
        self.together: dict[str, str] = {}
        self.counters: list[Expression] = []
        self.reads: list[Callable[[bool], Expression | None]] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Numbers.

    def literal(self, dtype: str) -> Expression:
        low, high = (0, 9) if dtype[0] == "u" else (-9, 9)
        value = self.random.randint(low, high)
        return Expression(f"qd.{dtype}({value})", dtype, lambda w, m: w.full(value, dtype), True)

    def variable(self, name: str, dtype: str, uniform: bool) -> Expression:
        return Expression(name, dtype, lambda w, m: w.variables[name], uniform)

    def thread(self) -> Expression:
        text = self.random.choice(("t", "qd.i32(block.thread_idx())"))
        return Expression(text, "i32", lambda w, m: w.thread.astype(np.int32))

    def flat(self) -> Expression:
        text = self.random.choice(("qd.i32(i)", "qd.i32(block.global_thread_idx())"))
        return Expression(text, "i32", lambda w, m: w.flat.astype(np.int32))

    def argument(self) -> Expression:
        """An argument of the kernel's."""
        name = self.random.choice(("p", "q"))
        return Expression(name, "i32", lambda w, m: w.full(w.numbers[name], "i32"), True)

    def block_text(self) -> str:
        """The block's number. Law: the compiler sees that a division of `i` gives it where `i` is the loop's only counter."""
        thread = (
            "block.global_thread_idx()"
            if self.columns or self.low
            else self.random.choice(("i", "block.global_thread_idx()"))
        )
        return f"{thread} // {self.size}"

    def of_block(self) -> Expression:
        """The block's number, or how many threads it has."""
        if self.chance(0.5):
            return Expression("w", "i32", lambda w, m: w.width.astype(np.int32), True)
        return Expression(f"qd.i32({self.block_text()})", "i32", lambda w, m: w.block.astype(np.int32), True)

    def leaf(self, dtype: str, uniform: bool) -> Expression:
        kinds = ["literal", "number", "block", "together", "counter"]
        kinds += [] if uniform else ["name", "name", "name", "thread", "flat"]
        kind = self.random.choice(kinds)
        if kind == "name":
            name = self.random.choice(list(self.names))
            return cast(self.variable(name, self.names[name], False), dtype)
        if kind == "together" and self.together:
            name = self.random.choice(list(self.together))
            return cast(self.variable(name, self.together[name], True), dtype)
        if kind == "counter":
            found = [counter for counter in self.counters if counter.uniform or not uniform]
            if found:
                return cast(self.random.choice(found), dtype)
        makers = {"number": self.argument, "block": self.of_block, "thread": self.thread, "flat": self.flat}
        return cast(makers[kind](), dtype) if kind in makers else self.literal(dtype)

    def integer(self, dtype: str, depth: int, uniform: bool = False) -> Expression:
        if depth <= 0 or self.chance(0.25):
            if self.reads and self.chance(0.4):
                found = self.random.choice(self.reads)(uniform)
                if found is not None:
                    return cast(found, dtype)
            return self.leaf(dtype, uniform)
        a = self.integer(dtype, depth - 1, uniform)
        kind = self.random.random()
        if kind < 0.25:
            return self._with_constant(a, dtype)
        b = self.integer(dtype, depth - 1, uniform)
        if kind < 0.4:
            holds = self.condition(depth - 1, uniform)
            text = self.random.choice(("({1} if {0} else {2})", "qd.select({0}, {1}, {2})"))
            return made(text, dtype, np.where, holds, a, b)
        if kind < 0.5:
            other = self.random.choice(WIDE)
            return cast(self.integer(other, depth - 1, uniform), dtype)
        text, function = self.random.choice(
            (
                ("({0} + {1})", np.add),
                ("({0} - {1})", np.subtract),
                ("({0} * {1})", np.multiply),
                ("({0} & {1})", np.bitwise_and),
                ("({0} | {1})", np.bitwise_or),
                ("({0} ^ {1})", np.bitwise_xor),
                ("min({0}, {1})", np.minimum),
                ("max({0}, {1})", np.maximum),
            )
        )
        return made(text, dtype, function, a, b)

    def _with_constant(self, a: Expression, dtype: str) -> Expression:
        by, shift = self.random.randint(1, 100), self.random.randrange(bits_of(dtype))
        kind = self.random.randrange(4)
        number = held(dtype).type(by if kind < 2 else shift)
        text = ("({0} // %d)", "({0} %% %d)", "({0} << %d)", "({0} >> %d)")[kind] % int(number)
        function = (np.floor_divide, np.mod, np.left_shift, np.right_shift)[kind]
        return made(text, dtype, lambda value: function(value, number), a)

    def condition(self, depth: int, uniform: bool = False) -> Expression:
        if depth > 0 and self.chance(0.2):
            parts = self.condition(depth - 1, uniform), self.condition(depth - 1, uniform)
            text, function = self.random.choice((("({0} and {1})", np.logical_and), ("({0} or {1})", np.logical_or)))
            return made(text, "u1", function, *parts)
        dtype = self.random.choice(WIDE)
        a = self.integer(dtype, depth - 1, uniform)
        if self.chance(0.5):  # such that both happen
            by = self.random.choice((2, 3, 4))
            text, function = self.random.choice((("{0} %% %d == 1", np.equal), ("{0} %% %d != 0", np.not_equal)))
            one = held(dtype).type(function is np.equal)
            return made(f"({text % by})", "u1", lambda value: function(value % held(dtype).type(by), one), a)
        b = self.integer(dtype, depth - 1, uniform)
        text, function = self.random.choice(
            (("({0} < {1})", np.less), ("({0} >= {1})", np.greater_equal), ("({0} == {1})", np.equal))
        )
        return made(text, "u1", function, a, b)

    def floating(self, dtype: str, depth: int) -> Expression:
        """A small whole number."""
        floats = [name for name, held_as in self.names.items() if held_as[0] == "f"]
        if depth <= 0 or not floats or self.chance(0.3):
            mask = self.random.choice((7, 31))
            return cast(made(f"(({{0}} & {mask}) - 3)", "i32", lambda v: (v & mask) - 3, self.integer("i32", 1)), dtype)
        name = self.random.choice(floats)
        a, b = cast(self.variable(name, self.names[name], False), dtype), self.floating(dtype, depth - 1)
        text, function = self.random.choice(
            (
                ("({0} + {1})", np.add),
                ("({0} - {1})", np.subtract),
                ("min({0}, {1})", np.minimum),
                ("(-{1})", lambda a, b: -b),
            )
        )
        whole = f"min(max({text}, -{_LARGEST}), {_LARGEST})"
        return made(whole, dtype, lambda a, b: np.clip(function(a, b), -_LARGEST, _LARGEST), a, b)

    def value(self, dtype: str, depth: int, uniform: bool = False) -> Expression:
        if dtype == "u1":
            return self.condition(depth, uniform)
        return self.floating(dtype, depth) if dtype[0] == "f" else self.integer(dtype, depth, uniform)

    def small(self, values: int, uniform: bool = False) -> Expression:
        """An i32 in 0 … values - 1."""
        reads, self.reads = self.reads, []  # an index of an element is none itself
        a = self.integer("i32", 1, uniform)
        self.reads = reads
        return made(f"({{0}} % {values})", "i32", lambda value: value % values, a)

    # Values that threads give one another.

    def some_type(self) -> str:
        return self.random.choice((*WIDE, *WIDE, *NARROW, *FLOATS))

    def met(self, of_block: bool) -> Expression:
        """What threads of a subgroup, or (`of_block`) of the block, come to where they meet."""
        self.blocks_meet = of_block
        if self.chance(0.15):
            return self._rounded()
        if of_block and self.chance(0.5):
            return self.random.choice((self._block_combined, self._block_combined, self._counted))()
        makers = (
            self._shuffled,
            self._team_combined,
            self._team_combined,
            self._ballot,
            self._vote,
            self._matched,
            self._segment,
        )
        return self.random.choice(makers)()

    def _shuffled(self) -> Expression:
        dtype, width = self.some_type(), self.subgroup
        value = self.value(dtype, 1)
        kind = self.random.choice(
            ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "broadcast", "broadcast_first")
        )
        if kind == "broadcast_first":
            other = Expression("", "i32", self._first)
            text = f"subgroup.broadcast_first({value.text})"
        else:
            span = made("({0} - 1)", "i32", lambda v: v - 1, self.small(width + 2)) if self.chance(0.2) else None
            other = span or self.small(width, kind == "broadcast")
            text = f"subgroup.{kind}({value.text}, {other.text})"

        def run(world: World, mask: Mask) -> np.ndarray:
            member, by = world.thread % width, other.run(world, mask).astype(np.int64)
            moved = {"shuffle_up": member - by, "shuffle_down": member + by, "shuffle_xor": member ^ by}
            return team_shuffle(world, value.run(world, mask), mask, moved.get(kind, by), width)

        return Expression(text, dtype, run)

    def _rounded(self) -> Expression:
        """Sums that are rounded, of floats of all bits, as bits: what comes first tells."""
        bits = self.integer("i32", 2)
        kind = self.random.choice(("reduce", "reduce_all", "inclusive", "exclusive"))
        of_block = self.size > 0 and self.blocks_meet and self.chance(0.4)
        tail = f", {self.size}" if of_block else ""
        text = f"qd.bit_cast(qd.u32(({bits.text} & 8388607) | 1065353216), qd.f32)"
        name = f"{'block' if of_block else 'subgroup'}.{kind}_add"

        def value(world: World, mask: Mask) -> np.ndarray:
            return ((bits.run(world, mask) & 8388607) | 1065353216).astype(np.int32).view(np.float32)

        found = self._family(Expression(text, "f32", value), kind, "add", 0 if of_block else self.subgroup)
        text = f"qd.bit_cast({name}({text}{tail}), qd.i32)"
        return Expression(text, "i32", lambda w, m: np.ascontiguousarray(found(w, m)).view(np.int32))

    def _how(self, dtype: str) -> tuple[str, str]:
        """Which family, and by what."""
        kind = self.random.choice(("reduce", "reduce_all", "inclusive", "exclusive"))
        bys = ["add", "min", "max"] if dtype[0] == "f" else list(COMBINE)
        if dtype[0] == "f" and kind == "exclusive":
            bys = ["add"]  # the others give infinities, which are not small
        return kind, self.random.choice(bys)

    def _family(self, value: Expression, kind: str, by: str, width: int) -> _Run:
        if kind.startswith("reduce"):
            return lambda world, mask: team_reduce(world, value.run(world, mask), mask, by, width)
        return lambda world, mask: team_scan(world, value.run(world, mask), mask, by, width, kind == "exclusive")

    def _small_again(self, found: Expression) -> Expression:
        """Sums of floats are small again."""
        if found.dtype[0] != "f":
            return found
        text = f"min(max({{0}}, -{_LARGEST}), {_LARGEST})"
        return made(text, found.dtype, lambda value: np.clip(value, -_LARGEST, _LARGEST), found)

    def _team_combined(self) -> Expression:
        dtype = self.some_type()
        value = self.value(dtype, 1)
        kind, by = self._how(dtype)
        width, tail, suffix = self.subgroup, "", ""
        if self.chance(0.4):
            log2 = self.random.randint(0, width.bit_length() - 1)
            width, tail, suffix = 1 << log2, f", {log2}", "_tiled"
        text = f"subgroup.{kind}_{by}{suffix}({value.text}{tail})"
        return self._small_again(Expression(text, dtype, self._family(value, kind, by, width)))

    def _block_combined(self) -> Expression:
        dtype = self.some_type()
        value = self.value(dtype, 1)
        kind, by = self._how(dtype)
        text = f"block.{kind}_{by}({value.text}, {self.size}, qd.{dtype})"
        uniform = kind.startswith("reduce")
        return self._small_again(Expression(text, dtype, self._family(value, kind, by, 0), uniform))

    def _counted(self) -> Expression:
        holds = self.condition(1)
        kind, by = self.random.choice((("all", "min"), ("any", "max"), ("count", "add")))

        def run(world: World, mask: Mask) -> np.ndarray:
            return team_reduce(world, holds.run(world, mask).astype(np.int32), mask, by, 0)

        return Expression(f"block.sync_{kind}_nonzero({holds.text})", "i32", run, True)

    def _first(self, world: World, mask: Mask) -> np.ndarray:
        """The number of each subgroup's first member that is there."""
        return team_reduce(world, (world.thread % self.subgroup).astype(np.int32), mask, "min", self.subgroup)

    def _votes(self, world: World, holds: np.ndarray, mask: Mask) -> np.ndarray:
        bits = np.uint64(1) << (world.thread % self.subgroup).astype(np.uint64)
        return team_reduce(world, np.where(holds.astype(bool), bits, np.uint64(0)), mask, "or", self.subgroup)

    def _ballot(self) -> Expression:
        holds = self.condition(1)
        text, below = f"qd.u64(subgroup.ballot({holds.text}))", self.chance(0.3)
        text += " & qd.u64(subgroup.lanemask_lt())" if below else ""

        def run(world: World, mask: Mask) -> np.ndarray:
            votes = self._votes(world, holds.run(world, mask), mask)
            before = (np.uint64(1) << (world.thread % self.subgroup).astype(np.uint64)) - np.uint64(1)
            return votes & before if below else votes

        return Expression(f"({text})", "u64", run)

    def _vote(self) -> Expression:
        dtype = self.random.choice(WIDE)
        kind = self.random.choice(("any_true", "all_true", "all_equal", "elect"))
        if kind == "elect":
            elected = Expression("subgroup.elect()", "u1", lambda w, m: w.thread % self.subgroup == self._first(w, m))
            return cast(elected, "i32")
        value = self.small(2) if kind == "all_equal" else self.condition(1)
        if kind == "all_equal":
            value = cast(value, dtype)

        def run(world: World, mask: Mask) -> np.ndarray:
            found = value.run(world, mask)
            if kind == "all_equal":
                first = team_shuffle(world, found, mask, self._first(world, mask), self.subgroup)
                return self._votes(world, found != first, mask) == 0
            holds = found.astype(bool)
            return self._votes(world, ~holds, mask) == 0 if kind == "all_true" else self._votes(world, holds, mask) != 0

        return cast(Expression(f"subgroup.{kind}({value.text})", "u1", run), "i32")

    def _matched(self) -> Expression:
        value = self.small(self.random.choice((1, 2, 4)))
        width = self.subgroup

        def run(world: World, mask: Mask) -> np.ndarray:
            found, same = value.run(world, mask), np.zeros(world.flat.shape, np.uint64)
            for member in range(width):
                other = team_shuffle(world, found, mask, np.full_like(world.thread, member), width)
                is_there = self._votes(world, np.ones_like(mask), mask) >> np.uint64(member) & np.uint64(1)
                same |= np.where(other == found, is_there << np.uint64(member), np.uint64(0))
            return same

        everyone = hex((1 << width) - 1) if width < 32 else "warp.active_mask()"
        return Expression(f"qd.u64(warp.match_any({everyone}, {value.text}))", "u64", run)

    def _segment(self) -> Expression:
        dtype, head = self.random.choice(WIDE), self.condition(1)
        value, by = self.value(dtype, 1), self.random.choice(("add", "mul", "min", "max", "and", "or", "xor"))
        width = self.subgroup

        def run(world: World, mask: Mask) -> np.ndarray:
            found, heads = value.run(world, mask), head.run(world, mask).astype(bool) & mask
            result = found.copy()
            for block, first in np.argwhere(world.thread % width == 0):
                places = range(first, min(first + width, world.size))
                starts = np.cumsum([heads[block, place] for place in places])
                for place, own in zip(places, starts):
                    members = [p for p, start in zip(places, starts) if start == own and mask[block, p]]
                    if members:
                        result[block, place] = COMBINE[by].reduce(found[block, members], dtype=found.dtype)
            return result

        return Expression(f"subgroup.segmented_reduce_{by}({value.text}, {head.text})", dtype, run)
