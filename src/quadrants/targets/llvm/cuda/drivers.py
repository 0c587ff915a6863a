"""The driver of this process: NVIDIA's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsUnsupportedError

if TYPE_CHECKING:
    from quadrants.targets.llvm.cuda.device import Driver

__all__ = ["current", "missing", "use"]

_given: Driver | None = None
_found: Driver | None = None


def use(driver: Driver | None) -> None:
    """From now on kernels run by that driver; None: NVIDIA's again."""
    global _given
    _given = driver


def missing() -> str:
    """What there is not that it takes to run on a GPU, and the way out; '' where nothing is missing."""
    if _given is not None or _found is not None:
        return ""
    from quadrants.targets.llvm.cuda import nvidia

    return nvidia.missing()


def current() -> Driver:
    """The driver to run on; QuadrantsUnsupportedError where there is none."""
    global _found
    if _given is not None:
        return _given
    if _found is None:
        if reason := missing():
            raise QuadrantsUnsupportedError(f"CUDA cannot be used: {reason}")
        from quadrants.targets.llvm.cuda import nvidia

        _found = nvidia.NvidiaDriver()
    return _found
