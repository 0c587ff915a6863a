"""Loops within iterations that teams of threads share: which do, and that they mean what the loops mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import share_rows
from quadrants.passes.context import PassContext
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord

pytestmark = pytest.mark.slow

HEAD = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f64, 2, C>, %x: array<f64, 1, C>, %y: array<f64, 1, C>, %m: array<i64, 1, C>) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %rows = dim %a, 0 : i64
  %columns = dim %a, 1 : i64
  %z = constant 2.0 : f64
  %big = constant 1000 : i64
  parallel for %i in %0 .. %rows {
"""
PRODUCT = """    %s = for %j in %0 .. %columns carry (%t = %z) : f64 {
      %v = load %a[%i, %j] : f64
      %w = load %x[%j] : f64
      %p = mul %v, %w : f64
      %u = add %t, %p {reassociate = True} : f64
      yield %u
    }
    store %s, %y[%i]
"""
# Two loops, of which the second uses what the first gives, and continues early; then an update.
TWO = """    %f = load %x[%i] : f64
    %s, %l = for %j in %0 .. %columns carry (%t = %f, %k = %big) : f64, i64 {
      %v = load %a[%i, %j] : f64
      %negative = lt %v, %z : u1
      if %negative {
        continue %t, %k
      }
      %u = add %t, %v {reassociate = True} : f64
      %q = min %k, %j : i64
      yield %u, %q
    }
    %r = for %j2 in %1 .. %columns carry (%t2 = %z) : f64 {
      %v2 = load %a[%i, %j2] : f64
      %d2 = sub %v2, %s : f64
      %u2 = max %t2, %d2 : f64
      yield %u2
    }
    %h = add %s, %r : f64
    %o = update add %h, %y[%i] : f64
    store %l, %m[%i]
"""
# The second loop writes rows.
ROWS = """    %s = for %j in %0 .. %columns carry (%t = %z) : f64 {
      %v = load %x[%j] : f64
      %u = add %t, %v {reassociate = True} : f64
      yield %u
    }
    for %j2 in %0 .. %columns {
      %v2 = load %a[%i, %j2] : f64
      %d = div %v2, %s : f64
      store %d, %a[%i, %j2]
    }
"""
# Rows of a sparse matrix: where they begin and end is in memory.
SPARSE = """    %next = add %i, %1 : i64
    %from = load %m[%i] : i64
    %to = load %m[%next] : i64
    %s = for %k in %from .. %to carry (%t = %z) : f64 {
      %v = load %x[%k] : f64
      %u = add %t, %v {reassociate = True} : f64
      yield %u
    }
    store %s, %y[%i]
"""
# What stands under a condition is shared, too.
BRANCH = """    %f = load %x[%i] : f64
    %most = lt %f, %z : u1
    %s = if %most : f64 {
      %q = for %j in %0 .. %columns carry (%t = %f) : f64 {
        %v = load %a[%i, %j] : f64
        %u = add %t, %v {reassociate = True} : f64
        yield %u
      }
      yield %q
    } else {
      yield %f
    }
    %r = for %j2 in %1 .. %columns carry (%t2 = %s) : f64 {
      %v2 = load %a[%i, %j2] : f64
      %u2 = max %t2, %v2 : f64
      yield %u2
    }
    %w = add %r, %s : f64
    store %w, %y[%i]
"""
FORMS = {"branch": BRANCH, "product": PRODUCT, "two": TWO, "rows": ROWS}
RECORD = CapabilityRecord(
    "blocks", "1", frozenset(), launches=True, block_threads=256, subgroup_sizes=(32,), shared_memory_bytes=1 << 14
)


def module_of(body: str) -> Module:
    module = parse_module(HEAD + body + "  }\n}\n")
    verify(module)
    return module


def shared(module: Module, record: CapabilityRecord = RECORD) -> int:
    context = PassContext(knobs.Options(), record)
    share_rows.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context.counters.get("loops shared by teams", 0)


