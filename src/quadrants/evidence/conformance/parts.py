"""The parts of a conformance run, as lists of named cases.

A case is run by calling it with the target's name. It raises AssertionError (or whatever the compiler raises) where the
target differs from the reference, and QuadrantsUnsupportedError where the target refuses the program.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.conformance import elementwise
from quadrants.evidence.fuzz import block_trial, trial
from quadrants.evidence.fuzz.settings import Settings
from quadrants.evidence.programs import Program, TargetExecutor, disagreement, mismatch
from quadrants.ir.types import ScalarType, f64, scalar_types
from quadrants.records import Record
from quadrants.targets import table

__all__ = ["CASES", "Case", "tests_folder"]

_SEEDS = (0, 1)


class Case(Record):
    """`name` is the same in every run and on every target; `run` takes the target's name."""

    name: str
    run: Callable[[str], None]


def tests_folder() -> Path | None:
    """The tests beside the sources; None where the package is installed without them."""
    folder = Path(qd.__file__).resolve().parents[2] / "tests"
    return folder if (folder / "run").is_dir() else None


def operations(_: int) -> list[Case]:
    """Every elementwise row on every dtype that it has a meaning for, and what floats must not lose."""
    found = [Case(f"{name} {scalar}", partial(_operation, name, scalar)) for name, scalar in elementwise.OPERATIONS]
    return found + [Case(f"identities {scalar}", partial(_identities, scalar)) for scalar in elementwise.FLOATS]


def conversions(_: int) -> list[Case]:
    """Every dtype to every dtype."""
    return [
        Case(f"{source} to {target}", partial(_conversion, source, target))
        for source in scalar_types
        for target in scalar_types
    ]


def programs(_: int) -> list[Case]:
    """The programs of the tests that are data: what must come out is told, or is what the oracle gives."""
    folder = tests_folder()
    if folder is None:
        return []
    found: dict[str, Case] = {}
    for path in sorted([*(folder / "semantics").glob("test_*.py"), *(folder / "run").glob("test_*.py")]):
        for item in _registered(path):
            stem = f"{path.parent.name}/{path.stem.removeprefix('test_')}: {item.name}"
            name = stem if stem not in found else f"{stem}, {sum(known.startswith(stem) for known in found) + 1}"
            found[name] = Case(name, partial(_program, item, path.parent.name == "semantics"))
    return list(found.values())


def fuzz(count: int) -> list[Case]:
    """The fuzzer's first programs, of each kind."""
    found = [Case(f"seed {seed}", partial(_random_program, seed)) for seed in range(count)]
    for kind in block_trial.KINDS:
        found += [Case(f"{kind}, seed {seed}", partial(_program_of_kind, kind, seed)) for seed in range(count)]
    return found


CASES: dict[str, Callable[[int], list[Case]]] = {
    "operations": operations,
    "conversions": conversions,
    "programs": programs,
    "fuzz": fuzz,
}
"""The parts that run in this process; each takes how many random programs are wanted. `tests` are pytest's: see `suite`."""


def _initialise(target: str) -> None:
    wanted = knobs.arch_by_name(target)
    if knobs.current.arch is not wanted or not knobs.current.initialised:
        qd.init(
            arch=wanted,
            default_ip=qd.i64,
            default_fp=getattr(qd, _weak_float(wanted)),
            enable_fallback=False,
            log_level="error",
            offline_cache=False,
        )


def _weak_float(arch: knobs.Arch) -> str:
    """The type of weak floats in programs for a target: f64 where it has that."""
    return "f64" if table.find(arch).record().has_dtype(f64) else "f32"


def _operation(name: str, scalar: ScalarType, target: str) -> None:
    _initialise(target)
    for seed in _SEEDS:
        elementwise.check_operation(name, scalar, seed)


def _conversion(source: ScalarType, destination: ScalarType, target: str) -> None:
    _initialise(target)
    for seed in _SEEDS:
        elementwise.check_conversion(source, destination, seed)


def _identities(scalar: ScalarType, target: str) -> None:
    _initialise(target)
    elementwise.check_identities(scalar)


def _registered(path: Path) -> Iterator[Program]:
    """The programs of a test module's registry, `PROGRAMS`; modules without one are not imported."""
    if "PROGRAMS" not in path.read_text():
        return
    name = f"quadrants_conformance_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found: Any = module.PROGRAMS
    yield from (item for item in found if type(item) is Program)


def _program(item: Program, told: bool, target: str) -> None:
    executor = TargetExecutor(target, target, enable_fallback=False, log_level="error")
    told = told and executor.fitting(item) is item  # what is told holds for the program's own widths
    try:
        with np.errstate(all="ignore"):
            wrong = mismatch(item, executor.run(item)) if told else disagreement(item, executor)
    finally:
        qd.reset()
    if wrong:
        raise AssertionError(wrong)


def _random_program(seed: int, target: str) -> None:
    _tell(trial.check_on(seed, Settings(target, defaults=("i64", _weak_float(knobs.arch_by_name(target))))))


def _program_of_kind(kind: str, seed: int, target: str) -> None:
    _tell(block_trial.check(block_trial.KINDS[kind](seed), block_trial.Way(target, {}, eager=True)))


def _tell(failure: trial.Failure | None) -> None:
    if failure is None:
        return
    if failure.kind == QuadrantsUnsupportedError.__name__:
        raise QuadrantsUnsupportedError(failure.text)
    raise AssertionError(f"{failure.kind}: {failure.text}")
