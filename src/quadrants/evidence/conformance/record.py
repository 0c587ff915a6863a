"""The evidence file: which case of which part passed, was refused, failed or did not run on a target, and where.

JSON of the form `{"format": …, "target": …, "made_with": …, "parts": {part: {status: …}}}`. What passed is a list of names; the
other statuses have the names by reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quadrants.evidence.conformance.worker import STATUSES, Outcome

__all__ = ["FORMAT", "counts", "evidence_of", "failed", "merged", "read", "write"]

FORMAT = "quadrants-evidence 1"


def evidence_of(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """A part of an evidence file."""
    found: dict[str, Any] = {"passed": []}
    for outcome in outcomes:
        if outcome.status == "passed":
            found["passed"].append(outcome.name)
        else:
            found.setdefault(outcome.status, {}).setdefault(outcome.reason, []).append(outcome.name)
    return found


def counts(part: dict[str, Any]) -> dict[str, int]:
    """How many cases of a part have each status."""
    found = {}
    for status in STATUSES:
        entries = part.get(status, [])
        found[status] = len(entries) if isinstance(entries, list) else sum(len(names) for names in entries.values())
    return found


def failed(evidence: dict[str, Any]) -> int:
    """How many cases of all parts failed."""
    return sum(counts(part)["failed"] for part in evidence["parts"].values())


def merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The new evidence with the parts of the old that it lacks, where both were made of one target with one version."""
    if old is None or any(old.get(key) != new[key] for key in ("format", "target", "made_with")):
        return new
    return {**new, "parts": {**old["parts"], **new["parts"]}}


def read(path: Path) -> dict[str, Any] | None:
    """The evidence in a file; None where there is none that this version reads."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def write(path: Path, evidence: dict[str, Any]) -> None:
    """The evidence as JSON, parts in a fixed order and one part's names on a line, so that changes are seen."""
    parts = [f"    {json.dumps(name)}: {_part_text(part)}" for name, part in sorted(evidence["parts"].items())]
    head = [f"  {json.dumps(key)}: {json.dumps(evidence[key])}" for key in ("format", "target", "made_with")]
    joined = ",\n".join(parts)
    path.write_text("{\n" + ",\n".join([*head, '  "parts": {\n' + joined + "\n  }"]) + "\n}\n")


def _part_text(part: dict[str, Any]) -> str:
    lines = [f'      "passed": {json.dumps(part["passed"])}']
    for status in STATUSES[1:]:
        if status in part:
            reasons = [f"        {json.dumps(reason)}: {json.dumps(names)}" for reason, names in part[status].items()]
            lines.append(f"      {json.dumps(status)}: {{\n" + ",\n".join(reasons) + "\n      }")
    return "{\n" + ",\n".join(lines) + "\n    }"
