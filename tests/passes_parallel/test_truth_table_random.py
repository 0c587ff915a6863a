"""Random loop nests against the truth table: decisions as their iterations are seen to touch memory, results as Python's,
also when parallel loops run backwards."""

from __future__ import annotations

import functools
import itertools
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.modules import written
from tests.passes_parallel.random_nests import CERTAIN, NONE, OPEN, SIZES, Nests, arguments
from tests.passes_parallel.test_random import backwards

import quadrants as qd
from quadrants import compiler
from quadrants.ir.nodes import Module
from quadrants.passes import cost, parallelise
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline
from quadrants.passes.pipeline import PIPELINE, Pass

pytestmark = pytest.mark.slow

BLOCKS, EACH = 12, 5


def _backwards(module: Module, context: PassContext) -> None:
    backwards(module)


def _pipeline(turned: bool) -> list[Pass]:
    after = Pass("backwards", "tasks", "independent iterations may run in any order", run=_backwards)
    return [part for step in PIPELINE for part in ([step, after] if turned and step.name == "parallelise" else [step])]


@pytest.fixture(autouse=True)
def _tiny_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short loops are handed to threads, too."""
    monkeypatch.setattr(parallelise, "_TOO_SHORT", 0)
    monkeypatch.setattr(cost, "iteration_cost", lambda *given: 1_000_000)
    qd.init(arch=qd.cpu, default_ip=qd.i64, default_fp=qd.f64, cpu_max_num_threads=3, log_level=qd.ERROR)
    yield
    qd.reset()


@functools.cache
def programs(block: int) -> list[tuple[Nests, dict[int, str]]]:
    """Some programs of which the truth table tells what they do."""
    found = ((nests, nests.verdicts()) for nests in map(Nests, itertools.count(block * 10_000)))
    decided = ((nests, verdicts) for nests, verdicts in found if verdicts is not None)
    return list(itertools.islice(decided, EACH))


def load(nests: Nests, folder: Path) -> types.FunctionType:
    return written(folder / f"nests_{nests.seed}.py", "import quadrants as qd\n\n" + nests.source).program


def outcome(function: Any, size: int, seed: int) -> list[Any]:
    given = arguments(size, seed)
    result = function(*given)
    return [*given[:4], np.int64(result)]


def in_python(nests: Nests, size: int, seed: int) -> list[Any]:
    class Ranges:
        @staticmethod
        def ndrange(*bounds: tuple[int, int]) -> Iterator[tuple[int, ...]]:
            return itertools.product(*[range(*bound) for bound in bounds])

    names: dict[str, Any] = {"qd": Ranges}
    exec(nests.source, names)
    return outcome(names["program"], size, seed)


@pytest.mark.parametrize("turned", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_truth_table(block: int, turned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = _pipeline(turned)
    monkeypatch.setattr(compiler, "lower", lambda module, context: run_pipeline(module, passes, context=context))
    for nests, verdicts in programs(block):
        kernel = qd.kernel(load(nests, tmp_path))
        for size in (SIZES[0], SIZES[-1], 41):
            found = outcome(kernel, size, block)
            if not nests.strict and OPEN in verdicts.values():
                continue
            for expected, one in zip(in_python(nests, size, block), found):
                np.testing.assert_array_equal(one, expected, f"{verdicts}\n{nests.source}")
        if not nests.strict:
            check_decisions(kernel.report(), verdicts, nests.source)


def check_decisions(report: str, verdicts: dict[int, str], source: str) -> None:
    """No loop of which a dependence is certain is parallel; loops without any are, unless they are unrolled."""
    parallel = {int(line) - 2 for line in re.findall(r"parallel loop at line (\d+)", report)}
    for line, verdict in verdicts.items():
        if verdict == CERTAIN:
            assert line not in parallel, f"line {line} runs in parallel\n{source}"
    for line, verdict in verdicts.items():
        head = source.splitlines()[line - 1]
        if verdict == NONE and head.startswith("    for") and not re.search("0, [59]", head):
            assert line in parallel, f"line {line} runs in order\n{source}\n{report}"
