"""Options of one test do not reach the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    qd.reset()
    yield
    qd.reset()
