"""Code that is deeply nested, or long, compiles and means what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd

pytestmark = pytest.mark.slow


def program(text: list[str], folder: Path):
    """The kernel `program` of a module with this text."""
    return written(folder / "large.py", "\n".join(["import quadrants as qd", *text, ""])).program


LOOP = ["@qd.kernel", "def program(x):", "    for i in range(len(x)):"]


def test_an_if_with_hundreds_of_cases(tmp_path: Path) -> None:
    count = 300
    cases = [line for k in range(1, count) for line in (f"        elif k == {k}:", f"            x[i] = {k}.5")]
    text = [*LOOP, "        k = int(x[i])", "        if k == 0:", "            x[i] = 0.5", *cases]
    x = np.arange(count + 2, dtype=np.float64)
    program(text, tmp_path)(x)
    assert (x[:count] == np.arange(count) + 0.5).all() and (x[count:] == [count, count + 1]).all()


def test_a_long_sum(tmp_path: Path) -> None:
    text = [*LOOP, "        x[i] = " + " + ".join(f"x[i] * {k}.0" for k in range(600))]
    x = np.array([1.0, 2.0])
    program(text, tmp_path)(x)
    assert (x == np.array([1.0, 2.0]) * sum(range(600))).all()


def test_a_chain_of_calls(tmp_path: Path) -> None:
    text = ["def call_0(a):", "    return a"]
    for k in range(1, 120):
        text += [f"def call_{k}(a):", "    for _ in range(2):", "        a += 1.0", f"    return call_{k - 1}(a)"]
    x = np.zeros(3)
    program([*text, *LOOP, "        x[i] = call_119(x[i])"], tmp_path)(x)
    assert (x == 238.0).all()


def test_the_recursion_limit_stays_what_it_was(tmp_path: Path) -> None:
    before = sys.getrecursionlimit()
    program([*LOOP, "        x[i] = 1.0"], tmp_path)(np.zeros(1))
    assert sys.getrecursionlimit() == before


def test_what_is_nested_too_deeply_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quadrants import recursion

    monkeypatch.setattr(recursion, "_LIMIT", 0)
    text = [*LOOP, "        x[i] = " + " + ".join(f"x[i] * {k}.0" for k in range(900))]
    with pytest.raises(qd.QuadrantsSyntaxError, match="program or a function that it calls is nested too deeply"):
        program(text, tmp_path)(np.zeros(1))
