"""Indices that may count from the end: proved, cut off at the border of a loop, or selected."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import arguments, kinds, loops, program, run, same_after

from quadrants.ir.nodes import Module, walk
from quadrants.passes import parallelise, widen_sums, wrap_indices
from quadrants.passes.context import PassContext

PROVED = {
    "a counter": "for %i in %o0 .. %n {\n store %x, %a[%i] {wrap = True}\n}",
    "a narrowed counter": (
        "for %i in %o0 .. %n {\n%s = cast %i {exact = True} : i32\n%t = cast %s : i64\n"
        "store %x, %a[%t] {wrap = True}\n}"
    ),
    "a counter from 1, less 1": "for %i in %o1 .. %n {\n %j = sub %i, %o1\n store %x, %a[%j] {wrap = True}\n}",
    "counting down": (
        "%n1 = sub %n, %o1\nfor %i in %o0 .. %n {\n %j = sub %n1, %i\n store %x, %a[%j] {wrap = True}\n}"
    ),
    "the last of the array": "%q = gt %n, %o0\nif %q {\n %j = sub %n, %o1\n store %x, %a[%j] {wrap = True}\n}",
    "the last of another array, in a loop over it": (
        "for %i in %o0 .. %n {\n %j = sub %n, %o1\n %v = load %b[%j] {wrap = True}\n store %v, %a[%i]\n}"
    ),
    "a triangle": (
        "for %i in %o0 .. %h {\n %i1 = add %i, %o1\n for %j in %i1 .. %w {\n %l = sub %j, %i1\n"
        " store %x, %c[%i, %l] {wrap = True}\n}\n}"
    ),
    "a remainder": ("for %i in %o0 .. %n {\n %j = sub %i, %o3\n %l = mod %j, %n\n store %x, %a[%l] {wrap = True}\n}"),
    "a quotient": "for %i in %o0 .. %n {\n %j = floordiv %i, %o2\n store %x, %a[%j] {wrap = True}\n}",
    "clamped": ("for %i in %o0 .. %n {\n %j = sub %i, %o2\n %l = max %j, %o0\n store %x, %a[%l] {wrap = True}\n}"),
    "clamped on both sides": (
        "%n1 = sub %n, %o1\nfor %i in %o0 .. %n {\n %j = sub %i, %o2\n %l = max %j, %o0\n %u = min %l, %n1\n"
        " store %x, %a[%u] {wrap = True}\n}"
    ),
    "under a condition": "%q = ge %k, %o0\nif %q {\n store %x, %b[%k] {wrap = True}\n}",
    "under two conditions": (
        "%q = ge %k, %o0\n%s = lt %k, %m\n%u = bit_and %q, %s\nif %u {\n store %x, %b[%k] {wrap = True}\n}"
    ),
    "under a lazy condition": (
        "%q = ge %k, %o0\n%u = if %q : u1 {\n %s = lt %k, %m\n yield %s\n} else {\n %f = constant False : u1\n"
        " yield %f\n}\nif %u {\n store %x, %b[%k] {wrap = True}\n}"
    ),
    "neighbours within bounds": (
        "for %i in %o0 .. %n {\n %j = sub %i, %o2\n %q = ge %j, %o0\n if %q {\n store %x, %a[%j] {wrap = True}\n }\n}"
    ),
    "behind a continue": (
        "for %i in %o0 .. %n {\n %j = sub %i, %o2\n %q = lt %j, %o0\n if %q {\n continue\n } else {\n yield\n }\n"
        " store %x, %a[%j] {wrap = True}\n}"
    ),
    "a constant from the end": "%q = gt %n, %o1\nif %q {\n%c2 = constant -2 : i64\nstore %x, %a[%c2] {wrap = True}\n}",
}


def ops(module: Module, kind: str) -> list:
    return [op for op in walk(module.kernel.body) if op.kind == kind]


def wraps(module: Module) -> bool:
    return any(op.attribute("wrap") for op in walk(module.kernel.body))


@pytest.mark.parametrize("name", PROVED)
def test_proved(name: str) -> None:
    module = same_after(PROVED[name], [wrap_indices.run])
    before = len(ops(program(PROVED[name]), "select"))
    assert not wraps(module)
    assert len(ops(module, "select")) == before
    assert len(loops(module)) == len(loops(program(PROVED[name])))


SELECTED = {
    "a parameter": "%k2 = sub %k, %o2\nstore %x, %b[%k2] {wrap = True}",
    "data": (
        "for %i in %o0 .. %n {\n %y = load %p[%i]\n %j = cast %y : i64\n %l = sub %j, %n\n"
        " %v = load %a[%l] {wrap = True}\n store %v, %b[%i]\n}"
    ),
    "the wrong condition": "%q = ge %k, %o0\nif %q {\n %j = sub %k, %o1\n store %x, %b[%j] {wrap = True}\n}",
    "an outer counter": (
        "for %i in %o0 .. %h {\n %l = sub %i, %o1\n for %j in %o0 .. %w {\n %v = load %c[%l, %j] {wrap = True}\n"
        " store %v, %d[%i, %j]\n}\n}"
    ),
}


@pytest.mark.parametrize("name", SELECTED)
def test_selected(name: str) -> None:
    module = same_after(SELECTED[name], [wrap_indices.run])
    assert not wraps(module)
    assert len(ops(module, "select")) == 1


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
    module = same_after(PERIODIC, [parallelise.run, wrap_indices.run], sizes=((7, 9, 5, 6), (2, 2, 1, 1), (3, 3, 1, 1)))
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
    module = same_after(PLANE, [parallelise.run, wrap_indices.run], sizes=((1, 1, 5, 6), (1, 1, 3, 1), (1, 1, 1, 3)))
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
    same_after(SUM, [parallelise.run, wrap_indices.run], "f32", sizes=((7, 1, 1, 1), (2, 1, 1, 1)))
    module = same_after(
        SUM, [parallelise.run, widen_sums.run, wrap_indices.run], "f32", sizes=((7, 1, 1, 1), (5000, 1, 1, 1))
    )
    assert not wraps(module)


def test_a_loop_that_breaks_is_not_cut() -> None:
    body = PERIODIC.replace("%v = load", "%q = gt %i, %o4\n if %q {\n break\n } else {\n yield\n }\n %v = load")
    module = same_after(body, [wrap_indices.run])
    assert len(loops(module)) == 1
    assert len(ops(module, "select")) == 2


def test_long_bodies_are_not_copied() -> None:
    long = "\n".join(f"%e{number} = add %x, %f{number % 2}" for number in range(300))
    module = program(PERIODIC.replace("%v = load", f"{long}\n%v = load"))
    wrap_indices.run(module, PassContext())
    assert len(loops(module)) == 1


def test_values_from_the_end_are_the_same_as_before() -> None:
    module = program(PERIODIC)
    before = run(module, arguments())
    wrap_indices.run(module, PassContext())
    assert all((left == right).all() for left, right in zip(before[:2], run(module, arguments())[:2]))
