"""Iterations in fours: which loops are taken, and that they mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import jam
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

VECTOR = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f64, 2, C>, %x: array<f64, 1, C>, %y: array<f64, 1, C>, %low: i64, %high: i64) {
  %0 = constant 0 : i64
  %n = dim %x, 0 : i64
  %z = constant 0.5 : f64
  parallel for %i in %low .. %high {
    %w = load %x[%0] : f64
    %s = for %k in %0 .. %n carry (%t = %z) : f64 {
      %l = load %a[%i, %k] : f64
      %r = load %x[%k] : f64
      %p = mul %l, %r : f64
      %u = add %t, %p {reassociate = True} : f64
      yield %u
    }
    %v = mul %s, %w : f64
    store %v, %y[%i]
  }
}
"""
MATRIX = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f64, 2, C>, %b: array<f64, 2, C>, %c: array<f64, 2, C>, %low: i64, %high: i64) {
  %0 = constant 0 : i64
  %n = dim %b, 0 : i64
  %m = dim %c, 1 : i64
  %z = constant 0.0 : f64
  parallel for %i, %j in %low .. %high, %0 .. %m {
    %s = for %k in %0 .. %n carry (%t = %z) : f64 {
      %l = load %a[%i, %k] : f64
      %r = load %b[%k, %j] : f64
      %p = mul %l, %r : f64
      %u = add %t, %p {reassociate = True} : f64
      yield %u
    }
    store %s, %c[%i, %j]
  }
}
"""
VECTORS = CapabilityRecord("vectors", "1", frozenset(), vector_bits=256, maximum_vector_bits=256)


def _jammed(text: str) -> tuple[Module, int]:
    module = parse_module(text)
    verify(module)
    context = PassContext(knobs.Options(), VECTORS)
    jam.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return module, context.counters.get("loops in fours", 0)


@pytest.mark.parametrize("bounds", [(0, 9), (0, 8), (2, 9), (0, 3), (4, 4), (5, 2)])
@pytest.mark.parametrize("text", [VECTOR, MATRIX], ids=["vector", "matrix"])
def test_fours_and_what_is_left_give_what_the_loop_gives(text: str, bounds: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    shapes = ((9, 5), (5,), (9,)) if text is VECTOR else ((9, 5), (5, 7), (9, 7))
    inputs = [generator.integers(-9, 9, shape).astype(np.float64) for shape in shapes]
    found = []
    for make in (lambda: parse_module(text), lambda: _jammed(text)[0]):
        arrays = [array.copy() for array in inputs]
        interpret(make(), [*arrays, *bounds])
        found.append(arrays[2])
    assert (found[0] == found[1]).all()


def test_loads_of_all_four_are_made_once() -> None:
    module, count = _jammed(VECTOR)
    assert count == 1
    fours = next(op for op in walk(module.kernel.body) if op.attribute("parallel"))
    (sums,) = [op for op in fours.regions[0].ops if op.kind == "for"]
    assert [op.kind for op in sums.regions[0].ops].count("load") == 5
    assert len(sums.results) == 4
    assert [op.kind for op in fours.regions[0].ops].count("load") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load %a[%i, %k]", "load %a[%k, %i]"),  # neighbours for lanes
        ("load %x[%k]", "load %a[%i, %k]"),  # nothing to share
        ("in %0 .. %n carry", "in %0 .. %i carry"),  # ranges of different lengths
        ("parallel for", "for"),
    ],
)
def test_loops_that_are_left(old: str, new: str) -> None:
    assert old in VECTOR
    assert _jammed(VECTOR.replace(old, new))[1] == 0


def test_loads_of_what_is_written_are_not_shared() -> None:
    text = VECTOR.replace("%w = load %x[%0]", "%w = load %y[%0]")
    fours = next(op for op in walk(_jammed(text)[0].kernel.body) if op.attribute("parallel"))
    assert [op.kind for op in fours.regions[0].ops].count("load") == 4


def test_lanes_that_the_user_chose_are_kept() -> None:
    module = parse_module(VECTOR)
    jam.run(module, PassContext(knobs.Options(lanes=8), VECTORS))
    assert print_module(module) == print_module(parse_module(VECTOR))
