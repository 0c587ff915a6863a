"""Sums that 128 threads hold, and factors in memory that their block shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.interpret import interpret
from quadrants.ir.shared_fragments import ROWS, SUMS, TEAM, Factor, multiplied_in_teams, products_of
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import bf16, f16, f32, f64, i64, matrix_type, shared_type
from quadrants.ir.verify import VerificationError, verify

LINES = {f16: 8, bf16: 8, f32: 4}


def laid(matrix: np.ndarray, line: int, along: str) -> np.ndarray:
    """A matrix of width and depth as memory holds it, element by element as the contract says."""
    width, depth = matrix.shape
    found = np.full(width * depth, np.nan, matrix.dtype)
    for (w, d), number in np.ndenumerate(matrix):
        if along == "depth":
            place = ((d // line) * (width // 8) + w // 8) * 8 * line + w % 8 * line + d % line
        else:
            place = ((d // 8) * (width // line) + w // line) * 8 * line + d % 8 * line + w % line
        found[place] = number
    return found


def place_of(thread: int, number: int) -> tuple[int, int]:
    """(row, column) of a sum, as the contract says."""
    a, b = SUMS[number % 4]
    return 16 * (thread // 32) + thread % 32 // 4 + a, number // 4 * 8 + 2 * (thread % 4) + b


@pytest.mark.parametrize(
    ("scalar", "left", "right"),
    [(f16, "depth", "depth"), (f16, "width", "depth"), (bf16, "depth", "width"), (f32, "depth", "depth")],
)
def test_products_are_those_of_the_matrices(scalar: Any, left: str, right: str) -> None:
    generator, line, columns = np.random.default_rng(4), LINES[scalar], 24
    depth = 4 * line if scalar is not f32 else 2 * line
    a, b = (generator.integers(-9, 9, (n, depth)).astype(np.float32) for n in (2 * ROWS, columns))
    c = generator.integers(-9, 9, (ROWS, columns)).astype(np.float32)
    held = [[c[place_of(thread, number)] for number in range(columns // 2)] for thread in range(TEAM)]
    memory = laid(a, line, left), laid(b, line, right)
    factors = Factor(line, left == "width", 2 * ROWS, depth), Factor(line, right == "width", columns, depth)
    start = ROWS * (8 if left == "width" else line)
    found = multiplied_in_teams(memory, (start, 0), factors, held)
    expected = a[ROWS:] @ b.T + c
    for thread, sums in enumerate(found):
        assert sums.tolist() == [expected[place_of(thread, number)] for number in range(columns // 2)]


def test_factors_of_32_bits_count_with_ten_bits_of_fraction() -> None:
    a, b = np.zeros((ROWS, 8), np.float32), np.zeros((8, 8), np.float32)
    a[0, 0], b[0, 0] = 1 + 2**-10 + 2**-11, 1.0
    factors = Factor(4, False, ROWS, 8), Factor(4, False, 8, 8)
    memory = laid(a, 4, "depth"), laid(b, 4, "depth")
    found = multiplied_in_teams(memory, (0, 0), factors, [[0.0] * 4] * TEAM)
    assert found[0][0] == np.float32(1 + 2**-10)


PROGRAM = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f32, 1, C>, %y: array<f32, 2, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %three = constant 3 : i64
  %four = constant 4 : i64
  %half = constant 64 : i64
  %all = constant 128 : i64
  parallel for %block in %zero .. %one {
    %left = shared {type = matrix<f32, 512>} : array<f32, 1, 512, B>
    %right = shared {type = matrix<f32, 64>} : array<f32, 1, 64, B>
    for %thread in %zero .. %all {threads = 128} {
      %v = load %a[%thread] : f32
      FILL
      fence {scope = "products"}
      barrier
      %s0, %s1, %s2, %s3 = team_multiply_shared %left, %zero, %right, %zero, %v, %v, %v, %v {columns = 8, depth = 8, left = "depth", right = "depth", rows = 64, width = 128} : f32, f32, f32, f32
      store %s0, %y[%thread, %zero]
      store %s3, %y[%thread, %three]
    }
  }
}
"""


