"""Every target at every optimisation level."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import nullcontext

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.programs import TargetExecutor
from quadrants.evidence.ptx.driver import played
from quadrants.targets import table

EXECUTORS = [
    TargetExecutor(f"{arch}-O{level}", arch, opt_level=level)
    for arch in ("reference", "simulated", "vulkan", "cuda", "arm64", "x64")
    for level in (0, 1)
]


# What the reference shows in the fast tests, devices, played or emulated, and Arm64 show in all of them.
DEVICES = ("simulated", "vulkan", "cuda", "arm64")


def marks(executor: TargetExecutor) -> list[pytest.MarkDecorator]:
    """Devices are slow; those that are not here are skipped, with the reason (CUDA's code is executed by our interpreter)."""
    if executor.arch not in DEVICES:
        return []
    reason = "" if executor.arch == "cuda" else table.missing(knobs.arch_by_name(executor.arch))
    return [pytest.mark.slow, pytest.mark.skipif(bool(reason), reason=reason)]


PARAMETERS = [pytest.param(executor, marks=marks(executor), id=executor.name) for executor in EXECUTORS]


@pytest.fixture(params=PARAMETERS)
def executor(request: pytest.FixtureRequest) -> Iterator[TargetExecutor]:
    """One target at one level."""
    with played() if request.param.arch == "cuda" else nullcontext():
        yield request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What a device refuses, with its reason, is no failure there: the reason is shown with the skipped test."""
    try:
        return (yield)
    except QuadrantsUnsupportedError as error:
        found = getattr(item, "funcargs", {}).get("executor")
        if found is not None and found.arch in DEVICES:
            pytest.skip(f"refused on {found.arch}: {str(error).splitlines()[0]}")
        raise


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
