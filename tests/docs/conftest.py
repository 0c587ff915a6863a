"""The repository's root, its documents, and their fenced blocks of code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "architecture.md"

_FENCE = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, what follows the language (a file's name), its text, the line where it starts."""

    language: str
    title: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [
        Block(found[1], found[2] or "", found[3], text.count("\n", 0, found.start()) + 2)
        for found in _FENCE.finditer(text)
    ]


class Generated:
    """The part of a document that code makes, between `<!-- name -->` and `<!-- end of name -->`."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._before, self._start, rest = path.read_text().partition(f"<!-- {name} -->\n")
        self.text, self._end, self._after = rest.partition(f"<!-- end of {name} -->")
        assert self._start and self._end, f"{path} has no part {name}"

    def check(self, wanted: str, bless: bool) -> None:
        """What is there must be what is wanted; `bless` makes it so."""
        if bless:
            self._path.write_text(f"{self._before}{self._start}{wanted}{self._end}{self._after}")
        else:
            assert self.text == wanted, "refresh it: pytest tests/docs --bless"


def section(text: str, title: str) -> str:
    """A document's part under a heading of level 2, up to the next one."""
    start = text.index(f"\n## {title}\n")
    end = text.find("\n## ", start + 1)
    return text[start : end if end >= 0 else len(text)]
