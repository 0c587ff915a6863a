"""One peer's programs on a GPU, in the peer's own interpreter: lines of JSON. Imports nothing of ours.

usage: worker.py PROGRAM tiny|full CASE… ; `played` in the environment variable GPU_CHECK_DEVICE runs ours by the interpreter of
PTX, `cpu` runs those on the processor that can.

A line says that a case begins, another what became of it. Behind one that failed the process ends with the status `ANEW`: what a
fault leaves of a GPU is no ground for the next.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ANEW = 75
MOST_TEXT = 4000
SECONDS = 0.25
"""How long a case is measured, about."""


def load(path: Path) -> Any:
    """A file as a module whose name no package has."""
    spec = importlib.util.spec_from_file_location(f"gpu_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def repeated(run: Any, wait: Any, count: int) -> tuple[float, float]:
    """Seconds a run that the host needs to launch, and that all takes."""
    wait()
    start = time.perf_counter()
    for _ in range(count):
        run()
    launched = time.perf_counter()
    wait()
    return (launched - start) / count, (time.perf_counter() - start) / count


def measure(program: Any, wait: Any, is_tiny: bool) -> dict[str, float]:
    _, once = repeated(program.run, wait, 2)
    if is_tiny:
        return {"host": once, "seconds": once}
    count = max(1, min(2000, int(SECONDS / 5 / max(once, 1e-7))))
    samples = [repeated(program.run, wait, count) for _ in range(5)]
    return {"host": min(host for host, _ in samples), "seconds": min(total for _, total in samples)}


def answer(module: Any, cases: Any, name: str, is_tiny: bool) -> dict[str, Any]:
    case = cases.CASES[name]
    size = case.tiny if is_tiny else case.size
    arrays = case.inputs(size)
    start = time.perf_counter()
    program = module.PROGRAMS[name](*[array.copy() for array in arrays])
    program.run()
    module.wait()
    first = time.perf_counter() - start
    error = cases.error(case, size, arrays, program.results())
    ok = error <= case.tolerance
    times = measure(program, module.wait, is_tiny)
    scale = 1e6 * times["host"] if case.unit == "us" else case.amount(size) / times["seconds"] * 1e-9
    return {"ok": ok, "error": error, "first": first, **times, "value": scale, "unit": case.unit}


def serve(names: list[str], answer_of: Any) -> None:
    """Writes the answers of cases, which are ours or a peer's to compute, to what was the standard output."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the replies

    def reply(**words: Any) -> None:
        replies.write(json.dumps(words) + "\n")
        replies.flush()

    for name in names:
        reply(case=name, begins=True)
        try:
            found = answer_of(name)
        except Exception as problem:  # whatever a peer raises is its answer
            traceback.print_exc()
            reply(case=name, ok=False, why=f"{type(problem).__name__}: {problem}"[:MOST_TEXT])
            sys.stderr.flush()
            os._exit(ANEW)  # a GPU that was lost is not to be waited for
        reply(case=name, **found)


def main() -> None:
    program, kind, *names = sys.argv[1:]
    cases = load(HERE / "cases.py")
    with ExitStack() as stack:
        if program == "ours" and os.environ.get("GPU_CHECK_DEVICE") == "played":
            from quadrants.evidence.ptx.driver import played

            stack.enter_context(played())
        module = load(HERE / "programs" / ("ours.py" if program == "ours" else f"with_{program}.py"))
        module.start()
        known = [name for name in names if name in module.PROGRAMS]
        serve(known, lambda name: answer(module, cases, name, kind == "tiny"))


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has names of packages
    main()
