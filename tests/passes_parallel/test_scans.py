"""Scans in blocks, in the interpreter: short blocks, so that small arrays have many."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import loops, same_after

from quadrants.knobs import Options
from quadrants.passes import parallelise, scans
from quadrants.passes.context import PassContext

APPEND = """
%z = constant 0 : i64
%s = for %i in %o0 .. %n carry (%sum = %z) : i64 {
  %v = load %a[%i] : f32
  %g = gt %v, %f0 : u1
  %t = if %g : i64 {
    store %v, %b[%sum]
    %e = add %sum, %o1 : i64
    yield %e
  } else {
    yield %sum
  }
  yield %t
}
return %s
"""
PRODUCTS = """
%z = constant 3 : i32
%s = for %i in %o1 .. %n carry (%sum = %z) : i32 {
  %v = load %p[%i] : i32
  store %sum, %p[%i]
  %t = mul %sum, %v : i32
  yield %t
}
%wide = cast %s : i64
return %wide
"""


@pytest.mark.parametrize("body", [APPEND, PRODUCTS], ids=["append", "products"])
@pytest.mark.parametrize("shortest", [1, 2, 5])
def test_short_blocks(body: str, shortest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_FEWEST", 2), ("_SHORTEST_BLOCK", shortest), ("_BLOCKS", 4)):
        monkeypatch.setattr(scans, name, value)

    def run(module, context) -> None:
        scans.run(module, PassContext(Options(cpu_max_num_threads=8)))

    module = same_after(body, [parallelise.run, run], "i64", ((30, 40, 5, 6),))
    assert [bool(loop.attribute("parallel")) for loop in loops(module)] == [True, False, False, True, False, False]
