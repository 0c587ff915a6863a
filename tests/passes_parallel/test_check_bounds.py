"""The checks of debug mode: what is found, and how it is worded."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes_parallel.programs import arguments, program

from quadrants import knobs
from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify
from quadrants.passes import check_bounds, parallelise, wrap_indices
from quadrants.passes.context import PassContext


def checked(module: Module, debug: bool = True) -> Module:
    context = PassContext(options=knobs.Options(debug=debug, check_out_of_bound=True))
    for entry in (parallelise.run, check_bounds.run, wrap_indices.run):
        entry(module, context)
        verify(module)
    return module


def fails(body: str, **sizes: int) -> str:
    module = checked(program(body))
    with pytest.raises(QuadrantsAssertionError) as caught:
        interpret(module, arguments(**sizes), debug=True)
    return str(caught.value)


def test_an_index_out_of_range() -> None:
    text = fails("store %x, %a[%o10]", n=7)
    assert "a[10]" in text
    assert "(7,)" in text


def test_two_indices() -> None:
    text = fails("for %i in %o0 .. %n {\n store %x, %c[%i, %o1]\n}", n=7, h=5, w=6)
    assert "c[5, 1]" in text
    assert "(5, 6)" in text


def test_negative_indices() -> None:
    assert "a[-1]" in fails("%j = sub %k, %o10\n%l = sub %o0, %o1\nstore %x, %a[%l]")
    body = "%l = sub %o0, %o10\nstore %x, %a[%l] {wrap = True}"
    assert "a[-10]" in fails(body, n=7)
    interpret(checked(program(body)), arguments(n=10), debug=True)


def test_updates_and_partial_indices_are_checked() -> None:
    assert "a[10]" in fails("%old = update add %x, %a[%o10]", n=7)


def integer(op: str, type_: str, left: int, right: int) -> Module:
    text = f"""quadrants-ir 1
kernel @k(%a: {type_}, %b: {type_}) -> {type_} {{
  %r = {op} %a, %b
  return %r
}}
"""
    return checked(parse_module(text))


@pytest.mark.parametrize("op", ["floordiv", "mod", "truncdiv", "truncmod"])
def test_division_by_zero(op: str) -> None:
    module = integer(op, "i32", 1, 0)
    with pytest.raises(QuadrantsAssertionError, match=r"division of 7 by zero"):
        interpret(module, [np.int32(7), np.int32(0)], debug=True)
    interpret(module, [np.int32(7), np.int32(2)], debug=True)


LIMITS = {
    "i32": [0, 1, -1, 7, 2**31 - 1, -(2**31), 46341, -46341, 65536],
    "i64": [0, 1, -1, 7, 2**63 - 1, -(2**63), 3037000500, -3037000500, 2**32],
}


@pytest.mark.parametrize("type_", LIMITS)
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_overflow(op: str, type_: str) -> None:
    module = integer(op, type_, 0, 0)
    number = np.int32 if type_ == "i32" else np.int64
    bits = 32 if type_ == "i32" else 64
    meaning = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}[op]
    for left in LIMITS[type_]:
        for right in LIMITS[type_]:
            exact = meaning(left, right)
            values = [number(left), number(right)]
            if -(2 ** (bits - 1)) <= exact < 2 ** (bits - 1):
                interpret(module, values, debug=True)
            else:
                with pytest.raises(QuadrantsAssertionError, match="overflows"):
                    interpret(module, values, debug=True)


def test_unsigned_numbers_and_bounds_only() -> None:
    module = integer("add", "u32", 0, 0)
    assert not [op for op in walk(module.kernel.body) if op.kind == "check"]
    module = checked(program("%j = add %k, %o1\nstore %x, %a[%o0]"), debug=False)
    assert [op.attribute("error") for op in walk(module.kernel.body) if op.kind == "check"] == ["index"]


def test_bounds_errors_are_index_errors() -> None:
    module = checked(program("store %x, %a[%o10]"))
    with pytest.raises((QuadrantsBoundsError, QuadrantsAssertionError)):
        interpret(module, arguments(), debug=True)
