"""Random Python functions: every target and level gives the oracle's bits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import Program, TargetExecutor, disagreement
from quadrants.evidence.python_programs import python_program

pytestmark = pytest.mark.slow

SEEDS = range(40)
EXECUTORS = [
    TargetExecutor("reference", "reference", opt_level=0),
    TargetExecutor("x64-O0", "x64", opt_level=0),
    TargetExecutor("x64-O1", "x64", opt_level=1),
]


def load(path: Path, source: str) -> ModuleType:
    """The module of a source text, kept in a file so that its functions have source."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda executor: executor.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed: int, executor: TargetExecutor, tmp_path: Path) -> None:
    source = python_program(seed)
    module = load(tmp_path / f"program_{seed}.py", source)
    random = np.random.default_rng(seed)
    for n in (int(v) for v in random.integers(-50, 50, 3)):
        arrays = random.integers(-9, 9, 8).astype(np.int32), random.integers(-16, 16, 8) / 4.0
        item = Program("program", module.program, (*arrays, n, 7 - n), None, {}, "")
        problem = disagreement(item, executor)
        assert problem is None, f"{problem}\nn = {n}, p = {arrays[0]}, q = {arrays[1]}\n{source}"
    qd.reset()
