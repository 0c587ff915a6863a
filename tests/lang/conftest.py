from __future__ import annotations

import pytest

import quadrants.lang as qd


@pytest.fixture(autouse=True)
def fresh():
    qd.reset()
    yield
    qd.reset()
