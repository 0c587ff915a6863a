"""Every law of `simplify`: what it makes of an expression, and that no bit of any value changes."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from quadrants.ir.interpret import prepare
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import parse_type
from quadrants.ir.verify import verify
from quadrants.passes import dead_code, simplify
from quadrants.passes.context import PassContext

pytestmark = pytest.mark.slow

# Type of %x and %y (T); the expression whose last value is the result, with {n} for `constant n`; what becomes of it.
LAWS = """
f32 | add %x, {-0.0} | %x
f32 | add %x, {0.0} | %0 = constant 0.0 : f32; %1 = add %x, %0 : f32; %1
i32 | add %x, {0} | %x
i32 | add {3}, %x | %0 = constant 3 : i32; %1 = add %x, %0 : i32; %1
i32 | add (add %x, {3}), {4} | %0 = constant 7 : i32; %1 = add %x, %0 : i32; %1
i32 | add (add %x, {2147483646}), {1} | %0 = constant 2147483647 : i32; %1 = add %x, %0 : i32; %1
u32 | add (add %x, {4294967295}), {1} | %x
i32 | add (sub {3}, %x), {4} | %0 = constant 7 : i32; %1 = sub %0, %x : i32; %1
f32 | add %x, (neg %y) | %0 = sub %x, %y : f32; %0
f64 | add (neg %x), %y | %0 = sub %y, %x : f64; %0
i32 | add (sub %x, %y), %y | %x
i32 | add %y, (sub %x, %y) | %x
f32 | sub %x, {0.0} | %x
f32 | sub %x, {-0.0} | %0 = constant -0.0 : f32; %1 = sub %x, %0 : f32; %1
i32 | sub %x, {5} | %0 = constant -5 : i32; %1 = add %x, %0 : i32; %1
u32 | sub %x, {5} | %0 = constant 5 : u32; %1 = sub %x, %0 : u32; %1
u8 | sub %x, {0} | %x
i32 | sub {0}, %x | %0 = neg %x : i32; %0
f32 | sub {-0.0}, %x | %0 = neg %x : f32; %0
f32 | sub {0.0}, %x | %0 = constant 0.0 : f32; %1 = sub %0, %x : f32; %1
f32 | sub %x, (neg %y) | %0 = add %x, %y : f32; %0
i32 | sub %x, %x | %0 = constant 0 : i32; %0
f32 | sub %x, %x | %0 = sub %x, %x : f32; %0
i32 | sub (add %x, %y), %y | %x
i32 | sub (add %x, %y), %x | %y
i32 | sub %y, (add %x, %y) | %0 = neg %x : i32; %0
i32 | sub (sub %x, %y), %x | %0 = neg %y : i32; %0
i32 | neg (neg %x) | %x
f32 | neg (neg %x) | %x
i32 | neg (sub %x, %y) | %0 = sub %y, %x : i32; %0
f32 | mul %x, {1.0} | %x
f32 | mul {-1.0}, %x | %0 = neg %x : f32; %0
f32 | mul %x, {0.0} | %0 = constant 0.0 : f32; %1 = mul %x, %0 : f32; %1
i32 | mul %x, {0} | %0 = constant 0 : i32; %0
i32 | mul (mul %x, {3}), {5} | %0 = constant 15 : i32; %1 = mul %x, %0 : i32; %1
f64 | mul (neg %x), (neg %y) | %0 = mul %x, %y : f64; %0
f32 | div %x, {1.0} | %x
f32 | div %x, {-1.0} | %0 = neg %x : f32; %0
f32 | div %x, {4.0} | %0 = constant 0.25 : f32; %1 = mul %x, %0 : f32; %1
f64 | div %x, {-0.5} | %0 = constant -2.0 : f64; %1 = mul %x, %0 : f64; %1
f64 | div %x, {3.0} | %0 = constant 3.0 : f64; %1 = div %x, %0 : f64; %1
f32 | div (neg %x), (neg %y) | %0 = div %x, %y : f32; %0
i32 | floordiv %x, {1} | %x
i32 | truncdiv %x, {1} | %x
i32 | mod %x, {1} | %0 = constant 0 : i32; %0
i32 | mod %x, %x | %0 = constant 0 : i32; %0
i32 | truncmod {0}, %x | %0 = constant 0 : i32; %0
i32 | floordiv {0}, %x | %0 = constant 0 : i32; %0
f32 | mod %x, {1.0} | %0 = constant 1.0 : f32; %1 = mod %x, %0 : f32; %1
f32 | pow %x, {0.0} | %0 = constant 1.0 : f32; %0
f32 | pow %x, {1.0} | %x
f32 | pow %x, {2.0} | %0 = mul %x, %x : f32; %0
i32 | pow %x, {3} | %0 = mul %x, %x : i32; %1 = mul %0, %x : i32; %1
i32 | pow %x, {4} | %0 = mul %x, %x : i32; %1 = mul %0, %0 : i32; %1
f64 | pow %x, {-1.0} | %0 = constant 1.0 : f64; %1 = div %0, %x : f64; %1
f32 | abs (abs %x) | %0 = abs %x : f32; %0
i32 | abs (neg %x) | %0 = abs %x : i32; %0
u8 | abs %x | %x
i32 | min %x, {2147483647} | %x
i32 | min %x, {-2147483648} | %0 = constant -2147483648 : i32; %0
u8 | max %x, {0} | %x
i8 | max %x, {127} | %0 = constant 127 : i8; %0
f32 | min %x, %x | %x
f64 | floor (round %x) | %0 = round %x : f64; %0
i32 | bit_and %x, {0} | %0 = constant 0 : i32; %0
i32 | bit_and %x, {-1} | %x
u8 | bit_and %x, {255} | %x
u1 | bit_and %x, {True} | %x
u1 | bit_and %x, {False} | %0 = constant False : u1; %0
i32 | bit_or %x, {0} | %x
u8 | bit_or %x, {255} | %0 = constant 255 : u8; %0
u1 | bit_or %x, {True} | %0 = constant True : u1; %0
i32 | bit_xor %x, {0} | %x
u1 | bit_xor %x, {True} | %0 = bit_not %x : u1; %0
i32 | bit_xor %x, %x | %0 = constant 0 : i32; %0
i32 | bit_and %x, %x | %x
i32 | bit_not (bit_not %x) | %x
i32 | shl %x, {0} | %x
i32 | ushr {0}, %x | %0 = constant 0 : i32; %0
i32 | bit_not (lt %x, %y) | %0 = ge %x, %y : u1; %0
f32 | bit_not (eq %x, %y) | %0 = ne %x, %y : u1; %0
f32 | bit_not (lt %x, %y) | %0 = lt %x, %y : u1; %1 = bit_not %0 : u1; %1
i32 | lt {3}, %x | %0 = constant 3 : i32; %1 = gt %x, %0 : u1; %1
f32 | le {3.0}, %x | %0 = constant 3.0 : f32; %1 = ge %x, %0 : u1; %1
i32 | eq %x, %x | %0 = constant True : u1; %0
i32 | lt %x, %x | %0 = constant False : u1; %0
f32 | eq %x, %x | %0 = eq %x, %x : u1; %0
i32 | eq (add %x, {2}), {5} | %0 = constant 3 : i32; %1 = eq %x, %0 : u1; %1
u8 | lt %x, {0} | %0 = constant False : u1; %0
u8 | ge %x, {0} | %0 = constant True : u1; %0
i8 | le %x, {127} | %0 = constant True : u1; %0
i8 | gt %x, {127} | %0 = constant False : u1; %0
u1 | eq %x, {True} | %x
u1 | ne %x, {True} | %0 = bit_not %x : u1; %0
i32 | select %p, %x, %x | %x
i32 | select {True:u1}, %x, %y | %x
f32 | select (bit_not %p), %x, %y | %0 = select %p, %y, %x : f32; %0
u1 | select %p, %x, {False} | %0 = bit_and %p, %x : u1; %0
u1 | select %p, {True}, %x | %0 = bit_or %p, %x : u1; %0
u1 | select %p, {False}, {True} | %0 = bit_not %p : u1; %0
i32 | select (lt %x, %y), %x, %y | %0 = min %x, %y : i32; %0
i32 | select (ge %x, %y), %x, %y | %0 = max %x, %y : i32; %0
i32 | select (le %x, %y), %y, %x | %0 = max %y, %x : i32; %0
f32 | select (lt %x, %y), %x, %y | %0 = lt %x, %y : u1; %1 = select %0, %x, %y : f32; %1
i32 | select %p, (select %p, %x, %y), %y | %0 = select %p, %x, %y : i32; %0
i32 | select %p, %x, (select %p, {1}, %y) | %0 = select %p, %x, %y : i32; %0
i32 | cast (cast %x : i64) : i32 | %x
i32 | cast (cast %x : i64) : f32 | %0 = cast %x : f32; %0
i32 | cast (cast %x : i64) : i16 | %0 = cast %x : i16; %0
i32 | cast (cast %x : f64) : i32 | %x
i32 | cast (cast %x : f64) : u32 | %0 = cast %x : f64; %1 = cast %0 : u32; %1
i32 | cast (cast %x : f64) : i64 | %0 = cast %x : i64; %0
i32 | cast (cast %x : f32) : i32 | %0 = cast %x : f32; %1 = cast %0 : i32; %1
i32 | cast (cast %x : i16) : i8 | %0 = cast %x : i8; %0
i32 | cast (cast %x : i16) : i32 | %0 = cast %x : i16; %1 = cast %0 : i32; %1
f32 | cast (cast %x : f64) : f32 | %x
f64 | cast (cast %x : f32) : f64 | %0 = cast %x : f32; %1 = cast %0 : f64; %1
f32 | cast (cast %x : f64) : i32 | %0 = cast %x : i32; %0
u1 | cast (cast %x : i32) : f32 | %0 = cast %x : f32; %0
u1 | cast (cast %x : i32) : u1 | %x
i32 | bitcast (bitcast %x : f32) : i32 | %x
f32 | bitcast (bitcast %x : u32) : i32 | %0 = bitcast %x : i32; %0
i32 | add {2147483646}, {1} | %0 = constant 2147483647 : i32; %0
u32 | add {4294967295}, {1} | %0 = constant 0 : u32; %0
i32 | floordiv {-7}, {2} | %0 = constant -4 : i32; %0
i32 | mod {-7}, {2} | %0 = constant 1 : i32; %0
i32 | truncdiv {-7}, {2} | %0 = constant -3 : i32; %0
u8 | mul {200}, {2} | %0 = constant 144 : u8; %0
f32 | add {0.1}, {0.2} | %0 = constant 0.30000001192092896 : f32; %0
f64 | sqrt {2.0} | %0 = constant 1.4142135623730951 : f64; %0
f64 | div {1.0}, {0.0} | %0 = constant inf : f64; %0
f64 | sin {2.0} | %0 = constant 2.0 : f64; %1 = sin %0 : f64; %1
f64 | cast {1e300} : i32 | %0 = constant 2147483647 : i32; %0
f64 | cast {0.1} : f32 | %0 = constant 0.10000000149011612 : f32; %0
i64 | cast {1152921573326323713} : f32 | %0 = constant 1.1529216420458004e+18 : f32; %0
i32 | lt {1}, {2} | %0 = constant True : u1; %0
i32 | clz {1} | %0 = constant 31 : i32; %0
"""
CASES = [tuple(part.strip() for part in line.split("|")) for line in LAWS.strip().splitlines()]
_COMPARED = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


class _Writer:
    """Writes a nested expression as lines of IR text."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        self.lines: list[str] = []

    def _name(self, line: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {line}")
        return name

    def constant(self, text: str) -> tuple[str, str]:
        number, _, type_name = text.partition(":")
        type_name = type_name or self.type_name
        return self._name(f"constant {number} : {type_name}"), type_name

    def write(self, text: str) -> tuple[str, str]:
        """The name and the type of an expression's value."""
        text = text.strip()
        if text.startswith("{"):
            return self.constant(text[1:-1])
        if text.startswith("("):
            return self.write(text[1:-1])
        if text.startswith("%"):
            return text, "u1" if text == "%p" else self.type_name
        kind, _, rest = text.partition(" ")
        rest, _, target = _outer_colon(rest)
        operands = [self.write(part) for part in _split(rest)]
        type_name = target or ("u1" if kind in _COMPARED else operands[-1][1])
        return self._name(f"{kind} {', '.join(name for name, _ in operands)} : {type_name}"), type_name


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _outer_colon(text: str) -> tuple[str, str, str]:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter in "({") - (letter in ")}")
        if letter == ":" and depth == 0:
            return text[:position], ":", text[position + 1 :].strip()
    return text, "", ""


