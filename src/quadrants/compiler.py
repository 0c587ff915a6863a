"""The path of a kernel, on one page: Python source → IR → passes → target → a program that frames are run on.

frontend.compile_source     Python function, argument types      → IR at stage 'kernel'
passes.run_pipeline         simplify … split … lower             → IR at stage 'lowered'
targets.<t>.build           emit and assemble                    → artifact
runtime.loader              load the objects, resolve symbols    → address of `i32 entry(ptr frame)`
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from quadrants import knobs
from quadrants.collector import collector_off
from quadrants.errors import QuadrantsSyntaxError
from quadrants.frontend import protocol
from quadrants.frontend.arguments import Argument
from quadrants.frontend.compilation import compile_source
from quadrants.ir.external import Routine
from quadrants.ir.nodes import Module
from quadrants.passes import choices, timing
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline
from quadrants.program import Program
from quadrants.recursion import deep_recursion
from quadrants.runtime import manifest, native, threads
from quadrants.targets import shared_objects, table
from quadrants.targets.artifact import Artifact
from quadrants.targets.frame import frame_layout
from quadrants.targets.refusals import refuse

__all__ = ["compile_kernel", "lower"]


def _object_store() -> tuple[shared_objects.Store, str] | None:
    """The disk cache, where there is one, and what all objects depend on."""
    cache = manifest.disk()
    return None if cache is None else (cache, manifest.surroundings())


shared_objects.keep_in(_object_store)


def compile_kernel(
    function: types.FunctionType,
    arguments: list[tuple[str, Argument]],
    options: knobs.State,
    live_numbers: set[Any],
    wish: protocol.Annotation | None,
    may_alias: bool = False,
    lanes: int = 0,
    is_graph: bool = False,
) -> Program:
    """A kernel for these arguments, compiled for the target that the options name.

    live_numbers: identities of captured numbers that are parameters rather than constants; may_alias: arguments may
    share memory; lanes: how many iterations run in lanes in loops that leave that to timing (0: the model's guess). Raises the compile errors of errors.py; nothing is left behind by a failed compile.
    """
    try:
        with collector_off(), deep_recursion():
            return _compiled(function, arguments, options, live_numbers, wish, may_alias, lanes, is_graph)
    except RecursionError:
        text = f"{function.__name__} or a function that it calls is nested too deeply"
        raise QuadrantsSyntaxError(text) from None


def _compiled(
    function: types.FunctionType,
    arguments: list[tuple[str, Argument]],
    options: knobs.State,
    live_numbers: set[Any],
    wish: protocol.Annotation | None,
    may_alias: bool,
    lanes: int,
    is_graph: bool,
) -> Program:
    times: dict[str, float] = {}
    with threads.loading_beside() if table.row(options.arch).machine_code else nullcontext():
        with _timed(times, "front end"):
            source = compile_source(function, arguments, options, live_numbers, wish)
        kernel = source.module.kernel
        kernel.attributes["may_alias"] = may_alias
        if is_graph:
            kernel.attributes["graph"] = True
        frame = frame_layout(kernel)
        target = table.find(options.arch)
        context = PassContext(options, target.record(), lanes_to_try=lanes, routine_for=_routines(options))
        with _timed(times, "passes"):
            lower(source.module, context)
    program = Program(
        function.__name__,
        frame,
        _plain_result(source.result.shape),
        source.guards,
        source.captured,
        source.written,
        context.notices,
        context.counters,
        times,
        may_alias,
    )
    program.source, program.module = source, source.module
    program.tasks = choices.tasks(source.module, context.record is not None and context.record.launches)
    program.lane_options = tuple(sorted(context.lane_options))
    program.threads_are_free = timing.threads_are_free(source.module)
    with _timed(times, "target"):
        built = target.build(source.module, options)
    with _timed(times, "load"):
        _load(program, built)
    return program


def lower(module: Module, context: PassContext) -> None:
    """Takes a module of stage 'kernel' to stage 'lowered'. QuadrantsUnsupportedError for what the target lacks."""
    refuse(module, context.record)
    if context.options.verify:
        from quadrants.ir.verify import verify

        verify(module)
    run_pipeline(module, context=context)


def _routines(options: knobs.Options) -> Callable[[str, str], Routine | str] | None:
    """What finds libraries' routines for tasks, where the options want it."""
    if options.libraries == "off":
        return None
    from quadrants.targets import libraries

    return libraries.finder(options)


def _load(program: Program, built: Artifact | table.Interpreted) -> None:
    if isinstance(built, Artifact):
        program.load(built.objects, built.entry, built.externals)
        program.artifact, program.messages, program.prints = built, built.messages, built.prints
        return
    program.artifact = getattr(built, "artifact", None)
    program.interpreter = built.run
    host: Any = built
    if hasattr(built, "host_code") and native.available():
        program.have_host_code(host.host_code, host.patience)


def _plain_result(shape: Any) -> Any:
    """The front end's tree of a result as a Program keeps it."""
    if shape[0] == "sequence":
        return ("sequence", [_plain_result(part) for part in shape[1]], shape[2], shape[4])
    return ("static", shape[1].value) if shape[0] == "static" else ("run",)


@contextmanager
def _timed(times: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times[what] = times.get(what, 0.0) + time.perf_counter() - start
