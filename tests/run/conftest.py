"""Every target at every optimisation level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

EXECUTORS = [
    TargetExecutor(f"{arch}-O{level}", arch, opt_level=level)
    for arch in ("reference", "simulated", "x64")
    for level in (0, 1)
]


# What the reference shows in the fast tests, the device that it plays shows in all of them.
PARAMETERS = [
    pytest.param(executor, marks=[pytest.mark.slow] if executor.arch == "simulated" else [], id=executor.name)
    for executor in EXECUTORS
]


@pytest.fixture(params=PARAMETERS)
def executor(request: pytest.FixtureRequest) -> TargetExecutor:
    """One target at one level."""
    return request.param


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
