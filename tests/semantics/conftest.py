"""The executors that every program of meaning runs on: the oracle and each target of this build."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.evidence.programs import EXECUTORS, Executor


@pytest.fixture(params=sorted(EXECUTORS), ids=str)
def executor(request: pytest.FixtureRequest) -> Executor:
    """One way to run a program."""
    return EXECUTORS[request.param]


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
