"""`scripts/gpu_check`: on a machine with an NVIDIA GPU, in less than six minutes: whether our CUDA target is right, and how fast.

1. What the host's part does with the driver: streams, graphs, recursion, checks, torch's tensors, the disk cache, a fault.
2. Launch cost, bandwidth, products and sums of our programs.
3. A sample of the conformance suite (`python -m quadrants conform --target cuda`).
4. The workloads of `benchmarks/`, on the GPU.
5. The programs of 2 as the peers that are installed have them.

Every step has a time of its own, runs in processes of its own, and goes on behind a case that hangs, dies or loses the GPU. Prints what is
known as it comes, and writes it as JSON after each step. With `--played` everything of ours runs at tiny sizes by the interpreter of PTX,
and torch on the processor: so the script itself is tested without a GPU. The exit status is 1 where something of ours failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.gpu import processes
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.processes import Answers
from benchmarks.gpu.worker import MOST_TEXT
from benchmarks.gpu.workloads import TINY
from benchmarks.peers import home

HERE = Path(__file__).parent
PEERS = {
    "torch": "torch",
    "triton": "triton",
    "numba": "numba",
    "warp": "warp",
    "upstream": "quadrants",
}
"""The peers' programs, and the packages that they need."""
HOST = ("warpgroups", "facts", "order", "times", "graphs", "loops", "recursion")
HOST += ("shared", "prints", "checks", "memory", "sharing", "kept", "fault")
"""The cases of host.py: the first is asked apart, and the last does harm."""
STEPS = ("host", "cases", "conformance", "workloads", "peers")
MINUTES = 5.5
SECONDS = {"host": 70.0, "ours": 75.0, "conformance": 100.0, "workloads": 75.0, "peer": 30.0}
EACH = 25.0
"""How long all may take, each step, and one case of it."""


class Clock:
    """What is left of the time that all may take."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes

    def left(self, most: float) -> float:
        return max(min(self.end - time.monotonic(), most), 0.0)


def interpreter(peer: str) -> str | None:
    """The Python that has a peer's package: its own environment's, or this one; None without any."""
    own = home() / "venvs" / {"upstream": "quadrants"}.get(peer, peer) / "bin" / "python"
    if own.exists():
        return str(own)
    return sys.executable if peer != "upstream" and importlib.util.find_spec(PEERS[peer]) is not None else None


def environment(device: str, is_ours: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or is_ours}
    return {**kept, "GPU_CHECK_DEVICE": device}


def conformance(played: bool, seconds: float) -> dict[str, Any]:
    """How many cases of a sample passed, were refused, and failed; what it told before it was stopped counts."""
    every, parts = ("400", "operations") if played else ("10", "programs,operations,conversions,fuzz")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", errors="replace") as told:
        command = [sys.executable, "-m", "quadrants", "conform", "--target", "cuda", "--out", f"{folder}/cuda.json"]
        command += ["--parts", parts, "--every", every, "--programs", "60", "--seconds", str(int(EACH))]
        process = processes.start(command, stdout=told, stderr=subprocess.STDOUT)
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        processes.stop(process)
        told.seek(0)
        lines = [line for line in told.read().splitlines() if line.strip()]
    outcomes = [line for line in lines if line.startswith(("cuda ", "failed"))]
    found: dict[str, Any] = {"ok": status == 0, "told": (outcomes if status in (0, None) else lines)[-60:]}
    if status != 0:
        found["why"] = f"it was stopped after {seconds:.0f} s" if status is None else "see what it told"
        # Not to be done in time is no fault of the target's, unless a case of it failed.
        found["ok"] = status is None and not any(line.startswith("failed") for line in lines) and bool(lines)
    return found


_ANSWER = "gpu_check answers:"
_ASKED = f"""
from quadrants.knobs import Arch
from quadrants.targets import table
print("\\n{_ANSWER}", table.missing(Arch.cuda))
"""


def lacking(program: str = _ASKED, seconds: float = 60.0) -> str:
    """Why the CUDA target does not run here, asked in a process of its own; '' where it does. What plays a GPU is none."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = processes.start([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=errors)
        try:
            told, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            told = f"{_ANSWER} NVIDIA's driver does not answer within {seconds:.0f} s"
        processes.stop(process)
        if _ANSWER in told:  # what else libraries print is no reason
            return told.rpartition(_ANSWER)[2].strip()
        errors.seek(0)
        last = errors.read().strip()[-MOST_TEXT:]
    return f"who asks NVIDIA's driver ended with status {process.returncode}: {last}".strip(": ")


