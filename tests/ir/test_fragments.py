"""Small matrices that 32 threads hold together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.fragments import COUNTS, LEFT, RIGHT, SUMS, multiplied
from quadrants.ir.interpret import interpret
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import VerificationError, verify


def held(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[list[Any]]:
    """What each thread holds of a 16 x depth, a depth x 8 and a 16 x 8 matrix."""
    depth = a.shape[1]
    found = []
    for thread in range(32):
        g, q = divmod(thread, 4)
        left = [a[x * g + y, z * q + w] for x, y, z, w in LEFT[depth]]
        right = [b[x * q + y, g] for x, y in RIGHT[depth]]
        found.append([*left, *right, *[c[g + x, 2 * q + y] for x, y in SUMS]])
    return found


@pytest.mark.parametrize("depth", [8, 16])
def test_every_element_is_held_once(depth: int) -> None:
    numbers = [np.arange(size).reshape(-1, width) for size, width in ((16 * depth, depth), (8 * depth, 8), (128, 8))]
    of_threads = held(*numbers)
    parts = [0, COUNTS[depth][0], sum(COUNTS[depth]), sum(COUNTS[depth]) + len(SUMS)]
    for part, matrix in enumerate(numbers):
        all_of_them = [n for values in of_threads for n in values[parts[part] : parts[part + 1]]]
        assert sorted(all_of_them) == list(range(matrix.size))


@pytest.mark.parametrize("depth", [8, 16])
def test_products_are_those_of_the_matrices(depth: int) -> None:
    generator = np.random.default_rng(depth)
    a, b, c = (generator.integers(-9, 9, s).astype(np.float32) for s in ((16, depth), (depth, 8), (16, 8)))
    expected = a @ b + c
    for thread, sums in enumerate(multiplied(held(a, b, c), depth)):
        g, q = divmod(thread, 4)
        assert sums.tolist() == [expected[g + x, 2 * q + y] for x, y in SUMS]


def test_factors_of_32_bits_count_with_ten_bits_of_fraction() -> None:
    a, b, c = np.zeros((16, 8), np.float32), np.zeros((8, 8), np.float32), np.zeros((16, 8), np.float32)
    a[0, 0], b[0, 0] = 1 + 2**-10 + 2**-11, 1.0
    assert multiplied(held(a, b, c), 8)[0][0] == np.float32(1 + 2**-10)


PROGRAM = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f32, 2, C>, %y: array<f32, 2, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %all = constant 32 : i64
  %nothing = constant 0.0 : f32
  parallel for %block in %zero .. %one {
    for %thread in %zero .. %all {threads = 32} {
      %v = load %a[%zero, %thread] : f32
      %w = load %a[%one, %thread] : f32
      %r, %s, %t, %u = team_multiply %v, %v, %v, %v, %w, %w, %nothing, %nothing, %nothing, %w {width = 32} : f32, f32, f32, f32
      store %r, %y[%zero, %thread]
      store %u, %y[%one, %thread]
    }
  }
}
"""


def test_a_program_multiplies() -> None:
    module = parse_module(PROGRAM)
    verify(module)
    assert print_module(module) == PROGRAM
    a = np.random.default_rng(1).integers(-9, 9, (2, 32)).astype(np.float32)
    y = np.zeros_like(a)
    interpret(module, [a, y])
    expected = multiplied([[v, v, v, v, w, w, 0, 0, 0, w] for v, w in a.T], 8)
    assert (y[0] == expected[:, 0]).all() and (y[1] == expected[:, 3]).all()


def test_all_threads_of_a_team_have_to_be_there() -> None:
    less = PROGRAM.replace("%all = constant 32", "%all = constant 31")
    with pytest.raises(QuadrantsAssertionError, match="31 threads hold small matrices"):
        interpret(parse_module(less), [np.zeros((2, 32), np.float32)] * 2)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{width = 32} : f32", "{width = 16} : f32", "held by 32 threads, not 16"),
        ("%nothing, %w {", "%nothing {", "6 numbers of f32 and 4 of f32 are expected"),
        ("multiply %v, %v", "multiply %thread, %v", "products of i64 in a team"),
    ],
)
def test_wrong_operands_are_told(old: str, new: str, reason: str) -> None:
    with pytest.raises(VerificationError, match=reason):
        verify(parse_module(PROGRAM.replace(old, new)))
