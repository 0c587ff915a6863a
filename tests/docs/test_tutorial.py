"""docs/tutorial.md is one program, run block by block; each prints what the page shows below it.

Lines that tell times are shown with `…` for the numbers. `pytest tests/docs --bless` writes what the blocks print.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import sys
import types
from collections.abc import Iterator

import pytest

import quadrants as qd

from .conftest import ROOT, Block, blocks

TUTORIAL = ROOT / "docs" / "tutorial.md"
FILE = "tutorial.py"
_TIMES = ((re.compile(r"compiled in .*"), "compiled in …"), (re.compile(r"about \d+ ns"), "about … ns"))


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of the page do not reach the next test."""
    yield
    qd.reset()


def steady(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, shown in _TIMES:
        text = pattern.sub(shown, text)
    return text


def programs(text: str) -> list[tuple[Block, Block]]:
    """The blocks of Python, each with the block of text that follows it."""
    found = blocks(text)
    assert [block.language for block in found] == ["python", "text"] * (len(found) // 2)
    return list(zip(found[::2], found[1::2]))


def run(parts: list[str]) -> list[str]:
    """What each part prints when they are run in one module, with the line numbers of the file that they make up."""
    source = "\n".join(parts)
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    module = types.ModuleType("tutorial")
    module.__file__ = FILE
    sys.modules["tutorial"] = module
    shown, line = [], 0
    try:
        for part in parts:
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                exec(compile("\n" * line + part, FILE, "exec"), module.__dict__)
            shown.append(steady(output.getvalue()))
            line += part.count("\n") + 1
    finally:
        del sys.modules["tutorial"], linecache.cache[FILE]
    return shown


def test_the_tutorial_prints_what_it_shows(bless: bool) -> None:
    text = TUTORIAL.read_text()
    pairs = programs(text)
    found = run([program.text for program, _ in pairs])
    if bless:
        for (program, _), output in zip(pairs, found):
            start = text.index("```text\n", text.index(program.text) + len(program.text)) + len("```text\n")
            text = text[:start] + output + text[text.index("```", start) :]
        TUTORIAL.write_text(text)
        return
    for (_, shown), output in zip(pairs, found):
        assert output == shown.text, f"tutorial.md, line {shown.line}"
