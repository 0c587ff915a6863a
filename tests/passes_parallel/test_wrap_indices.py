"""Indices that may count from the end: proved, cut off at the border of a loop, or selected."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import loops, program, same_after

from quadrants.ir.nodes import Module, walk
from quadrants.passes import wrap_indices

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
    "under a lazy condition that gives its first part": (
        "%q = ge %k, %o0\n%u = if %q : u1 {\n %s = lt %k, %m\n yield %s\n} else {\n yield %q\n}\n"
        "if %u {\n store %x, %b[%k] {wrap = True}\n}"
    ),
    "where a lazy condition does not hold": (
        "%q = lt %k, %o0\n%u = if %q : u1 {\n yield %q\n} else {\n %s = ge %k, %m\n yield %s\n}\n"
        "if %u {\n yield\n} else {\n store %x, %b[%k] {wrap = True}\n}"
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
