"""Python functions to syntax trees: files, notebooks, everything that keeps its source where `linecache` finds it."""

from __future__ import annotations

import ast
import linecache
import types
from typing import Any

from quadrants.errors import QuadrantsSyntaxError, SourceLocation
from quadrants.frontend.scan import statements_below, subtree
from quadrants.ir.nodes import Location

__all__ = ["FunctionSource", "function_source", "place", "source_location"]

_files: dict[str, _File] = {}
_sources: dict[types.CodeType, FunctionSource] = {}


class FunctionSource:
    """The syntax tree of one function and where it stands."""

    __slots__ = ("file", "node", "parameters")

    def __init__(self, file: str, node: ast.FunctionDef | ast.Lambda) -> None:
        self.file = file
        self.node = node
        self.parameters = node.args


class _File:
    """A parsed file: its lines as `linecache` had them, and its function definitions by their first line (that of the
    first decorator)."""

    __slots__ = ("_lambdas", "_tree", "functions", "lines")

    def __init__(self, file: str, lines: list[str]) -> None:
        self.lines = lines
        self._tree = ast.parse("".join(lines), file)
        self._lambdas: dict[int, list[Any]] | None = None
        self.functions: dict[int, list[Any]] = {}
        for node in statements_below(self._tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                self.functions.setdefault(first, []).append(node)

    @property
    def lambdas(self) -> dict[int, list[Any]]:
        """The lambdas by their line."""
        if self._lambdas is None:
            self._lambdas = {}
            for node in subtree(self._tree):
                if isinstance(node, ast.Lambda):
                    self._lambdas.setdefault(node.lineno, []).append(node)
        return self._lambdas


def _parsed(file: str, module_globals: dict[str, Any] | None) -> _File:
    lines = linecache.getlines(file, module_globals)
    known = _files.get(file)
    if known is None or not (known.lines is lines or known.lines == lines):
        known = _files[file] = _File(file, lines)
    return known


def function_source(function: types.FunctionType) -> FunctionSource:
    """The source of a Python function; QuadrantsSyntaxError says why there is none."""
    code = function.__code__
    known = _sources.get(code)
    if known is not None:
        return known
    parsed = _parsed(code.co_filename, function.__globals__)
    if function.__name__ == "<lambda>":
        matching = _lambdas_of(code, parsed.lambdas.get(code.co_firstlineno, []))
    else:
        matching = [node for node in parsed.functions.get(code.co_firstlineno, []) if node.name == code.co_name]
    if len(matching) != 1:
        raise QuadrantsSyntaxError(
            f"the source of {function.__qualname__} is not to be had ({code.co_filename}, line {code.co_firstlineno}): "
            + (
                "several lambdas stand on that line; define it with `def`"
                if matching
                else "it was typed into a plain prompt, or the file is gone; put the function in a file or a notebook cell"
            )
        )
    _sources[code] = FunctionSource(code.co_filename, matching[0])
    return _sources[code]


def _lambdas_of(code: types.CodeType, found: list[Any]) -> list[Any]:
    """The lambdas of a line that a code object can be of: where Python keeps columns, some instruction makes the whole
    body's value."""
    positions = getattr(code, "co_positions", None)
    if len(found) < 2 or positions is None:
        return found
    places = set(positions())
    bodies = [node.body for node in found]
    spans = [(body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) for body in bodies]
    return [node for node, span in zip(found, spans) if span in places]


_new_tuple = tuple.__new__  # a third of the time that the named tuple's own constructor takes


def place(file: str, node: Any) -> Location:
    """The IR location of a statement or an expression."""
    end = node.end_col_offset if node.end_lineno == node.lineno else 0
    return _new_tuple(Location, (file, node.lineno, node.col_offset, end or 0))


def source_location(location: Location | None) -> SourceLocation | None:
    """An IR location with the text of its line, for messages."""
    if location is None:
        return None
    text = linecache.getline(location.file, location.line).rstrip("\n")
    column = len(text.encode()[: location.column].decode(errors="ignore"))
    end = len(text.encode()[: location.end_column].decode(errors="ignore")) if location.end_column else None
    return SourceLocation(location.file, location.line, column, end, text)
