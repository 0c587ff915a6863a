"""Random loop nests: all parallel passes keep what programs do, and loops proved parallel may run backwards."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.passes_parallel.programs import arguments, program, run

from quadrants.errors import QuadrantsBoundsError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import (
    cost,
    cse,
    cut_loops,
    dead_code,
    drop_atomics,
    fuse,
    hoist,
    inductions,
    parallelise,
    privatise,
    scatter,
    simplify,
    sink_slots,
    straighten,
    widen_sums,
    wrap_indices,
)
from quadrants.passes.context import PassContext
from quadrants.passes.nest import Nest, counters, highs, lows
from quadrants.passes.rewrite import replace_uses

pytestmark = pytest.mark.slow

PASSES = [
    sink_slots,
    inductions,
    parallelise,
    privatise,
    fuse,
    straighten,
    widen_sums,
    drop_atomics,
    scatter,
    cut_loops,
    wrap_indices,
    cost,
    hoist,
    simplify,
    cse,
    dead_code,
]
SIZES = [(9, 11, 5, 6), (6, 4, 7, 5), (0, 0, 0, 0), (1, 1, 1, 1), (2, 3, 2, 2)]


# Under a condition loops are parallel only where that is proved.
ALWAYS = "%always = ge %n, %o0\nif %always {\n"


class Generator:
    """Writes a random program over small whole numbers, so that float sums are exact in any order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.number = 0
        self.lines: list[str] = []

    def new(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"%t{self.number} = {text}")
        return f"%t{self.number}"

    def program(self) -> str:
        for _ in range(self.rng.choice((1, 1, 2))):
            self.loop([], 0, None)
        return "\n".join(self.lines)

    def loop(self, around: list[str], depth: int, carried: str | None) -> str | None:
        """One `for`; gives the result if it carries a value on from `carried`."""
        rng = self.rng
        self.number += 1
        rank = 2 if rng.random() < 0.25 and depth == 0 else 1
        names = [f"%i{self.number}_{k}" for k in range(rank)]
        ranges = []
        for _ in range(rank):
            low = rng.choice(["%o0", "%o0", "%o1", *around[:1]])
            high = rng.choice(["%n", "%h", "%w", "%o5", "%k"] if depth else ["%n", "%n", "%h", "%w"])
            ranges.append(f"{low} .. {high}")
        state = f"%s{self.number}" if carried or rng.random() < 0.4 else None
        result = f"%r{self.number}"
        head = f"for {', '.join(names)} in {', '.join(ranges)}"
        if state:
            head = f"{result} = {head} carry ({state} = {carried or rng.choice(['%f0', '%x'])}) : f32"
        self.lines.append(head + " {")
        value = self.body(names + around, depth, state)
        if state:
            self.lines.append(f"yield {value}")
        self.lines.append("}")
        return result if state else None

    def body(self, names: list[str], depth: int, state: str | None) -> str | None:
        rng = self.rng
        if state and not hasattr(self, "combiner"):
            self.combiner = rng.choice(["add", "add", "max", "min"])
        for _ in range(rng.randint(1, 3)):
            kind = rng.random()
            if kind < 0.2 and depth < 2:
                found = self.loop(names, depth + 1, state if state and rng.random() < 0.7 else None)
                if found and state and rng.random() < 2:
                    state = found if self._passes_on(found, state) else state
            elif kind < 0.45 and state:
                state = self.combine(names, state)
            elif kind < 0.6:
                self.condition(names, depth)
            else:
                self.statement(names)
        return state

    def _passes_on(self, found: str, state: str) -> bool:
        """Whether the loop just written carries the state on (its head says so)."""
        return any(line.startswith(f"{found} = ") and f"= {state})" in line for line in self.lines)

    def combine(self, names: list[str], state: str) -> str:
        value = self.load(names)
        if self.rng.random() < 0.5:
            return self.new(f"{self.combiner} {state}, {value}")
        test = self.test(names)
        self.number += 1
        result, inner = f"%t{self.number}", f"%u{self.number}"
        self.lines.append(f"{result} = if {test} : f32 {{")
        self.lines.append(f"{inner} = {self.combiner} {state}, {value}")
        self.lines += [f"yield {inner}", "} else {", f"yield {state}", "}"]
        return result

    def condition(self, names: list[str], depth: int) -> None:
        self.lines.append(f"if {self.test(names)} {{")
        self.statement(names)
        self.lines.append("}")

    def test(self, names: list[str]) -> str:
        left = self.index(names)
        right = self.rng.choice(["%o0", "%o1", "%n", "%w", "%k", *names])
        return self.new(f"{self.rng.choice(['lt', 'le', 'gt', 'ge', 'eq', 'ne'])} {left}, {right}")

    def index(self, names: list[str]) -> str:
        rng = self.rng
        name = rng.choice(names)
        kind = rng.random()
        if kind < 0.45:
            return name
        if kind < 0.55:
            return rng.choice(["%o0", "%o1", "%k"])
        moved = self.new(f"{rng.choice(['add', 'sub'])} {name}, {rng.choice(['%o1', '%o1', '%o2', '%k'])}")
        if kind < 0.8:
            return moved
        if kind < 0.9:
            return self.new(f"mod {moved}, {rng.choice(['%n', '%w', '%h'])}")
        return self.new(f"add {moved}, {rng.choice(names)}")

    def place(self, names: list[str]) -> str:
        """An element that is surely in range, by a remainder or a clamp where the index itself is not."""
        array = self.rng.choice(["%a", "%b", "%c", "%d"])
        sizes = {"%a": ["%n"], "%b": ["%m"], "%c": ["%h", "%w"], "%d": ["%h", "%w"]}[array]
        indices = []
        wrap = self.rng.random() < 0.4
        for size in sizes:
            index = self.index(names)
            low = self.new(f"neg {size}") if wrap else "%o0"
            self.guards += [(f"ge {index}, {low}"), (f"lt {index}, {size}")]
            indices.append(index)
        return f"{array}[{', '.join(indices)}]" + (" {wrap = True}" if wrap else "")

    def load(self, names: list[str]) -> str:
        self.guards: list[str] = []
        place = self.place(names)
        test = self.guarded()
        self.number += 1
        result = f"%t{self.number}"
        self.lines += [f"{result} = if {test} : f32 {{", f"%v{self.number} = load {place}", f"yield %v{self.number}"]
        self.lines += ["} else {", "yield %f1", "}"]
        return result

    def guarded(self) -> str:
        tests = [self.new(guard) for guard in self.guards]
        test = tests[0]
        for more in tests[1:]:
            test = self.new(f"bit_and {test}, {more}")
        return test

    def statement(self, names: list[str]) -> None:
        value = self.load(names) if self.rng.random() < 0.7 else "%x"
        self.guards = []
        place = self.place(names)
        test = self.guarded()
        if self.rng.random() < 0.5:
            by = self.rng.choice(["add", "sub", "max", "min"])
            self.number += 1
            access = f"%e{self.number} = update {by} {value}, {place}"
        else:
            access = f"store {value}, {place}"
        if self.rng.random() < 0.5:
            self.lines.append(f"if {test} {{")
            self.lines.append(access)
            self.lines.append("}")
        else:
            self.lines += [f"if {test} {{", access, "} else {", "yield", "}"]


