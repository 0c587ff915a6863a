"""The driver of this process: AMD's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.targets.device.choice import Choice

if TYPE_CHECKING:
    from quadrants.targets.llvm.amdgpu.device import Driver

__all__ = ["current", "missing", "use", "using"]


def _absent() -> str:
    from quadrants.targets.llvm.amdgpu import hip, lld

    return hip.missing() or lld.missing()


def _make() -> Driver:
    from quadrants.targets.llvm.amdgpu import hip

    return hip.HipDriver()


def _unfit(driver: Driver) -> str:
    from quadrants.targets.llvm.amdgpu import compile

    try:
        compile.supported(driver.processor)
    except ValueError as error:
        return str(error)
    return ""


_choice: Choice[Driver] = Choice("AMD's GPUs", _absent, _make, _unfit)
use, using, missing, current = _choice.use, _choice.using, _choice.missing, _choice.current
