"""The run tests of one target, as pytest runs them, as outcomes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from quadrants.evidence.conformance.worker import NOTHING_COMPILED, Outcome, without_place

__all__ = ["COMPILED", "read_report", "suite_outcomes"]

COMPILED = "compiled for the device"
"""The property of a test whose code was made and not run: how many tasks were compiled."""
_MOST_TEXT = 600


def suite_outcomes(target: str, folder: Path, jobs: int, only: str = "") -> list[Outcome]:
    """The tests below `folder` (that of all tests) that take an executor, on each of the target's; `only`: those whose names pytest's -k finds."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        chosen = f"{target}-" + (f" and ({only})" if only else "")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "run"), "-k", chosen]
        command += [f"--junitxml={report}", *(["-n", str(jobs)] if jobs > 1 else [])]
        environment = {**os.environ, "QD_OFFLINE_CACHE": "0"}
        done = subprocess.run(command, cwd=folder.parent, env=environment, capture_output=True, text=True)
        if not report.exists():
            raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout[-2000:]}")
        return read_report(report, target)


def read_report(report: Path, target: str) -> list[Outcome]:
    """The outcomes in a report in JUnit's format."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").rpartition("test_")[2]
        name = f"{module}: {case.get('name', '').removeprefix('test_')}"
        status, reason = "passed", ""
        compiled = [int(entry.get("value", "")) for entry in case.iter("property") if entry.get("name") == COMPILED]
        if compiled:
            status, reason = ("assembled", "") if compiled[0] else ("not run", NOTHING_COMPILED)
        for child in case:
            message = (child.get("message") or "")[:_MOST_TEXT]
            if child.tag in ("failure", "error"):
                status, reason = "failed", message
            elif child.tag == "skipped" and status != "failed":
                refused = f"refused on {target}: "
                status = "refused" if refused in message else "not run"
                reason = without_place(message.partition(refused)[2] or message)
        found.append(Outcome(name, status, reason))
    return sorted(found, key=lambda outcome: outcome.name)
