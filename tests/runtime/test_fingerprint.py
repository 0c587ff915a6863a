"""Fingerprints: equal for equal code in every process, different for whatever a kernel could mean otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quadrants.runtime.fingerprint import code_fingerprint, compiler_fingerprint, source_fingerprint


def made(text: str, **names: Any) -> Callable[..., object]:
    scope: dict[str, Any] = dict(names)
    exec(compile(text, "<made>", "exec", dont_inherit=True), scope)
    return scope["f"]


BASE = "def f(x, y=1):\n    return x + y * 2\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, y=1):\n    return x + y * 3\n",
        "def f(x, y=1):\n    return x + y * 2.0\n",
        "def f(x, y=1):\n    return x - y * 2\n",
        "def f(x, y=2):\n    return x + y * 2\n",
        "def f(x, y=1.0):\n    return x + y * 2\n",
        "def f(x, *, y=1):\n    return x + y * 2\n",
        "def f(x, y: int = 1):\n    return x + y * 2\n",
        "def f(x, y=1) -> float:\n    return x + y * 2\n",
        "def f(z, y=1):\n    return z + y * 2\n",
        "def f(x, y=1):\n    return x + g(y) * 2\n",
        "def f(x, y=1):\n    return x + (lambda: y * 2)()\n",
        "def f(x, y=1):\n    return x + (lambda: y * 3)()\n",
        "def f(x, y=True):\n    return x + y * 2\n",
    ],
)
def test_what_differs_has_other_fingerprints(text: str) -> None:
    assert code_fingerprint(made(text)) != code_fingerprint(made(BASE))


@pytest.mark.parametrize(
    "pair",
    [
        ("1.0", "1"),
        ("0.0", "-0.0"),
        ("1", "True"),
        ("'a'", "b'a'"),
        ("(1, 2)", "(1, (2,))"),
        ("x in {1, 2}", "x in {1, 3}"),
    ],
)
def test_constants_that_compare_equal_differ(pair: tuple[str, str]) -> None:
    first, second = (code_fingerprint(made(f"def f(x):\n    return {text}\n")) for text in pair)
    assert first != second


def test_place_and_layout_matter_only_when_asked() -> None:
    moved, spread = made("\n\n\n" + BASE), made("def f(x, y=1):\n    # why\n    return (x + y\n        * 2)\n")
    for other in (moved, spread):
        assert code_fingerprint(other) == code_fingerprint(made(BASE))
        assert code_fingerprint(other, lines=True) != code_fingerprint(made(BASE), lines=True)
    assert code_fingerprint(made(BASE), lines=True) == code_fingerprint(made(BASE), lines=True)


def test_annotations_count_by_their_text() -> None:
    class Wish:
        pass

    text = "def f(x: wish):\n    return x\n"
    assert code_fingerprint(made(text, wish=Wish())) == code_fingerprint(made(text, wish=Wish()))
    assert code_fingerprint(made(text, wish=int)) != code_fingerprint(made(text, wish=float))
    assert code_fingerprint(made(text, wish="int")) != code_fingerprint(made(text, wish="float"))


def test_running_a_function_does_not_change_its_fingerprint() -> None:
    function = made("def f(x):\n    s = 0\n    for i in range(x):\n        s += i\n    return s\n")
    before = code_fingerprint(function)
    for _ in range(200):
        function(50)
    assert code_fingerprint(function) == before


def test_what_has_no_code_is_refused() -> None:
    for use in (code_fingerprint, source_fingerprint):
        with pytest.raises(TypeError, match="no Python code"):
            use(len)


PROGRAM = """
from quadrants.runtime.fingerprint import code_fingerprint, compiler_fingerprint
def f(x: object = object(), y={"a": (1, 2.5)}, z=frozenset({"p", "q", "r"}), w=len, v=print):
    if x in {"alpha", "beta", "gamma", 3}:
        return (lambda a: a + 1)(x)
    return [i for i in range(10)]
print(code_fingerprint(f), code_fingerprint(f, lines=True), compiler_fingerprint())
"""


@pytest.mark.slow
def test_every_process_gives_the_same(tmp_path: Path) -> None:
    outputs = set()
    for seed in ("0", "1", "77"):
        command = [sys.executable, "-c", PROGRAM]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_the_source_shows_annotations_of_local_names(tmp_path: Path) -> None:
    found = []
    for name in ("f32", "i32"):
        path = tmp_path / f"{name}.py"
        path.write_text(f"def f(x):\n    a: {name} = x\n    return a\n\nlast = 1\n")
        scope: dict[str, object] = {"__name__": "made", "f32": 1, "i32": 2}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        found.append(scope["f"])
    first, second = found
    assert code_fingerprint(first) == code_fingerprint(second)
    assert source_fingerprint(first) != source_fingerprint(second)
    path = tmp_path / "f32.py"
    before = source_fingerprint(first)
    path.write_text(path.read_text().replace("last = 1", "last = 22"))
    assert source_fingerprint(first) == before
    path.write_text(path.read_text().replace("= x", "= x + 1"))
    assert source_fingerprint(first) != before
    path.unlink()
    assert source_fingerprint(first) is None


def test_the_compiler_is_its_files() -> None:
    assert len(compiler_fingerprint()) == 32
    assert compiler_fingerprint() == compiler_fingerprint()