def program(type_name: str, expression: str) -> str:
    writer = _Writer(type_name)
    name, result = writer.write(expression)
    head = f"kernel @law(%x: {type_name}, %y: {type_name}, %p: u1) -> {result} {{"
    return "\n".join(["quadrants-ir 1", "stage kernel", head, *writer.lines, f"  return {name}", "}"]) + "\n"


def shown(text: str) -> str:
    """The body of a printed kernel in one line, its values numbered."""
    lines = [line.strip().removeprefix("return ") for line in text.splitlines()[3:-1]]
    numbers: dict[str, str] = {}
    return re.sub(r"%t?\d+", lambda name: numbers.setdefault(name[0], f"%{len(numbers)}"), "; ".join(lines))


def edges(type_name: str) -> list:
    scalar = parse_type(type_name)
    if scalar.is_float:
        values = [0.0, -0.0, 1.0, -1.5, 2.5, 3.0, 1e-30, 3e38, -7e9, float("inf"), float("-inf"), float("nan")]
    elif scalar.bits == 1:
        values = [False, True]
    else:
        values = sorted({scalar.minimum, scalar.minimum + 1, 0, 1, 2, 3, 5, 7, scalar.maximum - 1, scalar.maximum})
        values += [-1, -7] if scalar.is_signed else []
    return [scalar.numpy.type(value) for value in values]


