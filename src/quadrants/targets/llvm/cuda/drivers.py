"""The driver of this process: NVIDIA's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.targets.device.choice import Choice

if TYPE_CHECKING:
    from quadrants.targets.llvm.cuda.device import Driver

__all__ = ["current", "missing", "use", "using"]

_choice: Choice[Driver] = Choice.of_module("CUDA", "quadrants.targets.llvm.cuda.nvidia")
use, using, missing, current = _choice.use, _choice.using, _choice.missing, _choice.current
