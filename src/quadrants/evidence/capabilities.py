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
from quadrants.targets.capability import CapabilityRecord, Facts

__all__ = ["FIELDS", "FORMAT", "describe", "fields_text", "made_with", "report", "table_text", "targets_text"]

FORMAT = "quadrants-targets 2"

FIELDS: dict[str, str] = {
    "name": "what `qd.init(arch=…)` calls it",
    "what": "what it is",
    "usable": "whether kernels run on it on this machine",
    "reason": "why not, where it is not usable",
    "checked": "how its tests show that it is right: executed (on what it is for), emulated (by software in its place), simulated (executed in part, on "
    "other software that has no more than it has), assembled "
    "(code is made, nothing runs it), not at all",
    "how": "the same in words",
    "played": "whether the rest is told of software of ours that plays the hardware, which is not here",
    "record": "its capability record, by field; null, as the rest, where neither it nor what plays it is here",
    "lanes": "how many values of a scalar type one preferred vector holds, where it has vectors",
    **{name: field.doc for name, field in Facts.fields().items()},
}
"""What a report has of each target, with what it means."""


def made_with() -> dict[str, str]:
    """What reports were made with, beside the targets' own tools."""
    return {
        "quadrants": quadrants.__version_str__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def report() -> dict[str, Any]:
    """Every target of this version, as JSON takes it, with the meaning of every field."""
    fields = {"target": FIELDS, "record": {name: field.doc for name, field in CapabilityRecord.fields().items()}}
    targets = [describe(arch) for arch in table.TARGETS]
    return {"format": FORMAT, "made_with": made_with(), "fields": fields, "targets": targets}


def describe(arch: Arch) -> dict[str, Any]:
    """One target, by the names in `FIELDS`."""
    row, reason = table.row(arch), table.missing(arch)
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    found.update(name=arch.name, what=row.what, usable=not reason, reason=reason)
    found.update(checked=row.checked or "not at all", how=row.how, played=False)
    with emulation(arch):
        if table.missing(arch):
            return found
        target = table.find(arch)
        try:
            record, facts = target.record(), target.facts()
        except QuadrantsUnsupportedError as error:
            return {**found, "usable": False, "reason": str(error)}
    lanes = {scalar.name: record.lanes(scalar) for scalar in scalar_types if record.has_dtype(scalar)}
    found.update({name: _plain(value) for name, value in facts.__dict__.items()})
    found.update(
        played=bool(reason),
        record={name: _plain(value) for name, value in record.__dict__.items()},
        lanes=lanes if record.vector_bits else {},
    )
    return found


def fields_text() -> str:
    """The fields of reports and of records as tables of Markdown."""
    parts = (("of a target", FIELDS), ("of `record`", {k: v.doc for k, v in CapabilityRecord.fields().items()}))
    return "\n".join(
        "\n".join([f"| field {what} | meaning |", "|---|---|", *(f"| `{k}` | {v} |" for k, v in fields.items()), ""])
        for what, fields in parts
    )


def targets_text() -> str:
    """The rows of the table of targets as one of Markdown."""
    rows = [f"| `{arch.name}` | {row.what} | {row.how} |" for arch, row in table.TARGETS.items()]
    return "\n".join(["| target | what it is | how it is checked |", "|---|---|---|", *rows, ""])


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
