"""README's table of targets is what the evidence files in docs/evidence say, and they are of this version."""

from __future__ import annotations

import pytest

from quadrants.evidence.conformance import readme, record
from quadrants.targets import table

from .conftest import ROOT

README = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence"
_START, _END = "<!-- targets -->\n", "<!-- end of targets -->"


def test_the_table_of_targets_is_what_the_evidence_says(bless: bool) -> None:
    before, _, rest = README.read_text().partition(_START)
    found, _, after = rest.partition(_END)
    wanted = readme.readme_table(EVIDENCE)
    if bless:
        README.write_text(f"{before}{_START}{wanted}{_END}{after}")
        return
    assert found == wanted, "refresh it: pytest tests/docs --bless"


def test_evidence_files_are_of_targets_that_there_are() -> None:
    names = {path.stem for path in EVIDENCE.glob("*.json")}
    assert names <= {arch.name for arch in table.TARGETS}
    for name in names:
        evidence = record.read(EVIDENCE / f"{name}.json")
        assert evidence is not None and evidence["target"]["name"] == name


def test_evidence_knows_all_operations() -> None:
    """Evidence that is older than an operation is no error: it is told, with the way to make it anew."""
    stale = readme.outdated(EVIDENCE)
    if stale:
        told = "; ".join(f"{name} says nothing of {', '.join(missing)}" for name, missing in stale.items())
        pytest.skip(f"stale: {told}. `python -m quadrants conform --target … --out docs/evidence/….json` makes it anew")
