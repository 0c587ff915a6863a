"""The driver of this process: AMD's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.targets.device.choice import Choice

if TYPE_CHECKING:
    from quadrants.targets.llvm.amdgpu.device import Driver

__all__ = ["current", "missing", "use", "using"]

_choice: Choice[Driver] = Choice.of_module("AMD's GPUs", "quadrants.targets.llvm.amdgpu.hip")
use, using, missing, current = _choice.use, _choice.using, _choice.missing, _choice.current
