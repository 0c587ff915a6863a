"""Random loop nests as Python source, and what the truth table of loops says of each, found by running them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

SIZES = (11, 12, 13, 18)
# How many more rows and columns the arrays have.
_ROOM = {11: (4, 0), 12: (7, 3), 13: (4, 1), 18: (9, 5)}
NONE, OPEN, CERTAIN = "none", "open", "certain"
_UPDATES = {"+=": "add", "-=": "add", "^=": "xor", "|=": "or", "&=": "and"}


class Nests:
    """One random program `program(a, b, c, d, p, n)`: a, b, c and d have n elements an axis and a
    few more, p has indices.

    `source` is for Python and the compiler, `traced` notes each access on a `Trace` first. `strict`: all loops stand
    under a run-time condition, where only proof makes them parallel.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.plain: list[str] = []
        self.noted: list[str] = []
        self.names = 0
        self.carried: list[str] = []
        self.strict = self.random.random() < 0.2
        self.loops: dict[int, int] = {}
        self.write("def program(a, b, c, d, p, n):")
        depth = 1
        if self.random.random() < 0.5:
            self.carried.append("s")
            self.write("    s = 5")
        if self.strict:
            self.write("    if n > 3:")
            depth = 2
        for _ in range(self.random.choice((1, 1, 2))):
            self.loop(depth, [], self.random.choice((0, 0, 0, 1, 1, 2)))
        self.write("    return s" if self.carried else "    return 0")

    @property
    def source(self) -> str:
        return "\n".join(self.plain) + "\n"

    @property
    def traced(self) -> str:
        return "\n".join(self.noted) + "\n"

    def write(self, plain: str, noted: str | None = None) -> None:
        self.plain.append(plain)
        self.noted.append(plain if noted is None else noted)

    def loop(self, depth: int, around: list[str], inner: int) -> None:
        choose = self.random.choice
        space = "    " * depth
        number = len(self.loops)
        rank = choose((1, 1, 1, 2)) if inner < 2 else 1
        names = []
        for _ in range(rank):
            self.names += 1
            names.append(f"i{self.names}")
        ranges = [self.range(around) for _ in names]
        if rank == 1:
            head = f"{space}for {names[0]} in range({ranges[0]}):"
        else:
            ends = [
                f"({text})"
                for text in (part if part.count(",") == 1 else f"0, n - {choose((0, 2))}" for part in ranges)
            ]
            head = f"{space}for {', '.join(names)} in ndrange({', '.join(ends)}):"
        self.write(head.replace("in ndrange", "in qd.ndrange"), f"{space}T.enter({number})\n{head}")
        self.loops[number] = len(self.plain)
        self.noted.append(f"{space}    T.step({number}, ({', '.join(names)},))")
        self.body(depth + 1, [*around, *names], inner)
        self.noted += [f"{space}    T.end({number})", f"{space}T.leave({number})"]

    def range(self, around: list[str]) -> str:
        choose = self.random.choice
        kind = self.random.random()
        if kind < 0.5:
            return f"{choose((0, 0, 1, 2, 3))}, n - {choose((0, 0, 1, 3))}"
        if kind < 0.6:
            return f"0, {choose((5, 9))}"
        if kind < 0.7:
            return f"n - 1, {choose((-1, 1))}, -1"
        if kind < 0.8:
            return f"0, n, {choose((2, 3))}"
        if around and kind < 0.95:
            return choose((f"{around[-1]}, n", f"0, {around[-1]}", f"{around[0]} + 1, n"))
        return "2, n + 1"

    def body(self, depth: int, names: list[str], inner: int) -> None:
        for _ in range(self.random.choice((1, 1, 2, 2))):
            kind = self.random.random()
            if inner and kind < 0.6:
                self.loop(depth, names, inner - 1)
                inner = 0
            elif kind < 0.7 or not self.carried:
                self.statement(depth, names)
            elif kind < 0.8:
                self.carry(depth, names)
            else:
                self.branch(depth, names)
        if self.random.random() < 0.2:
            self.branch(depth, names)
        if inner:
            self.loop(depth, names, inner - 1)

    def branch(self, depth: int, names: list[str]) -> None:
        space = "    " * depth
        if self.random.random() < 0.7:
            test = self.random.choice((f"{names[-1]} > 3", f"{names[0]} % 2 == 0", f"1 < {names[-1]} < n - 2", "n > 2"))
            self.write(f"{space}if {test}:")
            if self.random.random() < 0.15:
                self.write(f"{space}    continue", f"{space}    T.end(None)\n{space}    continue")
            else:
                self.statement(depth + 1, names)
            return
        value, noted = self.element(names)
        self.write(f"{space}if {value} > 100:", f"{space}{noted}\n{space}T.unsure += 1")
        self.noted.append(f"{space}if True:")
        self.statement(depth + 1, names)
        self.noted.append(f"{space}T.unsure -= 1")

    def carry(self, depth: int, names: list[str]) -> None:
        space = "    " * depth
        value, noted = self.element(names)
        kind = self.random.random()
        if kind < 0.35:
            self.write(f"{space}s += {value}", f"{space}{noted}; T.name('sum')")
        elif kind < 0.5:
            self.write(f"{space}s = max(s, {value})", f"{space}{noted}; T.name('max')")
        elif kind < 0.7:
            self.write(f"{space}s = (s * 3 + {value}) & 255", f"{space}{noted}; T.name('run')")
        elif kind < 0.85:
            self.write(f"{space}s = {value}", f"{space}{noted}; T.name('last')")
        else:
            place, touch, _ = self.place(names)
            self.write(f"{space}{place} = s & 255", f"{space}T.name('read'); {touch.format('store')}")

    def statement(self, depth: int, names: list[str]) -> None:
        space = "    " * depth
        place, touch, _ = self.place(names)
        value, noted = self.value(names)
        if self.random.random() < 0.55:
            self.write(f"{space}{place} = ({value}) & 255", f"{space}{noted}; {touch.format('store')}")
            return
        by = self.random.choice(("+=", "+=", "-=", "^=", "|=", "&="))
        value = f"({value}) & 15" if by != "&=" else f"({value}) | 240"
        self.write(f"{space}{place} {by} {value}", f"{space}{noted}; {touch.format(_UPDATES[by])}")

    def value(self, names: list[str]) -> tuple[str, str]:
        """An expression, and what it loads."""
        kind = self.random.random()
        if kind < 0.2:
            return f"{self.random.choice(names)} * 7 + 3", "pass"
        first, noted = self.element(names)
        if kind < 0.7:
            return f"{first} + {self.random.choice((1, 7))}", noted
        second, also = self.element(names)
        return f"{first} * 3 + {second}", f"{noted}; {also}"

    def element(self, names: list[str]) -> tuple[str, str]:
        place, touch, _ = self.place(names)
        return place, touch.format("load")

    def place(self, names: list[str]) -> tuple[str, str, bool]:
        """An element, and what notes that it is touched."""
        if self.random.random() < 0.6:
            array, indices = self.random.choice("ab"), [self.index(names)]
            if self.random.random() < 0.08:
                found = f"p[{self.random.choice(names)} % n]"
                return f"{array}[{found}]", f"T.touch('{array}', ({found},), '{{}}', False)", False
        else:
            array, indices = self.random.choice("cd"), [self.index(names), self.index(names)]
        inside = ", ".join(indices)
        return f"{array}[{inside}]", f"T.touch('{array}', ({inside},), '{{}}')", True

    def index(self, names: list[str]) -> str:
        choose = self.random.choice
        name = choose(names)
        kind = self.random.random()
        if kind < 0.55:
            return name
        if kind < 0.78:
            return f"{name} {choose('+-')} {choose((1, 1, 2, 3))}"
        if kind < 0.84:
            return f"n - 1 - {name}"
        if kind < 0.9:
            return choose(("0", "4", "n - 2", "-1"))
        if kind < 0.95 and len(names) < 3:
            name = names[-1]
            return choose((f"{name} // 2", f"{name} % 4", f"min({name}, 6)", f"max({name} - 1, 0)"))
        return f"({name} + {choose(names)}) % n"

    def verdicts(self) -> dict[int, str] | None:
        """What the truth table says of the loops that it looks at, by line; None where an index leaves an array, or
        where it depends on the size."""
        found: list[dict[int, str]] = []
        for size in SIZES:
            trace = Trace(size)
            names: dict[str, Any] = {"T": trace, "ndrange": _ndrange, "p": indices_of(size), "n": size}
            exec(self.traced.replace("program(a, b, c, d, p, n)", "program(n, p)"), names)
            try:
                names["program"](size, names["p"])
            except IndexError:
                return None
            found.append(trace.verdicts())
        same = all(one == found[0] for one in found)
        return {self.loops[number]: verdict for number, verdict in found[0].items()} if same else None


