"""The GPU that most tests of CUDA play."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import PlayedDriver, played


@pytest.fixture
def driver() -> Iterator[PlayedDriver]:
    """The driver of a GPU that is played, on which kernels run from here on."""
    with played() as found:
        qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
        yield found
    qd.reset()