def bits(value: np.generic) -> bytes:
    return b"nan" if value != value else np.asarray(value).tobytes()


@pytest.mark.parametrize(("type_name", "expression", "expected"), CASES, ids=[f"{t} {e}" for t, e, _ in CASES])
def test_law(type_name: str, expression: str, expected: str) -> None:
    text = program(type_name, expression)
    before, after = parse_module(text), parse_module(text)
    verify(before)
    for step in (simplify, dead_code):
        step.run(after, PassContext())
        verify(after)
    assert shown(print_module(after)) == expected
    run_before, run_after = prepare(before), prepare(after)
    for x, y in itertools.product(edges(type_name), repeat=2):
        for p in (False, True):
            given = [x, y, p]
            assert bits(run_before(given)[0]) == bits(run_after(given)[0]), given


@pytest.mark.parametrize("type_name", ["i32", "i64", "u16"])
@pytest.mark.parametrize("kind", ["floordiv", "mod", "truncdiv", "truncmod"])
def test_powers_of_two_become_bits_at_the_lowered_stage(type_name: str, kind: str) -> None:
    text = program(type_name, f"{kind} %x, {{8}}").replace("stage kernel", "stage lowered")
    before, after = parse_module(text), parse_module(text)
    simplify.run(after, PassContext())
    verify(after)
    kinds = [op.kind for op in after.kernel.body.ops]
    bitwise = kind in ("floordiv", "mod") or type_name == "u16"
    assert ("shr" in kinds or "bit_and" in kinds) == bitwise
    for x in edges(type_name):
        assert prepare(before)([x, x, True]) == prepare(after)([x, x, True])


def test_square_root_and_its_like_are_not_folded_to_nan() -> None:
    after = parse_module(program("f64", "sqrt {-1.0}"))
    simplify.run(after, PassContext())
    assert [op.kind for op in after.kernel.body.ops] == ["constant", "sqrt", "return"]


@pytest.mark.parametrize(
    "expression",
    [
        "add (add %x, {2147483647}), {1}",
        "sub %x, {-2147483648}",
        "mul (mul %x, {65536}), {32768}",
        "floordiv %x, {0}",
        "mod %x, {0}",
        "add {2147483647}, {1}",
        "floordiv {1}, {0}",
    ],
)
def test_what_debug_mode_finds_stays(expression: str) -> None:
    module = parse_module(program("i32", expression))
    before = [op.kind for op in module.kernel.body.ops if op.kind != "constant"]
    simplify.run(module, PassContext())
    assert [op.kind for op in module.kernel.body.ops if op.kind != "constant"] == before
