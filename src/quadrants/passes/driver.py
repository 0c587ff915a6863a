"""The driver: runs the pipeline. It alone times, dumps, verifies, leaves out, stops and bisects."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from quadrants import knobs
from quadrants.errors import QuadrantsCompilationError, QuadrantsInternalError
from quadrants.ir.nodes import Module
from quadrants.passes.census import Census
from quadrants.passes.context import Notice, PassContext
from quadrants.passes.pipeline import PIPELINE, STRETCHES, Pass
from quadrants.passes.structure import count_ops
from quadrants.records import Record, replace

__all__ = ["Guilt", "Notice", "PassContext", "find_guilty", "run_pipeline"]


def run_pipeline(
    module: Module,
    options: knobs.Options | None = None,
    record: Any = None,
    *,
    context: PassContext | None = None,
    limit: int | None = None,
    passes: Sequence[Pass] = PIPELINE,
) -> Module:
    """Takes a module of stage `kernel` through the pipeline, in place, and gives it back.

    `context` collects notices, counters and times (a new one is made of `options` and `record` if it is None).
    `limit` is how many optional passes may run, and the rest are left out: see `find_guilty`. Raises ValueError for
    pass names in the options that are none, or not to be left out, and QuadrantsInternalError, naming pass and kernel,
    where a pass fails or leaves a malformed module.
    """
    if context is None:
        context = PassContext(options or knobs.current, record)
    options = context.options
    check_names(options, passes)
    looks_between = options.verify or options.print_ir or context.count_ops
    in_stretches = limit is None and context.rewrite_limit is None and not looks_between
    for steps in _planned(passes, options, limit, in_stretches):
        if len(steps) == 1:
            _run(steps[0], module, context)
        else:
            _run_stretch(steps, module, context)
    return module


def _planned(passes: Sequence[Pass], options: knobs.Options, limit: int | None, in_stretches: bool) -> list[list[Pass]]:
    """The passes to run, those of a stretch together if that is wanted, and each other one alone."""
    left = limit if limit is not None else len(passes)
    planned: list[list[Pass]] = []
    together = ""
    for step in passes:
        optional = not step.required
        if step.wanted(options) and not (optional and (options.opt_level == 0 or step.name in options.disable_passes)):
            if optional:
                left -= 1
            if left >= 0 or not optional:
                stretch = _STRETCH_OF.get(step.name, "") if in_stretches else ""
                if stretch and stretch == together:
                    planned[-1].append(step)
                else:
                    planned.append([step])
                together = stretch
        if step.name == options.stop_after:
            break
    return planned


_STRETCH_OF = {name: stretch[0] for stretch in STRETCHES for name in stretch}


def check_names(options: knobs.Options, passes: Sequence[Pass] = PIPELINE) -> None:
    """ValueError unless the passes that the options name are there, and those to be left out are optional."""
    by_name = {step.name: step for step in passes}
    names = [*options.disable_passes, options.stop_after, options.print_ir if type(options.print_ir) is str else ""]
    for name in filter(None, names):
        if name not in by_name:
            raise ValueError(f"there is no pass {name!r}; there are {', '.join(by_name)}")
    for name in options.disable_passes:
        if by_name[name].required:
            raise ValueError(f"pass {name!r} cannot be left out: {by_name[name].reason}")


def _run_stretch(steps: list[Pass], module: Module, context: PassContext) -> None:
    """Takes each function through all the passes, one function after the other."""
    useful = [step for step in steps if _may_find(step, module, context)]
    try:
        for function in list(module.functions.values()):
            context.focus = function
            for step in useful:
                module.stage = step.stage
                _apply(step, module, context)
    finally:
        context.focus = None
    for step in steps:
        _finish(step, module, context)


def _run(step: Pass, module: Module, context: PassContext) -> None:
    if _may_find(step, module, context):
        _apply(step, module, context)
    _finish(step, module, context)
    _look(step, module, context)


def _may_find(step: Pass, module: Module, context: PassContext) -> bool:
    """Whether there can be something for a pass in a module as it is."""
    if context.census is None:
        context.census = Census(module, context.record)
    return step.finds(context.census)


def _apply(step: Pass, module: Module, context: PassContext) -> None:
    started = time.perf_counter()
    try:
        step.apply(module, context)
    except (QuadrantsCompilationError, QuadrantsInternalError, RecursionError):
        raise
    except Exception as error:  # whatever a pass raises beside refusals is a mistake of ours, told with its name
        text = f"pass {step.name} failed on kernel {module.entry}: {type(error).__name__}: {error}"
        raise QuadrantsInternalError(text) from error
    context.census = None
    context.times[step.name] = context.times.get(step.name, 0.0) + time.perf_counter() - started


def _finish(step: Pass, module: Module, context: PassContext) -> None:
    context.executed.append(step.name)
    context.times.setdefault(step.name, 0.0)
    if not step.keeps_effects:
        context.memory_effects = None
    module.stage = step.leads_to or step.stage


def _look(step: Pass, module: Module, context: PassContext) -> None:
    """What the options ask to be done after each pass."""
    options = context.options
    if context.count_ops:
        context.sizes[step.name] = sum(count_ops(function.body) for function in module.functions.values())
    if options.verify:
        _verify(step, module)
    if options.print_ir is True or options.print_ir == step.name:
        _dump(step, module, context)


def _verify(step: Pass, module: Module) -> None:
    from quadrants.ir.verify import VerificationError, verify

    try:
        verify(module)
    except VerificationError as error:
        text = f"pass {step.name} left kernel {module.entry} malformed: {error}"
        raise QuadrantsInternalError(text) from error


def _dump(step: Pass, module: Module, context: PassContext) -> None:
    from quadrants.ir.text import print_module

    text = print_module(module)
    if context.dump is not None:
        context.dump(step.name, text)
    else:
        sys.stderr.write(f"// after {step.name}\n{text}\n")


class Guilt(Record):
    """The first optional pass (and its first rewrite, counted from 1; 0 if the pass does not count rewrites) with which
    a program goes wrong."""

    pass_name: str
    rewrite: int


def find_guilty(
    make: Callable[[], Module],
    is_bad: Callable[[Module], bool],
    options: knobs.Options | None = None,
    record: Any = None,
    passes: Sequence[Pass] = PIPELINE,
) -> Guilt | None:
    """The pass and the rewrite that turn a program bad, by bisection; None if it is good with all passes.

    `make` gives a fresh module of stage `kernel` each time, `is_bad` judges the module that the pipeline gives (an
    exception of the pipeline counts as bad). ValueError if the program is bad without any optional pass.
    """
    settings = options or knobs.current

    def bad(count: int, rewrites: int | None = None) -> bool:
        return _is_bad(make, is_bad, settings, record, passes, count, rewrites)

    optional = _optional_names(passes, settings)
    if not bad(len(optional)):
        return None
    if bad(0):
        raise ValueError("the program is bad without any optional pass")
    guilty = _first(1, len(optional), bad)
    name = optional[guilty - 1]
    most = _rewrites_of(make, settings, record, passes, guilty)
    if most == 0 or bad(guilty, 0):
        return Guilt(name, 0)
    return Guilt(name, _first(1, most, lambda count: bad(guilty, count)))


def _optional_names(passes: Sequence[Pass], options: knobs.Options) -> list[str]:
    optional = [step for step in passes if not step.required and step.wanted(options)]
    return [step.name for step in optional if step.name not in options.disable_passes]


def _first(low: int, high: int, bad: Callable[[int], bool]) -> int:
    """The smallest count in [low, high] that is bad, given that `high` is and that bad stays bad."""
    while low < high:
        middle = (low + high) // 2
        if bad(middle):
            high = middle
        else:
            low = middle + 1
    return low


class _Counting:
    """The pipeline with a rewrite limit on its last optional pass only."""

    def __init__(self, step: Pass, rewrites: int) -> None:
        self.step = step
        self.rewrites = rewrites
        self.used = 0

    def run(self, module: Module, context: PassContext) -> None:
        context.rewrite_limit = self.rewrites
        try:
            self.step.apply(module, context)
        finally:
            self.used = self.rewrites - (context.rewrite_limit or 0)
            context.rewrite_limit = None


def _limited(
    passes: Sequence[Pass], guilty: int, rewrites: int, options: knobs.Options
) -> tuple[list[Pass], _Counting]:
    """The passes, with the `guilty`-th optional one (from 1) under a rewrite limit."""
    name = _optional_names(passes, options)[guilty - 1]
    chosen = next(step for step in passes if step.name == name)
    counting = _Counting(chosen, rewrites)
    limited = replace(chosen, run=counting.run)
    return [limited if step is chosen else step for step in passes], counting


_PLENTY = 1 << 40


def _rewrites_of(
    make: Callable[[], Module], options: knobs.Options, record: Any, passes: Sequence[Pass], guilty: int
) -> int:
    """How many rewrites the `guilty`-th optional pass makes."""
    limited, counting = _limited(passes, guilty, _PLENTY, options)
    with contextlib.suppress(QuadrantsInternalError):  # where the pass itself fails, its rewrites up to there count
        run_pipeline(make(), options, record, limit=guilty, passes=limited)
    return counting.used


def _is_bad(
    make: Callable[[], Module],
    is_bad: Callable[[Module], bool],
    options: knobs.Options,
    record: Any,
    passes: Sequence[Pass],
    count: int,
    rewrites: int | None,
) -> bool:
    if rewrites is not None:
        passes, _ = _limited(passes, count, rewrites, options)
    try:
        return is_bad(run_pipeline(make(), options, record, limit=count, passes=passes))
    except QuadrantsInternalError:
        return True
