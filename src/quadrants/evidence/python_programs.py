"""Random Python functions whose meaning is certain: the same bits on every target, whatever the compiler does.

Integers are i32 and wrap; floats are kept to small multiples of a quarter, so that every operation on them is exact;
every name is assigned at the start; every index is masked into range. The bodies stand under a run-time condition, where
iterations have an order.
"""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["HEADER", "python_program"]

HEADER = "from __future__ import annotations\n\nimport quadrants as qd\n"
SIZE = 8
INTEGERS = ("a", "b", "c", "d")
FLOATS = ("x", "y")


def python_program(seed: int) -> str:
    """A module's source: helper functions and `program(p, q, n, m)`, where p is an i32 array and q an f64 array of
    `SIZE` elements, n and m are i32 numbers. It returns (i32, f64)."""
    return Generator(random.Random(seed)).module()


class Generator:
    """One use writes one module."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.lines: list[str] = []
        self.helpers: list[str] = []
        self.integers: tuple[str, ...] = ()
        self.floats: tuple[str, ...] = ()
        self.in_helper = False
        self.loops = 0
        self.counters = 0

    def module(self) -> str:
        """The whole source."""
        self.lines = [HEADER, ""]
        for number in range(self.random.randint(0, 2)):
            self.helper(f"helper_{number}")
        self.lines += ["", "def program(p, q, n: qd.i32, m: qd.i32):"]
        for name in INTEGERS:
            self.put(1, f"{name} = {self.choose(('n', 'm'))} + {self.random.randint(-9, 9)}")
        for name in FLOATS:
            self.put(1, f"{name} = qd.f64({self.random.randint(-8, 8)})")
        self.integers, self.floats = INTEGERS, FLOATS
        self.put(1, "if n > -1000000:")
        self.block(2, depth=3, length=self.random.randint(3, 7))
        self.put(1, "return a + 3 * b - c ^ d, x - y")
        return "\n".join(self.lines) + "\n"

    def helper(self, name: str) -> None:
        """A function of two integers with loops and early returns."""
        self.lines += ["", f"def {name}(a, b):"]
        self.integers, self.floats, self.in_helper = ("a", "b"), (), True
        self.block(1, depth=2, length=self.random.randint(1, 4))
        self.put(1, f"return {self.integer(2)}")
        self.in_helper = False
        self.helpers.append(name)

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def choose(self, options: tuple[str, ...] | list[str]) -> str:
        return self.random.choice(options)

    # Statements.

    def block(self, indent: int, depth: int, length: int) -> None:
        """`length` statements; compound ones nest up to `depth`."""
        for _ in range(length):
            self.statement(indent, depth)

    def statement(self, indent: int, depth: int) -> None:
        simple: list[Callable[[int, int], None]] = [self.assign, self.assign, self.update, self.pair]
        if not self.in_helper:
            simple += [self.store, self.store, self.assign_float]
        compound = [self.branch, self.branch, self.counted, self.counted, self.guarded]
        if self.loops:
            simple += [self.leave]
        if depth > 0 and self.random.random() < 0.5:
            self.random.choice(compound)(indent, depth - 1)
        else:
            self.random.choice(simple)(indent, depth)

    def assign(self, indent: int, depth: int) -> None:
        self.put(indent, f"{self.choose(self.integers)} = {self.integer(2)}")

    def update(self, indent: int, depth: int) -> None:
        operator = self.choose(["+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>"])
        value = str(self.random.randint(0, 40)) if operator in ("<<", ">>") else self.integer(1)
        self.put(indent, f"{self.choose(self.integers)} {operator}= {value}")

    def pair(self, indent: int, depth: int) -> None:
        first, second = self.random.sample(self.integers, 2)
        self.put(indent, f"{first}, {second} = {self.integer(1)}, {self.integer(1)}")

    def assign_float(self, indent: int, depth: int) -> None:
        self.put(indent, f"{self.choose(self.floats)} = qd.floor({self.float(2)} % 256.0) * 0.25")

    def store(self, indent: int, depth: int) -> None:
        index = f"({self.integer(1)}) & {SIZE - 1}"
        kind = self.random.random()
        if kind < 0.4:
            self.put(indent, f"p[{index}] = {self.integer(2)}")
        elif kind < 0.7:
            self.put(indent, f"p[{index}] {self.choose(['+', '-', '*', '^', '|'])}= {self.integer(1)}")
        else:
            self.put(indent, f"q[{index}] = qd.floor({self.float(2)} % 256.0) * 0.25")

    def leave(self, indent: int, depth: int) -> None:
        kind = self.random.random()
        self.put(indent, f"if {self.condition(1)}:")
        if kind < 0.4:
            self.put(indent + 1, "break")
        elif kind < 0.8:
            self.put(indent + 1, "continue")
        elif self.in_helper:
            self.put(indent + 1, f"return {self.integer(1)}")
        else:
            self.put(indent + 1, f"return {self.integer(1)}, x")

    def branch(self, indent: int, depth: int) -> None:
        self.put(indent, f"if {self.condition(2)}:")
        self.block(indent + 1, depth, self.random.randint(1, 2))
        if self.random.random() < 0.3:
            self.put(indent, f"elif {self.condition(1)}:")
            self.block(indent + 1, depth, 1)
        if self.random.random() < 0.5:
            self.put(indent, "else:")
            self.block(indent + 1, depth, self.random.randint(1, 2))

    def counted(self, indent: int, depth: int) -> None:
        name = f"i{self.counters}"
        self.counters += 1
        self.put(indent, f"for {name} in range({self.bounds()}):")
        self.put(indent + 1, f"{self.choose(self.integers)} += qd.i32({name})")
        self.body(indent, depth)

    def bounds(self) -> str:
        kind = self.random.random()
        if kind < 0.4:
            return str(self.random.randint(0, 5))
        if kind < 0.7:
            return f"({self.integer(1)}) & 3"
        start, stop = self.random.randint(-3, 6), self.random.randint(-3, 6)
        return f"{start}, {stop}, {self.choose(['1', '2', '-1', '-2', '3'])}"

    def guarded(self, indent: int, depth: int) -> None:
        """A while loop that ends after a few trips whatever its condition does."""
        name = f"k{self.counters}"
        self.counters += 1
        self.put(indent, f"{name} = 0")
        self.put(indent, f"while {name} < {self.random.randint(1, 4)} and {self.condition(1)}:")
        self.put(indent + 1, f"{name} += 1")
        self.body(indent, depth)

    def body(self, indent: int, depth: int) -> None:
        self.loops += 1
        self.block(indent + 1, depth, self.random.randint(1, 3))
        self.loops -= 1
        if self.random.random() < 0.25:
            self.put(indent, "else:")
            self.block(indent + 1, 0, 1)

    # Expressions.

    def integer(self, depth: int) -> str:
        """An i32 expression; at least one name in it makes it typed."""
        if depth == 0 or self.random.random() < 0.2:
            return self.integer_leaf()
        kind = self.random.random()
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        if kind < 0.55:
            return f"({left} {self.choose(['+', '-', '*', '&', '|', '^', '//', '%'])} {right})"
        if kind < 0.65:
            return f"({left} {self.choose(['<<', '>>'])} {self.random.randint(0, 40)})"
        if kind < 0.75:
            return f"{self.choose(['min', 'max'])}({left}, {right})"
        if kind < 0.85:
            return f"({left} if {self.condition(depth - 1)} else {right})"
        if kind < 0.92 and self.helpers and not self.in_helper:
            return f"{self.choose(self.helpers)}({left}, {right})"
        return f"{self.choose(['-', '~', '+'])}{left}"

    def integer_leaf(self) -> str:
        if self.random.random() < 0.25:
            return f"({self.choose(self.integers)} + {self.random.randint(-5, 5)})"
        if not self.in_helper and self.random.random() < 0.25:
            return f"p[{self.choose(self.integers)} & {SIZE - 1}]"
        return self.choose(self.integers)

    def float(self, depth: int) -> str:
        """An f64 expression of bounded size."""
        if depth == 0 or self.random.random() < 0.2:
            return self.choose([*self.floats, f"q[{self.choose(self.integers)} & {SIZE - 1}]", "0.5", "2.25", "-3.0"])
        kind = self.random.random()
        left, right = self.float(depth - 1), self.float(depth - 1)
        if kind < 0.6:
            return f"({left} {self.choose(['+', '-', '*'])} {right})"
        if kind < 0.75:
            return f"({left} + ({self.integer(1)} & 15))"
        if kind < 0.9:
            return f"{self.choose(['min', 'max'])}({left}, {right})"
        return f"({left} if {self.condition(0)} else {right})"

    def condition(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.35:
            joined = f"{self.condition(depth - 1)} {self.choose(['and', 'or'])} {self.condition(depth - 1)}"
            return f"({joined})" if self.random.random() < 0.7 else f"not ({joined})"
        operator = self.choose(["<", "<=", ">", ">=", "==", "!="])
        if self.floats and self.random.random() < 0.2:
            return f"{self.choose(self.floats)} {operator} {self.random.randint(-4, 20) / 4}"
        if self.random.random() < 0.1:
            return f"-5 < {self.choose(self.integers)} <= {self.choose(self.integers)}"
        return f"{self.integer(min(depth, 1))} {operator} {self.integer(0)}"
