"""The table of targets in the README, made from the evidence files: `pytest tests/docs --bless` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quadrants.evidence.conformance import record
from quadrants.evidence.conformance.parts import operations
from quadrants.evidence.conformance.run import PARTS
from quadrants.knobs import Arch
from quadrants.targets import table

__all__ = ["NAMES", "outdated", "readme_table"]

NAMES: dict[Arch, str] = {
    Arch.x64: "x86-64 (Linux)",
    Arch.arm64: "Arm64",
    Arch.cuda: "CUDA",
    Arch.amdgpu: "AMDGPU",
    Arch.vulkan: "Vulkan",
    Arch.metal: "Metal",
    Arch.d3d12: "D3D12",
    Arch.reference: "the reference, an interpreter",
    Arch.simulated: "a device played by the interpreter",
}
_HEADS = {
    "operations": "operations × dtypes",
    "conversions": "conversions",
    "programs": "programs",
    "tests": "run tests",
    "fuzz": "random programs",
}


def readme_table(folder: Path) -> str:
    """Rows for the targets that there are, in the order of the list of targets; `folder` has their evidence files."""
    newer = outdated(folder)
    lines = [f"| target | checked | {' | '.join(_HEADS[part] for part in PARTS)} |", "|---|---|" + "---|" * len(PARTS)]
    for arch, row in table.TARGETS.items():
        evidence = record.read(folder / f"{arch.name}.json")
        parts = {} if evidence is None else evidence["parts"]
        cells = [_cell(parts.get(part), len(newer.get(arch.name, ())) if part == "operations" else 0) for part in PARTS]
        lines.append(f"| {NAMES[arch]} | {row.checked or 'not at all'} | {' | '.join(cells)} |")
    planned = [name for arch, name in NAMES.items() if arch not in table.TARGETS]
    if planned:
        lines.append(f"| {', '.join(planned)} | planned | {' | '.join([''] * len(PARTS))} |")
    return "\n".join(lines) + "\n"


def _cell(part: dict[str, Any] | None, newer: int) -> str:
    """What became of a part's cases, and how many are `newer` than the evidence; '–' where it has not been run."""
    if part is None:
        return "–"
    found = record.counts(part)
    cases = sum(found.values()) - found["not run"]
    right = found["passed"] + found["assembled"]
    told = [
        f"{right} of {cases}{' assembled' if found['assembled'] else ''}",
        *(f"{found[status]} {status}" for status in ("refused", "failed", "not run") if found[status]),
        *([f"{newer} newer, not run"] if newer else []),
    ]
    return told[0] if len(told) == 1 else f"{told[0]} ({', '.join(told[1:])})"


def outdated(folder: Path) -> dict[str, list[str]]:
    """Operations of which a target's evidence says nothing, because they are newer than it; by target."""
    wanted = {case.name for case in operations(0)}
    found: dict[str, list[str]] = {}
    for arch in table.TARGETS:
        evidence = record.read(folder / f"{arch.name}.json")
        part = (evidence or {"parts": {}})["parts"].get("operations")
        if part is not None:
            told = {name for status in part for name in _names(part, status)}
            if missing := sorted(wanted - told):
                found[arch.name] = missing
    return found


def _names(part: dict[str, Any], status: str) -> list[str]:
    entries = part[status]
    return entries if isinstance(entries, list) else [name for names in entries.values() for name in names]
