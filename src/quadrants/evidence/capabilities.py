"""What the targets can do on this machine: `python -m quadrants targets`, as a table and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Any

import numpy as np

import quadrants
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.emulation import emulation
from quadrants.ir.types import scalar_types
from quadrants.knobs import Arch
from quadrants.targets import table

__all__ = ["FORMAT", "describe", "made_with", "report", "table_text"]

FORMAT = "quadrants-targets 1"


def made_with() -> dict[str, str]:
    """What reports were made with, beside the targets' own tools."""
    return {
        "quadrants": quadrants.__version_str__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def report() -> dict[str, Any]:
    """Every target of this version, as JSON takes it."""
    return {"format": FORMAT, "made_with": made_with(), "targets": [describe(arch) for arch in table.TARGETS]}


def describe(arch: Arch) -> dict[str, Any]:
    """One target: name; whether it is usable here, else why not; how its tests show that it is right; and, where the target
    or what plays it is here, its capability record, its floats, its limits and its tools (else null)."""
    reason = table.missing(arch)
    found: dict[str, Any] = {
        "name": arch.name,
        "usable": not reason,
        "reason": reason,
        "checked": table.row(arch).checked or "not at all",
        "record": None,
        "floats": None,
        "limits": None,
        "toolchain": None,
    }
    with emulation(arch):
        if table.missing(arch):
            return found
        target = table.find(arch)
        try:
            record, facts = target.record(), target.facts()
        except QuadrantsUnsupportedError as error:
            return {**found, "usable": False, "reason": str(error)}
    found["record"] = {name: _plain(value) for name, value in record.__dict__.items()}
    found.update(floats=facts.floats, limits=facts.limits, toolchain=facts.toolchain)
    return found


def _plain(value: Any) -> Any:
    """A value of a record as JSON takes it."""
    if isinstance(value, frozenset):
        order = [scalar.name for scalar in scalar_types]
        return sorted(value, key=lambda name: (order.index(name) if name in order else -1, name))
    return list(value) if isinstance(value, tuple) else value


def table_text(targets: Iterable[dict[str, Any]]) -> str:
    """The targets as a table for people."""
    rows = [("target", "usable", "checked", "lacks", "what it is, or why it is not usable")]
    for found in targets:
        record = found["record"]
        lacks = "" if record is None else " ".join(s.name for s in scalar_types if s.name not in record["dtypes"])
        told = found["reason"] or (record["version"] if record else "")
        rows.append((found["name"], "yes" if found["usable"] else "no", found["checked"], lacks, told))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    return "\n".join("  ".join([*(row[k].ljust(widths[k]) for k in range(4)), _short(row[4])]).rstrip() for row in rows)


def _short(text: str) -> str:
    """One line of a text."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 100 else line[:97] + "…"
