"""Options of the whole test suite."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

# Every test compiles: what an earlier run kept on disk does not stand in for the compiler.
os.environ.setdefault("QD_OFFLINE_CACHE", "0")

# The played NVIDIA GPU behind its driver's binary interface and the package cuda-bindings of that folder (evidence/ptx/library.py).
if wheels := os.environ.get("QD_TEST_CUDA_WHEELS"):
    from quadrants.evidence.ptx import library

    library.connect(Path(wheels))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite what golden tests expect with what they get")


WHOLLY_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of nothing but slow tests are not even imported where slow tests are left out: half of all tests are there,
    and each worker would make them to throw them away."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if WHOLLY_SLOW.search(collection_path.read_text()) else None


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--bless"))
