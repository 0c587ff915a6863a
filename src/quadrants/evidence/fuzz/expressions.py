"""Random expressions over the names and elements that are in reach.

Integers are of any width and wrap; with `tame` they are i32 or i64 and so small that nothing overflows. Floats are small
multiples of a quarter, so that every operation on them is exact in f32 whatever the compiler does with it; with `loose`
they are any numbers within -4 .. 4, and never decide on anything. What an assignment binds has a fixed type: joins of
types depend on paths that a run does not take, which the oracle cannot see.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from quadrants.evidence.fuzz.vocabulary import CONDITIONS, FLOATS, INTEGERS, LOOSE, SCRAMBLES

__all__ = ["Expressions", "Helper", "Name", "Scope", "Style", "Vector"]

WILD_TYPES = ("i32", "i32", "i32", "i64", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
TAME_TYPES = ("i32", "i64")
# Operations that grow what they are given, which tame programs do without.
_GROWING = frozenset({"pow", "shl", "bit_not"})


class Style(NamedTuple):
    """What kind of numbers a program computes with."""

    tame: bool
    loose: bool

    def integer_type(self, source: random.Random) -> str:
        return source.choice(TAME_TYPES if self.tame else WILD_TYPES)


class Name(NamedTuple):
    """A local name and its type."""

    text: str
    dtype: str


class Vector(NamedTuple):
    """A local vector."""

    text: str
    dtype: str
    length: int


class Helper(NamedTuple):
    """A function of the program. `kind`: 'integer' (two integers of `dtype` to one), 'float', 'pair' (two integers to
    two), 'reader' and 'writer' (an array of 8 integers and an integer), 'depth' (a count and an integer), 'vector' (three
    integers as a vector and one), 'reference' (an integer that it changes, and one)."""

    text: str
    kind: str
    dtype: str


Read = Callable[[int], str]


@dataclass
class Scope:
    """What expressions may use here. `integers`, `floats`, `flags`, `vectors`: names that may be assigned, too; `fixed`:
    texts of typed integers that may not; `element_reads`, `float_reads`: write a load, given a depth of expressions;
    `helpers`: functions that may be called; `free_arrays`: arrays of 8 integers that these may be given; `atomics`: those
    that an expression may change."""

    integers: list[Name] = field(default_factory=list)
    floats: list[Name] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    element_reads: list[Read] = field(default_factory=list)
    float_reads: list[Read] = field(default_factory=list)
    helpers: list[Helper] = field(default_factory=list)
    free_arrays: list[str] = field(default_factory=list)
    atomics: list[Name] = field(default_factory=list)


class Expressions:
    """Writes expressions for one program; `scope` is where the writer stands."""

    def __init__(self, source: random.Random, style: Style) -> None:
        self.random = source
        self.style = style
        self.scope = Scope()
        self.from_the_end = True

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def some_type(self) -> str:
        return self.style.integer_type(self.random)

    # Integers.

    def integer(self, depth: int) -> str:
        """An integer expression of some type."""
        if depth == 0 or self.chance(0.2):
            return self.leaf()
        if not self.style.tame and self.chance(0.06):
            return self.spread()
        kind = self.random.random()
        if kind < 0.12:
            return self.chosen(self.some_type(), depth)
        if kind < 0.2 and (self.scope.helpers or self.scope.atomics):
            return self.called(depth)
        if kind < 0.27:
            return self.cast(self.some_type(), depth - 1)
        if kind < 0.32:
            return f"qd.i32({self.condition(depth - 1)})"
        return self.operation(depth)

    def operation(self, depth: int) -> str:
        """A row of the op table."""
        names = [name for name in INTEGERS if not (self.style.tame and name in _GROWING)]
        row = self.random.choice(names)
        dtype = self.some_type()
        parts = {
            "k": str(self.random.randint(0, 3 if row == "pow" else 40 if self.chance(0.3) else 7)),
            "p": self.not_zero(depth - 1),
            "c": self.condition(0) if row == "select" else "",
            "s": self.cast(dtype, depth - 1) if row == "select" else "",
            "t": self.cast(dtype, 0) if row == "select" else "",
        }
        right = self.literal() if self.chance(0.25) else self.integer(depth - 1)
        return INTEGERS[row].format(self.integer(depth - 1), right, **parts)

    def scrambled(self) -> str:
        """A counter, or the like, times and plus so much that it wraps: a random number of its type."""
        fixed = [text for text in self.scope.fixed if text.startswith("qd.i32(")] if self.chance(0.7) else []
        names = fixed or [*(name.text for name in self.scope.integers), *self.scope.fixed]
        dtype, text = self.random.choice(SCRAMBLES)
        text = text.format(f"qd.{dtype}({self.random.choice(names)})")
        return f"({text} ^ ({text} >> {self.random.choice((13, 15, 31))}))" if self.chance(0.25) else f"({text})"

    def spread(self) -> str:
        """What programs make of scrambled numbers."""
        shapes = ("{0}", "({0} // 65536)", "({0} // 2**26)", "({0} // -3)", "({0} % 7)", "({0} % -5)", "abs({0})")
        shapes += ("({0} % n)", "({0} // n)") if "n" in self.scope.fixed else ()
        return self.random.choice((*shapes, "({0} >> 16)", "min({0}, 9)", "max({0}, -9)")).format(self.scrambled())

    def literal(self) -> str:
        if not self.style.tame and self.chance(0.1):
            return str(self.random.choice((127, 100, 63, 64, 31, 32)))
        return str(self.random.randint(-9 if self.style.tame or self.chance(0.3) else 0, 40))

    def not_zero(self, depth: int) -> str:
        """A divisor; a wild program divides by zero now and then, which has a meaning."""
        if self.chance(0.4):
            return str(self.random.choice((1, 2, 3, 4, 5, 7, 8, 16, -2, -3)[: 8 if not self.style.tame else 10]))
        if not self.style.tame and self.chance(0.3):
            return self.integer(depth)
        return f"(({self.integer(depth)} & 7) + 1)"

    def cast(self, dtype: str, depth: int) -> str:
        """An integer of one type; a small one in tame programs."""
        if self.style.tame:
            return f"qd.{dtype}({self.integer(depth)} & 63)"
        if self.scope.floats and not self.style.loose and self.chance(0.1):
            return f"qd.{dtype}({self.float(min(depth, 1))})"
        return f"qd.{dtype}({self.integer(depth)})"

    def chosen(self, dtype: str, depth: int) -> str:
        return f"({self.cast(dtype, depth - 1)} if {self.condition(depth - 1)} else {self.cast(dtype, 0)})"

    def leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.25 and self.scope.element_reads:
            return self.load(self.random.choice(self.scope.element_reads)(0))
        if kind < 0.33 and self.scope.vectors:
            vector = self.random.choice(self.scope.vectors)
            if not vector.dtype.startswith("f"):
                return self.load(f"{vector.text}[{self.component(vector.length, 0)}]")
        names = [*(name.text for name in self.scope.integers), *self.scope.fixed]
        text = self.random.choice(names)
        return f"({text} + {self.random.randint(-5, 5)})" if self.chance(0.15) else text

    def load(self, text: str) -> str:
        """An element: it may have grown by updates."""
        return f"({text} & 63)" if self.style.tame else text

    def component(self, length: int, depth: int) -> str:
        """An index of a vector of 2 to 8 elements."""
        if self.chance(0.4):
            return str(self.random.randint(-length if self.chance(0.2) else 0, length - 1))
        if length in (2, 4, 8):
            return f"{self.integer(depth)} & {length - 1}"
        return f"({self.integer(depth)} & 63) % {length}"

    def masked(self, size: int, depth: int) -> str:
        """An index of an array of a power of two elements, sometimes counted from the end."""
        index = f"({self.integer(depth)}) & {size - 1}"
        if self.from_the_end and self.chance(0.08):
            return f"qd.i32({index}) - {size}"
        return index

    def called(self, depth: int) -> str:
        """A call that gives an integer."""
        if self.scope.atomics and self.chance(0.3):
            return self.atomic(depth)
        fitting = [helper for helper in self.scope.helpers if helper.kind in ("integer", "reader", "depth", "writer")]
        fitting = [helper for helper in fitting if helper.kind in ("integer", "depth") or self.scope.free_arrays]
        if not fitting:
            return self.leaf()
        helper = self.random.choice(fitting)
        value = self.cast(helper.dtype, min(depth - 1, 1))
        if helper.kind == "integer":
            return f"{helper.text}({value}, {self.cast(helper.dtype, 0)})"
        if helper.kind == "depth":
            return f"{helper.text}({self.random.randint(0, 4)}, {value})"
        return f"{helper.text}({self.random.choice(self.scope.free_arrays)}, {value})"

    def atomic(self, depth: int) -> str:
        """An update that gives the old value."""
        array = self.random.choice(self.scope.atomics)
        element = f"{array.text}[{self.masked(8, 0)}]".replace(" - 8]", "]")
        value = self.cast(array.dtype, min(depth - 1, 1))
        return self.load(
            f"qd.atomic_{self.random.choice(('add', 'sub', 'or', 'xor', 'min', 'max'))}({element}, {value})"
        )

    # Floats.

    def float(self, depth: int) -> str:
        """A float expression of some type."""
        if depth == 0 or self.chance(0.2):
            return self.float_leaf()
        rows = LOOSE if self.style.loose else FLOATS
        row = self.random.choice(list(rows))
        left, right = self.float(depth - 1), self.float(depth - 1)
        parts = {
            "c": self.condition(0) if row == "select" else "",
            "h": self.random.choice(("0.5", "2.0", "1.0", "-2.0", "4.0")),
            "n": f"(abs({right}) + 0.25)" if self.style.tame or self.chance(0.7) else right,
        }
        if row == "select" or self.chance(0.1):
            dtype = self.random.choice(("f32", "f64"))
            left, right = f"qd.{dtype}({left})", f"qd.{dtype}({right})"
            if self.chance(0.4):
                return f"({left} if {self.condition(0)} else {right})"
        if not self.style.loose and self.chance(0.1):
            return f"({left} + ({self.integer(1)} & 15))"
        return rows[row].format(left, right, **parts)

    def float_leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.3 and self.scope.float_reads:
            return self.float_load(self.random.choice(self.scope.float_reads)(0))
        if kind < 0.4:
            vectors = [vector for vector in self.scope.vectors if vector.dtype.startswith("f")]
            if vectors:
                vector = self.random.choice(vectors)
                return f"{vector.text}[{self.component(vector.length, 0)}]"
        if kind < 0.5:
            helpers = [helper for helper in self.scope.helpers if helper.kind == "float"]
            if helpers and self.scope.floats:
                helper = self.random.choice(helpers)
                name = self.random.choice(self.scope.floats).text
                return f"{helper.text}(qd.{helper.dtype}({name}), {self.cast('i32', 0)})"
        if kind < 0.55:
            return f"qd.{self.random.choice(('f32', 'f64'))}({self.random.randint(-8, 8) / 4})"
        if not self.scope.floats:
            return (
                self.float_load(self.random.choice(self.scope.float_reads)(0))
                if self.scope.float_reads
                else "qd.f32(0.5)"
            )
        return self.random.choice(self.scope.floats).text

    def float_load(self, text: str) -> str:
        """An element: it may have grown by updates."""
        if self.style.loose:
            return f"min(max({text}, -4.0), 4.0)"
        return f"({text} % 4.0)" if self.chance(0.5) else f"({text} % 16.0)"

    def bound_float(self, dtype: str, depth: int) -> str:
        """What a name or element of that type may be bound to."""
        if self.style.loose:
            return f"qd.{dtype}(min(max({self.float(depth)}, -4.0), 4.0))"
        offset = self.random.choice(("", " - 2.0"))
        return f"qd.{dtype}(qd.floor({self.float(depth)} % 16.0) * 0.25{offset})"

    # Conditions.

    def condition(self, depth: int) -> str:
        if depth > 0 and self.chance(0.3):
            joined = f"{self.condition(depth - 1)} {self.random.choice(('and', 'or'))} {self.condition(depth - 1)}"
            return f"({joined})" if self.chance(0.7) else f"(not ({joined}))"
        if not self.style.tame and self.chance(0.08):
            return f"({self.random.choice(list(CONDITIONS.values())).format(self.spread(), '0')})"
        kind = self.random.random()
        if kind < 0.12 and self.scope.flags:
            return self.random.choice(self.scope.flags)
        if kind < 0.18:
            return f"(-5 < {self.leaf()} <= {self.leaf()})"
        if kind < 0.34 and (self.scope.floats or self.scope.float_reads) and not self.style.loose:
            return self.float_condition(depth)
        right = self.literal() if self.chance(0.5) else self.integer(0)
        text = self.random.choice(list(CONDITIONS.values())).format(self.integer(min(depth, 1)), right)
        return f"({text})"

    def float_condition(self, depth: int) -> str:
        value = self.float(min(depth, 1))
        if self.chance(0.2) and not self.style.tame:
            return f"qd.math.{self.random.choice(('isnan', 'isinf'))}({value})"
        right = self.random.choice((str(self.random.randint(-4, 20) / 4), self.float(0)))
        return f"({self.random.choice(list(CONDITIONS.values())).format(value, right)})"
