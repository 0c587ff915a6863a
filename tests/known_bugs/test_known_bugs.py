"""Runs the programs of this folder, each of which must still fail, and in the way it says (see README.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith(("test_", "conftest")))
SECONDS = 20.0


def promise(path: Path) -> str:
    """How a program says that it fails; ValueError if it does not say what is wrong and how it shows."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    lines = [line.removeprefix("fails:").strip() for line in text.splitlines() if line.startswith("fails:")]
    if len(lines) != 1 or not lines[0] or text.startswith("fails:"):
        raise ValueError(f"{path.name}: the docstring must say what is wrong, and have one line `fails: …`")
    return lines[0]


def verdict(path: Path, seconds: float = SECONDS) -> str:
    """'' if a program fails as it says, else what to do about it."""
    expected = promise(path)
    try:
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "" if expected == "hang" else f"{path.name} hangs, where it says that it fails with {expected!r}"
    if done.returncode == 0:
        return f"{path.name} works now: move me to the tests of what works"
    output = f"{done.stdout}{done.stderr}"
    if expected in ("crash", "hang"):
        as_promised = expected == "crash" and done.returncode < 0
    else:
        as_promised = done.returncode > 0 and expected in output
    if as_promised:
        return ""
    return f"{path.name} fails, but not with {expected!r} (exit status {done.returncode}):\n{output}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_still_fails(path: Path) -> None:
    found = verdict(path)
    assert not found, found


def written(folder: Path, fails: str, body: str) -> Path:
    path = folder / "program.py"
    path.write_text(f'"""Something is wrong.\n\nfails: {fails}\n"""\n{body}\n')
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "fails, body",
    [
        ("AssertionError", "assert 1 == 2"),
        ("is not defined", "print(undefined)"),
        ("crash", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
        ("hang", "import time\ntime.sleep(60)"),
    ],
)
def test_what_fails_as_it_says_passes(tmp_path: Path, fails: str, body: str) -> None:
    assert verdict(written(tmp_path, fails, body), seconds=1.0 if "sleep" in body else SECONDS) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fails, body, found",
    [
        ("AssertionError", "assert 1 == 1", "move me"),
        ("crash", "pass", "move me"),
        ("hang", "pass", "move me"),
        ("AssertionError", "print(undefined)", "not with 'AssertionError'"),
        ("crash", "assert False", "not with 'crash'"),
        ("hang", "assert False", "not with 'hang'"),
        ("AssertionError", "import os, signal\nprint('AssertionError')\nos.kill(os.getpid(), 9)", "exit status -9"),
        ("AssertionError", "import time\ntime.sleep(60)", "hangs"),
    ],
)
def test_what_does_not_is_told(tmp_path: Path, fails: str, body: str, found: str) -> None:
    assert found in verdict(written(tmp_path, fails, body), seconds=1.0 if "sleep" in body else SECONDS)


@pytest.mark.parametrize("docstring", ["", '"""What is wrong."""', '"""fails: x\n"""', '"""Wrong.\n\nfails:\n"""'])
def test_a_program_says_what_is_wrong_and_how_it_shows(tmp_path: Path, docstring: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(docstring)
    with pytest.raises(ValueError, match=r"program\.py: the docstring"):
        promise(path)
