"""The fuzzer: its vocabulary is complete, its programs have a meaning, a few of them run, failures shrink."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrants.evidence.fuzz import trial, vocabulary
from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.generate import program_text
from quadrants.evidence.fuzz.settings import Settings
from quadrants.evidence.fuzz.thresholds import EAGER
from quadrants.ir.ops import OPS

pytestmark = pytest.mark.slow


def test_every_elementwise_row_is_written_somewhere() -> None:
    written = {*vocabulary.INTEGERS, *vocabulary.FLOATS, *vocabulary.LOOSE, *vocabulary.CONDITIONS}
    assert written | vocabulary.UNWRITTEN == {name for name, row in OPS.items() if row.elementwise}


def test_a_seed_gives_one_program() -> None:
    assert program_text(5) == program_text(5)
    assert program_text(5).text != program_text(6).text


def test_programs_have_all_kinds_of_arguments() -> None:
    texts = [program_text(seed).text for seed in range(200)]
    for feature in ('"bf16"', '"f16"', '"planar"', "Members(", "u = ", "qd.atomic_xor(", "ndrange(", "wild=True"):
        assert any(feature in text for text in texts), feature


def test_eager_passes_are_as_before_afterwards() -> None:
    before = [getattr(module, name) for module, name, _ in EAGER]
    with Settings("cpu", eager=True).in_force():
        assert [getattr(module, name) for module, name, _ in EAGER] == [value for _, _, value in EAGER]
    assert [getattr(module, name) for module, name, _ in EAGER] == before


@pytest.mark.parametrize("seed", range(6))
def test_random_program(seed: int, tmp_path: Path) -> None:
    assert [(str(found.settings), found.failure) for found in trial.run_seed(seed, tmp_path)] == []


PROGRAM = """
import quadrants as qd
from quadrants.evidence.fuzz.data import numbers


def program(p, n: qd.i32):
    for i in range(n):
        p[i] += 1
    return p[0]


def arguments(size):
    p = numbers("i32", size, 1)
    return p, size
"""


def test_a_difference_from_the_oracle_is_told(tmp_path: Path) -> None:
    module = trial.load(PROGRAM, tmp_path, "program")
    (expected,) = trial.expectations(module, (5,), ("i64", "f64"))
    assert (expected.dtypes, expected.values) == (["i32"], [expected.arrays[0][0]])
    style = Style(tame=True, loose=False)
    assert trial.check(module, [expected], Settings("cpu"), style) is None
    failure = trial.check(module, [expected._replace(values=[77])], Settings("cpu"), style)
    assert failure is not None and failure.kind == "value" and "the oracle has 77" in failure.text
    failure = trial.check(module, [expected._replace(dtypes=["i64"])], Settings("reference"), style)
    assert failure is not None and failure.kind == "type"


def test_a_program_without_meaning_is_no_failure_of_the_compiler(tmp_path: Path) -> None:
    module = trial.load(PROGRAM.replace("p[i] +=", "p[i + 1] +="), tmp_path, "program")
    with pytest.raises(trial.Invalid, match="IndexError"):
        trial.expectations(module, (5,), ("i64", "f64"))
