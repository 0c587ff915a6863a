"""Random statements: what runs in program order, within one iteration or where nothing is parallel."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from quadrants.evidence.fuzz.expressions import Expressions, Name, Scope, Style, Vector

__all__ = ["Place", "Statements"]

Write = Callable[[int], None]
UPDATES = ("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>")
TAME_UPDATES = ("+", "-", "&", "|", "^")


@dataclass
class Place:
    """Where statements stand. `stores`: write a store or an update, given an indentation; `sums`: names that are only
    updated here, with how; `leaves`: texts that leave all loops (`return …`), if that is allowed; `continues`: whether
    the outermost loop may be continued."""

    stores: list[Write] = field(default_factory=list)
    sums: list[tuple[Name, str]] = field(default_factory=list)
    leaves: Callable[[], str] | None = None
    continues: bool = False
    breaks: bool = False
    loops: bool = True
    depth: int = 0


class Statements(Expressions):
    """Writes the lines of one program."""

    def __init__(self, source: random.Random, style: Style) -> None:
        super().__init__(source, style)
        self.lines: list[str] = []
        self.place = Place()
        self.counters = 0

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def fresh(self, letter: str) -> str:
        self.counters += 1
        return f"{letter}{self.counters}"

    # Names.

    def declare(self, indent: int, integers: int, floats: int, flags: int = 0) -> None:
        """New names in the scope, each bound to a value."""
        made: list[Name] = []
        for _ in range(integers):
            name = Name(self.fresh("a"), self.some_type())
            start = self.cast(name.dtype, 1) if self.scope.integers or self.scope.fixed else f"qd.{name.dtype}(3)"
            self.put(indent, f"{name.text} = {start}")
            made.append(name)
        self.scope.integers = [*self.scope.integers, *made]
        for _ in range(floats):
            name = Name(self.fresh("x"), self.random.choice(("f32", "f64")))
            start = self.bound_float(name.dtype, 1) if self.scope.floats else f"qd.{name.dtype}(1.5)"
            self.put(indent, f"{name.text} = {start}")
            self.scope.floats = [*self.scope.floats, name]
        for _ in range(flags):
            text = self.fresh("b")
            self.put(indent, f"{text} = {self.condition(1)}")
            self.scope.flags = [*self.scope.flags, text]

    def declare_vector(self, indent: int) -> None:
        """A new local vector in the scope."""
        length = self.random.choice((2, 3, 4, 4, 8))
        dtype = self.random.choice(("f32", "f64")) if self.chance(0.3) and self.scope.floats else self.some_type()
        makers = [helper for helper in self.scope.helpers if helper.kind == "vector"]
        if makers and self.chance(0.7):
            length, dtype = 3, self.random.choice(makers).dtype
        vector = Vector(self.fresh("v"), dtype, length)
        self.put(indent, f"{vector.text} = {self.display(vector)}")
        self.scope.vectors = [*self.scope.vectors, vector]

    def display(self, vector: Vector) -> str:
        parts = [self.component_value(vector, 1 if vector.length < 5 else 0) for _ in range(vector.length)]
        return f"qd.Vector([{', '.join(parts)}])"

    def component_value(self, vector: Vector, depth: int) -> str:
        if vector.dtype.startswith("f"):
            return self.bound_float(vector.dtype, depth)
        return self.cast(vector.dtype, depth)

    # Statements.

    def block(self, indent: int, depth: int, length: int) -> None:
        """`length` statements; compound ones nest up to `depth`."""
        for _ in range(length):
            self.statement(indent, depth)

    def statement(self, indent: int, depth: int) -> None:
        if depth > 0 and self.chance(0.45):
            kinds = [self.branch, self.branch]
            if self.place.loops:
                kinds += [self.counted, self.counted, self.guarded]
            self.random.choice(kinds)(indent, depth - 1)
            return
        simple: list[Callable[[int], None]] = [self.assign, self.assign, self.update]
        if len(self.scope.integers) > 1:
            simple.append(self.pair)
        if any(helper.kind == "reference" for helper in self.scope.helpers):
            simple.append(self.pass_on)
        if self.scope.floats:
            simple.append(self.assign_float)
        if self.scope.flags:
            simple.append(self.assign_flag)
        if self.scope.vectors:
            simple += [self.change_vector] * 2
        if self.place.stores:
            simple += [self.store] * 4
        if self.place.sums:
            simple.append(self.add_to_sum)
        if self.place.depth or self.place.continues or self.place.leaves:
            simple.append(self.leave)
        self.random.choice(simple)(indent)

    def assign(self, indent: int) -> None:
        name = self.random.choice(self.scope.integers)
        self.put(indent, f"{name.text} = {self.cast(name.dtype, 2)}")

    def update(self, indent: int) -> None:
        name = self.random.choice(self.scope.integers)
        if self.style.tame:
            operator = self.random.choice(TAME_UPDATES)
            self.put(indent, f"{name.text} = ({name.text} {operator} {self.cast(name.dtype, 1)}) & 63")
            return
        operator = self.random.choice(UPDATES)
        value = str(self.random.randint(0, 40)) if operator in ("<<", ">>") else self.cast(name.dtype, 1)
        self.put(indent, f"{name.text} {operator}= {value}")

    def pair(self, indent: int) -> None:
        first, second = self.random.sample(self.scope.integers, 2)
        makers = [helper for helper in self.scope.helpers if helper.kind == "pair"]
        if makers and self.chance(0.4):
            helper = self.random.choice(makers)
            call = f"{helper.text}({self.cast(helper.dtype, 1)}, {self.cast(helper.dtype, 0)})"
            names = self.fresh("t"), self.fresh("t")
            self.put(indent, f"{names[0]}, {names[1]} = {call}")
            mask = " & 63" if self.style.tame else ""
            self.put(indent, f"{first.text} = qd.{first.dtype}({names[0]}{mask})")
            self.put(indent, f"{second.text} = qd.{second.dtype}({names[1]}{mask})")
            return
        values = f"{self.cast(first.dtype, 1)}, {self.cast(second.dtype, 1)}"
        self.put(indent, f"{first.text}, {second.text} = {values}")

    def pass_on(self, indent: int) -> None:
        """A function changes a name."""
        helper = self.random.choice([helper for helper in self.scope.helpers if helper.kind == "reference"])
        fitting = [name for name in self.scope.integers if name.dtype == helper.dtype]
        if fitting:
            self.put(indent, f"{helper.text}({self.random.choice(fitting).text}, {self.cast(helper.dtype, 1)})")
        else:
            self.assign(indent)

    def assign_float(self, indent: int) -> None:
        name = self.random.choice(self.scope.floats)
        self.put(indent, f"{name.text} = {self.bound_float(name.dtype, 2)}")

    def assign_flag(self, indent: int) -> None:
        self.put(indent, f"{self.random.choice(self.scope.flags)} = {self.condition(2)}")

    def change_vector(self, indent: int) -> None:
        vector = self.random.choice(self.scope.vectors)
        alike = [other for other in self.scope.vectors if other[1:] == vector[1:]]
        kind = self.random.random()
        makers = [h for h in self.scope.helpers if (h.kind, h.dtype, 3) == ("vector", *vector[1:])]
        if makers and kind < 0.3:
            value = self.cast(vector.dtype, 1)
            self.put(indent, f"{vector.text} = {self.random.choice(makers).text}({vector.text}, {value})")
        elif kind < 0.55:
            index = self.component(vector.length, 1)
            self.put(indent, f"{vector.text}[{index}] = {self.component_value(vector, 1)}")
        elif kind < 0.65 or vector.dtype.startswith("f"):
            self.put(indent, f"{vector.text} = {self.display(vector)}")
        elif kind < 0.8 and not self.style.tame:
            index = self.component(vector.length, 0)
            operator = self.random.choice(("+", "-", "*", "^"))
            self.put(indent, f"{vector.text}[{index}] {operator}= {self.cast(vector.dtype, 0)}")
        else:
            other = self.random.choice([*(v.text for v in alike), self.cast(vector.dtype, 0)])
            mask = " % 64" if self.style.tame else ""
            operator = self.random.choice(("+", "-", "*"))
            self.put(indent, f"{vector.text} = ({vector.text} {operator} {other}){mask}")

    def store(self, indent: int) -> None:
        self.random.choice(self.place.stores)(indent)

    def add_to_sum(self, indent: int) -> None:
        name, operator = self.random.choice(self.place.sums)
        value = self.bound_float(name.dtype, 1) if name.dtype.startswith("f") else self.cast(name.dtype, 1)
        if operator in ("min", "max"):
            self.put(indent, f"{name.text} = {operator}({name.text}, {value})")
        else:
            self.put(indent, f"{name.text} {operator}= {value}")

    def leave(self, indent: int) -> None:
        """Leaves a loop, or the function, under a condition."""
        texts: list[str] = []
        if self.place.depth or self.place.continues:
            texts.append("continue")
        if self.place.depth or self.place.breaks:
            texts.append("break")
        if self.place.leaves is not None and self.chance(0.5):
            texts = [self.place.leaves()]
        if not texts:
            self.assign(indent)
            return
        self.put(indent, f"if {self.condition(1)}:")
        if self.chance(0.3):
            self.statement(indent + 1, 0)
        self.put(indent + 1, self.random.choice(texts))

    def branch(self, indent: int, depth: int) -> None:
        self.put(indent, f"if {self.condition(2)}:")
        self.block(indent + 1, depth, self.random.randint(1, 2))
        if self.chance(0.3):
            self.put(indent, f"elif {self.condition(1)}:")
            self.block(indent + 1, depth, 1)
        if self.chance(0.5):
            self.put(indent, "else:")
            self.block(indent + 1, depth, self.random.randint(1, 2))

    def counted(self, indent: int, depth: int) -> None:
        counter = self.fresh("i")
        if self.chance(0.1):
            other = self.fresh("j")
            sizes = f"{self.random.randint(0, 3)}, {self.random.randint(1, 3)}"
            self.put(indent, f"for {counter}, {other} in qd.ndrange({sizes}):")
            self.loop_body(indent, depth, [f"qd.i32({counter})", f"qd.i32({counter} * 2 + {other})"])
        else:
            self.put(indent, f"for {counter} in {self.bounds()}:")
            self.loop_body(indent, depth, [f"qd.i32({counter})"])

    def bounds(self) -> str:
        kind = self.random.random()
        if kind < 0.1:
            return f"qd.static(range({self.random.randint(1, 3)}))"
        if kind < 0.4:
            return f"range({self.random.randint(0, 5)})"
        if kind < 0.45 and not self.style.tame:
            return f"range({self.scrambled()} % 4)"
        if kind < 0.75:
            return f"range(({self.integer(1)}) & 3)"
        start, stop = self.random.randint(-3, 6), self.random.randint(-3, 6)
        return f"range({start}, {stop}, {self.random.choice(('1', '2', '-1', '-2', '3'))})"

    def guarded(self, indent: int, depth: int) -> None:
        """A while loop that ends after a few trips whatever its condition does."""
        counter = self.fresh("k")
        self.put(indent, f"{counter} = 0")
        self.put(indent, f"while {counter} < {self.random.randint(1, 4)} and {self.condition(1)}:")
        self.put(indent + 1, f"{counter} += 1")
        self.loop_body(indent, depth, [f"qd.i32({counter})"])

    def loop_body(self, indent: int, depth: int, counters: list[str]) -> None:
        scope, static = self.scope, self.lines[-1].lstrip().startswith("for") and "qd.static" in self.lines[-1]
        self.scope = Scope(**{**vars(scope), "fixed": [*scope.fixed, *counters]})
        place = self.place
        self.place = Place(**{**vars(place), "depth": 0 if static else place.depth + 1})
        if static:
            self.place.leaves, self.place.continues, self.place.breaks = None, False, False
        self.block(indent + 1, depth, self.random.randint(1, 3))
        self.place, self.scope = place, scope
        if self.chance(0.2) and not static:
            self.put(indent, "else:")
            self.block(indent + 1, 0, 1)
