"""Random programs through the whole pipeline to machine code: the same bits as the interpreter gives for the original."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.text import print_module
from quadrants.passes.driver import run_pipeline
from quadrants.records import replace
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.x64 import target

pytestmark = pytest.mark.slow

_path = Path(__file__).parents[1] / "passes" / "random_programs.py"
_spec = importlib.util.spec_from_file_location("random_programs", _path)
assert _spec is not None and _spec.loader is not None
random_programs = sys.modules.setdefault("random_programs", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(random_programs)


def bits(values) -> list[bytes]:
    arrays = [np.array(value) for value in values]
    return [
        (
            np.where(np.isnan(array), np.array(np.nan, array.dtype), array) if array.dtype.kind == "f" else array
        ).tobytes()
        for array in arrays
    ]


def without_contraction(module, level: int):
    """A module's artifact whose multiplications and additions stay apart, as the interpreter's do."""
    emitted = target.emit(module)
    texts = [part.text.replace(" contract ", " ").replace(" reassoc ", " ") for part in emitted.objects]
    machine = target.host_machine()
    objects = tuple(
        (part.name, optimise.compile_text(text, machine, level, True)) for part, text in zip(emitted.objects, texts)
    )
    return target.Artifact(objects, emitted.entry, (), emitted.messages, emitted.prints, tuple(texts))


@pytest.mark.parametrize("level, opt_level", [(2, 1), (2, 0), (1, 1), (0, 0)])
@pytest.mark.parametrize("part", range(4))
def test_random_programs(compile_built, monkeypatch, part: int, level: int, opt_level: int) -> None:
    monkeypatch.setattr(target, "compile_module", lambda module, options: without_contraction(module, options.level))
    options = replace(knobs.Options(), opt_level=opt_level, verify=True)
    for seed in range(5 * part, 5 * part + 5):
        module = random_programs.random_module(seed)
        text = print_module(module)
        given = random_programs.arguments(seed)
        expected = bits([*interpret(module, given), *given])
        arguments = random_programs.arguments(seed)
        run_pipeline(module, options, target.record())
        results = compile_built(module, level)(*arguments)
        got = bits([*results, *arguments])
        assert got == expected, f"seed {seed}\n{text}\n---\n{print_module(module)}"
