"""The executors that every program of meaning runs on: the oracle and each target of this build."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.evidence.emulation import emulation
from quadrants.evidence.programs import EXECUTORS, Executor, TargetExecutor
from quadrants.knobs import Arch

PARAMETERS = [*sorted(EXECUTORS), pytest.param("cuda", marks=pytest.mark.slow)]


@pytest.fixture(params=PARAMETERS, ids=str)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """One way to run a program; CUDA's code is executed by our interpreter of PTX."""
    if request.param == "cuda":
        with emulation(Arch.cuda, always=True):
            yield TargetExecutor("cuda", "cuda")
    else:
        yield EXECUTORS[request.param]


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
