"""The driver of this process: NVIDIA's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.targets.device.choice import Choice

if TYPE_CHECKING:
    from quadrants.targets.llvm.cuda.device import Driver

__all__ = ["current", "missing", "use", "using"]


def _absent() -> str:
    from quadrants.targets.llvm.cuda import nvidia

    return nvidia.missing()


def _make() -> Driver:
    from quadrants.targets.llvm.cuda import nvidia

    return nvidia.NvidiaDriver()


def _unfit(driver: Driver) -> str:
    from quadrants.targets.llvm.cuda.compile import SM

    return "" if driver.sm >= SM[0] else f"the GPU is of sm_{driver.sm}: code is made for sm_{SM[0]} and newer"


_choice: Choice[Driver] = Choice("CUDA", _absent, _make, _unfit)
use, using, missing, current = _choice.use, _choice.using, _choice.missing, _choice.current
