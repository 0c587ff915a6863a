"""Columns in blocks: which loops are taken, and that they mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import interchange
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

COLUMNS = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f32, 2, A>, %x: array<f32, 1, C>, %y: array<f32, 1, C>, %low: i64, %high: i64) {
  %0 = constant 0 : i64
  %n = dim %a, 0 : i64
  parallel for %i in %low .. %high {
    %z = load %y[%i] : f32
    %w = load %x[%0] : f32
    %s, %m = for %k in %0 .. %n carry (%t = %z, %most = %w) : f32, f32 {
      %l = load %a[%k, %i] : f32
      %r = load %x[%k] : f32
      %p = mul %l, %r : f32
      %q = mul %p, %w : f32
      %u = add %t, %q : f32
      %v = max %most, %l : f32
      yield %u, %v
    }
    %d = sub %s, %m : f32
    store %d, %y[%i]
  }
}
"""
VECTORS = CapabilityRecord("vectors", "1", frozenset(), vector_bits=256, maximum_vector_bits=256)


def _taken(text: str) -> tuple[Module, int]:
    module = parse_module(text)
    verify(module)
    context = PassContext(knobs.Options(), VECTORS)
    interchange.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return module, context.counters.get("columns in blocks", 0)


@pytest.mark.parametrize("bounds", [(0, 19), (3, 8), (4, 4), (5, 2)])
@pytest.mark.parametrize("rows", [0, 3, 8])
def test_blocks_give_the_same_bits(bounds: tuple[int, int], rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "_LEAST", 1)
    monkeypatch.setattr(interchange, "_BLOCK", 8)
    monkeypatch.setattr(interchange, "_SHIFT", 3)
    generator = np.random.default_rng(1)
    inputs = [generator.random(shape).astype(np.float32) for shape in ((rows, 19), (rows + 1,), (19,))]
    found = []
    for module in (parse_module(COLUMNS), _taken(COLUMNS)[0]):
        arrays = [array.copy() for array in inputs]
        interpret(module, [*arrays, *bounds])
        found.append(arrays[2])
    assert (found[0] == found[1]).all()


def test_blocks_are_left_as_they_are_by_lanes() -> None:
    module, count = _taken(COLUMNS)
    assert count == 1
    assert [bool(op.attribute("tile")) for op in walk(module.kernel.body) if op.attribute("parallel")] == [True, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load %a[%k, %i]", "load %a[%i, %k]"),
        ("load %x[%k]", "load %a[%i, %k]"),
        ("in %0 .. %n carry", "in %0 .. %i carry"),
        ("mul %p, %w", "mul %p, %z"),  # computed once for each column
        ("parallel for", "for"),
        ("%w = load", "store %z, %y[%i]\n    %w = load"),  # would be stored twice
    ],
)
def test_loops_that_are_left(old: str, new: str) -> None:
    assert old in COLUMNS
    assert _taken(COLUMNS.replace(old, new))[1] == 0