FILL = """for %k in %zero .. %four {
        %place = mul %k, %all : i64
        %mine = add %place, %thread : i64
        store %v, %left[%mine]
      }
      %is_first = lt %thread, %half : u1
      if %is_first {
        store %v, %right[%thread]
      }"""
"""Each thread writes its elements of both factors."""


def _program() -> str:
    return PROGRAM.replace("FILL", FILL)


def test_a_program_multiplies() -> None:
    module = parse_module(_program())
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    a, y = np.full(128, 3, np.float32), np.zeros((128, 4), np.float32)
    interpret(module, [a, y])
    assert (y[:, [0, 3]] == 3 + 8 * 9).all()


def test_pending_products_are_there_when_the_team_asks_for_them() -> None:
    (line,) = [line for line in _program().splitlines() if "team_multiply_shared" in line]
    first = line.replace("width = 128}", "width = 128, pending = 1}")
    second = first.replace("%s0, %s1, %s2, %s3 =", "%t0, %t1, %t2, %t3 =").replace(
        "%v, %v, %v, %v", "%s0, %s1, %s2, %s3"
    )
    wait = "      %u0, %u1, %u2, %u3 = team_multiplied %t0, %t1, %t2, %t3 {width = 128} : f32, f32, f32, f32"
    text = _program().replace(line, f"{first}\n{second}\n{wait}").replace("store %s", "store %u")
    module = parse_module(text)
    verify(module)
    a, y = np.full(128, 3, np.float32), np.zeros((128, 4), np.float32)
    interpret(module, [a, y])
    assert (y[:, [0, 3]] == 3 + 2 * 8 * 9).all()
    for old, new in (("%t3 {width = 128}", "%t3 {width = 32}"), ("pending = 1", "pending = 2")):
        assert old in text
        with pytest.raises(VerificationError, match="held by 128|128 threads hold|that are pending"):
            verify(parse_module(text.replace(old, new)))


def test_all_threads_of_a_team_have_to_be_there_at_one_place() -> None:
    less = _program().replace("%all = constant 128", "%all = constant 100")
    with pytest.raises(QuadrantsAssertionError, match="100 threads hold small matrices, not 128"):
        interpret(parse_module(less), [np.zeros(128, np.float32), np.zeros((128, 4), np.float32)])
    parted = _program().replace("%right, %zero, %v", "%right, %thread, %v")
    with pytest.raises(QuadrantsAssertionError, match="at different places"):
        interpret(parse_module(parted), [np.zeros(128, np.float32), np.zeros((128, 4), np.float32)])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("width = 128}", "width = 32}", "held by 128 threads, not 32"),
        ("%v, %v, %v, %v {", "%v, %v, %v {", "and 4 numbers of f32 are expected"),
        ('right = "depth"', 'right = "width"', "factors of f32 with lines along the width"),
        ('right = "depth"', 'right = "rows"', "along the depth or the width, not rows"),
        ("rows = 64", "rows = 32", "multiples of 64 rows"),
        ("rows = 64", "rows = 128", "128 by 8 elements in"),
        ("columns = 8", "columns = 4", "not made of core matrices"),
        ("depth = 8", "depth = 4", "not made of core matrices, 8 deep"),
        ("%right, %zero, %v", "%left, %zero, %y", "with starts of i64"),
        ("team_multiply_shared %left", "team_multiply_shared %y", "memory that a block shares"),
    ],
)
def test_wrong_operands_are_told(old: str, new: str, reason: str) -> None:
    text = _program()
    assert old in text
    with pytest.raises(VerificationError, match=reason):
        verify(parse_module(text.replace(old, new)))


def test_factors_are_floats_that_tensor_cores_have() -> None:
    memory = shared_type(matrix_type(f64, (4096,)))
    attributes = {"width": 128, "left": "depth", "right": "depth", "rows": 64, "columns": 8, "depth": 8}
    with pytest.raises(TypeError, match="no product has factors of f64"):
        products_of((memory, i64, memory, i64), attributes)
