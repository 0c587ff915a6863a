"""Rules that keep the code readable: files of at most 800 lines, functions of at most 80, nothing silenced without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .conftest import ROOT

FILES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "src" / "quadrants").rglob("*.py"))}


def test_files_are_short() -> None:
    lengths = {name: len(text.splitlines()) for name, text in FILES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > 800} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{name}:{found.lineno}: {found.name}": (found.end_lineno or found.lineno) - found.lineno + 1
        for name, text in FILES.items()
        for found in _functions(ast.parse(text))
    }
    assert len(lengths) > 5000, "all were looked at"
    assert {name: lines for name, lines in lengths.items() if lines > 80} == {}


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those within a node. Only statements hold any, so expressions are not looked through."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _functions(child)


_BROAD = re.compile(r"except (?:Base)?Exception\b[^#]*$")
_SILENCED = re.compile(r"# (?:noqa|type: ignore|pyright: ignore)[\w:, \[\]]*$")
_BARE = re.compile(r"raise NotImplementedError$")


def test_what_is_caught_silenced_or_left_out_is_explained_where_it_stands() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in FILES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if any(rule.search(line) for rule in (_BROAD, _SILENCED, _BARE))
    ]
    assert found == []
