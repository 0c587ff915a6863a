"""One program under one set of options, against the oracle."""

from __future__ import annotations

import os
import random
import tempfile
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quadrants import knobs
from quadrants.evidence import oracle
from quadrants.evidence.arrays import FieldView
from quadrants.evidence.emulation import emulation
from quadrants.evidence.fuzz import inside
from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.generate import Case, program_text
from quadrants.evidence.fuzz.settings import (
    Settings,
    compiled_settings,
    device_settings,
    interpreted_settings,
    random_defaults,
)
from quadrants.evidence.programs import _for_kernel, _for_oracle, plain
from quadrants.ir import types as scalar_types
from quadrants.targets import reference, table

__all__ = [
    "Expected",
    "Failure",
    "Finding",
    "Invalid",
    "check",
    "check_on",
    "expectations",
    "load",
    "run_seed",
    "settings_of",
    "settings_on",
]

# How far floats may be from the oracle's where targets round differently: most have been f32 on the way.
_TOLERANCE = 2e-3
_CACHE_VARIABLES = ("QD_OFFLINE_CACHE", "QD_OFFLINE_CACHE_FILE_PATH")


class Invalid(Exception):
    """The program has no meaning: what made it is wrong, not the compiler."""


class Failure(NamedTuple):
    """What went wrong. `kind`: 'value', 'type', 'race', 'crash', 'hang', or the name of an exception."""

    kind: str
    text: str


class Expected(NamedTuple):
    """What the oracle gave for arguments of one size: types and values of the result, and the arrays afterwards."""

    size: int
    dtypes: list[str]
    values: list[Any]
    arrays: list[np.ndarray]


def load(text: str, folder: Path, name: str) -> types.ModuleType:
    """The module of a program's text, kept in a file so that its functions have source."""
    path = folder / f"{name}.py"
    path.write_text(text)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def expectations(module: types.ModuleType, sizes: Sequence[int], defaults: tuple[str, str]) -> list[Expected]:
    """The oracle's outcomes. Invalid where it raises."""
    integer, floating = (getattr(scalar_types, name) for name in defaults)
    found = []
    for size in sizes:
        arguments = [_for_oracle(value) for value in module.arguments(size)]
        try:
            result = oracle.run(module.program, *arguments, default_int=integer, default_float=floating)
        except (oracle.OracleError, IndexError, RecursionError) as error:
            raise Invalid(f"size {size}: {type(error).__name__}: {error}") from error
        parts = result if isinstance(result, tuple) else () if result is None else (result,)
        arrays = [value.array if isinstance(value, FieldView) else value for value in _leaves(arguments)]
        kept = [np.array(array) for array in arrays if isinstance(array, np.ndarray)]
        values = [oracle.to_python(part) for part in parts]
        found.append(Expected(size, [oracle.dtype_of(part).name for part in parts], values, kept))
    return found


def _leaves(arguments: Sequence[Any]) -> list[Any]:
    """The arguments, dataclasses by their members."""
    found: list[Any] = []
    for value in arguments:
        found += [getattr(value, member.name) for member in fields(value)] if is_dataclass(value) else [value]
    return found


def check(
    module: types.ModuleType,
    expected: Sequence[Expected],
    settings: Settings,
    style: Style,
    finds_races: bool = False,
) -> Failure | None:
    """How a kernel of the module's program differs from what the oracle gave; None if it does not. `finds_races`: the
    interpreter looks for races, too."""
    import quadrants as qd

    with tempfile.TemporaryDirectory() if settings.warm else _no_folder() as folder, _environment_without_cache():
        cache = (
            {"offline_cache": True, "offline_cache_file_path": folder} if settings.warm else {"offline_cache": False}
        )
        integer, floating = (getattr(scalar_types, name) for name in settings.defaults)
        try:
            for _ in range(2 if settings.warm else 1):
                qd.init(
                    arch=settings.arch,
                    default_ip=integer,
                    default_fp=floating,
                    log_level="error",
                    **cache,
                    **settings.options,
                )
                with settings.in_force(), _race_finder(finds_races):
                    failure = _run(module, expected, settings, style)
                if failure is not None:
                    return failure
        except Exception as error:  # whatever the compiler raises is what was looked for
            text = str(error)
            if finds_races and "division by zero" in text:
                return None  # the interpreter's debug mode stops there, where others go on
            return Failure("race" if "a race in" in text else type(error).__name__, text)
        finally:
            qd.reset()
    return None


@contextmanager
def _environment_without_cache() -> Iterator[None]:
    """Without the variables that say where forms are kept: a warning that they lose would tell nothing."""
    before = {name: os.environ.pop(name) for name in _CACHE_VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)


@contextmanager
def _race_finder(wanted: bool) -> Iterator[None]:
    """The interpreter looks for races although the program is not compiled for debug mode, which stops at overflows."""
    before = reference.compile_module
    if wanted:
        reference.compile_module = lambda module, debug=False: before(module, debug=True)
    try:
        yield
    finally:
        reference.compile_module = before


