"""What Python calls while something runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["watched"]


def watched(run: Callable[[], Any], watch: Callable[[FrameType, str, Any], object]) -> Any:
    """What a run gives, of which `watch` hears every call. The collector waits meanwhile: it could come to finalisers of other tests,
    whose calls are none of the run's."""
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(watch)
    try:
        return run()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
