"""Sizes that keep the code readable: files of at most 800 lines, functions of at most 80."""

from __future__ import annotations

import ast
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
