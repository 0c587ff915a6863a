"""A conformance run: the parts that were asked for, one after another, into one evidence file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from quadrants.evidence import capabilities, emulation
from quadrants.evidence.conformance import record
from quadrants.evidence.conformance.parts import tests_folder
from quadrants.evidence.conformance.suite import suite_outcomes
from quadrants.evidence.conformance.worker import Outcome, outcomes
from quadrants.evidence.fuzz.campaign import SECONDS
from quadrants.knobs import Arch

__all__ = ["PARTS", "conform"]

PARTS = ("operations", "conversions", "programs", "tests", "fuzz")


def conform(
    arch: Arch, out: Path, parts: Iterable[str], programs: int, every: int = 1, jobs: int = 1, seconds: int = SECONDS
) -> int:
    """Runs parts (all if none is named) on a target, writes `out`, tells what failed; gives the exit status: 0 if nothing
    failed, 1 if something did, 2 if the target cannot be run here or a part is unknown."""
    chosen = list(parts) or [part for part in PARTS if part != "tests" or every == 1]
    unknown = [part for part in chosen if part not in PARTS]
    reason = f"there is no part {unknown[0]}: {', '.join(PARTS)}" if unknown else emulation.missing(arch)
    if reason:
        print(f"{arch.name}: {reason}", file=sys.stderr)
        return 2
    evidence = {
        "format": record.FORMAT,
        "target": capabilities.describe(arch),
        "made_with": capabilities.made_with(),
        "parts": {},
    }
    evidence = record.merged(record.read(out), evidence)
    for part in chosen:
        evidence["parts"][part] = made = record.evidence_of(_told(_part(part, arch, programs, every, jobs, seconds)))
        record.write(out, evidence)  # what ends the next part leaves this one
        counts = ", ".join(f"{count} {status}" for status, count in record.counts(made).items() if count)
        print(f"{arch.name} {part}: {counts}", flush=True)
    return 1 if record.failed(evidence) else 0


def _part(part: str, arch: Arch, programs: int, every: int, jobs: int, seconds: int) -> Iterable[Outcome]:
    if part in ("programs", "tests") and tests_folder() is None:
        return [Outcome("all", "not run", "the tests are not beside the package: run it in a checkout")]
    if part == "tests":
        folder = tests_folder()
        assert folder is not None
        return suite_outcomes(arch.name, folder, jobs)
    return outcomes(arch.name, part, programs, every, seconds)


def _told(found: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes; those that failed are told as they come."""
    for outcome in found:
        if outcome.status == "failed":
            print(f"failed: {outcome.name}: {outcome.reason}", file=sys.stderr, flush=True)
        yield outcome
