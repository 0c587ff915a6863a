"""Launches that tests of CUDA look at: kernels for them, and what Python they call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.watching import watched

import quadrants as qd

OURS = str(Path(qd.__file__).parent)
PLAYED = (str(Path(OURS) / "evidence"), str(Path(ctypes.__file__).parent), str(Path(__file__).parent), "<ptx")


def python_calls(launch_once: Callable[[], Any], within: str = "") -> list[str]:
    """The functions of Python that a launch calls, those apart that play the driver or another package: of the files in the folder
    `within` alone, if one is given."""
    frames: list[str] = []
    here, depth = launch_once.__code__, 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal depth
        code = frame.f_code
        if code is here or event not in ("call", "return"):
            return
        if code.co_filename.startswith(PLAYED):
            depth += 1 if event == "call" else -1
        elif event == "call" and depth == 0 and code.co_filename.startswith(within):
            frames.append(code.co_name)

    watched(launch_once, watch)
    return frames


def warm(launch_once: Callable[[], Any]) -> None:
    for _ in range(3):
        launch_once()


@qd.kernel
def saxpy(y, a: float, x):
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@qd.kernel
def number(x, step: int):
    for i, j in qd.ndrange(x.shape[0], x.shape[1]):
        x[i, j] += step * (10 * i + j)
