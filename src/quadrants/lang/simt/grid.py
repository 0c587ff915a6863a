"""`qd.simt.grid`: all blocks of a loop."""

from __future__ import annotations

from quadrants.lang.simt.declare import declared

__all__ = ["mem_fence", "memfence"]


@declared("grid")
def mem_fence() -> None:
    """What this thread wrote is seen by other blocks before what it writes from here on."""


memfence = mem_fence
