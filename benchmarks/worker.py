"""One peer, one workload, in the peer's own interpreter. Speaks JSON lines with `driver.py`; imports nothing of ours.

usage: worker.py WORKLOAD_FOLDER PROGRAM PACKAGE ALIAS. Answers once when the first run is over and checked; then, for
each number k that comes in, runs k times and answers with the seconds and each thread's CPU seconds of one run.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what a library prints must not mix with the replies


def reply(**fields: Any) -> None:
    replies.write(json.dumps(fields) + "\n")
    replies.flush()


def load(path: Path) -> ModuleType:
    """Runs the file under a name that no installed package has: programs are called like their libraries."""
    spec = importlib.util.spec_from_file_location(f"workload_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def prepare(folder: Path, program: str, package: str, alias: str) -> tuple[ModuleType, Any]:
    import numpy as _  # noqa: F401  (a peer's import time starts after NumPy's)

    case = load(folder / "case.py")
    start = time.perf_counter()
    if package:
        found = importlib.import_module(package)
        if alias:
            sys.modules[alias] = found
    imported = time.perf_counter()
    module = load(folder / f"{program}.py")
    state = module.make(case)
    made = time.perf_counter()
    module.run(state)
    first = time.perf_counter() - made
    error = float(case.error(*module.results(state)))
    reply(
        ok=True,
        import_seconds=imported - start,
        make_seconds=made - imported,
        first_seconds=first,
        error=error,
        tolerance=case.TOLERANCE,
        repeats=getattr(case, "REPEATS", 1),
    )
    return module, state


def thread_seconds() -> dict[str, float]:
    """CPU seconds of every thread of this process so far; of the process as one where the system does not tell."""
    threads = {}
    for task in Path("/proc/self/task").glob("*"):
        try:
            threads[task.name] = int((task / "schedstat").read_text().split()[0]) * 1e-9
        except OSError:  # the thread has just ended
            continue
    return threads or {"process": time.process_time()}


def serve(module: ModuleType, state: Any) -> None:
    for line in sys.stdin:
        count = int(line)
        before, start = thread_seconds(), time.perf_counter()
        for _ in range(count):
            module.run(state)
        seconds = time.perf_counter() - start
        time.sleep(0.002)  # until other threads sleep, and their counts are up to date
        spent = {name: (cpu - before.get(name, 0.0)) / count for name, cpu in thread_seconds().items()}
        reply(seconds=seconds / count, threads={name: cpu for name, cpu in spent.items() if cpu > 1e-9})


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent / "support")  # not this folder: it has names of ours
    try:
        ready = prepare(Path(sys.argv[1]), *sys.argv[2:5])
    except Exception as problem:  # whatever a peer raises is its answer
        traceback.print_exc()
        reply(ok=False, why=f"{type(problem).__name__}: {problem}"[:300])
        sys.exit(1)
    serve(*ready)
