"""`qd.kernel` and `qd.func`: Python functions that are compiled when they are called."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants import blocks, knobs
from quadrants.collector import collector_off
from quadrants.errors import QuadrantsCompilationError, QuadrantsRuntimeError, QuadrantsSyntaxError
from quadrants.frontend import protocol
from quadrants.frontend.annotations import resolve_annotation
from quadrants.frontend.arguments import Argument, as_numpy, describe_argument
from quadrants.frontend.guards import LiveNumber
from quadrants.ir.types import ArrayType
from quadrants.lang import arch, bindings
from quadrants.program import Program, failure
from quadrants.runtime import launch, threads
from quadrants.targets import table
from quadrants.targets.device.failures import NOTED, noted
from quadrants.targets.device.views import DeviceView
from quadrants.warm_start import Lookup

if TYPE_CHECKING:
    from quadrants.lang.tuning import Tuner

__all__ = ["Func", "Kernel", "compiled_programs", "data_oriented", "func", "kernel", "pyfunc"]

_kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
_lock = threading.RLock()
# How many compiled forms the launcher tries before the slow path.
FAST_FORMS = 8
_STREAM = "qd_stream"


class Kernel(launch.NativeKernel):
    """A Python function compiled for the types of its arguments at the first call with them.

    Calling it runs the compiled form; `report()` tells what the compiler chose, `ir(stage)` shows the program.
    """

    __slots__ = ("__dict__", "__weakref__")
    _is_kernel = True

    def __init__(self, function: types.FunctionType, is_graph: bool = False) -> None:
        self.function = function
        self.is_graph = is_graph
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self._signature = _checked_signature(function)
        self._wishes = {
            name: protocol.annotation(resolve_annotation(function, wish))
            for name, wish in function.__annotations__.items()
        }
        self._programs: dict[Any, list[Program]] = {}
        self._live_numbers: set[Any] = set()
        self._containers: weakref.WeakKeyDictionary[Program, int] = weakref.WeakKeyDictionary()
        self._recent: list[tuple[Program, Any]] = []
        self._last: Program | None = None
        self._messages: dict[int, Any] = {}
        _kernels.add(self)

    # Calls.

    def _slow_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        """A call that the installed forms do not cover: finds or compiles the program, runs it, installs it."""
        if keywords is not None and _STREAM in keywords:
            return self._call_in_stream(arguments, keywords)
        bound = self._bind(arguments, keywords or {})
        arch.settle()
        described = self._describe(bound)
        leaves = [leaf for _, argument in described for leaf in argument.leaves()]
        program, fresh = self._program(described, leaves)
        values = [(leaf, leaf.value if leaf.kind == "array" else _leaf_value(leaf)) for leaf in leaves]
        if program.tuner is not None:
            return self._tuned_call(program, program.tuner, values, described, fresh)
        start = time.perf_counter()
        try:
            result = self._timed(program, values) if knobs.current.kernel_profiler else program.run(values)
        finally:
            self._last = program
        bindings.install(self, program, described, time.perf_counter() - start, fresh)
        return result

    def _call_in_stream(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        from quadrants.lang.streams import launched_to

        if self.is_graph:
            raise QuadrantsRuntimeError(f"{self.__name__} is a graph: it is not launched to a stream of its own")
        stream = keywords.pop(_STREAM)  # the call's own dictionary
        with launched_to(stream):
            return self(*arguments, **keywords)

    def _tuned_call(
        self,
        program: Program,
        tuner: Tuner,
        values: list[tuple[Argument, Any]],
        described: list[tuple[str, Argument]],
        fresh: bool,
    ) -> Any:
        """A call of a program of which there are variants: runs the one whose turn it is."""
        frame = program.filled(values)
        with _lock:
            turn = tuner.turn(frame, described)
        chosen = self._last = turn.program
        if chosen is not program:
            frame = chosen.filled(values)
        try:
            seconds = chosen.launch(frame, turn.variant.threads)
        except BaseException:  # an interrupt, too: the turn is over, and whoever called hears of it
            with _lock:
                tuner.abandon(turn)
            raise
        with _lock:
            settled = tuner.settle(turn, seconds)
        if knobs.current.kernel_profiler:
            self._note(seconds)
        if settled is not None:
            winner, watch = settled
            self._last = winner
            binding = bindings.install(self, winner, described, seconds, fresh, watch)
            if binding is not None:
                turn.bucket.installed(binding)
        return chosen.unpack(frame)

    def _timed(self, program: Program, values: list[tuple[Argument, Any]]) -> Any:
        """Runs a program with the profiler on."""
        if program.interpreter is None and program.device is None:
            frame = program.filled(values)
            self._note(program.launch(frame))
            return program.unpack(frame)
        from quadrants.runtime import profile

        return profile.timed(self._shown, lambda: program.run(values))

    def _note(self, seconds: float) -> None:
        from quadrants.runtime import profile

        profile.note(self._shown, seconds * 1e3)

    @property
    def _shown(self) -> str:
        """The name with the class that it stands in."""
        return self.__qualname__.rpartition("<locals>.")[2]

    def _bind(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as reason:
            takes = ", ".join(self._signature.parameters)
            raise QuadrantsSyntaxError(f"{self.__name__}(): {_reworded(str(reason))}: takes ({takes})") from None
        bound.apply_defaults()
        return bound.arguments

    def _describe(self, bound: dict[str, Any]) -> list[tuple[str, Argument]]:
        state = knobs.current
        found = []
        for name, value in bound.items():
            argument = describe_argument(name, value, self._wishes.get(name), state.default_int, state.default_float)
            _attach(argument, value)
            found.append((name, argument))
        return found

    def _program(self, described: list[tuple[str, Argument]], leaves: list[Argument]) -> tuple[Program, bool]:
        state = knobs.current
        key = (tuple(argument.key for _, argument in described), options_key(state))
        with _lock:
            programs = self._programs.setdefault(key, [])
            overlap = False
            for program in programs:
                if program.fits(leaves):
                    overlap = not program.may_alias and _overlap(program, leaves)
                    if not overlap:
                        return program, False
            self._note_changed_numbers(programs)
            with collector_off():  # also while the compiler is imported
                program = self._compile(described, leaves, state, overlap)
                self._let_tune(program, state)
            programs[:] = [known for known in programs if all(guard.holds() for guard in known.guards)]
            programs.append(program)
            return program, True

    def _note_changed_numbers(self, programs: list[Program]) -> None:
        """Captured numbers that changed become parameters: the next change costs no compile."""
        for program in programs:
            for guard in program.guards:
                if not guard.holds() and type(guard.value) in (int, float):
                    self._live_numbers.add((id(guard.container), guard.key))

    def _compile(
        self, described: list[tuple[str, Argument]], leaves: list[Argument], state: knobs.State, overlap: bool
    ) -> Program:
        """A new form; `overlap`: arguments are known to share memory."""
        program = self._form(described, leaves, state, overlap)
        if not overlap and program is not None and _overlap(program, leaves):
            program = self._form(described, leaves, state, may_alias=True)
        assert program is not None
        self._messages.update(program.messages)
        bindings.show_notices(program)
        return program

    def _let_tune(self, program: Program, state: knobs.State) -> None:
        """Gives a program that has variants somebody who tries them."""
        is_wanted = state.autotune and not state.deterministic and not state.debug
        is_wanted = is_wanted and program.interpreter is None and program.device is None
        if not is_wanted or not (program.lane_options or (program.threads_are_free and threads.count() > 1)):
            return
        from quadrants.lang.tuning import Tuner

        def variant_of(described: list[tuple[str, Argument]], lanes: int, may_compile: bool) -> Program | None:
            leaves = [leaf for _, argument in described for leaf in argument.leaves()]
            variant = self._form(described, leaves, state, program.may_alias, lanes, may_compile)
            if variant is not None:
                self._messages.update(variant.messages)
            return variant

        program.tuner = Tuner(program, variant_of)

    def _form(
        self,
        described: list[tuple[str, Argument]],
        leaves: list[Argument],
        state: knobs.State,
        may_alias: bool,
        lanes: int = 0,
        may_compile: bool = True,
    ) -> Program | None:
        """A compiled form from the disk cache, else from the compiler; None if that may not run. `lanes`: how many
        iterations run in lanes where that is left to timing, 0 for the compiler's guess."""
        lookup = Lookup(self.function, described, state, may_alias, lanes, self.is_graph)
        program = lookup.find(leaves)
        if program is not None:
            numbers = [source for source in program.captured if isinstance(source, LiveNumber)]
            self._live_numbers.update((id(number.container), number.key) for number in numbers)
            arguments = [(name, argument.without_memory()) for name, argument in described]
            program.compile_again = lambda: self._compiled(arguments, state, may_alias, lanes)
            return program
        if not may_compile:
            return None
        program = self._compiled(described, state, may_alias, lanes)
        assert program.source is not None
        program.remember_sizes(program.source.static_sizes, leaves)
        lookup.keep(program)
        return program

    def _compiled(
        self, described: list[tuple[str, Argument]], state: knobs.State, may_alias: bool, lanes: int = 0
    ) -> Program:
        from quadrants import compiler

        try:
            wish = self._wishes.get("return")
            program = compiler.compile_kernel(
                self.function, described, state, self._live_numbers, wish, may_alias, lanes, self.is_graph
            )
        except QuadrantsCompilationError as error:
            if state.print_full_traceback:
                raise
            raise error.with_traceback(None) from None
        if self.is_graph and program.result != ("static", None):
            raise QuadrantsSyntaxError(f"{self.__name__} is a graph, which gives no value: write results into arrays")
        return program

    def _failed(self, status: int) -> Any:
        if status == NOTED:
            from quadrants.device_runs import without_memory

            error = noted()
            raise without_memory(error, self.__name__) if isinstance(error, MemoryError) else error
        raise failure(self._messages, self.__name__)

    def _run(self, binding: launch.Binding, frame: int, held: tuple[Any, ...]) -> None:
        binding.keep_alive.device.run_copied(binding, frame, held)

    def _unpack(self, frame: bytes, binding: launch.Binding) -> Any:
        return binding.keep_alive.unpack(frame)

    def _forget(self) -> None:
        """Drops all compiled forms: after qd.init and qd.reset."""
        self._uninstall()
        self._programs.clear()
        self._recent.clear()
        self._live_numbers.clear()
        self._last = None

    # What users ask about.

    def report(self) -> str:
        """What the compiler made of the last call: tasks, choices and why, times. '' before the first call."""
        from quadrants.lang.report import report_text

        return "" if self._last is None else report_text(self._last)

    def result_types(self) -> list[str]:
        """Names of the types of the last compiled form's results."""
        return [] if self._last is None else [str(type_) for type_ in self._last.frame.result_types]

    def ir(self, stage: str = "lowered") -> str:
        """The text of the last compiled form's IR as it went to the target. A form that came from the disk cache is
        compiled again for that."""
        from quadrants.ir.text import print_module

        module = self._compiled_last().module
        assert module is not None
        return print_module(module)

    def assembly(self) -> str:
        """The machine code of the last compiled form as text. A form that came from the disk cache is compiled again for
        that."""
        artifact = self._compiled_last().artifact
        if artifact is None:
            raise QuadrantsRuntimeError(f"{self.__name__} has no machine code: its target runs it otherwise")
        target: Any = table.find(knobs.current.arch)
        return target.assembly(artifact)

    def _compiled_last(self) -> Program:
        """The last form, with what it was compiled from."""
        if self._last is None:
            raise QuadrantsRuntimeError(f"{self.__name__} has not been called yet")
        return self._last if self._last.compile_again is None else self._last.compile_again()

    def __repr__(self) -> str:
        return f"<quadrants kernel {self.__qualname__}>"


