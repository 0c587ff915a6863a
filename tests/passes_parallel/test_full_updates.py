"""Stores that are updates written in full: which become updates, and which stay what they are."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import program

from quadrants.ir import verify as verifier
from quadrants.ir.nodes import walk
from quadrants.ir.verify import verify
from quadrants.passes import full_updates, parallelise
from quadrants.passes.context import PassContext

UNDER_A_FLAG = """
for %i in %o0 .. %big {{
  %v = load %b[%i]
  %q = lt %v, %x
  if %q {{
{}
  }}
}}"""

CASES = {
    "an element that all share": ("%l = load %a[%o0]\n%s = add %l, %v\nstore %s, %a[%o0]", ["add"]),
    "the load behind the value": ("%l = load %a[%o0]\n%s = max %v, %l\nstore %s, %a[%o0]", ["max"]),
    "a difference": ("%l = load %a[%o0]\n%s = sub %l, %v\nstore %s, %a[%o0]", ["sub"]),
    "a difference the other way round": ("%l = load %a[%o0]\n%s = sub %v, %l\nstore %s, %a[%o0]", []),
    "an operation that is no update": ("%l = load %a[%o0]\n%s = div %l, %v\nstore %s, %a[%o0]", []),
    "twice the element": ("%l = load %a[%o0]\n%s = add %l, %l\nstore %s, %a[%o0]", []),
    "another element": ("%l = load %a[%o1]\n%s = add %l, %v\nstore %s, %a[%o0]", []),
    "what was there is used": ("%l = load %a[%o0]\n%s = add %l, %v\nstore %s, %a[%o0]\nstore %l, %b[%i]", []),
    "the sum is used": ("%l = load %a[%o0]\n%s = add %l, %v\nstore %s, %a[%o0]\nstore %s, %b[%i]", []),
    "a store in between": ("%l = load %a[%o0]\n%s = add %l, %v\nstore %v, %a[%o0]\nstore %s, %a[%o0]", []),
    "a store next to it in between": (
        "%l = load %a[%o0]\n%s = add %l, %v\n%l2 = load %a[%o1]\n%s2 = add %l2, %v\nstore %s, %a[%o0]\nstore %s2, %a[%o1]",
        ["add", "add"],
    ),
    "indices that are computed": (
        "%l = load %a[%o2]\n%s = add %l, %v\n%e = add %o1, %o1\nstore %s, %a[%e]",
        ["add"],
    ),
    "an element counted from the end in between": (
        "%e = sub %o0, %o1\n%l = load %a[%o0] {wrap = True}\n%s = add %l, %v\nstore %v, %a[%e] {wrap = True}\nstore %s, %a[%o0] {wrap = True}",
        [],
    ),
    "an element of each iteration": ("%l = load %a[%i]\n%s = add %l, %v\nstore %s, %a[%i]", []),
    "an element that data tell": (
        "%e = load %p[%i]\n%j = cast %e : i64\n%l = load %a[%j]\n%s = add %l, %v\nstore %s, %a[%j]",
        [],
    ),
}


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES)
def test_which_stores_become_updates(body: str, expected: list[str]) -> None:
    module = program(UNDER_A_FLAG.format(body))
    parallelise.run(module, PassContext())
    verify(module)
    ops = list(walk(module.kernel.body))
    assert [op.attribute("by") for op in ops if op.kind == "update"] == expected
    assert next(op for op in ops if op.kind == "for").attribute("parallel")
    assert sum(op.kind == "store" for op in ops) == body.count("store") - len(expected)


def test_operations_of_updates() -> None:
    assert full_updates.UPDATES == verifier.UPDATES - {"exchange"}


def test_arrays_that_may_overlap() -> None:
    body = "%l = load %a[%o0]\n%s = add %l, %v\nstore %v, %b[%i]\nstore %s, %a[%o0]"
    for may_alias, expected in ((False, 1), (True, 0)):
        module = program(UNDER_A_FLAG.format(body))
        module.kernel.attributes["may_alias"] = may_alias
        parallelise.run(module, PassContext())
        assert sum(op.kind == "update" for op in walk(module.kernel.body)) == expected