def small(values: list) -> list:
    """Arguments whose sums stay exact."""
    for array in values[:4]:
        array[...] = array % 3
    return values


def outcomes(module: Module, seed: int) -> list:
    found = []
    for number, size in enumerate(SIZES):
        try:
            found.append(run(module, small(arguments(*size, seed=seed + number))))
        except QuadrantsBoundsError:
            found.append(None)
    return found


def same(expected: list, found: list, text: str) -> int:
    compared = 0
    for left, right in zip(expected, found):
        if left is None or not all(np.abs(array).max(initial=0) < 1 << 20 for array in left):
            continue
        assert right is not None, text
        for one, other in zip(left, right):
            np.testing.assert_array_equal(other, one, text)
        compared += 1
    return compared


@pytest.mark.parametrize("block", range(12))
def test_meaning_is_kept(block: int) -> None:
    compared = 0
    for seed in range(block * 12, block * 12 + 12):
        text = ALWAYS + Generator(seed).program() + "\n}"
        module = program(text)
        expected = outcomes(module, seed)
        context = PassContext()
        for entry in PASSES:
            entry.run(module, context)
            verify(module)
        compared += same(expected, outcomes(module, seed), text)
    assert compared > 8


def backwards(module: Module) -> int:
    """Makes every parallel loop that carries nothing run backwards; how many there were."""
    loops = [op for op in walk(module.kernel.body) if op.attribute("parallel") and not op.results]
    for loop in loops:
        nest = Nest(module.kernel)
        start = Block()
        builder = Builder(start)
        for counter, low, high in zip(list(counters(loop)), lows(loop), highs(loop)):
            last = builder.sub(high, builder.index(1))
            turned = builder.sub(builder.add(low, last), counter)
            replace_uses(nest, counter, turned)
        loop.regions[0].ops[:0] = start.ops
    return len(loops)


@pytest.mark.parametrize("block", range(12))
def test_loops_proved_parallel_may_run_backwards(block: int) -> None:
    turned = 0
    for seed in range(1000 + block * 15, 1000 + block * 15 + 15):
        text = ALWAYS + Generator(seed).program() + "\n}"
        module = program(text)
        expected = outcomes(module, seed)
        parallelise.run(module, PassContext())
        turned += backwards(module)
        module = parse_module(print_module(module))
        verify(module)
        same(expected, outcomes(module, seed), text)
    assert turned > 0
