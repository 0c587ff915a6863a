"""Loops cut at their borders: where, and what is left in the middle."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import kinds, loops, program, same_after

from quadrants.ir.nodes import Module, walk
from quadrants.passes import cut_loops, parallelise, widen_sums, wrap_indices
from quadrants.passes.context import PassContext

pytestmark = pytest.mark.slow

PASSES = [parallelise.run, cut_loops.run, wrap_indices.run]
SIZES = ((7, 9, 5, 6), (2, 2, 1, 1), (3, 3, 3, 1), (40, 45, 1, 3), (20, 12, 20, 18))


def ops(module: Module, kind: str) -> list:
    return [op for op in walk(module.kernel.body) if op.kind == kind]


def inside(loop, *names: str) -> int:
    return sum(op.kind in names for op in walk(loop.regions[0]))


PERIODIC = """
for %i in %o0 .. %n {
  %j = sub %i, %o1
  %l = sub %i, %o2
  %v = load %a[%j] {wrap = True}
  %u = load %a[%l] {wrap = True}
  %t = add %v, %u
  store %t, %b[%i]
}"""


def test_a_loop_is_cut_at_the_border() -> None:
    module = same_after(PERIODIC, PASSES, sizes=SIZES)
    first, main = loops(module)
    assert kinds(module) == "sp"
    assert [op for op in walk(first.regions[0]) if op.kind == "select"]
    assert not [op for op in walk(main.regions[0]) if op.kind == "select"]


PLANE = """
for %i, %j in %o0 .. %h, %o0 .. %w {
  %i1 = sub %i, %o1
  %j1 = sub %j, %o1
  %v = load %c[%i1, %j] {wrap = True}
  %u = load %c[%i, %j1] {wrap = True}
  %t = add %v, %u
  store %t, %d[%i, %j]
}"""


def test_rank_2_is_cut_along_its_rows() -> None:
    module = same_after(PLANE, PASSES, sizes=SIZES)
    first, main = loops(module)
    assert kinds(module) == "pp"
    assert len([op for op in walk(first.regions[0]) if op.kind == "select"]) == 2
    assert len([op for op in walk(main.regions[0]) if op.kind == "select"]) == 1


SUM = """
%r = for %i in %o0 .. %n carry (%s = %x) : f32 {
  %j = sub %i, %o1
  %v = load %a[%j] {wrap = True}
  %u = load %a[%i] {wrap = True}
  %y = mul %u, %v
  %t = add %s, %y
  yield %t
}
return %r"""


def test_reductions_go_on_behind_the_border() -> None:
    same_after(SUM, PASSES, "f32", sizes=SIZES)
    module = same_after(
        SUM, [parallelise.run, widen_sums.run, *PASSES[1:]], "f32", sizes=((7, 1, 1, 1), (5000, 1, 1, 1))
    )
    assert not inside(loops(module)[2], "select")


def test_a_loop_that_breaks_is_not_cut() -> None:
    body = PERIODIC.replace("%v = load", "%q = gt %i, %o4\n if %q {\n break\n } else {\n yield\n }\n %v = load")
    module = same_after(body, PASSES)
    assert len(loops(module)) == 1
    assert len(ops(module, "select")) == 2


def test_long_bodies_are_not_copied() -> None:
    long = "\n".join(f"%e{number} = add %x, %f{number % 2}" for number in range(300))
    module = program(PERIODIC.replace("%v = load", f"{long}\n%v = load"))
    cut_loops.run(module, PassContext())
    assert len(loops(module)) == 1


AROUND = """
for %i in %o0 .. %n {
  %j = add %i, %o1
  %l = mod %j, %n
  %j2 = sub %i, %o2
  %l2 = mod %j2, %n
  %v = load %a[%l] {wrap = True}
  %u = load %a[%l2] {wrap = True}
  %t = add %v, %u
  store %t, %b[%i]
}"""


def test_remainders_go_round_at_the_ends_only() -> None:
    module = same_after(AROUND, PASSES, sizes=SIZES)
    first, middle, last = loops(module)
    assert kinds(module) == "sps"
    assert inside(middle, "mod", "select") == 0
    assert inside(first, "mod") and inside(last, "mod")
    assert first.attribute("short") and last.attribute("short") and not middle.attribute("short")


def test_remainders_of_narrow_counters() -> None:
    body = """
