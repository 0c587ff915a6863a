"""What the first call of a kernel costs: with an empty cache and with a filled one, each in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import time
from {module} import *
{prepare}
start = time.perf_counter()
{call}
print(time.perf_counter() - start)
"""


def first_call_seconds(module: str, prepare: str, call: str, cache: str) -> float:
    """Runs `prepare`, then times `call`, both Python text that sees the module's names, in a new process."""
    program = PROGRAM.format(module=module, prepare=prepare, call=call)
    environment = {**os.environ, "QD_OFFLINE_CACHE_FILE_PATH": cache}
    command, folder = [sys.executable, "-c", program], Path(__file__).parent
    done = subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def print_first_calls(module: str, prepare: str, call: str) -> None:
    """Prints the seconds of a kernel's first call, compiled and from the disk cache (best of three each)."""
    cold, warm = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first_call_seconds(module, prepare, call, cache))
            warm.append(first_call_seconds(module, prepare, call, cache))
    print(f"first call: {1e3 * min(cold):.0f} ms compiled, {1e3 * min(warm):.0f} ms from the disk cache")
