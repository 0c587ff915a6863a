"""Short loops unrolled, and what the other passes make of it."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import kinds, loops, program, same_after

from quadrants.ir.nodes import walk
from quadrants.passes import parallelise, privatise, unroll
from quadrants.passes.context import PassContext

UNROLLED = {
    "a store": "for %i in %o0 .. %o3 {\n store %x, %c[%i, %i]\n}",
    "no iteration": "for %i in %o3 .. %o1 {\n store %x, %c[%i, %i]\n}",
    "rank 2": "for %i, %j in %o0 .. %o3, %o1 .. %o3 {\n store %x, %c[%i, %j]\n}",
    "nested": "for %i in %o0 .. %o3 {\n for %j in %o1 .. %o3 {\n store %x, %c[%i, %j]\n}\n}",
    "carried": (
        "%r = for %i in %o0 .. %o3 carry (%s = %x) : f32 {\n %v = load %c[%i, %o0]\n %t = mul %s, %v\n yield %t\n}\n"
        "store %r, %a[%o0]"
    ),
    "carried through two": (
        "%r = for %i in %o0 .. %o2 carry (%s = %x) : f32 {\n"
        "%q = for %j in %o0 .. %o2 carry (%u = %s) : f32 {\n %v = load %c[%i, %j]\n %t = add %u, %v\n yield %t\n}\n"
        "%e = mul %q, %x\n yield %e\n}\nstore %r, %a[%o0]"
    ),
    "under a condition": "%q = gt %k, %o1\nif %q {\n for %i in %o0 .. %o3 {\n store %x, %c[%i, %i]\n}\n}",
}


@pytest.mark.parametrize("name", UNROLLED)
def test_unrolled(name: str) -> None:
    assert not loops(same_after(UNROLLED[name], [unroll.run]))


STAYING = {
    "many iterations": "for %i in %o0 .. %o10 {\n store %x, %c[%o0, %o1]\n}",
    "an end that is not known": "for %i in %o0 .. %h {\n store %x, %c[%i, %o1]\n}",
    "a break": "for %i in %o0 .. %o3 {\n %q = gt %i, %k\n if %q {\n break\n } else {\n yield\n }\n}",
    "the user's choice": 'for %i in %o0 .. %o3 {config = {"serialize": True}} {\n store %x, %c[%i, %o1]\n}',
    "a long body": ("for %i in %o0 .. %o3 {\n" + "\n".join(f"%e{n} = add %x, %f1" for n in range(40)) + "\n}"),
}


@pytest.mark.parametrize("name", STAYING)
def test_staying(name: str) -> None:
    module = program(STAYING[name])
    unroll.run(module, PassContext())
    assert len(loops(module)) == 1


def test_components_are_reduced_one_by_one() -> None:
    body = """
for %i in %o0 .. %h {
  for %j in %o0 .. %o3 {
    %v = load %c[%i, %j]
    %old = update min %v, %a[%j]
  }
}"""
    module = same_after(body, [unroll.run, parallelise.run, privatise.run])
    assert kinds(module) == "p"
    assert loops(module)[0].attribute("reductions") == ("min", "min", "min")
    assert not [op for op in walk(loops(module)[0].regions[0]) if op.kind == "update"]
