"""Sums that 128 threads hold, and factors in memory that their block shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.interpret import interpret
from quadrants.ir.shared_fragments import ROWS, SUMS, TEAM, factor_of, multiplied_in_teams
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import bf16, f16, f32, f64, matrix_type, shared_type
from quadrants.ir.verify import VerificationError, verify

LINES = {f16: 8, bf16: 8, f32: 4}


def laid(matrix: np.ndarray, line: int, along: str) -> np.ndarray:
    """A matrix of width and depth in core matrices, element by element as the contract says."""
    width, depth = matrix.shape
    deep, wide = (line, 8) if along == "depth" else (8, line)
    found = np.full((depth // deep, width // wide, 8, line), np.nan, matrix.dtype)
    for (w, d), number in np.ndenumerate(matrix):
        if along == "depth":
            found[d // line, w // 8, w % 8, d % line] = number
        else:
            found[d // 8, w // line, d % 8, w % line] = number
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
    cores = laid(a, line, left), laid(b, line, right)
    types = [shared_type(matrix_type(scalar, (1, *part.shape))) for part in cores]
    factors = factor_of(types[0], left), factor_of(types[1], right)
    assert (factors[0].width, factors[1].width, factors[0].depth) == (2 * ROWS, columns, depth)
    unit = ROWS // (line if left == "width" else 8)
    found = multiplied_in_teams(cores[0][None], cores[1][None], (0, unit), factors, held)
    expected = a[ROWS:] @ b.T + c
    for thread, sums in enumerate(found):
        assert sums.tolist() == [expected[place_of(thread, number)] for number in range(columns // 2)]


def test_factors_of_32_bits_count_with_ten_bits_of_fraction() -> None:
    a, b = np.zeros((ROWS, 8), np.float32), np.zeros((8, 8), np.float32)
    a[0, 0], b[0, 0] = 1 + 2**-10 + 2**-11, 1.0
    cores = laid(a, 4, "depth"), laid(b, 4, "depth")
    factors = tuple(factor_of(shared_type(matrix_type(f32, (1, *part.shape))), "depth") for part in cores)
    found = multiplied_in_teams(cores[0][None], cores[1][None], (0, 0), (factors[0], factors[1]), [[0.0] * 4] * TEAM)
    assert found[0][0] == np.float32(1 + 2**-10)


PROGRAM = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f32, 1, C>, %y: array<f32, 2, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %three = constant 3 : i64
  %all = constant 128 : i64
  parallel for %block in %zero .. %one {
    %left = shared {type = matrix<f32, 1x2x8x8x4>} : array<f32, 5, 1, 2, 8, 8, 4, B>
    %right = shared {type = matrix<f32, 1x2x1x8x4>} : array<f32, 5, 1, 2, 1, 8, 4, B>
    for %thread in %zero .. %all {threads = 128} {
      %v = load %a[%thread] : f32
      %line = bit_and %thread, %three : i64
      FILL
      fence {scope = "products"}
      barrier
      %s0, %s1, %s2, %s3 = team_multiply_shared %left, %right, %zero, %zero, %v, %v, %v, %v {left = "depth", right = "depth", width = 128} : f32, f32, f32, f32
      store %s0, %y[%thread, %zero]
      store %s3, %y[%thread, %three]
    }
  }
}
"""


def _program() -> str:
    fill = []
    for name, cores in (("left", 8), ("right", 1)):
        for deep in ("zero", "one"):
            for core in range(cores):
                fill.append(f"%k{name}{deep}{core} = constant {core} : i64")
                for line in range(8):
                    fill.append(f"%l{name}{deep}{core}_{line} = constant {line} : i64")
                    fill.append(
                        f"store %v, %{name}[%zero, %{deep}, %k{name}{deep}{core}, %l{name}{deep}{core}_{line}, %line]"
                    )
    return PROGRAM.replace("FILL", "\n      ".join(fill))


def test_a_program_multiplies() -> None:
    module = parse_module(_program())
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    a, y = np.full(128, 3, np.float32), np.zeros((128, 4), np.float32)
    interpret(module, [a, y])
    assert (y[:, [0, 3]] == 3 + 8 * 9).all()


def test_all_threads_of_a_team_have_to_be_there_at_one_place() -> None:
    less = _program().replace("%all = constant 128", "%all = constant 100")
    with pytest.raises(QuadrantsAssertionError, match="100 threads hold small matrices, not 128"):
        interpret(parse_module(less), [np.zeros(128, np.float32), np.zeros((128, 4), np.float32)])
    parted = _program().replace("%right, %zero, %zero, %v", "%right, %zero, %line, %v")
    with pytest.raises(QuadrantsAssertionError, match="at different places"):
        interpret(parse_module(parted), [np.zeros(128, np.float32), np.zeros((128, 4), np.float32)])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("width = 128}", "width = 32}", "held by 128 threads, not 32"),
        ("%v, %v, %v, %v {", "%v, %v, %v {", "and 4 numbers of f32 are expected"),
        ('right = "depth"', 'right = "width"', "lines of f32 are along the depth"),
        ('right = "depth"', 'right = "rows"', "along the depth or the width, not rows"),
        (
            "%left = shared {type = matrix<f32, 1x2x8x8x4>} : array<f32, 5, 1, 2, 8, 8, 4, B>",
            "%left = shared {type = matrix<f32, 1x2x4x8x4>} : array<f32, 5, 1, 2, 4, 8, 4, B>",
            "multiples of 64 rows",
        ),
        (
            "%left = shared {type = matrix<f32, 1x2x8x8x4>} : array<f32, 5, 1, 2, 8, 8, 4, B>",
            "%left = shared {type = matrix<f32, 1x4x8x8x4>} : array<f32, 5, 1, 4, 8, 8, 4, B>",
            "of one type and depth",
        ),
        ("2x1x8x4>} : array<f32, 5, 1, 2, 1, 8, 4", "2x1x8x8>} : array<f32, 5, 1, 2, 1, 8, 8", "8 lines of 16 bytes"),
        ("team_multiply_shared %left", "team_multiply_shared %y", "memory that a block shares"),
    ],
)
def test_wrong_operands_are_told(old: str, new: str, reason: str) -> None:
    text = _program()
    assert old in text
    with pytest.raises(VerificationError, match=reason):
        verify(parse_module(text.replace(old, new)))


def test_factors_are_floats_that_tensor_cores_have() -> None:
    with pytest.raises(TypeError, match="f16, bf16 or f32"):
        factor_of(shared_type(matrix_type(f64, (1, 2, 8, 8, 2))), "depth")
    with pytest.raises(TypeError, match="a multiple of 16"):
        factor_of(shared_type(matrix_type(f16, (1, 1, 8, 8, 8))), "depth")
