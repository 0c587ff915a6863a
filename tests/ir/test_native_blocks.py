"""Grid loops and threads loops: text, verifier, interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir.interpret import interpret
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import VerificationError, verify

PROGRAM = """quadrants-ir 1
stage lowered
kernel @f(%x: array<f32, 1, C>, %y: array<f32, 1, C>) {parameter_names = ["x", "y"]} {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %seven = constant 7 : i64
  %eight = constant 8 : i64
  %n = dim %x, 0 : i64
  %more = add %n, %seven : i64
  %blocks = floordiv %more, %eight : i64
  parallel for %block in %zero .. %blocks {
    %shared = shared {type = matrix<f32, 8>} : array<f32, 1, 8, B>
    %first = mul %block, %eight : i64
    %left = sub %n, %first : i64
    %width = min %left, %eight : i64
    for %thread in %zero .. %width {threads = 8} {
      %i = add %first, %thread : i64
      %v = load %x[%i] : f32
      store %v, %shared[%thread]
      barrier
      %last = sub %width, %one : i64
      %other = sub %last, %thread : i64
      %w = load %shared[%other] : f32
      %sum = team_reduce %v {by = "add", width = 0} : f32
      %r = add %w, %sum : f32
      store %r, %y[%i]
    }
  }
}
"""


def test_threads_of_the_last_block_are_those_that_are_left() -> None:
    module = parse_module(PROGRAM)
    verify(module)
    assert print_module(module) == PROGRAM
    x = np.arange(21, dtype=np.float32)
    y = np.zeros_like(x)
    interpret(module, [x, y])
    parts = [x[k : k + 8] for k in range(0, 21, 8)]
    assert (y == np.concatenate([part[::-1] + part.sum() for part in parts])).all()


def test_shared_memory_is_no_race_of_blocks() -> None:
    x = np.arange(21, dtype=np.float32)
    interpret(parse_module(PROGRAM), [x, np.zeros_like(x)], debug=True)


def test_the_stage_changes_nothing() -> None:
    module = parse_module(PROGRAM.replace("stage lowered", "stage kernel").replace("parallel for", "for"))
    verify(module)
    x = np.arange(5, dtype=np.float32)
    y = np.zeros_like(x)
    interpret(module, [x, y])
    assert (y == x[::-1] + x.sum()).all()


def test_more_threads_than_a_block_has_are_refused() -> None:
    text = PROGRAM.replace("%zero .. %width {threads", "%zero .. %n {threads").replace(
        "%i = add %first", "%i = sub %first"
    )
    with pytest.raises(QuadrantsAssertionError, match="21 threads in a block of 8"):
        interpret(parse_module(text), [np.zeros(21, np.float32)] * 2)


@pytest.mark.parametrize(
    ("change", "to", "message"),
    [
        ("threads = 8", "threads = 1025", "a block of 1025 threads"),
        ("for %thread in %zero", "for %thread in %one", "counts from 0"),
        ("for %thread in %zero .. %width {", "for %thread, %k in %zero .. %width, %zero .. %one {", "one counter"),
        ("  parallel for", "  for", "a grid loop is parallel"),
        (
            "%first = mul",
            "%v.1 = load %x[%zero] : f32\n    store %v.1, %y[%zero]\n    %first = mul",
            "store beside the threads",
        ),
        ("%first = mul", "barrier\n    %first = mul", "barrier beside the threads loop"),
        ("%first = mul", "%z = random : u64\n    %first = mul", "random beside the threads loop"),
        ("barrier", "%z = random : u64", "draw no random numbers"),
        ("barrier", "%z = shared {type = f32} : array<f32, 0, B>", "shared memory is made in a grid loop's body"),
        ("barrier", '%z = thread_index {of = "block"} : i64', "the counter is the thread's number"),
    ],
)
def test_laws(change: str, to: str, message: str) -> None:
    text = PROGRAM.replace(change, to, 1)
    assert text != PROGRAM
    with pytest.raises(VerificationError, match=message):
        verify(parse_module(text))


@pytest.mark.parametrize("jump", ["break", "return"])
def test_nothing_leaves_the_threads_loop(jump: str) -> None:
    guarded = f"%some = lt %thread, %one : u1\n      if %some {{\n        {jump}\n      }}"
    with pytest.raises(VerificationError, match=f"{jump} leaves a parallel loop"):
        verify(parse_module(PROGRAM.replace("barrier", guarded)))
    ends = parse_module(PROGRAM.replace("store %r", guarded.replace(jump, "continue") + "\n      store %r"))
    verify(ends)
    x, y = np.ones(9, np.float32), np.zeros(9, np.float32)
    interpret(ends, [x, y])
    assert y.tolist() == [0, *[9.0] * 7, 0]


def test_a_threads_loop_stands_in_a_grid_loop_of_the_top_level() -> None:
    grid = re.search(r"  parallel for.*\n  }\n", PROGRAM, re.DOTALL)
    assert grid is not None
    inner = "\n".join("  " + line for line in grid[0].splitlines())
    text = PROGRAM.replace(grid[0], f"  for %k in %zero .. %one {{\n{inner}\n  }}\n")
    verify(parse_module(text))
    with pytest.raises(VerificationError, match="a parallel loop within a parallel loop"):
        verify(parse_module(text.replace("for %k", "parallel for %k")))
    undecided = text.replace("stage lowered", "stage kernel").replace("parallel for %block", "for %block")
    with pytest.raises(VerificationError, match="a grid loop stands at a kernel's top level"):
        verify(parse_module(undecided))
    with pytest.raises(VerificationError, match="a grid loop is parallel in stage lowered"):
        verify(parse_module(text.replace("parallel for %block", "for %block")))
    loop = re.search(r"    for %thread.*\n    }\n", PROGRAM, re.DOTALL)
    assert loop is not None
    without = re.sub(r".*shared.*\n", "", PROGRAM)
    bare = re.sub(r".*shared.*\n", "", loop[0]).replace("%r = add %w", "%r = add %v")
    guarded = f"    %some = lt %first, %n : u1\n    if %some {{\n{bare}    }}\n"
    text = re.sub(r"    for %thread.*\n    }\n", guarded, without, flags=re.DOTALL)
    with pytest.raises(VerificationError, match="a threads loop stands in a grid loop's body"):
        verify(parse_module(text))
    second = "    for %other.thread in %zero .. %width {threads = 8} {\n    }\n"
    with pytest.raises(VerificationError, match="two threads loops"):
        verify(parse_module(PROGRAM.replace(loop[0], loop[0] + second)))


def test_operations_of_threads_stand_in_grid_loops_behind_the_pass_that_makes_them() -> None:
    with pytest.raises(VerificationError, match="outside of grid loops"):
        verify(parse_module(PROGRAM.replace(" {threads = 8}", "")))
