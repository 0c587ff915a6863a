"""`scripts/gpu_check`: on a machine with an NVIDIA GPU, in less than six minutes: whether our CUDA target is right, and how fast.

1. A sample of the conformance suite (`python -m quadrants conform --target cuda`).
2. Launch cost, bandwidth, products and sums of our programs and of those of the peers that are installed, each in its own process.
3. The workloads of `benchmarks/`, on the GPU.

Prints a table, and writes it as JSON. With `--played` everything of ours runs at tiny sizes by the interpreter of PTX, and torch on
the processor: so the script itself is tested without a GPU. The exit status is 1 where something of ours failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES
from benchmarks.gpu.workloads import TINY
from benchmarks.peers import home

HERE = Path(__file__).parent
PEERS = {
    "ours": "quadrants",
    "torch": "torch",
    "triton": "triton",
    "numba": "numba",
    "warp": "warp",
    "upstream": "quadrants",
}
"""The peers' programs, and the packages that they need."""
MINUTES = 6.0
Answers = dict[str, dict[str, Any]]


class Clock:
    """What is left of the time that all may take."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes

    def left(self, most: float) -> float:
        return max(min(self.end - time.monotonic(), most), 5.0)


def interpreter(peer: str) -> str | None:
    """The Python that has a peer's package: its own environment's, or this one; None without any."""
    if peer == "ours":
        return sys.executable
    own = home() / "venvs" / {"upstream": "quadrants"}.get(peer, peer) / "bin" / "python"
    if own.exists():
        return str(own)
    return sys.executable if peer != "upstream" and importlib.util.find_spec(PEERS[peer]) is not None else None


def asked(command: list[str], device: str, seconds: float, is_ours: bool) -> Answers:
    """The answers of a worker by case; what it wrote before it was stopped counts."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or is_ours}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**environment, "GPU_CHECK_DEVICE": device}
        )
        try:
            text, _ = process.communicate(timeout=seconds)
            ending = f"ended with code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            ending = f"was stopped after {seconds:.0f} s"
        errors.seek(0)
        told = errors.read().strip().splitlines()
    answers = {found.pop("case"): found for found in map(json.loads, text.splitlines())}
    if ending:
        answers["process"] = {"ok": False, "why": f"{ending}: {told[-1] if told else ''}"[:300]}
    return answers


def conformance(played: bool, clock: Clock) -> dict[str, Any]:
    """How many cases of a sample passed, were refused, and failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "cuda.json"
        every, parts = ("400", "operations") if played else ("25", "operations,conversions,programs")
        command = [sys.executable, "-m", "quadrants", "conform", "--target", "cuda", "--out", str(out)]
        try:
            done = subprocess.run(
                [*command, "--parts", parts, "--every", every],
                capture_output=True,
                text=True,
                timeout=clock.left(120),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"ok": False, "why": "it took longer than two minutes"}
        return {"ok": done.returncode == 0, "told": done.stdout.strip().splitlines()[-12:]}


def machine() -> dict[str, str]:
    """The GPU and its driver, as NVIDIA's tool names them."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        told = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    return {"gpu": told.splitlines()[0] if told else "none", "python": sys.version.split()[0]}


def table(results: dict[str, Answers]) -> list[str]:
    """A line a case, a column a peer."""
    peers = list(results)
    lines = [f"{'':10s}" + "".join(f"{peer:>16s}" for peer in peers)]
    for name, case in CASES.items():
        cells = []
        for peer in peers:
            found = results[peer].get(name)
            if found is None:
                cells.append("-")
            elif "value" in found:
                cells.append(f"{found['value']:.4g} {found['unit']}" + ("" if found["ok"] else " !"))
            else:
                cells.append("failed")
        lines.append(f"{name:10s}" + "".join(f"{cell:>16s}" for cell in cells))
    return lines


def failures(report: dict[str, Any]) -> list[str]:
    """What of ours failed."""
    groups = {
        "conformance": {"": report["conformance"]},
        "cases": report["cases"]["ours"],
        "workloads": report["workloads"],
    }
    return [
        f"{group} {name}: {found.get('why', found.get('error', ''))}"
        for group, answers in groups.items()
        for name, found in answers.items()
        if not found["ok"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--played", action="store_true", help="without a GPU, at tiny sizes")
    parser.add_argument("--out", default="gpu_check.json", help="the JSON file (gpu_check.json)")
    parser.add_argument("--peers", help="peers, separated by commas; all installed ones without it")
    parser.add_argument("--only", help="cases, separated by commas")
    options = parser.parse_args()
    clock, played = Clock(MINUTES), options.played
    kind, names = "tiny" if played else "full", options.only.split(",") if options.only else list(CASES)
    wanted = options.peers.split(",") if options.peers else ["ours", "torch"] if played else list(PEERS)
    report: dict[str, Any] = {"machine": machine(), "played": played, "cases": {}}
    for peer in [peer for peer in PEERS if peer in wanted or peer == "ours"]:
        python = interpreter(peer)
        if python is None:
            print(f"{peer}: not installed", flush=True)
            continue
        device = "cuda" if not played else "played" if peer == "ours" else "cpu"
        command = [python, str(HERE / "worker.py"), peer, kind, *names]
        report["cases"][peer] = asked(command, device, clock.left(60 if peer == "ours" else 30), peer == "ours")
    print("\n".join(table(report["cases"])), flush=True)
    folders = sorted(path.parent.name for path in (HERE.parent / "workloads").glob("*/ours.py"))
    chosen = [name for name in folders if name in TINY] if played else folders
    command = [sys.executable, str(HERE / "workloads.py"), kind, *chosen]
    report["workloads"] = asked(command, "played" if played else "cuda", clock.left(90), True)
    for name, found in report["workloads"].items():
        print(
            f"{name:14s}"
            + (f"{found['value']:10.4g} {found['unit']}" if found["ok"] else f"  {found.get('why', found)}")
        )
    report["conformance"] = conformance(played, clock)
    print("\n".join(report["conformance"].get("told", [report["conformance"].get("why", "")])))
    report["failures"] = failures(report)
    Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(report["failures"]) or "nothing of ours failed")
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
