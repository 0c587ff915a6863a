"""Many programs, in processes of their own: a crash or a hang costs one program and is told as what it is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

__all__ = ["Summary", "campaign", "work"]

# Programs for one process: compiled code is never given back.
BLOCK = 100
SECONDS_OF_WORK = 180
"""Of a processor's time for one program: drivers of GPUs have compiled a hundred lines of nested loops for two minutes."""
SECONDS = 600


class Summary(NamedTuple):
    """What a campaign came to. `findings`: the seeds that failed, with how."""

    programs: int
    seconds: float
    findings: list[dict[str, Any]]

    def __str__(self) -> str:
        rate = self.programs / max(self.seconds, 1e-9)
        kinds = Counter(finding["kind"] for finding in self.findings)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no mismatch"
        return f"{self.programs} programs in {self.seconds:.0f} s, {rate:.1f} a second: {told}"


def campaign(seed: int, programs: int, jobs: int, stop_after: int = 1 << 30, output: TextIO | None = None) -> Summary:
    """Runs the programs `seed` … `seed + programs - 1` in `jobs` processes at a time, and tells failures as they come.
    After `stop_after` failures no new program is begun."""
    out = output or sys.stdout
    blocks = iter(range(seed, seed + programs, BLOCK))
    findings: list[dict[str, Any]] = []
    lock = threading.Lock()
    started = time.monotonic()
    count = 0

    def serve() -> None:
        nonlocal count
        while True:
            with lock:
                first = next(blocks, None) if len(findings) < stop_after else None
            if first is None:
                return
            for event in _block(first, min(first + BLOCK, seed + programs)):
                with lock:
                    if event["event"] == "done":
                        count += 1
                    else:
                        findings.append(event)
                        print(
                            f"seed {event['seed']}: {event['kind']}: {event['text']}\n  under {event['settings']}",
                            file=out,
                            flush=True,
                        )

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Summary(count, time.monotonic() - started, sorted(findings, key=lambda finding: finding["seed"]))


def _block(first: int, last: int) -> Iterator[dict[str, Any]]:
    """The events of some programs, whatever happens to the processes that run them."""
    while first < last:
        begun = first - 1
        command = [sys.executable, "-m", "quadrants.evidence.fuzz", "--work", str(first), str(last)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "begin":
                    begun = event["seed"]
                else:
                    yield event
        if process.returncode == 0:
            return
        if begun < first:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}")
        kind = "hang" if process.returncode in (-signal.SIGALRM, -signal.SIGPROF) else "crash"
        text = f"the process ended with status {process.returncode}"
        yield {"event": "found", "seed": begun, "kind": kind, "text": text, "settings": "either of its options"}
        yield {"event": "done", "seed": begun}
        first = begun + 1


def work(first: int, last: int) -> None:
    """Runs programs and writes events, one JSON a line: what a process of a campaign does."""
    from quadrants.evidence.fuzz.trial import run_seed

    out = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            print(json.dumps({"event": "begin", "seed": seed}), file=out, flush=True)
            with time_limit():
                found = run_seed(seed, Path(folder))
            for finding in found:
                event = {"event": "found", "seed": seed, "kind": finding.failure.kind, "text": finding.failure.text}
                print(json.dumps({**event, "settings": str(finding.settings)}), file=out, flush=True)
            print(json.dumps({"event": "done", "seed": seed}), file=out, flush=True)


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS) -> Iterator[None]:
    """Ends the process by a signal if the body takes too long, even where it waits for a GPU."""
    signal.setitimer(signal.ITIMER_PROF, min(SECONDS_OF_WORK, seconds))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
