"""Runs workloads: all peers of one are alive together and are timed in turn, so that noise meets them alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import CORES, Peer, home, interpreter

WORKLOADS = Path(__file__).parent / "workloads"
Result = dict[str, Any]


def names() -> list[str]:
    """The workloads that there are, in alphabetical order."""
    return sorted(folder.name for folder in WORKLOADS.iterdir() if (folder / "case.py").exists())


class Worker:
    """A process that holds one peer's state of one workload. `info` is its first answer."""

    def __init__(self, peer: Peer, workload: str, environment: dict[str, str] | None = None) -> None:
        log = home() / "logs" / f"{peer.name}.{workload}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        here = WORKLOADS.parent
        command = [str(interpreter(peer)), str(here / "worker.py"), str(WORKLOADS / workload)]
        # An inherited PYTHONPATH would put this package in front of a rival that has its name.
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or peer.name == "ours"}
        caches = {peer.cache_variable: str(home() / "caches" / peer.name)} if peer.cache_variable else {}
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [*command, peer.program, peer.package, peer.alias],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=tempfile.gettempdir(),
                env={**inherited, **peer.environment, **caches, **(environment or {})},
            )
        self.info: Result = self.read()

    def read(self) -> Result:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"ok": False, "why": f"ended with code {self.process.wait()}"}

    def time(self, count: int) -> Result:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.communicate()


def runs_of(peer: Peer, workload: str) -> bool:
    return (WORKLOADS / workload / f"{peer.program}.py").exists()


def measure(workload: str, peers: list[Peer], rounds: int, seconds: float = 0.03) -> dict[str, Result]:
    """Times one workload: `rounds` samples a peer, each of about `seconds`, forward and backward in turn."""
    results: dict[str, Result] = {}
    workers: dict[str, Worker] = {}
    for peer in peers:
        if runs_of(peer, workload):
            worker = Worker(peer, workload)
            results[peer.name] = worker.info
            if worker.info["ok"]:
                workers[peer.name] = worker
            else:
                worker.close()
    counts = {name: max(1, min(1000, int(seconds / worker.time(1)["seconds"]))) for name, worker in workers.items()}
    samples: dict[str, list[Result]] = {name: [] for name in workers}
    for turn in range(rounds):
        for name in list(workers) if turn % 2 == 0 else reversed(list(workers)):
            samples[name].append(workers[name].time(counts[name]))
    for name, worker in workers.items():
        worker.close()
        results[name].update(summary(samples[name], results[name].pop("repeats")))
    return results


def summary(samples: list[Result], repeats: int) -> Result:
    """Median and minimum seconds of one repeat; its least CPU seconds over all threads; and `quiet`, what it would take
    on an idle machine: those CPU seconds over the number of threads that share the work."""
    times = [sample["seconds"] / repeats for sample in samples]
    cpu = min(sum(sample["threads"].values()) for sample in samples) / repeats
    totals: dict[str, float] = {}
    for sample in samples:
        for thread, seconds in sample["threads"].items():
            totals[thread] = totals.get(thread, 0.0) + seconds
    sharing = min(CORES, sum(totals.values()) / max(totals.values())) if totals else 1.0
    return {
        "median": statistics.median(times),
        "minimum": min(times),
        "cpu_minimum": cpu,
        "threads": round(sharing, 2),
        "quiet": min(min(times), cpu / sharing),
    }


def measure_startup(peers: list[Peer], workload: str = "mpm88", rounds: int = 3) -> dict[str, Result]:
    """Import, first run with an empty cache, first run of a new process with the cache filled: medians in seconds."""
    collected: dict[str, dict[str, list[float]]] = {}
    chosen = [peer for peer in peers if peer.cache_variable and runs_of(peer, workload)]
    for _ in range(rounds):
        for peer in chosen:
            with tempfile.TemporaryDirectory() as cache:
                for kind in ("cold", "warm"):
                    worker = Worker(peer, workload, {peer.cache_variable: cache})
                    worker.close()
                    if worker.info["ok"]:
                        into = collected.setdefault(peer.name, {"import": [], "cold": [], "warm": []})
                        into[kind].append(worker.info["make_seconds"] + worker.info["first_seconds"])
                        into["import"].append(worker.info["import_seconds"])
    return {
        name: {"ok": True, **{kind: statistics.median(values) for kind, values in kinds.items()}}
        for name, kinds in collected.items()
    }
