"""Loops of threads over the elements of their own vectors are unrolled where threads run at once, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, Op, walk
from quadrants.ir.text import parse_module
from quadrants.ir.threads import is_threads_loop
from quadrants.ir.types import ArrayType
from quadrants.ir.verify import verify
from quadrants.passes import unroll
from quadrants.passes.context import PassContext
from quadrants.records import replace
from quadrants.targets.simulated.profiles import PLAIN

TRIANGLE = """quadrants-ir 1
stage kernel
kernel @f(%x: array<f32, 1, C>, %y: array<f32, 1, C>) {parameter_names = ["x", "y"]} {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %size = constant SIZE : i64
  %eight = constant 8 : i64
  for %block in %zero .. %one {config = {"serialize": False}} {
    for %t in %zero .. %eight {threads = 8} {
      %row = slot {type = matrix<f32, SIZE>} : array<f32, 1, SIZE, L>
      for %i in %zero .. %size {
        %at = mul %t, %size : i64
        %place = add %at, %i : i64
        %v = load %x[%place] : f32
        store %v, %row[%i]
      }
      %start = load %row[%zero] : f32
      %total = for %k in %zero .. %size carry (%a = %start) : f32 {
        %pivot = load %row[%k] : f32
        %next = add %k, %one : i64
        for %j in %next .. %size {
          %other = shuffle %pivot, %j {width = 8} : f32
          %mine = load %row[%j] : f32
          %less = sub %mine, %other : f32
          store %less, %row[%j]
        }
        %sum = add %a, %pivot : f32
        yield %sum
      }
      store %total, %y[%t]
    }
  }
}
"""


def module_of(size: int) -> Module:
    return parse_module(TRIANGLE.replace("SIZE", str(size)))


def result(module: Module, size: int) -> np.ndarray:
    x, y = np.random.default_rng(1).integers(0, 9, 8 * size).astype(np.float32), np.zeros(8, np.float32)
    interpret(module, [x, y])
    return y


def unrolled(module: Module, record: Any = PLAIN) -> list[Op]:
    """The loops within the threads loop that are left."""
    unroll.run(module, PassContext(record=record))
    verify(module)
    threads = next(op for op in walk(module.kernel.body) if op.kind == "for" and is_threads_loop(op))
    return [op for op in walk(threads.regions[0]) if op.kind == "for"]


@pytest.mark.parametrize("size", [1, 8, 16])
def test_inner_loops_that_end_where_outer_ones_are(size: int) -> None:
    module = module_of(size)
    expected = result(module, size)
    assert not unrolled(module)
    assert (result(module, size) == expected).all() and expected.any()
    assert sum(op.kind == "shuffle" for op in walk(module.kernel.body)) == size * (size - 1) // 2
    own = {
        operand.owner.kind
        for op in walk(module.kernel.body)
        for operand in op.operands[op.kind == "store" :][1:]
        if op.kind in ("load", "store")
        and type(array := op.operands[op.kind == "store"].type) is ArrayType
        and array.is_slot
        and type(operand.owner) is Op
    }
    assert own == {"constant"}


def test_what_has_no_room_stays() -> None:
    """Of a target with little room the small loop in front is unrolled, the large one's inner loops have no known bounds."""
    module = module_of(16)
    expected = result(module, 16)
    left = unrolled(module, replace(PLAIN, task_operations=100))
    assert len(left) == 2
    assert (result(module, 16) == expected).all()
    assert len(unrolled(module_of(33))) == 3


def test_other_loops_stay() -> None:
    module = parse_module(TRIANGLE.replace("SIZE", "16").replace(" {threads = 8}", ""))
    unroll.run(module, PassContext(record=PLAIN))
    assert sum(op.kind == "for" for op in walk(module.kernel.body)) == 5
    module = parse_module(
        TRIANGLE.replace("SIZE", "16").replace("%row[%j]", "%row[%t]").replace("%row[%k]", "%row[%t]")
    )
    assert len(unrolled(module)) == 2
