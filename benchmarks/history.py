"""The benchmark history: one JSON line a run, with the machine, the commit and the versions that made it."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.peers import CORES, Peer, version

HISTORY = Path(__file__).parent / "history.jsonl"


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=HISTORY.parent, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout.strip()


def processor() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    found = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return found or platform.processor() or platform.machine()


def describe(peers: list[Peer]) -> dict[str, Any]:
    """Where and on what a run was made."""
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": git("rev-parse", "--short=12", "HEAD"),
        "changed_files": len(git("status", "--porcelain", "--untracked-files=no").splitlines()),
        "machine": {
            "processor": processor(),
            "cores": CORES,
            "system": platform.platform(terse=True),
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {peer.name: version(peer) for peer in peers},
    }


def append(record: dict[str, Any], path: Path = HISTORY) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")


def read(path: Path = HISTORY) -> list[dict[str, Any]]:
    """All runs, oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def valid(result: dict[str, Any]) -> bool:
    """A time counts only if the answer was right."""
    return bool(result.get("ok")) and result.get("error", 0) <= result.get("tolerance", 0)


def rivals(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The peers of one workload with a right answer, but for ourselves and the hand-written baselines."""
    return {name: r for name, r in results.items() if name not in ("ours", "cpp", "python") and valid(r)}
