"""Contractions whose products 128 threads make of what lies in shared memory: every form of factors, interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, Op, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import stage_tiles
from quadrants.passes.context import PassContext
from quadrants.records import replace

from .test_stage_tiles import TENSORS, narrow_module

pytestmark = [pytest.mark.slow]  # each runs its kernels

GROUPS = replace(TENSORS, shared_products=frozenset(["f16", "bf16", "tf32"]))
COPYING = replace(GROUPS, asynchronous_copies=True)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_SMALLEST", 1)
    monkeypatch.setattr(stage_tiles, "_LEAST", 1)


def staged(module: Module, target: Any = GROUPS) -> list[Op]:
    """The products of a module behind the pass."""
    stage_tiles.run(module, PassContext(knobs.Options(), target))
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return [op for op in walk(module.kernel.body) if op.kind == "team_multiply_shared"]


def turned(module: Module, left: bool, right: bool) -> Module:
    text = print_module(module)
    text = text.replace("%a[%i, %k]", "%a[%k, %i]") if left else text
    return parse_module(text.replace("%b[%k, %j]", "%b[%j, %k]") if right else text)


@pytest.mark.parametrize("target", [GROUPS, COPYING], ids=["registers", "copies"])
@pytest.mark.parametrize(
    ("narrow", "left", "right", "sizes"),  # the depth is the left array's second size
    [
        ("f16", False, False, (17, 9, 19)),
        ("bf16", True, False, (64, 64, 64)),
        ("f16", False, True, (33, 65, 70)),
        ("bf16", True, True, (33, 66, 33)),
        ("f32", False, False, (65, 20, 40)),
        ("f32", True, True, (40, 20, 40)),
    ],
)
def test_tiles_give_what_the_nest_gives(
    target: Any, narrow: str, left: bool, right: bool, sizes: tuple[int, int, int]
) -> None:
    rows, columns, depth = sizes
    generator = np.random.default_rng(2)
    held = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32}[narrow]
    a, b, c = (
        generator.integers(-9, 9, size).astype(np.float32)
        for size in ((rows, depth), (depth, columns), (rows, columns))
    )
    expected = a @ b + 3 - c
    factors = [(x.view(np.uint32) >> 16).astype(held) if narrow == "bf16" else x.astype(held) for x in (a, b)]
    factors = [np.ascontiguousarray(x.T) if by else x for x, by in zip(factors, (left, right))]
    module = turned(narrow_module(narrow, '"tf32"'), left, right)
    products = staged(module, target)
    copies = [op for op in walk(module.kernel.body) if op.kind == "copy_begin"]
    assert bool(copies) == (target is COPYING and narrow != "f32")
    lines = {True: "width", False: "depth"}
    assert len(products) == (3 if target is COPYING and narrow != "f32" else 2)
    for product in products:
        expected_lines = ("depth", "depth") if narrow == "f32" else (lines[left], lines[not right])
        assert (product.attributes["left"], product.attributes["right"]) == expected_lines
    interpret(module, [*factors, c], debug=True)
    assert (c == expected).all()  # whole numbers: nothing is rounded


def test_large_products_are_in_large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_ENOUGH", 1)
    generator = np.random.default_rng(3)
    a, b, c = (generator.integers(-9, 9, size).astype(np.float32) for size in ((130, 40), (40, 128), (130, 128)))
    expected, module = a @ b + 3 - c, narrow_module("f16")
    assert [len(product.results) for product in staged(module)] == [64, 32]
    interpret(module, [a.astype(np.float16), b.astype(np.float16), c])
    assert (c == expected).all()


def test_they_are_left_alone_where_they_are_not_there_or_not_wanted() -> None:
    assert not staged(narrow_module("f16"), TENSORS)
    assert not staged(narrow_module("f16", "False"))
    assert not staged(narrow_module("f32"))
    assert not staged(narrow_module("f16"), replace(GROUPS, shared_products=frozenset(["bf16"])))
    assert len(staged(narrow_module("f16"), replace(GROUPS, shared_memory_bytes=20 << 10))) == 1
