"""Workers of `scripts/gpu_check`, each in a process of its own: one that hangs, dies or loses the GPU costs one case."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.gpu.worker import MOST_TEXT

Answers = dict[str, dict[str, Any]]
_ENDED = ""


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A process with all that it starts, in a group of its own."""
    return subprocess.Popen(command, text=True, start_new_session=True, **options)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a process and what it has started. One that a driver holds in the kernel is left to it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def asked(
    command: Sequence[str],
    names: Sequence[str],
    environment: dict[str, str],
    seconds: float,
    each: float,
    told: Callable[[str, dict[str, Any]], None] = lambda name, found: None,
) -> Answers:
    """The answers of a worker by case, all in so many seconds, and each; `told` hears of them as they come."""
    answers: Answers = {}
    left, end = list(names), time.monotonic() + seconds
    while left and time.monotonic() < end:
        begun = _run([*command, *left], answers, environment, end, each, told)
        if begun is None:
            return answers
        left = left[left.index(begun) + 1 :] if begun in left else []
    for name in left:
        answers[name] = {"ok": False, "why": "not run: there was no time left"}
        told(name, answers[name])
    return answers


def _run(
    command: Sequence[str],
    answers: Answers,
    environment: dict[str, str],
    end: float,
    each: float,
    told: Callable[[str, dict[str, Any]], None],
) -> str | None:
    """One process: notes its answers, gives the case after which another process has to go on; None for none."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = start(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process, lines), daemon=True).start()
        running, why = "", ""
        while True:
            wait = min(end - time.monotonic(), each)
            try:
                line = lines.get(timeout=max(wait, 0.1))
            except queue.Empty:
                why = f"was stopped after {max(wait, 0.1):.0f} s"
                break
            if line == _ENDED:
                break
            found = json.loads(line)
            name = found.pop("case")
            if found.pop("begins", False):
                running = name
            else:
                answers[name] = found
                told(name, found)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1 if why else 10)
        status = process.poll()
        stop(process)
        if not why and status == 0:
            return None
        if running in answers:
            return running
        errors.seek(0)
        last = errors.read().strip()[-MOST_TEXT:]
        name = running or "start"
        answers[name] = {"ok": False, "why": f"the process {why or f'ended with status {status}'}: {last}".strip(": ")}
        told(name, answers[name])
        return running or None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):  # the last one may be cut off
            lines.put(line)
    lines.put(_ENDED)
