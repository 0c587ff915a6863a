"""Control flow, calls, slots, prints and checks as machine code, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.ir.text import parse_module
from quadrants.targets.llvm.x64 import target

LOOPS = """
kernel @k(%n: i64, %m: i64) -> i64, i64, f32 {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %two = constant 2 : i64
  %limit = constant 7 : i64
  %start = constant 0.5 : f32
  %odd, %all = for %i in %zero .. %n carry (%a = %zero, %b = %zero) : i64, i64 {
    %more = add %b, %i
    %stop = ge %i, %limit
    if %stop {
      break %a, %b
    }
    %rest = mod %i, %two
    %even = eq %rest, %zero
    if %even {
      continue %a, %more
    }
    %sum = add %a, %i
    yield %sum, %more
  }
  %r = for %g, %h in %one .. %n, %one .. %m carry (%x = %start) : f32 {
    %p = mul %g, %h
    %big = gt %p, %limit
    %y = if %big : f32 {
      %q = cast %p : f32
      %z = add %x, %q
      yield %z
    } else {
      %small = gt %p, %two
      if %small {
        break %x
      }
      %w = add %x, %start
      yield %w
    }
    yield %y
  }
  return %odd, %all, %r
}"""


@pytest.mark.parametrize("n, m", [(0, 0), (1, 5), (5, 1), (6, 9), (40, 3), (-3, 4)])
def test_loops(agrees, n: int, m: int) -> None:
    agrees(LOOPS, n, m)


WHILE = """
kernel @k(%n: i64) -> i64, i64 {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %three = constant 3 : i64
  %top = constant 100 : i64
  %value, %steps = while carry (%a = %n, %s = %zero) : i64, i64 {
    %go = gt %a, %one
    yield %go
  } do (%b, %t) {
    %u = add %t, %one
    %long = gt %u, %top
    if %long {
      break %b, %u
    }
    %half = shr %b, %one
    %rest = bit_and %b, %one
    %odd = eq %rest, %one
    if %odd {
      %p = mul %b, %three
      %q = add %p, %one
      %seven = constant 7 : i64
      %found = eq %q, %seven
      if %found {
        return %q, %t
      }
      continue %q, %u
    }
    yield %half, %u
  }
  return %value, %steps
}"""


@pytest.mark.parametrize("n", [0, 1, 2, 6, 27, 97, -5])
def test_while(agrees, n: int) -> None:
    agrees(WHILE, n)


def test_loop_that_always_leaves(agrees) -> None:
    text = """
    kernel @k(%n: i64) -> i64 {
      %zero = constant 0 : i64
      %two = constant 2 : i64
      %r = for %i in %zero .. %n carry (%a = %two) : i64 {
        %c = gt %i, %two
        %x = if %c : i64 {
          break %i
        } else {
          return %a
        }
        %dead = add %x, %i
        yield %dead
      }
      return %r
    }"""
    agrees(text, 5)
    agrees(text, 0)


CALLS = """
function @power(%m: f64, %n: i64) -> f64, i64 {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %done = eq %n, %zero
  %r, %d = if %done : f64, i64 {
    %unit = constant 1 : f64
    yield %unit, %zero
  } else {
    %less = sub %n, %one
    %p, %k = call @power(%m, %less) : f64, i64
    %q = mul %p, %m
    %l = add %k, %one
    yield %q, %l
  }
  return %r, %d
}
function @even(%n: i32) -> u1 {
  %zero = constant 0 : i32
  %one = constant 1 : i32
  %done = eq %n, %zero
  if %done {
    %yes = constant True : u1
    return %yes
  }
  %less = sub %n, %one
  %r = call @odd(%less) : u1
  return %r
}
function @odd(%n: i32) -> u1 {
  %zero = constant 0 : i32
  %one = constant 1 : i32
  %done = eq %n, %zero
  if %done {
    %no = constant False : u1
    return %no
  }
  %less = sub %n, %one
  %r = call @even(%less) : u1
  return %r
}
function @bump(%x: array<f32, 2, C>, %y: array<f32, 2, A>, %i: i64, %h: f16) -> f16 {
  %v = load %x[%i, %i]
  %w = update add %v, %y[%i, %i] {atomic = False}
  %z = cast %w : f16
  %s = add %z, %h
  return %s
}
kernel @k(%x: array<f32, 2, C>, %y: array<f32, 2, A>, %m: f64, %n: i64) -> f64, i64, u1, f16 {
  %p, %d = call @power(%m, %n) : f64, i64
  %n32 = cast %n : i32
  %e = call @even(%n32) : u1
  %one = constant 1 : i64
  %h = constant 0.25 : f16
  %b = call @bump(%x, %y, %one, %h) : f16
  return %p, %d, %e, %b
}"""


def test_calls(agrees) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 4)).astype(np.float32)
    y = rng.normal(size=(8, 6)).astype(np.float32)[::2, ::-2]
    agrees(CALLS, x, y, 1.5, 9)
    agrees(CALLS, x, y, -0.5, 0)


def test_functions_are_objects_of_their_own(compiled) -> None:
    first, second = compiled(CALLS), compiled(CALLS.replace("%h = constant 0.25", "%h = constant 0.5"))
    mine, other = dict(first.artifact.objects), dict(second.artifact.objects)
    assert len(mine) == 4  # power; even with odd; bump; the kernel
    assert len(set(mine) & set(other)) == 3
    assert first.artifact.entry != second.artifact.entry
    assert all(mine[name] == other[name] for name in set(mine) & set(other))


def test_slots(agrees) -> None:
    agrees(
        """
    function @fill(%s: array<f64, 2, 3, 4, L>, %i: i64) {
      %v = cast %i : f64
      store %v, %s[%i, %i]
      return
    }
    kernel @k(%n: i64, %i: i64, %j: i64) -> f64, u1 {
      %zero = constant 0 : i64
      %three = constant 3 : i64
      %four = constant 4 : i64
      %f = constant 0 : f64
      %s = slot matrix<f64, 3x4>
      %flag = slot u1
      %no = constant False : u1
      store %no, %flag[]
      for %a, %b in %zero .. %three, %zero .. %four {
        %c = mul %a, %four
        %d = add %c, %b
        %e = cast %d : f64
        store %e, %s[%a, %b]
      }
      call @fill(%s, %i)
      %t = for %round in %zero .. %n carry (%acc = %f) : f64 {
        %own = slot f64
        store %acc, %own[]
        %v = load %s[%i, %j]
        %w = update add %v, %own[]
        %u = load %own[]
        yield %u
      }
      %yes = constant True : u1
      store %yes, %flag[]
      %r = load %flag[]
      return %t, %r
    }""",
        5,
        2,
        3,
    )


def test_updates(agrees) -> None:
    lines, kinds = [], ("add", "sub", "mul", "min", "max", "exchange")
    for type_ in ("i32", "u8", "i64", "u64", "f16", "bf16", "f32", "f64"):
        bits = ("bit_and", "bit_or", "bit_xor") if type_[0] in "iu" else ()
        body = "".join(
            f"  %a{k} = update {kind} %v, %x[%{k}]\n  %b{k} = update {kind} %v, %x[%{k}] {{atomic = False}}\n"
            for k, kind in enumerate((*kinds, *bits))
        )
        constants = "".join(f"  %{k} = constant {k} : i64\n" for k in range(9))
        wide = "  %w = cast %a2 : f64\n  return %w\n"
        text = f"kernel @k(%x: array<{type_}, 1, C>, %v: {type_}) -> f64 {{\n{constants}{body}{wide}}}"
        lines.append((type_, text))
    for type_, text in lines:
        dtype = (
            {"bf16": np.uint16}.get(type_)
            or np.dtype(
                type_.replace("u", "uint").replace("i", "int") if type_[0] == "i" else type_.replace("u", "uint")
            )
            if type_[0] in "iu"
            else np.dtype({"f16": "f2", "f32": "f4", "f64": "f8", "bf16": "u2"}[type_])
        )
        x = np.arange(40, 40 + 9).astype(dtype)
        if type_ == "bf16":
            x = np.array([0x3F80 + 16 * k for k in range(9)], np.uint16)
        agrees(text, x, 5, rtol=1e-2 if type_ in ("f16", "bf16") else 1e-6)


def test_compare_exchange(agrees) -> None:
    for type_, dtype in (("i32", np.int32), ("u64", np.uint64), ("i8", np.int8)):
        text = f"""
        kernel @k(%x: array<{type_}, 1, A>, %v: {type_}) -> {type_}, {type_}, {type_}, {type_} {{
          %0 = constant 0 : i64
          %a = update exchange %v, %x[%0]
          %b = update max %a, %x[%0]
          %c = compare_exchange %v, %a, %x[%0]
          %d = compare_exchange %v, %v, %x[%0]
          return %a, %b, %c, %d
        }}"""
        agrees(text, np.array([3], dtype), 8)


def test_prints(compiled) -> None:
    kernel = compiled("""
    kernel @k(%x: f32, %h: bf16, %n: i8, %u: u64, %t: u1) {
      print %x, %x, %t {format = ("x ", " ", " ", "\\n"), specs = ("", ".2f", "")}
      print %h, %n, %u {format = ("", " ", " ", "\\n")}
      print {format = ("done\\n",)}
    }""")
    kernel(0.1, 0.333, -3, 2**64 - 1, True)
    assert kernel.printed() == "x 0.1 0.10 True\n0.33203125 -3 18446744073709551615\ndone\n"


CHECKS = """
function @inner(%a: i32, %b: f32) -> f32 {
  %zero = constant 0 : i32
  %c = lt %zero, %a
  check %c, %a, %b {error = "assert", message = "{} is too small for {}"}
  return %b
}
kernel @k(%x: array<f32, 1, C>, %n: i32) -> f32 {
  %zero = constant 0 : i64
  %count = dim %x, 0
  parallel for %i in %zero .. %count {
    %v = load %x[%i]
    %m = sub %n, %n1
    %w = call @inner(%m, %v) : f32
    store %w, %x[%i]
  }
  %k = load %x[%zero]
  %r = call @inner(%n, %k) : f32
  return %r
}""".replace("    %m = sub %n, %n1\n", "    %i32 = cast %i : i32\n    %m = sub %n, %i32\n")


def test_checks(compiled) -> None:
    kernel = compiled(CHECKS)
    x = np.arange(4, dtype=np.float32)
    assert kernel(x, 10)[0] == 0 and kernel.code == 0 and kernel.failure() is None
    kernel(x, 3)
    assert kernel.code == 1
    assert kernel.failure() == "0 is too small for 3.0"
    kernel(x[:0], 0)
    assert kernel.code == 1
    assert kernel.failure() == "0 is too small for 0.0"


def test_matrices_of_the_signature(compiled) -> None:
    from quadrants.ir.text import parse_module
    from quadrants.ir.types import f32, f64, i32, matrix_type

    text = """quadrants-ir 1
