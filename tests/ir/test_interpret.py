"""The interpreter on small programs: memory, control flow, calls, chunks, prints and failures."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError, QuadrantsRuntimeTypeError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Location, Module
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify


def module_of(text: str, stage: str = "kernel") -> Module:
    module = parse_module(f"quadrants-ir 1\nstage {stage}\n{text}")
    verify(module)
    return module


SAXPY = """
kernel @saxpy(%y: array<f32, 1, A>, %a: f32, %x: array<f32, 1, A>) {
  %0 = constant 0 : i64
  %n = dim %y, 0
  for %i in %0 .. %n {
    %1 = load %x[%i]
    %2 = mul %a, %1
    %3 = update add %2, %y[%i]
  }
}
"""


def test_saxpy_on_strided_arrays() -> None:
    x = np.arange(10, dtype=np.float32)[::-2]
    y = np.ones((5, 2), np.float32)[:, 1]
    assert interpret(module_of(SAXPY), [y, 2, x]) == ()
    assert y.tolist() == (1 + 2 * x).tolist()


def test_arguments_that_do_not_fit() -> None:
    x = np.zeros(3, np.float32)
    for arguments, message in (
        ([x, 1.0], "takes 3 arguments, not 2"),
        ([[1.0], 1.0, x], "argument 0 does not fit array<f32, 1, A>: a list is no NumPy array"),
        ([x, "one", x], "argument 1 does not fit f32"),
        ([x.astype(np.float64), 1.0, x], "its dtype is float64"),
        ([np.zeros((3, 3), np.float32), 1.0, x], r"its shape is \(3, 3\)"),
    ):
        with pytest.raises(QuadrantsRuntimeTypeError, match=message):
            interpret(module_of(SAXPY), arguments)


def test_dense_arrays_are_dense() -> None:
    module = module_of("kernel @k(%x: array<f32, 1, C>) {\n}\n")
    with pytest.raises(QuadrantsRuntimeTypeError, match="not contiguous"):
        interpret(module, [np.zeros(6, np.float32)[::2]])


def test_break_continue_and_carried_values() -> None:
    module = module_of("""
    kernel @k(%n: i64) -> i64, i64 {
      %zero = constant 0 : i64
      %two = constant 2 : i64
      %limit = constant 7 : i64
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
      return %odd, %all
    }""")
    assert interpret(module, [100]) == (1 + 3 + 5, 0 + 1 + 2 + 3 + 4 + 5 + 6)
    assert interpret(module, [0]) == (0, 0)


def test_while_and_early_return() -> None:
    module = module_of("""
    kernel @k(%n: i64) -> i64 {
      %zero = constant 0 : i64
      %one = constant 1 : i64
      %r = while carry (%a = %n) : i64 {
        %go = gt %a, %zero
        yield %go
      } do (%b) {
        %seven = constant 7 : i64
        %found = eq %b, %seven
        if %found {
          return %seven
        }
        %next = sub %b, %one
        yield %next
      }
      return %r
    }""")
    assert interpret(module, [20]) == (7,)
    assert interpret(module, [5]) == (0,)


def test_recursion_matrices_and_values_of_ifs() -> None:
    module = module_of("""
    function @power(%m: matrix<i64, 2x2>, %n: i64) -> matrix<i64, 2x2> {
      %zero = constant 0 : i64
      %one = constant 1 : i64
      %done = eq %n, %zero
      %r = if %done : matrix<i64, 2x2> {
        %unit = constant ((1, 0), (0, 1)) : matrix<i64, 2x2>
        yield %unit
      } else {
        %less = sub %n, %one
        %p = call @power(%m, %less) : matrix<i64, 2x2>
        %q = matmul %p, %m
        yield %q
      }
      return %r
    }
    kernel @k(%n: i64) -> matrix<i64, 2x2> {
      %m = constant ((1, 1), (1, 0)) : matrix<i64, 2x2>
      %r = call @power(%m, %n) : matrix<i64, 2x2>
      return %r
    }""")
    (result,) = interpret(module, [300])
    assert result.dtype == np.int64
    assert interpret(module, [10])[0].tolist() == [[89, 55], [55, 34]]


def test_rows_are_copies() -> None:
    module = module_of("""
    kernel @k(%x: array<f32, 2, 3, A>) {
      %zero = constant 0 : i64
      %one = constant 1 : i64
      %last = constant -1 : i64
      %row = load %x[%zero] : matrix<f32, 3>
      %other = load %x[%last] {wrap = True} : matrix<f32, 3>
      store %other, %x[%zero]
      store %row, %x[%one]
      %old = update add %row, %x[%zero]
      %e = constant 5 : f32
      %changed = insert %row, %e, %one
      store %changed, %x[%last] {wrap = True}
    }""")
    x = np.array([[1, 2, 3], [0, 0, 0], [4, 5, 6]], np.float32)
    interpret(module, [x])
    assert x.tolist() == [[5, 7, 9], [1, 2, 3], [1, 5, 3]]


def test_slots() -> None:
    module = module_of("""
    kernel @k(%i: i64) -> f32, matrix<f32, 2> {
      %s = slot matrix<f32, 2>
      %v = constant (1.0, 2.0) : matrix<f32, 2>
      store %v, %s[]
      %e = load %s[%i]
      store %e, %s[%i]
      %w = load %s[]
      return %e, %w
    }""")
    value, whole = interpret(module, [1])
    assert value == 2
    assert whole.tolist() == [1, 2]


def test_out_of_range_is_an_error() -> None:
    text = """
    kernel @k(%x: array<f32, 1, A>, %i: i64) -> f32 {
      %r = load %x[%i]  // user.py:3:8
      return %r
    }"""
    x = np.arange(3, dtype=np.float32)
    with pytest.raises(QuadrantsBoundsError, match=r"x\[-1\] is out of range: the shape of x is \(3,\)") as caught:
        interpret(module_of(text), [x, -1])
    assert caught.value.location == Location("user.py", 3, 8)
    wrapping = module_of(text.replace("load %x[%i]", "load %x[%i] {wrap = True}"))
    assert interpret(wrapping, [x, -1]) == (2,)
    with pytest.raises(QuadrantsBoundsError, match=r"x\[-4\]"):
        interpret(wrapping, [x, -4])


def test_reductions_follow_the_law_of_chunks() -> None:
    module = module_of(
        """
    kernel @k(%x: array<f32, 2, A>, %start: f32, %low: i32) -> f32, i32 {
      %zero = constant 0 : i64
      %n = dim %x, 0
      %m = dim %x, 1
      %s, %c = parallel for %i, %j in %zero .. %n, %zero .. %m carry (%a = %start, %b = %low) {chunk = 2, reductions = ("add", "max")} : f32, i32 {
        %v = load %x[%i, %j]
        %sum = add %a, %v
        %w = cast %v : i32
        %top = max %b, %w
        yield %sum, %top
      }
      return %s, %c
    }""",
        stage="tasks",
    )
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32) * 100
    total, top = interpret(module, [x, 1000.0, -(2**31)])
    expected = np.float32(1000)
    for begin in range(0, 5, 2):
        partial = np.float32(0)
        for value in x[begin : begin + 2].reshape(-1):
            partial += value
        expected += partial
    assert total == expected
    assert top == int(x.max())
    assert interpret(module, [x[:0], 3, 4]) == (3, 4)


def test_updates_give_the_old_value() -> None:
    module = module_of("""
    kernel @k(%x: array<i32, 1, A>, %v: i32) -> i32, i32, i32, i32 {
      %0 = constant 0 : i64
      %a = update exchange %v, %x[%0]
      %b = update max %a, %x[%0]
      %c = compare_exchange %v, %a, %x[%0]
      %d = compare_exchange %v, %v, %x[%0]
      return %a, %b, %c, %d
    }""")
    x = np.array([3], np.int32)
    assert interpret(module, [x, 8]) == (3, 8, 8, 3)
    assert x[0] == 3


def test_print_goes_to_the_output() -> None:
    module = module_of("""
    kernel @k(%x: f32, %m: matrix<f32, 2x2>, %t: u1) {
      print %x, %x, %m, %t {format = ("x ", " ", " m ", " ", "\\n"), specs = ("", ".2f", ".1f", "")}
    }""")
    texts: list[str] = []
    interpret(module, [0.1, [[1, 2], [3, 4]], True], output=texts.append)
    assert texts == ["x 0.1 0.10 m [[1.0, 2.0], [3.0, 4.0]] True\n"]


def test_failed_checks() -> None:
    text = """
    kernel @k(%a: i32, %b: i32) {
      %c = lt %a, %b
      check %c, %a, %b {error = "assert", message = "{} is not below {}!"}
    }"""
    interpret(module_of(text), [1, 2])
    with pytest.raises(QuadrantsAssertionError, match="3 is not below 2!"):
        interpret(module_of(text), [3, 2])
    with pytest.raises(QuadrantsBoundsError):
        interpret(module_of(text.replace('"assert"', '"index"')), [3, 2])


def test_debug_mode() -> None:
    module = module_of("""
    kernel @k(%a: i64, %b: i64) -> i64, i32 {
      %q = floordiv %a, %b  // user.py:2:4
      %n = cast %a {exact = True} : i32
      return %q, %n
    }""")
    assert interpret(module, [5, 0]) == (0, 5)
    with pytest.raises(QuadrantsAssertionError, match="integer division by zero") as caught:
        interpret(module, [5, 0], debug=True)
    assert caught.value.location == Location("user.py", 2, 4)
    with pytest.raises(QuadrantsAssertionError, match="is not exact"):
        interpret(module, [2**40, 1], debug=True)


def test_bf16() -> None:
    module = module_of("""
    kernel @k(%x: array<bf16, 1, A>) -> bf16, u16 {
      %0 = constant 0 : i64
      %v = load %x[%0]
      %w = add %v, %v
      %third = constant 0.333 : bf16
      %r = add %w, %third
      store %r, %x[%0]
      %bits = bitcast %w : u16
      %back = bitcast %bits : bf16
      return %back, %bits
    }""")
    x = np.array([0x3F80], np.uint16)
    assert interpret(module, [x]) == (2.0, 0x4000)
    assert x[0] == 0x4015
