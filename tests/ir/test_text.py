"""The text form: every operation makes the round trip, attributes and names survive, errors name their line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Location, Module, Op
from quadrants.ir.ops import OPS
from quadrants.ir.text import IRSyntaxError, parse_module, print_function, print_module, print_op
from quadrants.ir.text.literals import format_literal
from quadrants.ir.types import (
    ScalarType,
    Type,
    array_type,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    lane_type,
    matrix_type,
    scalar_types,
    shared_type,
    slot_type,
    u1,
    u8,
)

CONTROL = """quadrants-ir 1
stage tasks
function @"<lambda> 1"(%x: f32, %m: matrix<f32, 2x3>) -> f32, i32 {parameter_names = ("x", "m")} {  // f.py:1:0-4
  %0 = constant 1.5 : f32
  %1 = add %x, %0 {reassociate = True} : f32  // a folder/b.py:3:4
  %2 = constant 3 : i32
  return %1, %2
}
kernel @saxpy(%y: array<f32, 1, C>, %a: f32, %x: array<f32, 2, 3, A>, %m: matrix<f32, 2x3>) -> f32 {
  %zero = constant 0 : i64
  %n = dim %y, 0 : i64
  %s = slot matrix<f32, 3> : array<f32, 1, 3, L>
  %l = load %s[] : matrix<f32, 3>
  store %l, %x[%zero] {wrap = True}
  %c, %d = call @"<lambda> 1"(%a, %m) : f32, i32
  parallel for %i in %zero .. %n {  // saxpy.py:6:4
    %0 = load %y[%i] : f32
    %1 = mul %a, %0 : f32
    %2 = update add %1, %y[%i] {atomic = False} : f32
  }
  %z = for %i.1, %j in %zero .. %n, %zero .. %n carry (%acc = %a) {chunk = 4096, config = {"name": "x"}} : f32 {
    %t = lt %acc, %a : u1
    %r = if %t : f32 {
      %3 = add %acc, %acc : f32
      yield %3
    } else {
      break %a
    }
    if %t {
      store %r, %y[%j]
    }
    if %t {
      continue %r
    } else {
      return %r
    }
    yield %r
  }
  %w = while carry (%b = %z) : f32 {
    %going = lt %b, %a : u1
    yield %going
  } do (%b2) {
    yield %b2
  }
  while {
    %stop = constant False : u1
    yield %stop
  } do {
  }
  print %w, %a {format = ("w = ", "\\n", ""), specs = ("", ".3f")}
  %fine = is_nan %w : u1
  check %fine, %w {error = "assert", message = "w is {} \\" // no comment"}
  return %w
}
"""


def test_control_flow_makes_the_round_trip() -> None:
    assert print_module(parse_module(CONTROL)) == CONTROL


def test_without_locations() -> None:
    text = print_module(parse_module(CONTROL), locations=False)
    assert ".py" not in text
    assert print_module(parse_module(text)) == text


OPERANDS: dict[str, tuple[Type, ...]] = {
    "shuffle": (matrix_type(f32, (2,)), i64),
    "ballot": (u1,),
    "team_reduce": (f32,),
    "team_scan": (f32,),
    "team_multiply": (f16,) * 12 + (f32,) * 4,
    "team_multiply_shared": (*(shared_type(matrix_type(f16, (1024,))), i64) * 2, *(f32,) * 4),
    "team_multiplied": (f32,) * 4,
    "team_load": (shared_type(matrix_type(f16, (128,))), i64),
    "copy_begin": (shared_type(matrix_type(f32, (128,))), i64, array_type(f32, 2, layout="A"), i64, i64, i64),
    "lines_aligned": (array_type(f32, 2, layout="A"),),
    "select": (u1, matrix_type(f32, (3,)), matrix_type(f32, (3,))),
    "cast": (f32,),
    "bitcast": (f32,),
    "lookup": (i64,),
    "splat": (f32,),
    "construct": (f32, f32),
    "extract": (matrix_type(f64, (2, 2)), i64, i64),
    "insert": (matrix_type(u8, (4,)), u8, i64),
    "matmul": (matrix_type(f32, (2, 3)), matrix_type(f32, (3,))),
    "transpose": (matrix_type(f32, (2, 3)),),
    "load": (array_type(f32, 2, (3,), "A"), i64),
    "store": (f32, array_type(f32, 1), i64),
    "update": (f32, array_type(f32, 1), i64),
    "update_loaded": (f32, f32, array_type(f32, 1), i64),
    "compare_exchange": (i32, i32, array_type(i32, 1), i64),
    "dim": (array_type(i8, 3),),
    "step": (array_type(i8, 3, layout="A"),),
    "temporary": (u1, i64, i64),
    "release": (array_type(f32, 2),),
    "broadcast": (f32,),
    "extract_lane": (lane_type(f32, 8),),
    "any_lane": (lane_type(u1, 8),),
    "all_lanes": (lane_type(u1, 8),),
    "lane_load": (array_type(f32, 2), i64, lane_type(i64, 4), lane_type(u1, 4)),
    "lane_store": (lane_type(f32, 4), array_type(f32, 1), i64, lane_type(u1, 4)),
    "lane_update": (lane_type(f32, 4), array_type(f32, 1), i64, lane_type(u1, 4)),
    "interleave": (slot_type(matrix_type(f32, (6, 4))), i64, array_type(f32, 2), i64, i64, i64),
    "deinterleave": (slot_type(matrix_type(f32, (6, 4))), i64, array_type(f32, 2), i64, i64, i64),
    "external": (f64, array_type(f32, 2), i64, i64, array_type(u8, 1), i64),
    "external_pure": (f64, i32),
    "print": (f32, matrix_type(i32, (2,))),
    "check": (u1, i64),
}
ATTRIBUTES = {
    "constant": {"type": f32, "value": 0.1},
    "cast": {"type": i32, "exact": True},
    "bitcast": {"type": i32},
    "lookup": {"type": f32, "table": (0.5, 1.25)},
    "splat": {"type": matrix_type(f32, (2, 2))},
    "construct": {"type": matrix_type(f32, (2,))},
    "update": {"by": "min"},
    "update_loaded": {"by": "sub"},
    "load": {"wrap": True},
    "lane_index": {"type": lane_type(i64, 8)},
    "broadcast": {"type": lane_type(f32, 8)},
    "extract_lane": {"lane": 3},
    "lane_load": {"steps": (2, 0)},
    "lane_store": {"steps": (1,)},
    "lane_update": {"steps": (1,), "by": "add", "atomic": False},
    "interleave": {"axis": 0},
    "deinterleave": {"axis": 0},
    "dim": {"axis": 2},
    "step": {"axis": 1},
    "tally": {"what": '"sums" by hand'},
    "slot": {"type": matrix_type(f32, (2, 2))},
    "temporary": {"type": array_type(f32, 2), "padding": 16},
    "shared": {"type": matrix_type(f32, (32, 33))},
    "thread_index": {"of": "grid"},
    "fence": {"scope": "block"},
    "shuffle": {"width": 16},
    "team_barrier": {"width": 32},
    "ballot": {"width": 32},
    "team_reduce": {"by": "max", "width": 0},
    "team_scan": {"by": "mul", "width": 8},
    "team_multiply": {"width": 32},
    "team_multiply_shared": {"width": 128, "left": "depth", "right": "width", "rows": 64, "columns": 8, "depth": 16},
    "team_multiplied": {"width": 128},
    "team_load": {"width": 32, "count": 4, "transposed": True},
    "copy_begin": {"elements": 4},
    "copy_wait": {"groups": 1},
    "lines_aligned": {"bytes": 16},
    "external": {"library": "/x/y.so", "symbol": "f", "parameters": ("f64", "*f32", "*"), "reads": (1,), "writes": ()},
    "external_pure": {"library": None, "symbol": "0x1f", "parameters": ("f64", "i32"), "type": f64},
    "print": {"format": ("a\n", "\u2028", ""), "specs": ("", ".2f")},
    "check": {"message": "index {}", "error": "index"},
}
BUILT_BY_HAND = ("for", "while", "if", "call", "yield", "break", "continue", "return")


def one_op_module(kind: str) -> Module:
    row = OPS[kind]
    integer_only = kind in ("truncdiv", "truncmod", "popcount", "clz", "ctz") or kind.startswith(("bit_", "sh", "ush"))
    usual = matrix_type(i32 if integer_only else f32, (2,))
    types = OPERANDS.get(kind, (usual,) * max(row.arity, 0))
    function = Function("f", types, (), "kernel")
    builder = Builder(function.body, Location("f.py", 3, 4, 9))
    builder.op(kind, *function.parameters, **ATTRIBUTES.get(kind, {}))
    builder.location = None
    builder.op("return")
    module = Module("f")
    module.add(function)
    return module


@pytest.mark.parametrize("kind", [kind for kind in OPS if kind not in BUILT_BY_HAND])
def test_every_operation_makes_the_round_trip(kind: str) -> None:
    module = one_op_module(kind)
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    before, after = module.kernel.body.ops[0], again.kernel.body.ops[0]
    assert after.kind == before.kind
    assert after.location == before.location
    assert (after.attributes or {}) == (before.attributes or {})
    assert [value.type for value in after.results] == [value.type for value in before.results]


@pytest.mark.parametrize("scalar", scalar_types, ids=str)
def test_constants_of_every_type(scalar: ScalarType) -> None:
    values: list[float] = [0.0, -0.0, 0.1, 1e-320, 1.5e300, math.inf, -math.inf, math.nan, -math.nan]
    if not scalar.is_float:
        values = [0, 1, scalar.minimum, scalar.maximum]
    for value in values:
        function = Function("f", (), (), "kernel")
        function.body.ops = [Op("constant", (), (scalar,), {"type": scalar, "value": value}), Op("return")]
        module = Module("f")
        module.add(function)
        found = parse_module(print_module(module)).kernel.body.ops[0].attribute("value")
        assert type(found) is type(value)
        assert repr(found) == repr(value)
        assert math.copysign(1, found) == math.copysign(1, value)


def test_numpy_numbers_print_as_numbers() -> None:
    assert format_literal(np.float32(0.5)) == "0.5"
    assert format_literal((np.int64(3), np.bool_(True))) == "(3, True)"


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold a object"):
        format_literal((object(),))


def test_names_are_kept_when_unique() -> None:
    function = Function("f", (f32, f32, f32, f32), (), "kernel")
    for parameter, name in zip(function.parameters, ("a", "a", "1st", "é")):
        parameter.name = name
    Builder(function.body).op("return")
    assert print_function(function).startswith("kernel @f(%a: f32, %a.1: f32, %_1st: f32, %é: f32)")
    module = Module("f")
    module.add(function)
    text = print_module(module)
    assert print_module(parse_module(text)) == text


def test_notes_of_passes_are_not_written() -> None:
    module = one_op_module("add")
    module.kernel.attributes["_summary"] = object()
    assert "_summary" not in print_module(module)


def test_broken_modules_print_and_parse() -> None:
    function = Function("f", (f32,), (), "kernel")
    loop = Op("for", (function.parameters[0],), (f32, f32), {"rank": 3}, (Block((f32,)), Block()))
    function.body.ops = [loop]
    module = Module("g")
    module.add(function)
    text = print_module(module)
    assert "generic for" in text and "unterminated" in text and "entry @g" in text
    assert print_module(parse_module(text)) == text


def test_types_may_be_left_out() -> None:
    module = parse_module("quadrants-ir 1\nkernel @f(%x: f32) -> f32 {\n  %y = add %x, %x\n  return %y\n}\n")
    assert module.stage == "kernel" and module.entry == "f"
    assert module.kernel.body.ops[0].result.type is f32


def test_print_op() -> None:
    module = parse_module(CONTROL)
    shown = [print_op(op) for op in module.kernel.body.ops]
    assert "%n = dim %y, 0 : i64" in shown
    assert "store %l, %x[%zero] {wrap = True}" in shown
    assert any(text.startswith("%z = for(%zero, %zero, %n, %n, %a)") for text in shown)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (1, "", "expected the header"),
        (1, "quadrants-ir 99\n", "version 99 of the text form; this release reads version 1"),
        (2, "quadrants-ir 1\nstage soup\n", "unknown stage 'soup'"),
        (2, "quadrants-ir 1\nmodule\n", "expected `kernel`, `function`"),
        (3, "quadrants-ir 1\nkernel @f() {\n  %a = neg %b\n}\n", "%b is not defined"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %a = neg %a\n}\n", "is defined twice"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b = frobnicate %a\n}\n", "unknown operation 'frobnicate'"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b = not_a_type %a : f33\n}\n", "unknown operation"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b = neg %a : f33\n}\n", "not a type: 'f33'"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32, %c: f64) {\n  %b = add %a, %c\n}\n", "operands differ in type"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b = cast %a\n}\n", "lacks 'type'"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b, %c = neg %a : f32\n}\n", "neg has 1 results, 2 names"),
        (3, "quadrants-ir 1\nkernel @f(%a: f32) {\n  %b = neg %a : f32 nonsense\n}\n", "unexpected 'nonsense'"),
        (3, "quadrants-ir 1\nkernel @f(%a: u1) {\n  if %a {\n", "the text ends within a region"),
        (4, "quadrants-ir 1\nkernel @f() {\n}\nkernel @f() {\n}\n", "@f is defined twice"),
    ],
)
def test_errors_name_their_line(line: int, text: str, message: str) -> None:
    with pytest.raises(IRSyntaxError, match=message) as caught:
        parse_module(text)
    assert str(caught.value).startswith("line ")
    assert caught.value.line in (line, line + 1)