def _leaf_value(leaf: Argument) -> Any:
    return leaf.value


def _attach(argument: Argument, value: Any) -> None:
    """Gives every leaf of an argument the Python object it is read from."""
    if argument.kind == "sequence":
        parts = [getattr(value, name) for name in argument.names] if argument.names else list(value)
        for child, part in zip(argument.children, parts):
            _attach(child, part)
    elif not isinstance(argument.value, DeviceView):
        argument.value = value


def _reworded(reason: str) -> str:
    return reason[0].upper() + reason[1:] if reason else reason


def _checked_signature(function: types.FunctionType) -> inspect.Signature:
    signature = inspect.signature(function, follow_wrapped=False)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise QuadrantsSyntaxError(f"kernel {function.__name__}: **{name} is not supported: name the parameters")
    return signature


def options_key(state: knobs.State) -> Any:
    """The options that compiled code depends on."""
    return (
        state.epoch,
        state.arch,
        state.debug,
        state.check_out_of_bound,
        state.wraparound,
        state.opt_level,
        state.lanes,
        state.subgroup_size,
        state.disable_passes,
    )


def _overlap(program: Program, leaves: list[Argument]) -> bool:
    """Whether an array that the program writes shares memory with another of its arrays."""
    spans: list[tuple[int, int, bool]] = []
    for position, leaf in enumerate(leaves):
        if type(leaf.type) is ArrayType:
            spans.append((*_span(leaf.value), ("argument", position) in program.written))
    for source in program.captured:
        if protocol.is_array(source):
            spans.append((*_span(source), ("array", id(source)) in program.written))
    spans.sort()
    furthest, written = -1, False
    for low, high, writes in spans:
        if low < furthest and (writes or written):
            return True
        if high > furthest:
            furthest, written = high, writes
        else:
            written = written or writes
    return False


