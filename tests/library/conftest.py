"""The library as ordinary Python and through kernels of every target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.knobs import Arch
from quadrants.targets import table


@pytest.fixture(params=["reference", "cpu"])
def arch(request: pytest.FixtureRequest) -> Arch:
    """A target that kernels run on, chosen by the test's own `qd.init`."""
    found = knobs.arch_by_name(request.param)
    if reason := table.missing(found):
        pytest.skip(reason)
    return found


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
