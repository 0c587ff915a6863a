"""The operations' manual is complete and up to date."""

from __future__ import annotations

from pathlib import Path

from quadrants.ir.document import document
from quadrants.ir.ops import OPS

MANUAL = Path(__file__).parents[2] / "docs" / "ops.md"


def test_every_operation_is_in_one_table() -> None:
    lines = [line.split("`")[1] for line in document().splitlines() if line.startswith("| `")]
    assert sorted(lines) == sorted(OPS)


def test_the_page_is_up_to_date(bless: bool) -> None:
    if bless:
        MANUAL.write_text(document())
    assert MANUAL.read_text() == document(), "refresh it: python -m quadrants.ir.document docs/ops.md"