def _span(value: Any) -> tuple[int, int]:
    """The addresses that an array reaches; the device's where others share its memory there, for they may pass it, too."""
    array = as_numpy(value)
    if array.size == 0:
        return (0, 0)
    home: Any = getattr(np.lib, "array_utils", np)  # NumPy moved it in 2.0
    low, high = home.byte_bounds(array)
    block = blocks.holding(low, high) if blocks.are_mirrored() else None
    shift = block.copy.address - block.start if block is not None and block.is_shared else 0
    return low + shift, high + shift


_CHECKPOINTS = """checkpoints=True is not available in this release: it leaves open whether `resume` runs the checkpoint's block again
  help: make a kernel of each block, look at the flag between them (`if flag[None]: …`), and call the ones that are left"""


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    pure: Any = None,
    fastcache: bool = False,
    graph: bool = False,
    checkpoints: bool = False,
) -> Any:
    """Decorate: compile the function when it is called, for the types of its arguments.

    No annotations are needed; `qd.types.ndarray()`, `qd.template()`, data types and the like are accepted. Arguments
    are NumPy arrays (any strides, in place), torch CPU tensors, fields, ndarrays, numbers, vectors, tuples, dataclasses.
    Loops at the top level run in parallel where their iterations are independent. Results are numbers, vectors, tuples.
    `fastcache` and `pure` are accepted: every kernel is cached. `graph`: it may hold `qd.graph`'s loops and blocks, gives no
    value, and takes no `qd_stream`. A call's keyword `qd_stream` names the stream of `qd.create_stream` that it is launched to.
    QuadrantsSyntaxError for what is no plain function.
    """
    if checkpoints:
        raise QuadrantsSyntaxError(_CHECKPOINTS if graph else "checkpoints=True needs graph=True")
    if function is None:
        return functools.partial(kernel, graph=True) if graph else kernel
    if isinstance(function, Kernel):
        return function
    if not isinstance(function, types.FunctionType):
        raise QuadrantsSyntaxError(f"qd.kernel takes a plain function, not {type(function).__name__}")
    return Kernel(function, graph)


