"""Taking matrices apart changes nothing that a program computes, whether they end in registers or in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import MatrixType
from quadrants.ir.verify import verify
from quadrants.passes.lower_matrices import run

SIZES = (0, 3, 64)


def parsed(text: str) -> Module:
    module = parse_module(f"quadrants-ir 1\nstage tasks\n{text}")
    verify(module)
    return module


def lowered(text: str, small: int = 64) -> Module:
    module = parsed(text)
    run(module, None, small)
    verify(module)
    again = print_module(module)
    assert print_module(parse_module(again)) == again
    return module


def copies(arguments: list[Any]) -> list[Any]:
    return [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]


def assert_same(text: str, *arguments: Any) -> tuple[Any, ...]:
    """Runs a program before and after, at every limit on what is small; its results."""
    expected_arguments, expected_output = copies(list(arguments)), []
    expected = interpret(parsed(text), expected_arguments, output=expected_output.append)
    for small in SIZES:
        found_arguments, output = copies(list(arguments)), []
        found = interpret(lowered(text, small), found_arguments, output=output.append)
        assert output == expected_output
        for one, other in zip((*found, *found_arguments), (*expected, *expected_arguments), strict=True):
            np.testing.assert_array_equal(one, other)
    return expected


M = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
V = np.array([3, -1, 2], np.float32)
S = np.array([[1, 2], [3, 5]], np.int32)


def test_elementwise_and_conversions() -> None:
    assert_same(
        """kernel @k(%m: matrix<f32, 2x3>, %x: f32) -> matrix<i32, 2x3>, matrix<u1, 2x3>, matrix<f32, 2x3> {
          %a = splat %x : matrix<f32, 2x3>
          %b = mul %m, %a {reassociate = True}
          %c = constant ((0.5, 1.5, 0.5), (-1.0, 0.5, nan)) : matrix<f32, 2x3>
          %d = fma %b, %c, %m
          %e = cast %d : matrix<i32, 2x3>
          %f = lt %d, %m
          %g = select %f, %d, %m
          %h = is_nan %x
          %i = select %h, %m, %g
          return %e, %f, %i
        }""",
        M,
        1.25,
    )


def test_construct_extract_insert_with_constant_indices() -> None:
    assert_same(
        """kernel @k(%m: matrix<f32, 2x3>, %x: f32) -> matrix<f32, 2x2>, f32 {
          %0 = constant 0 : i64
          %1 = constant 1 : i64
          %2 = constant 2 : i64
          %a = extract %m, %1, %2
          %b = insert %m, %x, %0, %1
          %c = extract %b, %0, %1
          %d = extract %b, %0, %0
          %e = construct %a, %c, %d, %x : matrix<f32, 2x2>
          %f = extract %e, %1, %1
          return %e, %f
        }""",
        M,
        9,
    )


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 2), (0, 2), (1, 0)])
def test_run_time_indices(i: int, j: int) -> None:
    text = """kernel @k(%m: matrix<f32, 2x3>, %s: matrix<i32, 2x2>, %i: i64, %j: i64) -> f32, f32, i32,
              matrix<f32, 2x3>, matrix<i32, 2x2>, f32 {
          %1 = constant 1 : i64
          %a = extract %m, %i, %j
          %b = extract %m, %i, %1
          %t = transpose %s
          %c = extract %t, %i, %i
          %d = insert %m, %b, %i, %j
          %e = insert %s, %c, %1, %i
          %zero = constant 0 : i64
          %two = constant 2 : i64
          %g = for %k in %zero .. %two carry (%w = %d) : matrix<f32, 2x3> {
            %x = extract %w, %k, %j
            %y = add %x, %x
            %z = insert %w, %y, %k, %j
            yield %z
          }
          %h = extract %g, %i, %j
          return %a, %b, %c, %g, %e, %h
        }"""
    assert_same(text.replace(",\n ", ", "), M, S, i, j)


def test_products_and_reductions() -> None:
    results = assert_same(
        """kernel @k(%m: matrix<f32, 2x3>, %v: matrix<f32, 3>, %s: matrix<i32, 2x2>)
            -> matrix<f32, 2>, matrix<f32, 3x3>, matrix<i32, 2>, f32, f32, f32, f32, i32 {
          %mv = matmul %m, %v
          %t = transpose %m
          %tm = matmul %t, %m
          %i = cast %mv : matrix<i32, 2>
          %is = matmul %i, %s
          %a = reduce_add %tm
          %b = reduce_mul %m
          %c = reduce_min %v
          %d = reduce_max %tm
          %e = reduce_or %s
          return %mv, %tm, %is, %a, %b, %c, %d, %e
        }""".replace("\n            ->", " ->"),
        M,
        V,
        S,
    )
    np.testing.assert_array_equal(results[0], M @ V)
    np.testing.assert_array_equal(results[1], M.T @ M)


def test_sums_keep_the_sign_of_zero_and_minima_their_nan() -> None:
    text = """kernel @k(%v: matrix<f32, 2>) -> f32, f32 {
      %s = reduce_add %v
      %m = reduce_min %v
      return %s, %m
    }"""
    for small in SIZES:
        total, least = interpret(lowered(text, small), [[-0.0, -0.0]])
        assert np.signbit(total)
        assert np.isnan(interpret(lowered(text, small), [[np.nan, np.nan]])[1])


MEMORY = """kernel @k(%x: array<f32, 2, 3, A>, %y: array<i32, 3, 2, 2, C>, %n: i64) -> matrix<f32, 3>, matrix<i32, 2> {
  %0 = constant 0 : i64
  %row = load %x[%n]
  %first = load %x[%0]
  %sum = add %row, %first
  store %sum, %x[%0]
  %old = update add %row, %x[%n] {atomic = False}
  %block = load %y[%n]
  %t = transpose %block
  store %t, %y[%0]
  %line = load %y[%n, %0]
  %oldest = update max %line, %y[%0, %0]
  %slot = slot matrix<i32, 2>
  store %oldest, %slot[]
  %one = constant 1 : i32
  store %one, %slot[%n]
  %whole = load %slot[]
  return %old, %whole
}"""


def test_rows_of_arrays_and_slots() -> None:
    x = np.arange(12, dtype=np.float32)[::-1].reshape(4, 3)
    y = np.arange(16, dtype=np.int32).reshape(4, 2, 2)
    assert_same(MEMORY, x, y, 1)


CONTROL = """function @step(%m: matrix<i32, 2x2>, %k: i64, %v: matrix<i32, 2>) -> matrix<i32, 2x2>, i64 {
  %zero = constant 0 : i64
  %small = lt %k, %zero
  if %small {
    return %m, %zero
  }
  %w = matmul %m, %v
  %n = insert %m, %e, %zero, %zero
  return %n, %k
}
kernel @k(%m: matrix<i32, 2x2>, %n: i64, %v: matrix<i32, 2>) -> matrix<i32, 2x2>, matrix<i32, 2x2>, i64, i32 {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %seven = constant 7 : i64
  %count, %a, %b = for %i in %0 .. %n carry (%c = %0, %p = %m, %q = %m) : i64, matrix<i32, 2x2>, matrix<i32, 2x2> {
    %stop = eq %i, %seven
    if %stop {
      break %c, %p, %q
    }
    %r = matmul %p, %q
    %bits = bit_and %i, %1
    %odd = eq %bits, %1
    if %odd {
      continue %c, %q, %p
    }
    %s, %u = if %odd : matrix<i32, 2x2>, i64 {
      yield %p, %i
    } else {
      %t = add %r, %p
      yield %t, %c
    }
    %next, %k = call @step(%s, %u, %v) : matrix<i32, 2x2>, i64
    %more = add %k, %1
    yield %more, %q, %next
  }
  %z, %left = while carry (%w = %a, %h = %n) : matrix<i32, 2x2>, i64 {
    %go = gt %h, %0
    %e = extract %w, %0, %0
    yield %go
  } do (%w2, %h2) {
    %w3 = add %w2, %b
    %less = sub %h2, %1
    %enough = eq %less, %1
    if %enough {
      break %w2, %less
    }
    yield %w3, %less
  }
  %total = reduce_add %z
  return %z, %b, %count, %total
}""".replace("%n = insert %m, %e", "%e = extract %w, %zero\n  %n = insert %m, %e")


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20])
def test_matrices_through_loops_branches_and_calls(n: int) -> None:
    assert_same(CONTROL, S, n, np.array([2, -1], np.int32))


def test_swapped_carried_values() -> None:
    text = """kernel @k(%a: matrix<i32, 2>, %b: matrix<i32, 2>, %n: i64) -> matrix<i32, 2>, matrix<i32, 2> {
      %0 = constant 0 : i64
      %x, %y = for %i in %0 .. %n carry (%p = %a, %q = %b) {
        yield %q, %p
      }
      return %x, %y
    }"""
    assert_same(text, [1, 2], [3, 4], 3)


def test_parallel_reductions() -> None:
    text = """kernel @k(%x: array<f32, 2, 3, A>, %n: i64, %start: matrix<f32, 3>) -> i64, matrix<f32, 3> {
      %0 = constant 0 : i64
      %c, %s = parallel for %i in %0 .. %n carry (%d = %0, %a = %start) {chunk = 4, reductions = ("max", "add")} {
        %v = load %x[%i]
        %b = add %a, %v
        %m = max %d, %i
        yield %m, %b
      }
      return %c, %s
    }"""
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    assert_same(text, x, 10, [100, 200, 300])
    assert lowered(text).kernel.body.ops[-2].attribute("reductions") == ("max", "add", "add", "add")


def test_prints_and_checks() -> None:
    text = """kernel @k(%x: f32, %m: matrix<f32, 2x2>, %v: matrix<i32, 2>) {
      print %x, %m, %v {format = ("x ", " m ", " v ", "!\\n"), specs = (".1f", ".2f", "")}
      print %v {format = ("", "")}
      %t = constant True : u1
      check %t, %v {error = "assert", message = "v is {}"}
    }"""
    assert_same(text, 1, [[1, 2], [3, 4]], [5, 6])
    failing = text.replace("constant True", "constant False")
    for small in SIZES:
        with pytest.raises(QuadrantsAssertionError, match=r"v is \[5, 6\]"):
            interpret(lowered(failing, small), [1, [[1, 2], [3, 4]], [5, 6]], output=lambda text: None)


def test_parameters_and_signature() -> None:
    module = lowered("""kernel @k(%m: matrix<f32, 2>, %x: array<f32, 1, C>) -> matrix<f32, 2> {parameter_names = ("m", "x")} {
      return %m
    }""")
    kernel = module.kernel
    assert kernel.attributes["parameter_names"] == ("m.0", "m.1", "x")
    assert [parameter.name for parameter in kernel.parameters] == ["m.0", "m.1", "x"]
    assert len(kernel.result_types) == 2
    assert all(type(type_) is MatrixType for type_ in (kernel.attributes["unlowered_parameters"][0],))


BIG = """kernel @k(%m: matrix<f32, 12x12>, %v: matrix<f32, 12>, %i: i64) -> matrix<f32, 12>, f32, f32 {
  %0 = constant 0 : i64
  %p = matmul %m, %m
  %q = transpose %p
  %r = sub %q, %m
  %x = constant 3.0 : f32
  %s = splat %x : matrix<f32, 12x12>
  %t = mul %r, %s
  %u = insert %t, %x, %i, %0
  %w = matmul %u, %v
  %e = extract %u, %i, %i
  %f = reduce_max %u
  return %w, %e, %f
}"""


def test_large_matrices_stay_in_memory() -> None:
    m = np.random.default_rng(1).integers(-3, 3, (12, 12)).astype(np.float32)
    assert_same(BIG, m, np.arange(12), 4)
    ops = sum(
        1
        for _ in walk(
            lowered(
                BIG.replace("%m: matrix<f32, 12x12>", "%a: array<f32, 2, 12, 12, C>").replace(
                    "%0 = constant 0 : i64", "%0 = constant 0 : i64\n  %m = load %a[]"
                )
            ).kernel.body
        )
    )
    assert ops < 200


def test_elements_are_replaced_in_place_where_the_old_matrix_dies() -> None:
    lines = ["%0 = constant 0 : i64", "%one = constant 1 : i64", "%m0 = load %a[]"]
    for step in range(1, 40):
        lines += [
            f"%e{step} = extract %m{step - 1}, %0, %one",
            f"%f{step} = add %e{step}, %e{step}",
            f"%m{step} = insert %m{step - 1}, %f{step}, %0, %one",
        ]
    body = "\n".join([*lines, "store %m39, %a[]"])
    text = f"kernel @k(%a: array<i32, 2, 12, 12, C>) {{\n{body}\n}}"
    assert_same(text, np.ones((12, 12), np.int32))
    assert sum(op.kind == "for" for op in walk(lowered(text).kernel.body)) == 2


def test_functions_without_matrices_are_left_alone() -> None:
    text = "kernel @k(%x: f32) -> f32 {\n  %y = neg %x\n  return %y\n}"
    module = parsed(text)
    before = print_module(module).replace("stage tasks", "stage lowered")
    run(module)
    assert print_module(module) == before
