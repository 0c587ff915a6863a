"""The library as ordinary Python and through kernels of every target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.knobs import Arch
from quadrants.lang.init import supported_archs


@pytest.fixture(params=["reference", "x64"])
def arch(request: pytest.FixtureRequest) -> Arch:
    """A target that kernels run on, chosen by the test's own `qd.init`."""
    found = Arch[request.param]
    if found not in supported_archs():
        pytest.skip(f"{request.param} does not run on this machine")
    return found


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
