"""How long the blocks are in which f32 is added up in f32: no lane adds up more than 64 values."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import walk
from quadrants.ir.text import parse_module
from quadrants.passes import widen_sums
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

TOTAL = """quadrants-ir 1
stage tasks
kernel @total(%x: array<f32, 1, C>) -> f32 {
  %0 = constant 0 : i64
  %n = dim %x, 0 : i64
  %z = constant 0.0 : f32
  %s = parallel for %i in %0 .. %n carry (%a = %z) {reductions = ("add",)} : f32 {
    %v = load %x[%i] : f32
    %t = add %a, %v
    yield %t
  }
  return %s
}
"""
DTYPES = frozenset(["u1", "i32", "i64", "f32", "f64"])


@pytest.mark.parametrize(("bits", "lanes_side_by_side"), [(0, 32), (128, 8), (256, 32), (512, 32)])
def test_a_lane_adds_up_64_values_at_most(bits: int, lanes_side_by_side: int) -> None:
    module = parse_module(TOTAL)
    record = CapabilityRecord("some", "1", DTYPES, vector_bits=bits, maximum_vector_bits=bits)
    widen_sums.run(module, PassContext(record=record))
    constants = {op.attributes["value"] for op in walk(module.kernel.body) if op.kind == "constant"}
    assert 64 * lanes_side_by_side in constants
    assert not {64 * lanes for lanes in (4, 8, 16, 32, 64) if lanes != lanes_side_by_side} & constants
    values = np.arange(5000, dtype=np.float32) % 7
    assert interpret(module, [values]) == (values.sum(dtype=np.float64),)