def machine() -> dict[str, str]:
    """The GPU and its driver, as NVIDIA's tool names them, and what is installed."""
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        told = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    versions = {
        name: version(name)
        for name in ("cuda-bindings", "llvmlite", "numpy", "torch", "triton", "numba-cuda", "warp-lang")
    }
    gpu = told.splitlines()[0] if told else "none"
    return {
        "gpu": gpu,
        "python": platform.python_version(),
        **{name: found for name, found in versions.items() if found},
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def cell(found: dict[str, Any]) -> str:
    if "value" not in found:
        return "ok" if found["ok"] else "failed"
    return f"{found['value']:.4g} {found['unit']}" + ("" if found["ok"] else " wrong")


def table(results: dict[str, Answers]) -> list[str]:
    """A line a case, a column a peer."""
    lines = [f"{'':10s}" + "".join(f"{peer:>16s}" for peer in results)]
    for name in CASES:
        cells = [cell(found[name]) if name in found else "-" for found in results.values()]
        lines.append(f"{name:10s}" + "".join(f"{text:>16s}" for text in cells))
    return lines


def failures(report: dict[str, Any]) -> list[str]:
    """What of ours failed, with all that is known of it."""
    groups = {
        "host": report.get("host", {}),
        "case": report.get("cases", {}).get("ours", {}),
        "workload": report.get("workloads", {}),
        "conformance": {"": report["conformance"]} if "conformance" in report else {},
    }
    return [
        f"{group} {name}: {found.get('why', found.get('error', ''))}".replace("\n", "\n    ")
        for group, answers in groups.items()
        for name, found in answers.items()
        if not found["ok"]
    ]


class Check:
    """One run: its options, its clock, and what is known so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.played = options, options.played
        self.clock = Clock(MINUTES)
        self.report: dict[str, Any] = {"machine": machine(), "played": self.played, "cases": {}, "seconds": {}}
        self.steps = [step for step in STEPS if not options.steps or step in options.steps]
        self.kind = "tiny" if self.played else "full"
        self.names: list[str] = options.only or list(CASES)

    def ours(self, step: str, file: str, names: Sequence[str], *arguments: str) -> Answers:
        """A step of ours; tells of each case as it comes."""
        command = [sys.executable, str(HERE / file), *arguments, self.kind]

        def tell(name: str, found: dict[str, Any]) -> None:
            rest = found.get("told") or found.get("why", "")
            print(f"{step:10s} {name:16s}{cell(found):>16s}  {rest}".rstrip().replace("\n", "\n    "), flush=True)

        device = "played" if self.played else "cuda"
        seconds = self.clock.left(SECONDS[step])
        return processes.asked(command, names, environment(device, True), seconds, EACH, tell)

    def step(self, name: str, run: Callable[[], None]) -> None:
        """A step, after which what is known is written; an error of the script's own is told, too, and ends no other step."""
        start = time.monotonic()
        try:
            run()
        except Exception as error:  # whatever it is, the next step may still tell something
            self.report.setdefault("script", {})[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: the script itself failed: {type(error).__name__}: {error}", flush=True)
        self.report["seconds"][name] = round(time.monotonic() - start, 1)
        self.report["failures"] = failures(self.report)
        Path(self.options.out).write_text(json.dumps(self.report, indent=1) + "\n")

    def host(self) -> None:
        first, *others = HOST
        self.report["host"] = self.ours("host", "host.py", [first])
        if not self.report["host"].get(first, {}).get("ok"):
            os.environ["QD_WARPGROUPS"] = "0"  # each process would ask again, and be lost for all else
            print("host       all that follows does without warpgroups (QD_WARPGROUPS=0)", flush=True)
        self.report["host"].update(self.ours("host", "host.py", others))

    def cases(self) -> None:
        self.report["cases"]["ours"] = self.ours("ours", "worker.py", self.names, "ours")

    def conformance(self) -> None:
        self.report["conformance"] = found = conformance(self.played, self.clock.left(SECONDS["conformance"]))
        print("\n".join([*found["told"], *([found["why"]] if "why" in found else [])]), flush=True)

    def workloads(self) -> None:
        folders = sorted(path.parent.name for path in (HERE.parent / "workloads").glob("*/ours.py"))
        chosen = [name for name in folders if name in TINY] if self.played else folders
        self.report["workloads"] = self.ours("workloads", "workloads.py", chosen)

    def peers(self) -> None:
        wanted = self.options.peers or (["torch"] if self.played else list(PEERS))
        for peer in [peer for peer in PEERS if peer in wanted]:
            python = interpreter(peer)
            if python is None:
                print(f"{peer}: not installed", flush=True)
                continue
            command = [python, str(HERE / "worker.py"), peer, self.kind]
            told = environment("cpu" if self.played else "cuda", False)
            found = processes.asked(command, self.names, told, self.clock.left(SECONDS["peer"]), EACH)
            self.report["cases"][peer] = found
            for name, answer in found.items():
                if not answer["ok"]:
                    print(f"{peer} {name}: {answer.get('why', 'wrong')[:300]}", flush=True)


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads names that are known, separated by commas."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(known)}")
        return names

    return read


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--played", action="store_true", help="without a GPU, at tiny sizes")
    parser.add_argument("--out", default="gpu_check.json", help="the JSON file (gpu_check.json)")
    parser.add_argument(
        "--peers", type=some_of(PEERS), help="peers, separated by commas; all installed ones without it"
    )
    parser.add_argument("--steps", type=some_of(STEPS), help="steps, separated by commas: " + ",".join(STEPS))
    parser.add_argument("--only", type=some_of(CASES), help="cases, separated by commas: " + ",".join(CASES))
    check = Check(parser.parse_args())
    print(", ".join(f"{name} {found}" for name, found in check.report["machine"].items()), flush=True)
    reason = "" if check.played else lacking()
    if reason:
        check.report["script"] = {"start": reason}
    for name in check.steps if not reason else ():
        check.step(name, getattr(check, name))
    if reason:
        Path(check.options.out).write_text(json.dumps(check.report, indent=1) + "\n")
    else:
        print("\n".join(table(check.report["cases"])))
    failed = check.report.get("failures", []) + [
        f"script {name}: {why}" for name, why in check.report.get("script", {}).items()
    ]
    print("\n".join(failed) or "nothing of ours failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
