"""Large kernels are several LLVM modules: which, and that they are one program."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quadrants.ir.text import parse_module
from quadrants.targets.artifact import Artifact
from quadrants.targets.llvm import split
from quadrants.targets.llvm.x64 import target


def program(loops: int, length: int) -> str:
    """A kernel with so many parallel loops in a row, each of so many operations on an element and a scattered sum."""
    lines = [
        "kernel @chain(%x: array<i32, 1, C>, %sums: array<i32, 1, C>) {",
        "%zero = constant 0 : i64",
        "%n = dim %x, 0",
    ]
    for k in range(loops):
        lines.append(f"parallel for %i{k} in %zero .. %n {{scatter = True}} {{")
        lines.append(f"%a{k}_0 = load %x[%i{k}]")
        for step in range(1, length):
            lines.append(f"%a{k}_{step} = {('add', 'mul', 'sub')[step % 3]} %a{k}_{step - 1}, %a{k}_{step // 2}")
        lines.append(f"store %a{k}_{length - 1}, %x[%i{k}]")
        lines.append(f"%u{k} = update add %a{k}_{length // 2}, %sums[%zero]")
        lines.append("}")
    return "\n".join([*lines, "}"])


def built(text: str) -> Artifact:
    return target.compile_module(parse_module(f"quadrants-ir 1\nstage lowered\n{text}"))


def test_parts_are_about_equal_and_the_last_has_the_entry() -> None:
    assert split.distribute([30, 10]) == [[0, 1]]
    assert split.distribute([700, 690, 50]) == [[0], [1, 2]]
    sizes = [51, 428, 374, 172, 126, 143, 439, 32]
    parts = split.distribute(sizes)
    assert len(parts) == 2 and sorted(sum(parts, [])) == list(range(8)) and 7 in parts[-1]
    assert max(sum(sizes[k] for k in part) for part in parts) < 1.1 * sum(sizes) / 2
    assert len(split.distribute([5000] * 20)) == 4
    assert split.distribute([90_000, 3]) == [[0], [1]]


@pytest.mark.slow
def test_parts_are_one_program(agrees) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-1000, 1000, 1000).astype(np.int32)
    agrees(program(3, 12), x, np.zeros(1, np.int32))
    agrees(program(5, 320), x[:40], np.zeros(1, np.int32))
    agrees(program(5, 320), x[:0], np.zeros(1, np.int32))


@pytest.mark.slow
def test_objects_follow_from_the_text() -> None:
    text = program(5, 320)
    first, again = built(text), built(text)
    assert first.objects == again.objects and first.objects[-1][0] == first.entry
    assert 2 <= len(first.objects) <= 4
    for name, _ in first.objects:
        assert name.startswith(first.entry)
    last = first.texts[-1]
    for name in re.findall(r"declare void @([\w.]+)\(ptr, ptr, i64, i64\)", last):
        assert name.startswith(first.entry) and sum(f"define void @{name}(" in part for part in first.texts) == 1
    assert len(built(program(3, 12)).objects) == 1
