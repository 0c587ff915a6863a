"""Sums scattered into small arrays by way of shared memory: they mean what the loop means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import scatter_in_blocks
from quadrants.passes.context import PassContext
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord

pytestmark = pytest.mark.slow

TEXT = """quadrants-ir 1
stage lowered
kernel @f(%x: array<i64, 2, C>, %count: array<i64, 1, A>, %sum: array<f64, 2, C>, %n: i64) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %two = constant 2 : i64
  %rows = dim %x, 0 : i64
  %columns = dim %x, 1 : i64
  parallel for %i, %j in %zero .. %rows, %one .. %columns {cost = 5, scatter = True} {
    %v = load %x[%i, %j] : i64
    %0 = update add %one, %count[%v] : i64
    %odd = mod %v, %two : i64
    %is = eq %odd, %one : u1
    if %is {
      continue
    } else {
    }
    %w = cast %j : f64
    %k = floordiv %v, %two : i64
    %1 = update add %w, %sum[%odd, %k] : f64
  }
}
"""
RECORD = CapabilityRecord(
    "blocks", "1", frozenset(), launches=True, block_threads=256, subgroup_sizes=(32,), shared_memory_bytes=48 * 1024
)


def scattered(module: Module, record: CapabilityRecord = RECORD) -> int:
    context = PassContext(knobs.Options(), record)
    scatter_in_blocks.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context.counters.get("scattered sums in shared memory", 0)


def run(module: Module, shape: tuple[int, int], bins: int) -> list[Any]:
    x = np.random.default_rng(bins).integers(0, bins, shape)
    arrays = [x, np.arange(2 * bins)[::2].copy(), np.full((2, bins), 0.5), np.int64(3)]
    interpret(module, arrays, debug=True)
    return arrays


@pytest.mark.parametrize(("shape", "bins"), [((9, 30), 6), ((0, 5), 3), ((3, 1), 2), ((40, 12), 16), ((5, 7), 60)])
def test_copies_give_what_the_loop_gives(shape: tuple[int, int], bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scatter_in_blocks, "_THREADS", 8)
    monkeypatch.setattr(scatter_in_blocks, "_LEAST", 2)
    monkeypatch.setattr(scatter_in_blocks, "_BLOCKS", 3)
    monkeypatch.setattr(scatter_in_blocks, "_BYTES", 2 * 8 * 34)
    monkeypatch.setattr(scatter_in_blocks, "_TIMES", 1)
    module = parse_module(TEXT)
    assert scattered(module) == 1
    assert any(op.kind == "shared" for op in walk(module.kernel.body))
    for found, expected in zip(run(module, shape, bins), run(parse_module(TEXT), shape, bins)):
        assert np.array_equal(found, expected)


def test_only_loops_that_are_marked_and_devices_that_have_room() -> None:
    assert scattered(parse_module(TEXT.replace(", scatter = True", ""))) == 0
    assert scattered(parse_module(TEXT), replace(RECORD, block_threads=128)) == 0
    assert scattered(parse_module(TEXT), replace(RECORD, shared_memory_bytes=1 << 13)) == 0
