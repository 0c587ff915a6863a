"""Dependence against the truth: random nests with affine indices, all iterations run and compared."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.passes_parallel.programs import loops, program

from quadrants.passes.accesses import Access, accesses_of
from quadrants.passes.context import PassContext
from quadrants.passes.dependence import Space, independent
from quadrants.passes.parallelise import _Classifier

pytestmark = pytest.mark.slow

NAMES = {"h": 3, "w": 4, "k": 2}


class Nest:
    """A random loop of rank 1 or 2 with two accesses, each perhaps in a loop of its own."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0
        self.outer = [self.range("i", []) for _ in range(rng.choice((1, 1, 2)))]
        self.accesses = [self.access(number) for number in range(2)]

    def range(self, name: str, outer: list) -> tuple[str, dict[str, int], dict[str, int]]:
        self.count += 1
        low = {"": self.rng.choice((0, 0, 0, 1))}
        if outer and self.rng.random() < 0.4:
            low[self.rng.choice(outer)[0]] = 1
        high = self.rng.choice(({"": self.rng.randint(1, 4)}, {"h": 1}, {"w": 1}, {"h": 1, "": -1}))
        if outer and self.rng.random() < 0.3:
            high = {self.rng.choice(outer)[0]: 1, "": self.rng.choice((0, 1))}
        return (f"{name}{self.count}", low, high)

    def access(self, number: int) -> tuple[list, list[dict[str, int]]]:
        inner = [self.range("q", self.outer)] if self.rng.random() < 0.5 else []
        names = [name for name, _, _ in self.outer + inner]
        dims = []
        for _ in range(2):
            form = {"": self.rng.randint(0, 2)}
            for name in names:
                if self.rng.random() < 0.6:
                    form[name] = self.rng.choice((1, 1, 1, 2, 3, -1))
            if self.rng.random() < 0.2:
                form[self.rng.choice(("h", "w", "k"))] = self.rng.choice((1, -1))
            if self.rng.random() < 0.2:
                form[f"{self.rng.choice(names)}*w"] = 1
            dims.append(form)
        return inner, dims

    def text(self) -> str:
        emit = _Emitter()
        bounds = [(name, emit.form(low), emit.form(high)) for name, low, high in self.outer]
        names = ", ".join(f"%{name}" for name, _, _ in bounds)
        ranges = ", ".join(f"{low} .. {high}" for _, low, high in bounds)
        emit.lines.append(f"for {names} in {ranges} {{")
        for inner, dims in self.accesses:
            for name, low, high in inner:
                first, last = emit.form(low), emit.form(high)
                emit.lines.append(f"for %{name} in {first} .. {last} {{")
            indices = ", ".join(emit.form(dim) for dim in dims)
            emit.lines.append(f"store %x, %c[{indices}]")
            emit.lines += ["}"] * len(inner)
        emit.lines.append("}")
        return "\n".join(emit.lines)

    def elements(self, number: int, sizes: dict[str, int]) -> dict[tuple, set]:
        inner, dims = self.accesses[number]
        found: dict[tuple, set] = {}
        for point in _points(self.outer, dict(sizes)):
            iteration = tuple(point[name] for name, _, _ in self.outer)
            for whole in _points(inner, dict(point)):
                element = tuple(_value(dim, whole) for dim in dims)
                found.setdefault(element, set()).add(iteration)
        return found

    def meets(self, first: int, second: int, sizes: dict[str, int]) -> bool:
        left, right = self.elements(first, sizes), self.elements(second, sizes)
        return any(
            x != y
            for element in left.keys() & right.keys()
            for x, y in itertools.product(left[element], right[element])
        )


class _Emitter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.number = 0

    def new(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"%t{self.number} = {text}")
        return f"%t{self.number}"

    def form(self, form: dict[str, int]) -> str:
        total = self.new(f"constant {form.get('', 0)} : i64")
        for name, factor in form.items():
            if name:
                parts = [f"%{part}" for part in name.split("*")]
                term = parts[0] if len(parts) == 1 else self.new(f"mul {parts[0]}, {parts[1]}")
                scale = self.new(f"constant {factor} : i64")
                total = self.new(f"add {total}, {self.new(f'mul {term}, {scale}')}")
        return total


def _points(ranges: list, environment: dict[str, int]):
    if not ranges:
        yield dict(environment)
        return
    (name, low, high), *rest = ranges
    for value in range(_value(low, environment), _value(high, environment)):
        environment[name] = value
        yield from _points(rest, environment)


def _value(form: dict[str, int], environment: dict[str, int]) -> int:
    total = form.get("", 0)
    for name, factor in form.items():
        if name:
            product = factor
            for part in name.split("*"):
                product *= environment[part]
            total += product
    return total


def _classified(nest: Nest) -> tuple[Space, list[Access]]:
    module = program(nest.text())
    loop = loops(module)[0]
    classifier = _Classifier(module, PassContext())
    return Space(loop, classifier.forms), accesses_of(loop, classifier.nest, classifier.forms, classifier.summaries.of)


SIZES = [{"h": h, "w": w, "k": k} for h in (0, 1, 3, 5) for w in (1, 2, 4) for k in (-1, 0, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_independence_is_never_claimed_wrongly(seed: int) -> None:
    claimed = 0
    for sub in range(8):
        nest = Nest(random.Random(seed * 1000 + sub))
        space, accesses = _classified(nest)
        for first, second in itertools.combinations_with_replacement(range(len(accesses)), 2):
            if independent(accesses[first], accesses[second], space):
                claimed += 1
                numbers = (first, second) if len(accesses) == 2 else (0, 1)
                assert not any(nest.meets(*numbers, sizes) for sizes in SIZES), nest.text()
    assert seed > 0 or claimed > 0
