"""Under which options a program is compiled: drawn from a seed, few at a time, so that a failure tells where to look."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.thresholds import thresholds
from quadrants.passes import cost
from quadrants.passes.pipeline import PIPELINE

__all__ = [
    "SLOWLY_CHECKED",
    "UNTOUCHED",
    "Settings",
    "compiled_settings",
    "device_settings",
    "interpreted_settings",
    "random_defaults",
]

SLOWLY_CHECKED = frozenset({"vulkan", "metal", "d3d12"})
"""Targets whose drivers may take minutes for shaders full of checks."""
UNTOUCHED = "inline"
"""The last pass of programs that run as they were written, in front of those that know of threads."""

OPTIONAL = tuple(step.name for step in PIPELINE if not step.required)
STEPS = tuple(step.name for step in PIPELINE)


@dataclass(frozen=True)
class Settings:
    """`options`: those of `qd.init`. `defaults`: the types of weak numbers. `code_level`: LLVM's level where it is not
    what the options give. `look`: the program is also interpreted as it is after that pass. `busy`: every parallel loop is
    taken to be worth all threads. `eager`: what pays at large sizes only is done at small ones. `warm`: the kernel is run
    from the disk cache, which another one has just filled."""

    arch: str
    options: dict[str, Any] = field(default_factory=dict)
    defaults: tuple[str, str] = ("i64", "f64")
    code_level: int | None = None
    look: str = ""
    busy: bool = False
    eager: bool = False
    warm: bool = False

    def __str__(self) -> str:
        facts = [self.arch, *(f"{name}={value!r}" for name, value in self.options.items())]
        if self.defaults != ("i64", "f64"):
            facts.append(f"defaults={self.defaults}")
        if self.code_level is not None:
            facts.append(f"code_level={self.code_level}")
        if self.look:
            facts.append(f"look={self.look}")
        return ", ".join([*facts, *(name for name in ("busy", "eager", "warm") if getattr(self, name))])

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """What is no option of `qd.init` is set while a program is compiled."""
        before = cost.iteration_cost
        if self.busy:
            cost.iteration_cost = lambda loop, forms, module=None: 1_000_000
        code_level = _code_level(self.code_level) if self.code_level is not None else nullcontext()
        try:
            with thresholds(self.eager), code_level:
                yield
        finally:
            cost.iteration_cost = before


@contextmanager
def _code_level(level: int) -> Iterator[None]:
    from quadrants.targets.llvm.x64 import target

    before = target.build
    target.build = lambda module, options: target.compile_module(module, target.Options(level=level, verify=True))
    try:
        yield
    finally:
        target.build = before


def interpreted_settings(source: random.Random, style: Style, defaults: tuple[str, str]) -> Settings:
    """The program is interpreted as it is after one of the passes."""
    options = _common(source, style)
    if source.random() < 0.25:
        options["verify"] = True
    if source.random() < 0.7:
        options["stop_after"] = source.choice(STEPS)
    if source.random() < 0.1:
        options["opt_level"] = 0
    if source.random() < 0.6:
        options["lanes"] = source.choice((4, 8, 16))
    return Settings("reference", options, defaults, eager=source.random() < 0.5)


def compiled_settings(source: random.Random, style: Style, defaults: tuple[str, str]) -> Settings:
    """The program runs as machine code, and is interpreted on the way."""
    options = _common(source, style)
    if source.random() < 0.1:
        options["opt_level"] = 0
    lanes = source.choice((0, 0, 0, 0, 1, 4, 8, 8, 16, 16))
    if lanes:
        options["lanes"] = lanes
    options["cpu_max_num_threads"] = source.choice((1, 2, 3))
    level = source.choice((*(0,) * 15, 1, 1, None, None, None, 3)) if options.get("opt_level") != 0 else None
    warm = level is None and source.random() < 0.3
    look = "" if source.random() < 0.1 else source.choice(STEPS)
    return Settings("cpu", options, defaults, level, look, source.random() < 0.5, source.random() < 0.5, warm)


def device_settings(source: random.Random, style: Style, defaults: tuple[str, str], target: str) -> Settings:
    """The program runs on a target that is named, or (`kernel`) as it was written."""
    options = _common(source, style)
    if target in SLOWLY_CHECKED:
        options = {name: value for name, value in options.items() if name not in ("debug", "check_out_of_bound")}
    if source.random() < 0.2:
        options["opt_level"] = 0
    if target == "kernel":
        return Settings("reference", {**options, "stop_after": UNTOUCHED}, defaults)
    return Settings(target, {**options, "enable_fallback": False}, defaults, eager=source.random() < 0.7)


def _common(source: random.Random, style: Style) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if source.random() < 0.35:
        options["disable_passes"] = (source.choice(OPTIONAL),)
    if style.tame and source.random() < 0.3:
        options["debug"] = True
    elif source.random() < 0.1:
        options["check_out_of_bound"] = True
    if source.random() < 0.15:
        options["deterministic"] = True
    return options


def random_defaults(source: random.Random) -> tuple[str, str]:
    """The types that weak numbers get."""
    return source.choice((("i64", "f64"), ("i32", "f32"), ("i32", "f64")))
