"""The driver of this process: NVIDIA's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsRuntimeError

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
    if _given is None and _found is None:
        from quadrants.targets.llvm.cuda import nvidia

        if reason := nvidia.missing():
            return reason
    try:
        driver = current()
    except (QuadrantsRuntimeError, MemoryError) as error:
        return str(error)
    from quadrants.targets.llvm.cuda.compile import SM

    return "" if driver.sm >= SM[0] else f"the GPU is of sm_{driver.sm}: code is made for sm_{SM[0]} and newer"


def current() -> Driver:
    """The driver to run on; QuadrantsRuntimeError where it does not work."""
    global _found
    if _given is not None:
        return _given
    if _found is None:
        from quadrants.targets.llvm.cuda import nvidia

        if reason := nvidia.missing():
            raise QuadrantsRuntimeError(f"CUDA cannot be used: {reason}")
        _found = nvidia.NvidiaDriver()
    return _found