class _no_folder:
    def __enter__(self) -> str:
        return ""

    def __exit__(self, *_: object) -> None:
        pass


def _made(module: types.ModuleType, size: int) -> list[Any]:
    """New arguments of a size."""
    import quadrants as qd

    return [_for_kernel(qd, value) for value in module.arguments(size)]


def _run(module: types.ModuleType, expected: Sequence[Expected], settings: Settings, style: Style) -> Failure | None:
    import quadrants as qd

    kernel: Any = qd.kernel(module.program)
    for position, outcome in enumerate(expected):
        arguments = _made(module, outcome.size)
        if settings.look and position == 0:
            with inside.interpreted_after(
                settings.look, kernel, lambda size=outcome.size: _made(module, size)
            ) as found:
                result = kernel(*arguments)
            if found.result is not None:
                failure = _difference(outcome.dtypes, found.result, found.arguments, outcome, style)
                if failure is not None:
                    return failure._replace(text=f"after {settings.look}: {failure.text}")
        else:
            result = kernel(*arguments)
        failure = _difference([str(name) for name in kernel.result_types()], result, arguments, outcome, style)
        if failure is not None:
            return failure
    return None


class Finding(NamedTuple):
    """A failure with where it came from."""

    seed: int
    case: Case
    settings: Settings | None
    failure: Failure


def settings_of(seed: int) -> tuple[Case, list[Settings]]:
    """The program of a seed, and under which options it is interpreted and compiled."""
    case = program_text(seed)
    source = random.Random(f"{seed} settings")
    defaults = random_defaults(source)
    chosen = [compiled_settings(source, case.style, defaults)]
    if source.random() < 0.2:
        chosen.append(interpreted_settings(source, case.style, defaults))
    return case, chosen


def settings_on(seed: int, target: str) -> Settings:
    """Under which options the program of a seed runs on a target that is named."""
    source = random.Random(f"{seed} {target}")
    defaults = random_defaults(source)
    return device_settings(source, program_text(seed).style, defaults, target)


def check_on(seed: int, settings: Settings) -> Failure | None:
    """How the program of a seed differs under settings from what the oracle gave; None if it does not. Where the target's
    hardware is not here, what plays it runs the program."""
    case = program_text(seed)
    arch = knobs.arch_by_name(settings.arch)
    with emulation(arch), tempfile.TemporaryDirectory() as folder:
        if reason := table.missing(arch):
            return Failure("missing", reason)
        try:
            module = load(case.text, Path(folder), f"program_{seed}")
            expected = expectations(module, case.sizes, settings.defaults)
        except (Invalid, SyntaxError) as error:
            return Failure("invalid", str(error))
        return check(module, expected, settings, case.style)


def run_seed(seed: int, folder: Path) -> list[Finding]:
    """Everything that is wrong with the program of a seed, interpreted and compiled under the seed's options."""
    case, chosen = settings_of(seed)
    try:
        module = load(case.text, folder, f"program_{seed}")
        expected = expectations(module, case.sizes, chosen[0].defaults)
    except (Invalid, SyntaxError) as error:
        return [Finding(seed, case, None, Failure("invalid", str(error)))]
    found = []
    for settings in chosen:
        wanted = expected if settings.arch == "cpu" else expected[:1]
        failure = check(module, wanted, settings, case.style)
        if failure is not None:
            found.append(Finding(seed, case, settings, failure))
    (folder / f"program_{seed}.py").unlink()
    return found


def _difference(
    dtypes: list[str], result: Any, arguments: list[Any], outcome: Expected, style: Style
) -> Failure | None:
    where = f"size {outcome.size}: "
    if dtypes != outcome.dtypes:
        return Failure("type", f"{where}result {dtypes}, the oracle has {outcome.dtypes}")
    parts = result if isinstance(result, tuple) else () if result is None else (result,)
    for position, (value, wanted) in enumerate(zip(parts, outcome.values, strict=True)):
        held = np.float32 if dtypes[position] == "f32" else None
        if not _same(np.asarray(plain(value), held), np.asarray(wanted, held), style):
            return Failure("value", f"{where}result {position} is {plain(value)}, the oracle has {wanted}")
    arrays = [value.to_numpy() if hasattr(value, "to_numpy") else value for value in _leaves(arguments)]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    for position, (array, wanted) in enumerate(zip(arrays, outcome.arrays, strict=True)):
        if not _same(array, wanted, style):
            text = f"{where}array {position} is\n{array.tolist()}, the oracle has\n{wanted.tolist()}"
            return Failure("value", text)
    return None


def _same(found: np.ndarray, expected: np.ndarray, style: Style) -> bool:
    """Whether two arrays agree; the signs of zeros are left open, as sums may meet in any order."""
    if expected.dtype.kind != "f":
        return bool(np.array_equal(found, expected))
    if style.loose:
        return bool(np.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))
    return bool(np.array_equal(found, expected, equal_nan=True))
