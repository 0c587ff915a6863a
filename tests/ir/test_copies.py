"""Copies into a block's memory, and matrices loaded from it, as the interpreter runs them, and what the verifier refuses."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.interpret import interpret
from quadrants.ir.text import IRSyntaxError, parse_module, print_module
from quadrants.ir.verify import VerificationError, verify

COPIED = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f32, 2, A>, %y: array<f32, 1, C>, %there: array<u1, 1, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %four = constant 4 : i64
  %three = constant 3 : i64
  %aligned = lines_aligned %a {bytes = 16} : u1
  store %aligned, %there[%zero]
  parallel for %block in %zero .. %one {
    %lines = shared {type = matrix<f32, 16>} : array<f32, 1, 16, B>
    for %thread in %zero .. %four {threads = 4} {
      %place = mul %thread, %four : i64
      copy_begin %lines, %place, %a, %thread, %four, %three {elements = 4}
      copy_commit
      copy_wait {groups = 0}
      barrier
      %other = sub %three, %thread : i64
      %first = mul %other, %four : i64
      %last = add %first, %three : i64
      %v = load %lines[%first] : f32
      %w = load %lines[%last] : f32
      %sum = add %v, %w : f32
      store %sum, %y[%thread]
    }
  }
}
"""
LOADED = """quadrants-ir 1
stage lowered
kernel @f(%a: array<NARROW, 2, C>, %y: array<NARROW, 2, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %seven = constant 7 : i64
  %all = constant 32 : i64
  parallel for %block in %zero .. %one {
    %lines = shared {type = matrix<NARROW, SIZE>} : array<NARROW, 1, SIZE, B>
    for %thread in %zero .. %all {threads = 32} {
      %n = constant LENGTH : i64
      %start = mul %thread, %n : i64
      for %k in %zero .. %n {
        %v = load %a[%thread, %k] : NARROW
        %place = add %start, %k : i64
        store %v, %lines[%place]
      }
      barrier
      RESULTS = team_load %lines, %start {count = 4, WORD, width = 32} : TYPES
      STORES
    }
  }
}
"""


def test_copies_bring_elements_and_zeros() -> None:
    module = parse_module(COPIED)
    verify(module)
    assert print_module(module) == COPIED
    a = np.arange(36, dtype=np.float32).reshape(4, 9)
    y, there = np.zeros(4, np.float32), np.zeros(1, np.bool_)
    interpret(module, [a, y, there])
    assert (y == a[::-1, 4]).all()  # the fourth is zero
    assert not there[0]  # lines of 36 bytes


def test_who_does_not_wait_finds_what_no_copy_brings() -> None:
    a, y, there = np.ones((4, 8), np.float32), np.zeros(4, np.float32), np.zeros(1, np.bool_)
    interpret(parse_module(COPIED.replace("groups = 0", "groups = 1")), [a, y, there])
    assert np.isnan(y).all()
    with pytest.raises(IndexError, match="3 elements from"):
        interpret(parse_module(COPIED), [a[:, :6], y, there])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("16>} : array<f32, 1, 16, B>", "15>} : array<f32, 1, 15, B>", "4 elements to 12 in memory of 15"),
        ("constant 3 : i64", "constant 5 : i64", "5 elements from"),
        ("constant 3 : i64", "constant -1 : i64", "-1 elements from"),
    ],
)
def test_copies_beyond_memory_are_told(old: str, new: str, reason: str) -> None:
    assert old in COPIED
    arrays = np.ones((4, 20), np.float32), np.zeros(4, np.float32), np.zeros(1, np.bool_)
    with pytest.raises(IndexError, match=reason):
        interpret(parse_module(COPIED.replace(old, new)), list(arrays))


@pytest.mark.parametrize(
    ("array", "aligned"),
    [
        (np.zeros((4, 8), np.float32), True),
        (np.zeros((4, 8), np.float32)[:, 1:], False),
        (np.zeros((4, 16), np.float32)[:, ::2], False),
        (np.zeros((4, 7), np.float32), False),
    ],
)
def test_lines_are_aligned_by_address_and_strides(array: np.ndarray, aligned: bool) -> None:
    there = np.zeros(1, np.bool_)
    text = COPIED[: COPIED.index("  parallel")] + "}\n"
    interpret(parse_module(text), [array, np.zeros(4, np.float32), there])
    assert there[0] == aligned


@pytest.mark.parametrize(("narrow", "transposed"), [("f16", False), ("f16", True), ("f32", False)])
def test_threads_get_their_part_of_each_matrix(narrow: str, transposed: bool) -> None:
    length, each = (4, 1) if narrow == "f32" else (8, 2)
    names = [f"%r{k}" for k in range(4 * each)]
    stores = "\n".join(
        [f"%c{k} = constant {k} : i64\nstore {name}, %y[%thread, %c{k}]" for k, name in enumerate(names)]
    )
    text = LOADED.replace("RESULTS", ", ".join(names)).replace("TYPES", ", ".join([narrow] * len(names)))
    text = (
        text.replace("STORES", stores)
        .replace("NARROW", narrow)
        .replace("LENGTH", str(length))
        .replace("SIZE", str(32 * length))
    )
    text = text.replace("WORD", f"transposed = {transposed}")
    module = parse_module(text)
    verify(module)
    dtype = np.dtype(np.float16 if narrow == "f16" else np.float32)
    a = np.arange(32 * length).reshape(32, length).astype(dtype)
    y = np.zeros((32, 4 * each), dtype)
    interpret(module, [a, y])
    for thread in range(32):
        g, q = divmod(thread, 4)
        for matrix in range(4):
            rows = a[8 * matrix : 8 * matrix + 8]
            expected = (rows.T if transposed else rows)[g, each * q : each * q + each]
            assert (y[thread, each * matrix : each * matrix + each] == expected).all()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{elements = 4}", "{elements = 3}", "a copy of 3 numbers of f32"),
        ("{groups = 0}", "{groups = 9}", "all but 9 groups"),
        ("bytes = 16", "bytes = 5", "at multiples of 5"),
        ("begin %lines", "begin %a", "a block's memory of one axis"),
        ("    for %thread", "    copy_commit\n    for %thread", "each of the threads would do it"),
    ],
)
def test_wrong_copies_are_told(old: str, new: str, reason: str) -> None:
    text = COPIED.replace(old, new, 1)
    with pytest.raises((IRSyntaxError, VerificationError), match=reason):
        verify(parse_module(text))


def test_who_reads_what_others_copy_without_a_barrier_is_told() -> None:
    arrays = np.ones((4, 8), np.float32), np.zeros(4, np.float32), np.zeros(1, np.bool_)
    interpret(parse_module(COPIED), list(arrays), debug=True)
    with pytest.raises(QuadrantsAssertionError, match="a race in a block of threads"):
        interpret(parse_module(COPIED.replace("      barrier\n", "")), list(arrays), debug=True)
