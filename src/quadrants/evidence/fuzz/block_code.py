"""Statements of block programs: each has its text in the kernel language and what it does in a `World`.

Any statement may be left out, and what is left is a program without races: barriers are parts of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from quadrants.evidence.fuzz.block_worlds import Mask, World
from quadrants.records import Record

__all__ = [
    "Branch",
    "Code",
    "Exchange",
    "Expression",
    "Jump",
    "Loop",
    "Part",
    "Program",
    "Statement",
    "lines_of",
    "parts",
    "put",
    "run_all",
]


class Expression(Record):
    """A value that threads have: its text, its type, what it is, and whether it is the same for all threads of a block."""

    text: str
    dtype: str
    run: Callable[[World, Mask], np.ndarray]
    uniform: bool = False


class Code(Protocol):
    """A statement. `bodies`: the statements in it; `lines`: its text; `run`: what the threads of the mask do."""

    bodies: tuple[list[Code], ...]

    def lines(self, indent: int) -> list[str]: ...

    def run(self, world: World, mask: Mask) -> None: ...


class Part(Protocol):
    """A loop of a program: its text, and what it does to the arrays."""

    def lines(self) -> list[str]: ...

    def run(self, memory: dict[str, np.ndarray], numbers: dict[str, int]) -> None: ...


class Program:
    """A program with its arguments: `memory`, arrays by name, and `numbers`; `loops` may be made fewer. `subgroup`: how many
    threads one has."""

    header = "import quadrants as qd\n"

    def __init__(self) -> None:
        self.subgroup = 32
        self.numbers: dict[str, int] = {}
        self.memory: dict[str, np.ndarray] = {}
        self.loops: list[Part] = []

    def declarations(self) -> list[str]:
        """Lines between the header and the program."""
        return []

    def text(self) -> str:
        """The program as a module."""
        parameters = [*self.memory, *(f"{name}: qd.i32" for name in self.numbers)]
        lines = ["", f"def program({', '.join(parameters)}):"]
        for loop in self.loops:
            lines += loop.lines()
        if not self.loops:
            lines.append(put(1, "pass"))
        return "\n".join([self.header, *self.declarations(), *lines]) + "\n"

    def arguments(self) -> list[Any]:
        """New arguments."""
        return [*(array.copy() for array in self.memory.values()), *self.numbers.values()]

    def expected(self) -> list[np.ndarray]:
        """The arrays afterwards."""
        memory = {name: array.copy() for name, array in self.memory.items()}
        with np.errstate(all="ignore"):
            for loop in self.loops:
                loop.run(memory, self.numbers)
        return list(memory.values())


def put(indent: int, text: str) -> str:
    return "    " * indent + text


def lines_of(body: list[Code], indent: int) -> list[str]:
    return [line for code in body for line in code.lines(indent)]


def run_all(body: list[Code], world: World, mask: Mask) -> None:
    """Statements in order, each by the threads that are still there."""
    for code in body:
        left = mask & ~world.away
        if left.any():
            code.run(world, left)


def parts(body: list[Code]) -> Iterator[tuple[list[Code], int]]:
    """Every statement, as a place in a body; what is around others comes first."""
    for position, code in enumerate(body):
        yield body, position
        for inner in code.bodies:
            yield from parts(inner)


class Statement:
    """Text without statements in it."""

    bodies: tuple[list[Code], ...] = ()

    def __init__(self, text: str, run: Callable[[World, Mask], Any]) -> None:
        self.text = text
        self._run = run

    def lines(self, indent: int) -> list[str]:
        return [put(indent, line) for line in self.text.splitlines()]

    def run(self, world: World, mask: Mask) -> None:
        self._run(world, mask)


class Jump:
    """`continue` or `break`, of the loop around or (`continue`) of the block loop."""

    bodies: tuple[list[Code], ...] = ()

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def lines(self, indent: int) -> list[str]:
        return [put(indent, self.kind)]

    def run(self, world: World, mask: Mask) -> None:
        world.away = world.away | mask
        if self.kind == "break":
            world.broken = world.broken | mask


class Branch:
    def __init__(self, condition: Expression, yes: list[Code], no: list[Code]) -> None:
        self.condition = condition
        self.bodies: tuple[list[Code], ...] = yes, no

    def lines(self, indent: int) -> list[str]:
        yes, no = [lines_of(body, indent + 1) for body in self.bodies]
        found = [put(indent, f"if {self.condition.text}:"), *(yes or [put(indent + 1, "pass")])]
        return [*found, put(indent, "else:"), *no] if no else found

    def run(self, world: World, mask: Mask) -> None:
        holds = self.condition.run(world, mask).astype(bool)
        for body, taken in zip(self.bodies, (mask & holds, mask & ~holds)):
            if taken.any():
                run_all(body, world, taken)


class Loop:
    """`for counter in range(trips)`, or the same with `while`."""

    def __init__(self, counter: str, trips: Expression, body: list[Code], as_while: bool = False) -> None:
        self.counter = counter
        self.trips = trips
        self.bodies: tuple[list[Code], ...] = (body,)
        self.as_while = as_while

    def lines(self, indent: int) -> list[str]:
        inner = lines_of(self.bodies[0], indent + 1)
        if not self.as_while:
            text = f"for {self.counter} in range({self.trips.text}):"
            return [put(indent, text), *(inner or [put(indent + 1, "pass")])]
        return [
            put(indent, f"{self.counter}_end = {self.trips.text}"),
            put(indent, f"{self.counter} = qd.i32(-1)"),
            put(indent, f"while {self.counter} + 1 < {self.counter}_end:"),
            put(indent + 1, f"{self.counter} += 1"),
            *inner,
        ]

    def run(self, world: World, mask: Mask) -> None:
        trips = self.trips.run(world, mask)
        outer_away, outer_broken = world.away, world.broken
        world.broken = np.zeros_like(mask)
        trip = 0
        while (going := mask & (trips > trip) & ~world.broken).any():
            world.away = outer_away
            world.assign(self.counter, world.full(trip, "i32"), going)
            run_all(self.bodies[0], world, going)
            trip += 1
        world.away, world.broken = outer_away, outer_broken


class Exchange:
    """Threads write, meet, read what others wrote, and meet."""

    def __init__(self, writes: list[Code], reads: list[Code], barriers: tuple[str, str]) -> None:
        self.bodies: tuple[list[Code], ...] = writes, reads
        self.barriers = barriers

    def lines(self, indent: int) -> list[str]:
        found: list[str] = []
        for body, barrier in zip(self.bodies, self.barriers):
            found += [*lines_of(body, indent), put(indent, barrier)]
        return found

    def run(self, world: World, mask: Mask) -> None:
        for body in self.bodies:
            run_all(body, world, mask)
