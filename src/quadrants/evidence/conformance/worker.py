"""Runs the cases of a part in a process of its own: what kills the process fails one case and is told as what it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.amdgpu.driver import AssemblingDriver
from quadrants.evidence.conformance.parts import CASES, Case
from quadrants.evidence.emulation import emulation
from quadrants.evidence.fuzz.campaign import SECONDS, time_limit
from quadrants.records import Record
from quadrants.targets import table

__all__ = ["NOTHING_COMPILED", "STATUSES", "Outcome", "outcomes", "without_place", "work"]

STATUSES = ("passed", "assembled", "refused", "failed", "not run")
NOTHING_COMPILED = "no part of it runs on the device"
_MOST_TEXT = 600
_ANEW = 75
"""The status of a process whose device is lost: the cases behind the last one are another process's."""


class Outcome(Record):
    """What became of a case: one of `STATUSES`, and why where it did not pass. 'assembled': the target's code was made of it, and the
    interpreter ran it in the hardware's place."""

    name: str
    status: str
    reason: str = ""


def outcomes(target: str, part: str, count: int, stride: int = 1, seconds: int = SECONDS) -> Iterator[Outcome]:
    """The outcomes of every `stride`-th case of a part, whatever happens to the processes that run them; a case may take so long."""
    names = [case.name for case in CASES[part](count)[::stride]]
    first = 0
    while first < len(names):
        command = [sys.executable, "-m", "quadrants.evidence.conformance.worker"]
        command += [target, part, str(count), str(stride), str(first), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield Outcome(*json.loads(line))
                first += 1
        if process.returncode == _ANEW:
            continue
        if process.returncode != 0 and first < len(names):
            yield Outcome(names[first], "failed", f"the process ended with status {process.returncode}")
            first += 1
        elif first < len(names):
            raise RuntimeError(f"{' '.join(command)} ended before its last case")


def work(target: str, part: str, count: int, stride: int, first: int, seconds: int) -> None:
    """Runs the cases from `first` on and writes an outcome a line."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what programs print is theirs
    with emulation(knobs.arch_by_name(target)) as driver:
        for case in CASES[part](count)[::stride][first:]:
            with time_limit(seconds):
                found = _outcome(case, target)
            if found.status == "passed" and type(driver) is AssemblingDriver:
                compiled = sum(len(made.symbols) for made in driver.made)
                driver.made.clear()
                found = Outcome(case.name, "assembled") if compiled else Outcome(case.name, "not run", NOTHING_COMPILED)
            print(json.dumps([found.name, found.status, found.reason]), file=out, flush=True)
            if found.status == "failed" and _is_lost(target):
                sys.exit(_ANEW)


def _is_lost(target: str) -> bool:
    """Whether nothing works any more on the target's device in this process, after a case that did harm."""
    shared = getattr(table.find(knobs.arch_by_name(target)), "shared_device", None)
    return shared is not None and shared().driver.is_lost


def _outcome(case: Case, target: str) -> Outcome:
    try:
        case.run(target)
    except QuadrantsUnsupportedError as error:
        return Outcome(case.name, "refused", without_place(str(error)))
    except Exception as error:  # whatever a target raises is what is looked for
        return Outcome(case.name, "failed", f"{type(error).__name__}: {error}"[:_MOST_TEXT])
    return Outcome(case.name, "passed")


def without_place(text: str) -> str:
    """The first line of an error without its place, and without addresses: the same for all programs that are refused for that
    reason."""
    line = re.sub(r"\b0x[0-9a-f]{6,}\b", "at some address", text.splitlines()[0])
    head, _, rest = line.partition(": ")
    return rest if head.count(":") == 2 and head.split(":")[1].isdigit() else line


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
