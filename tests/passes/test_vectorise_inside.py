"""Lanes of inner loops in the IR: sums that stay in lanes, loads that are vectors, what stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import vectorise_inside
from quadrants.passes.context import PassContext

LOOP = """quadrants-ir 1
stage lowered
kernel @f(%first: array<i64, 1, C>, %x: array<f32, 1, C>, %y: array<f32, 1, C>, %n: i64) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2 : i64
  %z = constant 0.5 : f32
  parallel for %i in %0 .. %n {
    %j = add %i, %1 : i64
    %a = load %first[%i] : i64
    %b = load %first[%j] : i64
BODY
    store %s, %y[%i]
  }
}
"""
SUM = """    %s = for %k in %a .. %b carry (%t = %z) : f32 {
      %v = load %x[%k] : f32
      %w = add %t, %v {reassociate = True} : f32
      yield %w
    }"""
NESTED = """    %s = for %d in %0 .. %2 carry (%o = %z) : f32 {
      %p = for %k in %a .. %b carry (%t = %o) : f32 {
        %v = load %x[%k] : f32
        %w = add %t, %v {reassociate = True} : f32
        yield %w
      }
      yield %p
    }"""
RECURRENCE = """    %s = for %k in %a .. %b carry (%t = %z) : f32 {
      %v = load %x[%k] : f32
      %u = mul %t, %z : f32
      %w = add %u, %v : f32
      yield %w
    }"""
STRIDED = """    %s = for %k in %a .. %b carry (%t = %z) : f32 {
      %q = mul %k, %2 : i64
      %v = load %x[%q] : f32
      %w = add %t, %v {reassociate = True} : f32
      yield %w
    }"""


def _lanes(body: str, lanes: int = 4) -> Module:
    module = parse_module(LOOP.replace("BODY", body))
    vectorise_inside.run(module, PassContext(knobs.Options(lanes=lanes)))
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return module


def _kinds(module: Module) -> list[str]:
    return [op.kind for op in walk(module.kernel.body)]


def test_neighbours_are_vectors() -> None:
    kinds = _kinds(_lanes(SUM))
    assert kinds.count("lane_load") == 1
    assert kinds.count("load") == 2  # the bounds
    assert kinds.count("reduce_add") == 1


def test_a_sum_stays_in_lanes_from_loop_to_loop() -> None:
    module = _lanes(NESTED)
    (outer,) = [op for op in walk(module.kernel.body) if op.kind == "for" and op.results and not op.attribute("short")]
    assert str(outer.results[0].type) == "lanes<f32, 4>"
    assert "reduce_add" not in {op.kind for op in walk(outer.regions[0])}


@pytest.mark.parametrize("body", [RECURRENCE, STRIDED])
def test_others_stay(body: str) -> None:
    assert "lane_load" not in _kinds(_lanes(body))


@pytest.mark.parametrize("body", [SUM, NESTED])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_every_width_means_the_same(body: str, lanes: int) -> None:
    trips = [0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes - 1, -2, 3]
    first = np.cumsum([0, *trips])
    first -= first.min()
    x = np.arange(first.max() + 1, dtype=np.float32)  # small whole numbers: sums in any order are equal
    found = []
    for width in (1, lanes):
        y = np.zeros(len(trips), np.float32)
        interpret(_lanes(body, width), [first, x, y, len(trips)])
        found.append(y.tolist())
    assert found[0] == found[1]
