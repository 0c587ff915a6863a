"""Programs of block loops, and of what devices do in ways of their own, on targets, against what they mean; failing ones are made smaller.

Each runs in a process of its own, which may crash or hang.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.emulation import emulation
from quadrants.evidence.fuzz.block_code import Program, parts
from quadrants.evidence.fuzz.block_programs import BlockProgram
from quadrants.evidence.fuzz.campaign import time_limit
from quadrants.evidence.fuzz.device_programs import DeviceProgram
from quadrants.evidence.fuzz.settings import SLOWLY_CHECKED, UNTOUCHED, Settings
from quadrants.evidence.fuzz.thresholds import thresholds
from quadrants.evidence.fuzz.trial import Failure, check_on, load, settings_on
from quadrants.records import Record
from quadrants.targets import table

__all__ = [
    "CAMPAIGNS",
    "KINDS",
    "TARGETS",
    "Way",
    "block_campaign",
    "check",
    "check_apart",
    "reduced",
    "told",
    "way_of",
]

SECONDS_FOR_ONE = 180
"""A program's time, on a machine that may be busy with other things; of a processor's it gets less (`time_limit`)."""

TARGETS = ("kernel", "reference", "simulated", "x64", "arm64", "cuda", "amdgpu", "vulkan")
"""Where programs run; `kernel`: interpreted as they were written, before any pass takes block loops apart."""
KINDS: dict[str, Callable[[int], Program]] = {"blocks": BlockProgram, "devices": DeviceProgram}
"""Programs by what is in them: block loops, and what devices do in ways of their own."""
CAMPAIGNS = (*KINDS, "plain")
"""What campaigns on targets run: programs of these kinds, or (`plain`) those of the fuzzer of CPUs."""


class Way(Record):
    """A target with the options of `qd.init`. `eager`: what pays at large sizes only is done at small ones."""

    target: str
    options: dict[str, Any]
    eager: bool = False

    def __str__(self) -> str:
        facts = [self.target, *(f"{name}={value!r}" for name, value in self.options.items())]
        return ", ".join([*facts, *["eager"] * self.eager])


def way_of(seed: int, target: str) -> Way:
    """How the program of a seed runs on a target."""
    source = random.Random(f"{seed} {target}")
    options: dict[str, Any] = {}
    if target == "kernel":
        options["stop_after"] = UNTOUCHED
    if target != "kernel" and source.random() < 0.25:
        options["opt_level"] = 0
    if source.random() < 0.2 and target not in SLOWLY_CHECKED:
        options["check_out_of_bound"] = True
    if target == "x64":
        options["lanes"] = source.choice((0, 1, 8, 16))
        options["cpu_max_num_threads"] = source.choice((1, 2))
    return Way(target, options, source.random() < 0.7)


def check(program: Program, way: Way) -> Failure | None:
    """How the program differs on a target from what it means; None if it does not."""
    import quadrants as qd

    arch = knobs.arch_by_name("reference" if way.target == "kernel" else way.target)
    expected = program.expected()
    with emulation(arch), tempfile.TemporaryDirectory() as folder:
        if reason := table.missing(arch):
            return Failure("missing", reason)
        try:
            qd.init(
                arch=arch,
                default_ip=qd.i32,
                log_level="error",
                offline_cache=False,
                enable_fallback=False,
                subgroup_size=program.subgroup,
                **way.options,
            )
            module = load(program.text(), Path(folder), "program")
            arguments = program.arguments()
            with thresholds(way.eager):
                qd.kernel(module.program)(*arguments)
        except Exception as error:  # whatever the compiler raises is what was looked for
            return Failure(type(error).__name__, str(error))
        finally:
            qd.reset()
    for name, found, wanted in zip(program.memory, arguments, expected):
        if not np.array_equal(found, wanted):
            place = tuple(int(axis[0]) for axis in np.nonzero(found != wanted))
            return Failure("value", f"{name}{list(place)} is {found[place]}, expected {wanted[place]}")
    return None


def check_apart(program: Program, way: Way, seconds: int = SECONDS_FOR_ONE) -> Failure | None:
    """The same in a process of its own, which may crash or hang."""
    return _apart(lambda: check(program, way), seconds)


def _apart(run: Callable[[], Failure | None], seconds: int = SECONDS_FOR_ONE) -> Failure | None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            with time_limit(seconds):
                data = pickle.dumps(run())
        except BaseException as error:  # a child never returns
            data = pickle.dumps(Failure("invalid", f"{type(error).__name__}: {error}"))
        os.write(writing, data)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if data:
        return pickle.loads(data)
    is_hang = os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF)
    return Failure("hang" if is_hang else "crash", f"status {status}")


def _same_kind(found: Failure | None, wanted: Failure) -> bool:
    if found is None or found.kind != wanted.kind:
        return False
    return found.kind in ("value", "crash", "hang") or _words(found.text) == _words(wanted.text)


def _words(text: str) -> list[str]:
    line = text.splitlines()[0] if text else ""
    return [word for word in line.split() if word.isalpha()]


def block_campaign(kind: str, seeds: range, targets: Sequence[str], stop_after: int, output: TextIO) -> int:
    """Runs the programs of some seeds on targets and tells failures as they come; gives how many there are. What a target refuses
    with the line is none."""
    found = count = refused = 0
    for seed in seeds:
        for target in targets:
            way, failure = _checked(kind, seed, target)
            count += 1
            if failure is not None and failure.kind == QuadrantsUnsupportedError.__name__:
                refused += 1
            elif failure is not None:
                found += 1
                print(f"seed {seed} on {way}: {failure.kind}: {failure.text}", file=output, flush=True)
        if found >= stop_after:
            break
    print(f"programs of {kind} on {', '.join(targets)}: {count} runs, {found} failures, {refused} refused", file=output)
    return found


def _checked(kind: str, seed: int, target: str) -> tuple[Way | Settings, Failure | None]:
    """How the program of a seed ran on a target."""
    if kind in KINDS:
        way = way_of(seed, target)
        return way, check_apart(KINDS[kind](seed), way)
    settings = settings_on(seed, target)
    return settings, _apart(lambda: check_on(seed, settings))


def told(kind: str, seed: int, target: str, seconds: float) -> str:
    """The smallest program that fails as that of a seed does on a target."""
    program, way = KINDS[kind](seed), way_of(seed, target)
    failure = check_apart(program, way)
    if failure is None:
        return f"seed {seed} on {way}: nothing is wrong\n"
    failure = reduced(program, way, failure, seconds)
    given = f"# on {way}, subgroup_size={program.subgroup}, {program.numbers}"
    return f"{program.text()}\n{given}\n# {failure.kind}: {failure.text}\n"


def reduced(program: Program, way: Way, wanted: Failure, seconds: float = 120.0) -> Failure:
    """Takes statements out of the program, as long as it fails in the same way; gives how it fails then."""
    deadline = time.monotonic() + seconds
    failure, changed = wanted, True
    while changed and time.monotonic() < deadline:
        changed = False
        for index in range(len(_edits(program))):
            edits = _edits(program)
            if index >= len(edits) or time.monotonic() > deadline:
                break
            container, position, put_in = edits[index]
            before = list(container)
            container[position : position + 1] = put_in
            found = check_apart(program, way)
            if found is not None and _same_kind(found, wanted):
                failure, changed = found, True
            else:
                container[:] = before
    return failure


def _edits(program: Program) -> list[tuple[list[Any], int, list[Any]]]:
    """Places in lists of statements, and what to put there."""
    found: list[tuple[list[Any], int, list[Any]]] = [(program.loops, k, []) for k in range(len(program.loops))]
    for loop in program.loops:
        for body in getattr(loop, "bodies", ()):
            for container, position in list(parts(body)):
                found.append((container, position, []))
                found += [(container, position, list(inner)) for inner in container[position].bodies if inner]
    return found