def _ndrange(*bounds: tuple[int, int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*[range(*bound) for bound in bounds])


def indices_of(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, size, size)


def shapes_of(size: int) -> dict[str, tuple[int, ...]]:
    rows, columns = _ROOM.get(size, (5, 2))
    table = (size + rows, size + columns)
    return {"a": table[:1], "b": table[:1], "c": table, "d": table}


def arguments(size: int, seed: int) -> list[Any]:
    source = np.random.default_rng(seed)
    return [*[source.integers(0, 256, shape) for shape in shapes_of(size).values()], indices_of(size), size]


class Trace:
    """The accesses of a run, each with the iterations of the loops around it."""

    def __init__(self, size: int) -> None:
        self.shapes = shapes_of(size)
        self.stack: list[list[Any]] = []
        self.runs = 0
        self.unsure = 0
        self.touches: list[tuple[tuple[Any, ...], tuple[Any, ...], str, bool]] = []

    def enter(self, number: int) -> None:
        self.runs += 1
        self.stack.append([number, self.runs, None])

    def step(self, number: int, counters: tuple[int, ...]) -> None:
        self.stack[-1][2] = counters

    def end(self, number: int | None) -> None:
        pass

    def leave(self, number: int) -> None:
        self.stack.pop()

    def touch(self, array: str, indices: tuple[int, ...], kind: str, certain: bool = True) -> None:
        element = []
        for index, size in zip(indices, self.shapes[array]):
            if not -size <= index < size:
                raise IndexError
            element.append(index % size)
        if len(self.touches) > 6_000:
            raise IndexError
        self._note((array, *element), kind, certain)

    def name(self, kind: str) -> None:
        self._note(("s",), kind, True)

    def _note(self, element: tuple[Any, ...], kind: str, certain: bool) -> None:
        self.touches.append((tuple(map(tuple, self.stack)), element, kind, certain and not self.unsure))

    def verdicts(self) -> dict[int, str]:
        found: dict[int, str] = {}
        self._decide(self.touches, 0, found)
        return found

    def _decide(self, touches: list[Any], depth: int, found: dict[int, str]) -> None:
        """Decides on the loops at a depth; those within a loop that stays in order are looked at in each of its
        iterations."""
        runs: dict[Any, list[Any]] = {}
        for touch in touches:
            if len(touch[0]) > depth:
                number, run, _ = touch[0][depth]
                runs.setdefault((number, run), []).append(touch)
        verdicts: dict[int, str] = {}
        for (number, _), mine in runs.items():
            verdicts[number] = max(verdicts.get(number, NONE), _verdict(mine, depth), key=(NONE, OPEN, CERTAIN).index)
        for number, verdict in verdicts.items():
            found[number] = max(found.get(number, NONE), verdict, key=(NONE, OPEN, CERTAIN).index)
        within = [touch for (number, _), mine in runs.items() for touch in mine if verdicts[number] == CERTAIN]
        if within:
            self._decide(within, depth + 1, found)


def _verdict(touches: list[Any], depth: int) -> str:
    """Whether iterations of one run of a loop depend on one another."""
    elements: dict[Any, set[Any]] = {}
    for stack, element, kind, certain in touches:
        elements.setdefault(element, set()).add((stack[depth][2], kind, certain))
    worst = NONE
    for element, found in elements.items():
        if element == ("s",):
            kinds = {kind for _, kind, _ in found}
            if len(kinds) > 1 or not kinds <= {"sum", "max", "read"}:
                return CERTAIN
            continue
        verdict = _clash(found)
        if verdict == CERTAIN:
            return CERTAIN
        worst = verdict if verdict == OPEN else worst
    return worst


def _clash(found: set[Any]) -> str:
    for verdict, wanted in ((CERTAIN, (True,)), (OPEN, (True, False))):
        iterations: dict[str, set[Any]] = {}
        for iteration, kind, certain in found:
            if certain in wanted:
                iterations.setdefault(kind, set()).add(iteration)
        for first, mine in iterations.items():
            for second, others in iterations.items():
                if (first != second or first == "store") and len(mine | others) > 1:
                    return verdict
    return NONE
