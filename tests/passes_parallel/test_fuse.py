"""Random chains of loops, some of which may be joined, against Python."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd

pytestmark = pytest.mark.slow


class _Program:
    """A random kernel over integers of loops that may be joined, or just may not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def program(a, b, c, d, n):", "    s = 0", "    r = 1"]
        for _ in range(self.random.choice((2, 3, 4, 5))):
            self.loop()
            if self.random.random() < 0.3:
                self.lines.append(
                    self.random.choice(("    d[0] = n", "    r += a[0]", "    s = s * 2", "    r = s + r"))
                )
        self.lines.append("    return s, r")

    def loop(self) -> None:
        choose = self.random.choice
        self.lines.append(
            f"    for i in range({choose(('2, n - 2', '2, n - 2', '2, n - 2', '1, n - 2', '2, n - 1'))}):"
        )
        for _ in range(choose((1, 1, 2))):
            self.statement("        ")

    def element(self) -> str:
        offset = self.random.choice(("", "", "", "", " - 1", " + 1"))
        return f"{self.random.choice('abcd')}[i{offset}]"

    def statement(self, space: str) -> None:
        choose = self.random.choice
        value = f"{self.element()} {choose('+-*')} {choose((self.element(), 'i', '3', 'n'))}"
        kind = choose(("store", "store", "update", "sum", "if"))
        if kind == "sum":
            self.lines.append(f"{space}{choose(('s', 'r'))} += {value}")
        elif kind == "if" and space == " " * 8:
            self.lines.append(f"{space}if {self.element()} % 3 == {choose('012')}:")
            self.statement(space + "    ")
        else:
            self.lines.append(f"{space}{choose('abcd')}[i] {'+=' if kind == 'update' else '='} {value}")


@pytest.mark.parametrize("seed", range(12))
def test_random_chains(seed: int, tmp_path: Path) -> None:
    """Loops that depend on neighbours run in order or apart, and each follows the one before."""
    for number in range(seed * 4, seed * 4 + 4):
        text = "\n".join(_Program(number).lines) + "\n"
        module = written(tmp_path / f"chain{number}.py", text)
        kernel = qd.kernel(module.program)
        for size in (4, 7, 50):
            given = [np.random.default_rng(size + k).integers(-9, 9, size) for k in range(4)]
            python, ours = [part.copy() for part in given], [part.copy() for part in given]
            with np.errstate(over="ignore"):
                expected = module.program(*python, size)
            found = kernel(*ours, size)
            for one, other in zip(python, ours):
                assert (one == other).all(), text
            bits = [int(value) & (1 << 64) - 1 for value in (*expected, *found)]
            assert bits[:2] == bits[2:], text
