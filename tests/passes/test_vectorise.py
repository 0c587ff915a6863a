"""Lanes in the IR: what stays shared, what is masked, which accesses are vectors."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import vectorise
from quadrants.passes.context import PassContext

LOOP = """quadrants-ir 1
stage lowered
kernel @f(%x: array<f32, 1, C>, %y: array<f32, 1, C>, %w: array<f32, 2, 3, C>, %n: i64) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2.0 : f32
  %3 = constant 0.0 : f32
  parallel for %i in %0 .. %n {
BODY
  }
}
"""
SHARED = """    %a = load %y[%1] : f32
    %b = load %x[%i] : f32
    %c = mul %a, %b : f32
    store %c, %x[%i]"""
MASKED = """    %b = load %x[%i] : f32
    %c = lt %b, %2 : u1
    if %c {
      %j = sub %n, %1 : i64
      %a = load %y[%j] : f32
      store %a, %x[%i]
    }"""
ROWS = """    %b = load %w[%i, %1] : f32
    store %b, %w[%i, %0]"""
DIVERGENT = """    %b = load %x[%i] : f32
    %s = while carry (%v = %b) : f32 {
      %c = lt %v, %2 : u1
      yield %c
    } do (%v.1) {
      %k = add %v.1, %2 : f32
      yield %k
    }
    store %s, %x[%i]"""


def _lanes(body: str, lanes: int) -> Module:
    module = parse_module(LOOP.replace("BODY", body))
    vectorise.run(module, PassContext(knobs.Options(lanes=lanes)))
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return module


def _kinds(module: Module) -> list[str]:
    return [op.kind for op in walk(module.kernel.body)]


def test_what_lanes_share_stays_scalar() -> None:
    module = _lanes(SHARED, 8)
    loads = [op for op in walk(module.kernel.body) if op.kind == "lane_load"]
    assert [op.attribute("steps") for op in loads] == [(1,)]
    assert _kinds(module).count("load") == 3  # the shared one, and two in the rest


def test_constant_strides_are_known() -> None:
    module = _lanes(ROWS, 4)
    steps = [op.attribute("steps") for op in walk(module.kernel.body) if op.kind.startswith("lane_")]
    assert steps == [(1, 0), (1, 0)]


def test_memory_is_guarded_where_all_lanes_may_be_off() -> None:
    module = _lanes(MASKED, 4)
    assert "any_lane" in _kinds(module)
    nothing = [np.full(8, 5.0, np.float32), np.zeros(0, np.float32), np.zeros((8, 3), np.float32), 8]
    interpret(module, nothing)
    assert nothing[0].tolist() == [5.0] * 8


def test_lanes_leave_loops_one_by_one() -> None:
    module = _lanes(DIVERGENT, 4)
    assert _kinds(module).count("any_lane") == 1
    x = np.arange(-5, 6, dtype=np.float32)
    interpret(module, [x, np.zeros(1, np.float32), np.zeros((1, 3), np.float32), len(x)])
    assert x.tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5]


@pytest.mark.parametrize("body", [SHARED, MASKED, ROWS, DIVERGENT])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_every_width_means_the_same(body: str, lanes: int) -> None:
    generator = np.random.default_rng(1)
    arrays = [generator.random(37), generator.random(40), generator.random((37, 3))]
    found = []
    for width in (1, lanes):
        copies = [(4 * array).astype(np.float32) for array in arrays]
        interpret(_lanes(body, width), [*copies, 37])
        found.append(copies)
    for one, other in zip(*found):
        assert (one == other).all()


def test_what_has_no_form_in_lanes_is_told() -> None:
    module = parse_module(LOOP.replace("BODY", '    print %i {format = ("", ""), specs = ("",)}'))
    context = PassContext(knobs.Options(lanes=8))
    vectorise.run(module, context)
    assert "print has no form in lanes" in context.notices[0].text
