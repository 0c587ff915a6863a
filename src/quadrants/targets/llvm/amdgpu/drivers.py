"""The driver of this process: AMD's where there is one, or one that was given to us (`use`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsRuntimeError, QuadrantsUnsupportedError

if TYPE_CHECKING:
    from quadrants.targets.llvm.amdgpu.device import Driver

__all__ = ["current", "missing", "use"]

_given: Driver | None = None
_found: Driver | None = None


def use(driver: Driver | None) -> None:
    """From now on kernels run by that driver; None: AMD's again."""
    global _given
    _given = driver


def missing() -> str:
    """What there is not that it takes to run on a GPU, and the way out; '' where nothing is missing."""
    from quadrants.targets.llvm.amdgpu import compile, hip, lld

    reason = "" if _given is not None or _found is not None else hip.missing() or lld.missing()
    if reason:
        return reason
    try:
        compile.supported(_driver().processor)
    except (QuadrantsRuntimeError, ValueError) as error:
        return str(error)
    return ""


def current() -> Driver:
    """The driver to run on; QuadrantsUnsupportedError where there is none."""
    if _given is None and _found is None and (reason := missing()):
        raise QuadrantsUnsupportedError(f"AMD's GPUs cannot be used: {reason}")
    return _driver()


def _driver() -> Driver:
    global _found
    if _given is not None:
        return _given
    if _found is None:
        from quadrants.targets.llvm.amdgpu import hip

        _found = hip.HipDriver()
    return _found