def run(module: Module, rows: int, columns: int) -> list[Any]:
    generator = np.random.default_rng(rows)
    a, x = (
        generator.integers(1, 9, (rows, columns)).astype(np.float64),
        generator.integers(1, 4, max(rows, columns)).astype(np.float64),
    )
    arrays = [a, x, np.full(rows, 0.5), np.zeros(rows, np.int64)]
    interpret(module, arrays, debug=True)
    return arrays


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("rows", "columns"), [(3, 5), (11, 9), (2, 0), pytest.param(17, 33, marks=pytest.mark.slow), (0, 4)]
)
def test_teams_give_what_the_loops_give(name: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_rows, "_TEAM", 4)
    monkeypatch.setattr(share_rows, "_THREADS", 16)
    monkeypatch.setattr(share_rows, "_SHORTEST", 0)
    module = module_of(FORMS[name])
    assert shared(module) == (1 if name == "product" else 2)
    for found, expected in zip(run(module, rows, columns), run(module_of(FORMS[name]), rows, columns)):
        assert np.allclose(found, expected, rtol=1e-14) if found.dtype.kind == "f" else (found == expected).all()


@pytest.mark.parametrize("rows", [1, 5, 9])
def test_rows_whose_ends_are_in_memory(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_rows, "_TEAM", 4)
    monkeypatch.setattr(share_rows, "_THREADS", 16)
    monkeypatch.setattr(share_rows, "_SHORTEST_ON_AVERAGE", 0)
    ends = np.cumsum(np.random.default_rng(rows).integers(0, 9, rows + 1))
    x = np.random.default_rng(1).integers(0, 9, ends[-1]).astype(np.float64)
    module, y = module_of(SPARSE), np.zeros(rows)
    assert shared(module) == 1
    interpret(module, [np.zeros((rows, 3)), x, y, ends], debug=True)
    assert y.tolist() == [2 + x[a:b].sum() for a, b in zip(ends, ends[1:])]


def test_the_sizes_decide_at_run_time() -> None:
    module = module_of(PRODUCT)
    assert shared(module) == 1
    made = print_module(module)
    assert made.count("threads = 256") == 1 and "parallel for %i in %0 .. %rows" in made
    assert "constant 16384" not in made  # rows are read by threads side by side, however many there are
    broadcast = module_of(PRODUCT.replace("%a[%i, %j]", "%a[%0, %j]"))
    assert shared(broadcast) == 1 and "constant 16384" in print_module(broadcast)
    sparse = module_of(SPARSE)
    assert shared(sparse) == 1 and "dim %x, 0" in print_module(sparse) and "constant 16 :" in print_module(sparse)
    assert shared(module_of(SPARSE.replace("load %x[%k]", "load %a[%k, %0]"))) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" {reassociate = True}", ""),
        ("yield %u\n", "yield %p\n"),
        ("store %s, %y[%i]", "store %s, %x[%i]"),
        ("%s = for %j in %0 .. %columns", "%n = load %m[%i] : i64\n    %s = for %j in %0 .. %n"),
        ("%s = for %j in %0 .. %columns", "%s = for %j in %0 .. %i"),
        ("    %s = for", "    store %z, %y[%i]\n    %s = for"),
    ],
    ids=["order", "no sum", "written and read", "length in memory", "triangle", "written in front"],
)
def test_what_teams_cannot_share_is_left(old: str, new: str) -> None:
    assert old in PRODUCT
    assert shared(module_of(PRODUCT.replace(old, new))) == 0


def test_rows_that_depend_on_one_another_are_left() -> None:
    assert shared(module_of(ROWS.replace("store %d, %a[%i, %j2]", "store %d, %a[%i, %0]"))) == 0
    assert shared(module_of(ROWS.replace("store %d, %a[%i, %j2]", "store %d, %x[%j2]"))) == 0


def test_threads_that_read_neighbours_keep_a_row_each() -> None:
    assert shared(module_of(PRODUCT.replace("%a[%i, %j]", "%a[%j, %i]"))) == 0


def test_devices_without_subgroups_are_left() -> None:
    for record in (
        replace(RECORD, block_threads=0),
        replace(RECORD, subgroup_sizes=()),
        replace(RECORD, subgroup_sizes=(8, 32)),
    ):
        assert shared(module_of(PRODUCT), record) == 0