class Func:
    """A function for kernels: compiled with the kernels that call it, once a set of argument types. Called from Python it
    runs as plain Python."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<quadrants function {self.__qualname__}>"


def func(
    function: Callable[..., Any] | None = None, *, is_real_function: bool = False, requires_top_level: bool = False
) -> Any:
    """Decorate: a function that kernels call. Optional: a plain Python function called from a kernel is compiled too."""
    if function is None:
        return func
    if isinstance(function, (Func, Kernel)):
        return function
    return Func(function)


pyfunc = func


def data_oriented(cls: type | None = None, *, template_primitives: bool = True) -> Any:
    """Decorate a class: its methods may be kernels, whose `self` is known at compile time. Members that are numbers are
    constants of the compiled form, and live: a changed one is seen at the next launch."""
    if cls is None:
        return data_oriented
    cls._data_oriented = True
    return cls


def _plain(value: Any) -> Any:
    return value.function if isinstance(value, (Func, Kernel)) else None


def compiled_programs() -> list[Program]:
    """The compiled forms of all kernels."""
    with _lock:
        return [program for known in _kernels for forms in known._programs.values() for program in forms]


def _forget_all() -> None:
    for known in list(_kernels):
        known._forget()


def _unlock_in_child() -> None:
    """A forked child starts with a lock of its own: the thread that held it is not there."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)
protocol.register_functions(_plain)
knobs.on_reset(_forget_all)
