"""The evidence file: which case of which part passed, was refused, failed or did not run on a target, and where.

JSON of the form `{"format": …, "target": …, "made_with": …, "parts": {part: {status: …}}}`. What passed or was assembled is a list
of names; the other statuses have the names by reason. In files names that differ in their last number only, one more each
time, are one: `seed 0-299`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from quadrants.evidence.conformance.worker import STATUSES, Outcome

__all__ = ["FORMAT", "counts", "evidence_of", "failed", "merged", "read", "write"]

FORMAT = "quadrants-evidence 2"
_NUMBERED = re.compile(r"(.*?)(\d+)(?:-(\d+))?$")


def evidence_of(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """A part of an evidence file."""
    found: dict[str, Any] = {"passed": []}
    for outcome in outcomes:
        if not outcome.reason:
            found.setdefault(outcome.status, []).append(outcome.name)
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
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return None
    return {**found, "parts": {name: _mapped(part, _unpacked) for name, part in found["parts"].items()}}


def write(path: Path, evidence: dict[str, Any]) -> None:
    """The evidence as JSON, parts in a fixed order and one part's names on a line, so that changes are seen."""
    parts = [f"    {json.dumps(name)}: {_part_text(part)}" for name, part in sorted(evidence["parts"].items())]
    head = [f"  {json.dumps(key)}: {json.dumps(evidence[key])}" for key in ("format", "target", "made_with")]
    joined = ",\n".join(parts)
    path.write_text("{\n" + ",\n".join([*head, '  "parts": {\n' + joined + "\n  }"]) + "\n}\n")


def _part_text(part: dict[str, Any]) -> str:
    lines = []
    for status, entries in _mapped(part, _packed).items():
        if isinstance(entries, list):
            lines.append(f"      {json.dumps(status)}: {json.dumps(entries)}")
        else:
            reasons = [f"        {json.dumps(reason)}: {json.dumps(names)}" for reason, names in entries.items()]
            lines.append(f"      {json.dumps(status)}: {{\n" + ",\n".join(reasons) + "\n      }")
    return "{\n" + ",\n".join(lines) + "\n    }"


def _mapped(part: dict[str, Any], change: Callable[[list[str]], list[str]]) -> dict[str, Any]:
    """A part with its lists of names changed."""
    return {
        status: change(entries)
        if isinstance(entries, list)
        else {reason: change(names) for reason, names in entries.items()}
        for status, entries in part.items()
    }


def _packed(names: list[str]) -> list[str]:
    found: list[tuple[str, int, int]] = []
    packed: list[str] = []
    for name in names:
        number = _NUMBERED.match(name) if name.startswith("seed ") else None
        if number is None:
            packed.append(name)
        elif found and (number[1], int(number[2])) == (found[-1][0], found[-1][2] + 1):
            found[-1] = (*found[-1][:2], int(number[2]))
        else:
            found.append((number[1], int(number[2]), int(number[2])))
    return packed + [f"{stem}{first}" if first == last else f"{stem}{first}-{last}" for stem, first, last in found]


def _unpacked(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number = _NUMBERED.match(name) if name.startswith("seed ") else None
        if number is None or number[3] is None:
            found.append(name)
        else:
            found += [f"{number[1]}{k}" for k in range(int(number[2]), int(number[3]) + 1)]
    return found
