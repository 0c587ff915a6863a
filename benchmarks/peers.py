"""Who can run a workload: each peer's interpreter, the program file that it runs, and its environment.

A peer lives in a virtual environment of its own under $BENCH_HOME/venvs/<name> (default ~/.cache/quadrants-bench), so
that rivals with clashing needs, or with our own import name, can be measured side by side. `make peers` builds them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Peer:
    """One rival (or ourselves): `program` is the stem of its file in a workload's folder."""

    name: str
    program: str
    package: str  # what is imported and timed as its import; empty for none
    requirements: tuple[str, ...] = ()  # what its own environment needs beside NumPy
    environment: dict[str, str] = field(default_factory=dict)
    cache_variable: str = ""  # the environment variable that moves its compile cache
    alias: str = ""  # the name under which its program imports the package, where that differs


PEERS = (
    Peer("ours", "ours", "quadrants", cache_variable="QD_OFFLINE_CACHE_FILE_PATH"),
    Peer("cpp", "cpp", "", environment={"OMP_NUM_THREADS": str(CORES), "OMP_WAIT_POLICY": "passive"}),
    Peer("python", "python", ""),
    Peer(
        "numba",
        "numba",
        "numba",
        ("numba",),
        {"NUMBA_NUM_THREADS": str(CORES), "OMP_WAIT_POLICY": "passive"},
        "NUMBA_CACHE_DIR",
    ),
    Peer("warp", "warp", "warp", ("warp-lang",), cache_variable="WARP_CACHE_PATH"),
    Peer(
        "taichi",
        "taichi",
        "taichi",
        ("taichi",),
        {"TI_LOG_LEVEL": "error", "ENABLE_TAICHI_HEADER_PRINT": "0"},
        "TI_OFFLINE_CACHE_FILE_PATH",
    ),
    Peer(
        "upstream",
        "taichi",
        "quadrants",
        ("quadrants",),
        {"QD_LOG_LEVEL": "error"},
        "QD_OFFLINE_CACHE_FILE_PATH",
        "taichi",
    ),
)
FOLDERS = {"upstream": "quadrants"}  # environments whose folder is not called as the peer is


def home() -> Path:
    """The folder of the rivals' environments, compiled C++ and logs."""
    return Path(os.environ.get("BENCH_HOME", Path.home() / ".cache" / "quadrants-bench"))


def own_environment(peer: Peer) -> Path:
    return home() / "venvs" / FOLDERS.get(peer.name, peer.name)


def interpreter(peer: Peer) -> str | None:
    """The Python that runs the peer's programs; None where the peer is not installed."""
    if peer.name == "cpp":
        return sys.executable if shutil.which("g++") else None
    if peer.name in ("ours", "python"):
        return sys.executable
    python = own_environment(peer) / "bin" / "python"
    if python.exists():
        return str(python)
    in_this_environment = peer.name != "upstream" and importlib.util.find_spec(peer.package) is not None
    return sys.executable if in_this_environment else None


def installed() -> list[Peer]:
    return [peer for peer in PEERS if interpreter(peer)]


def version(peer: Peer) -> str:
    """The peer's version, read from its package metadata without importing it."""
    if peer.name == "cpp":
        return subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    if peer.name == "python":
        return sys.version.split()[0]
    distribution = peer.requirements[0] if peer.requirements else peer.package
    program = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    done = subprocess.run([str(interpreter(peer)), "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def install(names: list[str]) -> None:
    """Builds the environments of the named peers (all of them if none is named)."""
    for peer in PEERS:
        if not peer.requirements or (names and peer.name not in names):
            continue
        folder = own_environment(peer)
        if not (folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "numpy", *peer.requirements]
        subprocess.run(pip, check=True)
        print(f"{peer.name} {version(peer)} in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="build the rivals' environments under $BENCH_HOME")
    parser.add_argument("names", nargs="*", help="peers to install; all without any")
    install(parser.parse_args().names)
