"""`qd.simt.grid`: all blocks of a loop."""

from __future__ import annotations

from quadrants.lang.simt.absent import lacking
from quadrants.lang.simt.declare import declared, older

__all__ = ["mem_fence", "memfence"]


def __dir__() -> list[str]:
    return __all__


__getattr__ = lacking("grid")


@declared("grid")
def mem_fence() -> None:
    """What this thread wrote is seen by other blocks before what it writes from here on."""


memfence = older("grid", "memfence", mem_fence)