%s = cast %n : i32
%c1 = constant 1 : i32
for %i in %o0 .. %n {
  %g = cast %i {exact = True} : i32
  %j = add %g, %c1
  %l = mod %j, %s
  %e = cast %l : i64
  %v = load %a[%e]
  store %v, %b[%i]
}"""
    module = same_after(body, PASSES, sizes=SIZES)
    assert inside(loops(module)[0], "mod") == 0


def test_remainders_by_another_size() -> None:
    body = AROUND.replace("%i in %o0 .. %n", "%i in %o0 .. %m").replace("store %t, %b", "store %t, %b")
    same_after(body, PASSES, sizes=SIZES)


REMAINDER = """
%r = for %i in %o0 .. %n carry (%s = %x) : f32 {
  %j = add %i, %o1
  %l = mod %j, %n
  %v = load %a[%l]
  %u = load %a[%i]
  %y = mul %u, %v
  %t = add %s, %y
  yield %t
}
return %r"""


def test_sums_go_on_from_piece_to_piece() -> None:
    module = same_after(REMAINDER, PASSES, "f32", SIZES)
    assert kinds(module) == "ps"
    same_after(REMAINDER, [parallelise.run, widen_sums.run, *PASSES[1:]], "f32", (*SIZES, (5000, 1, 1, 1)))


INTERIOR = """
%h1 = sub %h, %o1
%w1 = sub %w, %o1
for %i, %j in %o0 .. %h, %o0 .. %w {
  %q1 = gt %i, %o0
  %q2 = lt %i, %h1
  %q = bit_and %q1, %q2
  %s1 = FIRST
  %s2 = LAST
  %s = bit_and %s1, %s2
  %t = bit_and %q, %s
  if %t {
    %l = sub %j, %o1
    %u = add %j, %o1
    %v = load %c[%i, %l] {wrap = True}
    %e = load %c[%i, %u] {wrap = True}
    %f = add %v, %e
    store %f, %d[%i, %j]
  }
}"""


@pytest.mark.parametrize("first", ["gt %j, %o0", "ge %j, %o1", "lt %o0, %j", "ne %j, %o0"])
@pytest.mark.parametrize("last", ["lt %j, %w1", "gt %w1, %j", "ne %j, %w1"])
def test_interior_tests(first: str, last: str) -> None:
    body = INTERIOR.replace("FIRST", first).replace("LAST", last)
    module = same_after(body, PASSES, sizes=SIZES)
    pieces = loops(module)
    assert len(pieces) == 3
    middle = pieces[1]
    assert inside(middle, "gt", "ge", "lt", "le", "eq", "ne") == 2
    assert inside(middle, "select") == 0


def test_a_comparison_in_the_middle_makes_two_long_loops() -> None:
    body = """
for %i in %o0 .. %n {
  %q = lt %i, %k
  %t = if %q : f32 {
    yield %x
  } else {
    yield %f0
  }
  store %t, %a[%i]
}"""
    module = same_after(body, PASSES, sizes=SIZES)
    assert kinds(module) == "pp"
    assert not ops(module, "lt")


@pytest.mark.parametrize(
    "comparison", ["lt %e, %o3", "le %e, %o3", "gt %e, %o3", "ge %e, %o3", "eq %e, %o3", "ne %e, %o3"]
)
@pytest.mark.parametrize("form", ["sub %n, %i", "sub %i, %k", "add %i, %o1", "sub %o5, %i"])
def test_every_comparison(comparison: str, form: str) -> None:
    body = f"""
for %i in %o0 .. %n {{
  %e = {form}
  %q = {comparison}
  %t = select %q, %x, %f0
  store %t, %a[%i]
}}"""
    same_after(body, PASSES, sizes=SIZES)


def test_nothing_is_cut_without_need() -> None:
    for body in (
        "store %x, %a[%i] {wrap = True}",
        "%l = mod %i, %n\nstore %x, %a[%l]",
        "%q = lt %i, %n\nif %q {\nstore %x, %a[%i]\n}",
    ):
        module = same_after("for %i in %o0 .. %n {\n" + body + "\n}", PASSES, sizes=SIZES)
        assert len(loops(module)) == 1
        assert not ops(module, "mod")
        assert not ops(module, "lt")
