"""The reducer: a program that goes wrong shrinks to what makes it go wrong."""

from __future__ import annotations

import pytest

from quadrants.evidence.fuzz import reduce
from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.reduce import Candidate
from quadrants.evidence.fuzz.settings import Settings

pytestmark = pytest.mark.slow

PROGRAM = """
import quadrants as qd
from quadrants.evidence.fuzz.data import numbers

def helper(a):
    return a + 1

def program(p, q, n: qd.i32):
    x = qd.i32(3)
    for i in range(n):
        if p[i] > 2:
            p[i] = helper(p[i]) * 2
        q[i] = p[i] // 3
    y = [1, 'text'][n & 1]
    return x, n + 4

def arguments(size):
    p = numbers("i32", size, 1)
    q = numbers("i32", size, 2)
    return p, q, size
"""


def test_what_does_not_matter_goes() -> None:
    settings = Settings("cpu", {"lanes": 8, "deterministic": True}, code_level=1, busy=True)
    candidate = Candidate(PROGRAM, (4, 6), Style(tame=True, loose=False), settings)
    small, failure = reduce.reduced(candidate, seconds=60)
    assert failure.kind == "QuadrantsSyntaxError" or failure.kind == "QuadrantsTypeError"
    assert "'text'" in small.text and "helper" not in small.text and "for i" not in small.text
    assert len(small.sizes) == 1 and small.settings.options.keys() <= {"opt_level"}
    compile(reduce.test_text(small, failure), "found", "exec")


def test_a_program_that_is_right_is_refused() -> None:
    text = PROGRAM.replace("    y = [1, 'text'][n & 1]\n", "")
    with pytest.raises(ValueError, match="nothing to reduce"):
        reduce.reduced(Candidate(text, (4,), Style(tame=True, loose=False), Settings("reference")))
