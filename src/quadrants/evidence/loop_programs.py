"""Random loops over affine indices, and whether their iterations depend on one another, found by running them."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["dependent", "loop_program"]

_DISTANCES = (0, 0, 1, -1, 2, -2, 3, -3, 4, 7)
_BOUNDS = ((0, 0), (7, 7), (3, 3), (1, 1), (7, 10), (0, 20))
SIZES = (40, 45, 53, 61, 76, 98, 100)


def loop_program(seed: int) -> str:
    """The source of `program(a, b, n)`: one loop with one or two statements that store to or update elements of `a` and
    `b`, and enough arithmetic that it is worth running in parallel."""
    source = random.Random(seed)
    low, high = source.choice(_BOUNDS)
    step = f", {source.choice((2, 3))}" if source.random() < 0.2 else ""
    lines = ["def program(a, b, n):", f"    for i in range({low}, n - {high}{step}):"]
    lines += [f"        {_statement(source)}" for _ in range(source.randint(1, 2))]
    lines += ["        x = 0", "        for h in range(200):", "            x += h * i % 7"]
    return "\n".join(lines) + "\n"


def _statement(source: random.Random) -> str:
    target = f"{source.choice('ab')}[{_index(source)}]"
    kind = source.random()
    if kind < 0.45:
        return f"{target} = {_element(source)} & 255"
    if kind < 0.6:
        return f"{target} += {_element(source)} & 15"
    if kind < 0.8:
        return f"{target} += 1"
    return f"{target} = ({_element(source)} + {_element(source)}) & 255"


def _element(source: random.Random) -> str:
    return f"{source.choice('ab')}[{_index(source)}]"


def _index(source: random.Random) -> str:
    kind = source.random()
    if kind < 0.65:
        return f"i + {source.choice(_DISTANCES)}"
    if kind < 0.85:
        return f"n - {source.choice((1, 2))} - i"
    return source.choice(("0", "4", "9", "n - 3"))


def dependent(source: str) -> bool | None:
    """Whether two iterations touch one element in a way whose order matters. None where that depends on n, or where
    an index leaves the arrays."""
    found = {_meets(source, size) for size in SIZES}
    return found.pop() if len(found) == 1 else None


def _meets(source: str, size: int) -> bool | None:
    """The same for one size: every access is noted with its iteration; updates commute with updates."""
    trace = _Trace(size)
    lines = [_noted(line) for line in source.splitlines() if "x" not in line and "for h" not in line]
    names: dict[str, Any] = {"begin": trace.begin, "update": trace.update}
    exec("\n".join(lines), names)
    try:
        names["program"](_Noted("a", trace), _Noted("b", trace), size)
    except IndexError:
        return None
    return any(_clash(touches) for touches in trace.touched.values())


def _noted(line: str) -> str:
    """A line of the program with updates as calls, and the start of an iteration announced."""
    if line.lstrip().startswith("for i"):
        return f"{line}\n        begin(i)"
    if "+=" not in line:
        return line
    target, _, value = line.strip().partition(" += ")
    array, _, index = target.partition("[")
    return f"        update({array}, {index[:-1]}, {value})"


def _clash(touches: set[tuple[int, str]]) -> bool:
    kinds = {kind for _, kind in touches}
    if kinds in ({"load"}, {"update"}):
        return False
    return any(
        one != other and not (first == second and first != "store")
        for one, first in touches
        for other, second in touches
    )


class _Trace:
    def __init__(self, size: int) -> None:
        self.size = size
        self.iteration = 0
        self.touched: dict[tuple[str, int], set[tuple[int, str]]] = {}

    def begin(self, iteration: int) -> None:
        self.iteration = iteration

    def note(self, array: str, index: int, kind: str) -> None:
        if not -self.size <= index < self.size:
            raise IndexError
        self.touched.setdefault((array, index % self.size), set()).add((self.iteration, kind))

    def update(self, array: _Noted, index: int, value: Any) -> None:
        self.note(array.name, index, "update")


class _Noted:
    def __init__(self, name: str, trace: _Trace) -> None:
        self.name = name
        self.trace = trace

    def __getitem__(self, index: int) -> int:
        self.trace.note(self.name, index, "load")
        return 1

    def __setitem__(self, index: int, value: int) -> None:
        self.trace.note(self.name, index, "store")
