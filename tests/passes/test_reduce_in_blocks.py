"""Reductions by threads, blocks and one last block: every shape of tree means what the loop means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.verify import verify
from quadrants.passes import offload, reduce_in_blocks, split_reductions
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

pytestmark = pytest.mark.slow

LINE = """quadrants-ir 1
stage lowered
kernel @f(%x: array<TYPE, 1, A>, %from: i64, %to: i64, %start: TYPE) -> TYPE {
  %s = parallel for %i in %from .. %to carry (%t = %start) {reductions = ("BY",), chunk = 64} : TYPE {
    %v = load %x[%i] : TYPE
    %u = BY %t, %v : TYPE
    yield %u
  }
  return %s
}
"""
NEST = """quadrants-ir 1
stage lowered
kernel @f(%x: array<f64, 3, C>, %start: f64, %least: i64) -> f64, i64 {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %a = dim %x, 0 : i64
  %b = dim %x, 1 : i64
  %c = dim %x, 2 : i64
  %s, %m = parallel for %i, %j, %k in %0 .. %a, %1 .. %b, %0 .. %c carry (%t = %start, %l = %least) {reductions = ("add", "min"), chunk = 64} : f64, i64 {
    %v = load %x[%i, %j, %k] : f64
    %skip = lt %v, %start : u1
    if %skip {
      continue %t, %l
    } else {
    }
    %u = add %t, %v : f64
    %place = sub %j, %k : i64
    %w = min %l, %place : i64
    yield %u, %w
  }
  return %s, %m
}
"""


def record(threads: int, subgroup: int) -> CapabilityRecord:
    sizes = (subgroup,) if subgroup > 1 else ()
    return CapabilityRecord(
        "blocks",
        "1",
        frozenset(),
        launches=True,
        block_threads=threads,
        subgroup_sizes=sizes,
        shared_memory_bytes=1 << 14,
    )


def split(text: str, threads: int, subgroup: int) -> Module:
    module = parse_module(text)
    verify(module)
    context = PassContext(record=record(threads, subgroup))
    for run in (split_reductions.run, offload.run):
        run(module, context)
        verify(module)
    grids = [op for op in walk(module.kernel.body) if op.kind == "for" and threads_loop_of(op) is not None]
    assert len(grids) == 2 and not any(op.results for op in walk(module.kernel.body) if op.attribute("parallel"))
    assert not any(op.attribute("serial") for op in walk(module.kernel.body)), "the last block does what follows"
    return parse_module(print_module(module))


@pytest.fixture(autouse=True)
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few iterations a thread and blocks that small programs have several rounds of each."""
    monkeypatch.setattr(reduce_in_blocks, "_ITERATIONS", 2)
    monkeypatch.setattr(reduce_in_blocks, "_BLOCKS", 5)


SHAPES = [(4, 4), (8, 2), (8, 1), (4, 8)]


@pytest.mark.parametrize(
    "count", [0, 7, pytest.param(33, marks=pytest.mark.slow), pytest.param(150, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("threads", "subgroup"), SHAPES)
def test_a_tree_gives_what_the_loop_gives(count: int, threads: int, subgroup: int) -> None:
    values = np.random.default_rng(count).integers(1, 50, count + 3)
    for by, type_, start in (
        ("add", "i64", 3),
        ("mul", "u32", 5),
        ("min", "f64", 9.0),
        ("max", "f32", -1.0),
        ("bit_xor", "u8", 1),
    ):
        text = LINE.replace("BY", by).replace("TYPE", type_)
        x = values.astype({"i64": "i8", "u32": "u4", "f64": "f8", "f32": "f4", "u8": "u1"}[type_])
        arguments = [x, np.int64(2), np.int64(2 + count), x.dtype.type(start)]
        expected = interpret(parse_module(text), arguments)
        assert interpret(split(text, threads, subgroup), arguments, debug=True) == expected


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 9, 1), (2, 1, 4), (0, 3, 3), (11, 2, 3)])
@pytest.mark.parametrize("threads", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_counters_of_a_nest_are_carried_on(shape: tuple[int, ...], threads: int) -> None:
    x = np.random.default_rng(1).integers(1, 9, shape).astype(np.float64)
    arguments: list[Any] = [x, np.float64(4), np.int64(100)]
    assert interpret(split(NEST, threads, 4), arguments, debug=True) == interpret(parse_module(NEST), arguments)


def test_threads_of_a_block_are_the_users_where_trees_can_be_made_of_them() -> None:
    text = LINE.replace("BY", "add").replace("TYPE", "f64")
    for wanted, threads in ((2, 2), (3, 4), (0, 4)):
        module = split(text.replace("{reductions", f'{{config = {{"block_dim": {wanted}}}, reductions'), 4, 2)
        assert {op.attribute("threads", threads) for op in walk(module.kernel.body)} == {threads}


def test_a_sum_of_nothing_is_where_it_began() -> None:
    text = LINE.replace("BY", "add").replace("TYPE", "f64")
    (found,) = interpret(split(text, 4, 4), [np.zeros(3), np.int64(2), np.int64(2), np.float64(-0.0)])
    assert np.signbit(found)
