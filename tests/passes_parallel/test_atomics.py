"""Which updates stay atomic, and which loops scatter; across calls, too."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import kinds, loops, program

from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify
from quadrants.passes import drop_atomics, parallelise, scatter
from quadrants.passes.context import PassContext


def after(module: Module) -> Module:
    for entry in (parallelise.run, drop_atomics.run, scatter.run):
        entry(module, PassContext())
        verify(module)
    return module


def atomics(module: Module) -> list[bool]:
    return [
        op.attribute("atomic", True)
        for function in module.functions.values()
        for op in walk(function.body)
        if op.kind == "update"
    ]


CASES = {
    "each its own element": ("%old = update add %x, %b[%i]", False, None),
    "each its own row": ("for %j in %o0 .. %w {\n %old = update add %x, %c[%i, %j]\n}", False, None),
    "each its own column": ("for %j in %o0 .. %w {\n %old = update add %x, %c[%j, %i]\n}", False, None),
    "every second": ("%j = mul %i, %o2\n%old = update add %x, %b[%j]", False, None),
    "neighbours": (
        "%j = add %i, %o1\n%old = update add %x, %b[%i]\n%old2 = update add %x, %b[%j]",
        True,
        True,
    ),
    "even and odd": (
        "%j = mul %i, %o2\n%l = add %j, %o1\n%old = update add %x, %b[%j]\n%old2 = update add %x, %b[%l]",
        False,
        None,
    ),
    "places that the data tell": ("%y = load %p[%i]\n%j = cast %y : i64\n%old = update add %x, %b[%j]", True, True),
    "subtraction": ("%y = load %p[%i]\n%j = cast %y : i64\n%old = update sub %x, %b[%j]", True, True),
    "a product": ("%y = load %p[%i]\n%j = cast %y : i64\n%old = update mul %x, %b[%j]", True, None),
    "the array is read, too": (
        "%y = load %p[%i]\n%j = cast %y : i64\n%v = load %b[%j]\n%old = update add %v, %b[%j]",
        True,
        None,
    ),
    "the old value is used": (
        "%y = load %p[%i]\n%j = cast %y : i64\n%old = update add %x, %b[%j]\nstore %old, %a[%i]",
        True,
        None,
    ),
    "indices that may count from the end": ("%j = sub %i, %o1\n%old = update add %x, %b[%j] {wrap = True}", True, True),
}


@pytest.mark.parametrize("name", CASES)
def test_atomics(name: str) -> None:
    body, atomic, scatters = CASES[name]
    module = after(program("for %i in %o0 .. %n {\n" + body + "\n}"))
    assert kinds(module)[0] == "p"
    assert set(atomics(module)) == {atomic}
    assert loops(module)[0].attribute("scatter") is scatters
    if scatters:
        assert all(op.attribute("by") == "add" for op in walk(module.kernel.body) if op.kind == "update")


def test_in_order_nothing_is_atomic() -> None:
    module = after(program("%old = update add %x, %b[%o0]\nfor %i in %o0 .. %o3 {\n%old2 = update add %x, %b[%o0]\n}"))
    assert atomics(module) == [False, False]


def test_arrays_that_may_overlap() -> None:
    body = "for %i in %o0 .. %n {\n%j = add %i, %o1\n%old = update add %x, %b[%i]\n%old2 = update add %x, %a[%j]\n}"
    assert atomics(after(program(body))) == [False, False]
    module = program(body)
    module.kernel.attributes["may_alias"] = True
    assert atomics(after(module)) == [True, True]


CALLS = """quadrants-ir 1
function @bump(%a: array<f32, 1, C>, %i: i64, %x: f32) {
  %one = constant 1 : i64
  %j = SHIFT %i, %one
  %old = update add %x, %a[%j]
}
function @twice(%a: array<f32, 1, C>, %i: i64, %x: f32) {
  call @bump(%a, %i, %x)
  %v = load %a[%i]
  store %v, %a[%i]
}
kernel @k(%a: array<f32, 1, C>, %b: array<f32, 1, C>, %x: f32) {
  %n = dim %a, 0
  %z = constant 0 : i64
  for %i in %z .. %n {
    call @bump(%a, %i, %x)
    CALL
  }
}
"""


def calls(shift: str = "add", call: str = "") -> Module:
    module = parse_module(CALLS.replace("SHIFT", shift).replace("CALL", call))
    verify(module)
    return module


def test_dependence_is_decided_across_calls() -> None:
    module = after(calls())
    assert kinds(module) == "p"
    assert atomics(module) == [False]
    assert kinds(after(calls(call="call @twice(%b, %i, %x)"))) == "s"
    other = after(calls(call="call @bump(%b, %z, %x)"))
    assert kinds(other) == "p"
    assert atomics(other) == [True]
    assert not loops(other)[0].attribute("scatter")


def test_a_recursive_function_may_do_anything() -> None:
    text = CALLS.replace("SHIFT", "add").replace("CALL", "")
    text = text.replace("%old = update add %x, %a[%j]", "%old = update add %x, %a[%j]\n  call @bump(%a, %j, %x)")
    module = after(parse_module(text))
    assert kinds(module) == "p"
    assert atomics(module) == [True]
