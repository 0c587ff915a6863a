"""README's table of targets is what the evidence files in docs/evidence say, and how far they are behind the code."""

from __future__ import annotations

import json
from pathlib import Path

from quadrants.evidence import capabilities
from quadrants.evidence.conformance import readme, record
from quadrants.targets import table

from .conftest import ROOT, Generated

README = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence"
MANUAL = ROOT / "docs" / "targets.md"


def test_the_table_of_targets_is_what_the_evidence_says(bless: bool) -> None:
    Generated(README, "targets").check(readme.readme_table(EVIDENCE), bless)


def test_the_manual_has_the_targets_and_the_fields(bless: bool) -> None:
    Generated(MANUAL, "targets").check(capabilities.targets_text(), bless)
    Generated(MANUAL, "fields").check(capabilities.fields_text(), bless)


def test_evidence_files_are_of_targets_that_there_are() -> None:
    names = {path.stem for path in EVIDENCE.glob("*.json")}
    assert names <= {arch.name for arch in table.TARGETS}
    for name in names:
        evidence = record.read(EVIDENCE / f"{name}.json")
        assert evidence is not None and evidence["target"]["name"] == name


def test_operations_that_are_newer_than_evidence_are_told(tmp_path: Path) -> None:
    evidence = json.loads((EVIDENCE / "x64.json").read_text())
    passed = evidence["parts"]["operations"]["passed"]
    del passed[1:3]
    (tmp_path / "x64.json").write_text(json.dumps(evidence))
    assert len(readme.outdated(tmp_path)["x64"]) == 2
    assert f"| {len(passed)} of {len(passed)} (2 newer, not run) |" in readme.readme_table(tmp_path)
