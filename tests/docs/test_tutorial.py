"""docs/tutorial.md and docs/simt.md are programs, run block by block; each prints what the page shows below it.

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
from pathlib import Path

import pytest

import quadrants as qd

from .conftest import ROOT, Block, blocks

PAGES = [ROOT / "docs" / "tutorial.md", ROOT / "docs" / "simt.md"]
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


def run(parts: list[str], name: str) -> list[str]:
    """What each part prints when they are run in one module, with the line numbers of the file that they make up."""
    source = "\n".join(parts)
    file = f"{name}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    shown, line = [], 0
    try:
        for part in parts:
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                exec(compile("\n" * line + part, file, "exec"), module.__dict__)
            shown.append(steady(output.getvalue()))
            line += part.count("\n") + 1
    finally:
        del sys.modules[name], linecache.cache[file]
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, bless: bool) -> None:
    text = page.read_text()
    pairs = programs(text)
    found = run([program.text for program, _ in pairs], page.stem)
    if bless:
        for (program, _), output in zip(pairs, found):
            start = text.index("```text\n", text.index(program.text) + len(program.text)) + len("```text\n")
            text = text[:start] + output + text[text.index("```", start) :]
        page.write_text(text)
        return
    for (_, shown), output in zip(pairs, found):
        assert output == shown.text, f"{page.name}, line {shown.line}"
