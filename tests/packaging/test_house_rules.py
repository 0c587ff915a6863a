"""Rules that keep the code readable: files of at most 800 lines, functions of at most 80, nothing silenced without a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .conftest import ROOT

FILES = sorted((ROOT / "src" / "quadrants").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_and_functions_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 800
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > 80} == {}


_BROAD = re.compile(r"except (?:Base)?Exception\b[^#]*$")
_SILENCED = re.compile(r"# (?:noqa|type: ignore|pyright: ignore)[\w:, \[\]]*$")
_BARE = re.compile(r"raise NotImplementedError$")


def test_what_is_caught_silenced_or_left_out_is_explained_where_it_stands() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(rule.search(line) for rule in (_BROAD, _SILENCED, _BARE))
    ]
    assert found == []