stage lowered
kernel @k(%a: f32, %b: f32, %c: f32, %n: i32) -> i32, f64, f64 {
  %d = add %a, %b
  %e = cast %d : f64
  %f = cast %c : f64
  return %n, %e, %f
}"""
    module = parse_module(text)
    module.kernel.attributes["unlowered_parameters"] = (matrix_type(f32, (3,)), i32)
    module.kernel.attributes["unlowered_results"] = (i32, matrix_type(f64, (2,)))
    n, pair = type(compiled("kernel @k() {\n}"))(module)([1.0, 2.0, 4.0], 7)
    assert n == 7
    assert pair.tolist() == [3.0, 4.0]


def test_wide_signatures(agrees) -> None:
    count = 144
    parameters = ", ".join(f"%a{k}: f32" for k in range(count))
    types = ", ".join(["f32"] * count)
    body = "\n".join(f"  %r{k} = add %a{k}, %a{(k + 1) % count}" for k in range(count))
    results = ", ".join(f"%r{k}" for k in range(count))
    loads = "\n".join(f"  %i{k} = constant {k} : i64\n  %l{k} = load %x[%i{k}]" for k in range(count))
    stores = "\n".join(f"  store %o{k}, %x[%i{k}]" for k in range(count))
    arguments, outputs = (", ".join(f"%{letter}{k}" for k in range(count)) for letter in "lo")
    agrees(
        f"""
    function @f({parameters}) -> {types} {{
    {body}
      return {results}
    }}
    kernel @k(%x: array<f32, 1, C>) {{
    {loads}
      {outputs} = call @f({arguments}) : {types}
    {stores}
    }}""",
        np.arange(count, dtype=np.float32),
    )


def test_every_type_through_a_call(agrees) -> None:
    parameters = "%a: f16, %b: u1, %c: i8, %d: bf16, %e: i64, %f: f64, %g: u16"
    types = "f64, u1, f16, i8, bf16, u16, i64, f32"
    agrees(
        f"""
    function @f({parameters}) -> {types} {{
      %z = cast %a : f32
      return %f, %b, %a, %c, %d, %g, %e, %z
    }}
    kernel @k({parameters}) -> {types} {{
      %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7 = call @f(%a, %b, %c, %d, %e, %f, %g) : {types}
      return %r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7
    }}""",
        *(1.5, True, -3, 2.5, -(2**40), 0.1, 65535),
    )


SHORT = """quadrants-ir 1
kernel @k(%a: array<f32, 1, C>, %n: i64, %x: f32) -> f32 {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %r = for %i in %zero .. %n carry (%s = %x) : f32 {
    %v = load %a[%i]
    store %x, %a[%i]
    yield %v
  }
  for %i2, %j2 in %zero .. %one, %zero .. %n {
    store %x, %a[%j2]
  }
  return %r
}"""


def test_short_loops_get_no_vectors() -> None:
    for loops in (0, 2):
        module = parse_module(SHORT)
        module.stage = "lowered"
        for op in module.kernel.body.ops:
            if op.kind == "for" and loops:
                op.attributes = {**op.attributes, "short": True}
        text = target.emit(module).objects[0].text
        assert text.count(", !llvm.loop !") == loops
        assert text.count('"llvm.loop.vectorize.enable", i1 false') == min(loops, 1)
