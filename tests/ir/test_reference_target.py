"""The reference target is the interpreter behind a target's face."""

from __future__ import annotations

import numpy as np

from quadrants.ir.text import parse_module
from quadrants.targets import reference

TEXT = """quadrants-ir 1
kernel @double(%x: array<i32, 1, A>) -> i64 {
  %0 = constant 0 : i64
  %n = dim %x, 0
  for %i in %0 .. %n {
    %v = load %x[%i]
    %w = add %v, %v
    store %w, %x[%i]
  }
  print %n {format = ("", " done\\n")}
  return %n
}
"""


def test_a_program_runs_as_often_as_wanted() -> None:
    texts: list[str] = []
    program = reference.compile_module(parse_module(TEXT), output=texts.append)
    x = np.array([1, 2, 3], np.int32)
    assert program.run([x]) == (3,)
    assert program.run([x]) == (3,)
    assert x.tolist() == [4, 8, 12]
    assert texts == ["3 done\n"] * 2


def test_run_at_once() -> None:
    x = np.array([5], np.int32)
    assert reference.run(parse_module(TEXT), [x], output=lambda text: None) == (1,)
    assert x[0] == 10


def test_the_record_has_every_type() -> None:
    assert {"u1", "i64", "f16", "bf16", "f64"} <= reference.RECORD.dtypes
    assert not reference.RECORD.threads
