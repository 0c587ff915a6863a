"""Every scalar pass keeps the meaning of programs: interpreted before and after, all memory and results are equal."""

from __future__ import annotations

import copy
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import (
    cse,
    dead_code,
    dead_stores,
    forward_stores,
    hoist,
    inline,
    join_returns,
    mark_aliases,
    simplify,
)
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline

pytestmark = pytest.mark.slow

_spec = importlib.util.spec_from_file_location("random_programs", Path(__file__).with_name("random_programs.py"))
assert _spec is not None and _spec.loader is not None
random_programs = sys.modules.setdefault("random_programs", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(random_programs)

PASSES = {
    "inline": [join_returns, inline],
    "simplify": [simplify],
    "cse": [cse],
    "forward_stores": [mark_aliases, forward_stores],
    "dead_code": [dead_code],
    "dead_stores": [mark_aliases, dead_stores],
    "hoist": [hoist],
    "all": [
        join_returns,
        inline,
        mark_aliases,
        simplify,
        cse,
        forward_stores,
        dead_code,
        hoist,
        dead_stores,
        simplify,
        cse,
        dead_code,
    ],
}
SEEDS = 60


def outcome(module: Module, seed: int) -> list[bytes]:
    given = random_programs.arguments(seed)
    results = interpret(module, given)
    return [_bits(value) for value in (*results, *given)]


def _bits(value: np.ndarray) -> bytes:
    array = np.array(value)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()


@pytest.mark.parametrize("name", PASSES)
def test_meaning_is_kept(name: str) -> None:
    for seed in range(SEEDS):
        module = random_programs.random_module(seed)
        text = print_module(module)
        expected = outcome(module, seed)
        for step in PASSES[name]:
            step.run(module, PassContext())
            try:
                verify(module)
                assert outcome(module, seed) == expected
            except Exception as error:  # of whichever kind: raised again with the program
                raise AssertionError(
                    f"seed {seed}, {step.__name__}: {error}\n{text}\n---\n{print_module(module)}"
                ) from error


def test_random_programs_are_valid_and_various() -> None:
    kinds: set[str] = set()
    for seed in range(SEEDS):
        module = random_programs.random_module(seed)
        verify(module)
        assert print_module(parse_module(print_module(module))) == print_module(module)
        kinds |= {op.kind for op in random_programs.operations(copy.copy(module))}
    assert {"if", "for", "while", "break", "continue", "call", "update", "load", "store", "extract"} <= kinds


def test_stretches_of_passes_give_what_passes_one_after_the_other_give() -> None:
    for seed in range(SEEDS):
        texts = []
        for context in (PassContext(), PassContext(rewrite_limit=1 << 40)):
            module = run_pipeline(random_programs.random_module(seed), context=context)
            texts.append(print_module(module))
        assert texts[0] == texts[1], f"seed {seed}"
