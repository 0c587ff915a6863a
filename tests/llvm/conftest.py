"""Runs lowered modules as machine code, without the package's own launcher."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.errors import QuadrantsAssertionError
from quadrants.ir import evaluate as ev
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, scalar_of
from quadrants.ir.verify import verify
from quadrants.passes import expand_functions
from quadrants.passes.context import PassContext
from quadrants.runtime import native, threads
from quadrants.runtime.loader import Library
from quadrants.targets import table
from quadrants.targets.frame import frame_layout
from quadrants.targets.llvm.arm64 import target as arm64
from quadrants.targets.llvm.arm64.program import Program
from quadrants.targets.llvm.x64 import target

if not native.available():
    collect_ignore_glob = ["*.py"]


class Compiled:
    """A module compiled and loaded; calls bind arguments as `interpret` does and give results as it does."""

    def __init__(self, module: Module, level: int = 2, machine: Any = None) -> None:
        module = parse_module(print_module(module))  # a copy: the interpreter runs what was given
        expand_functions.run(module, PassContext(record=target.record()))
        self.frame = frame_layout(module.kernel)
        self.artifact = target.compile_module(module, target.Options(level=level, verify=True, machine=machine))
        library = Library(threads.symbols())
        loaded = library.load_group([data for _, data in self.artifact.objects])
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded[-1].address(self.artifact.entry))
        self.code = 0

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        frame = np.zeros(max(self.frame.size, 8), np.uint8)
        for value, type_, offset in zip(arguments, self.frame.parameter_types, self.frame.parameters):
            data = pack(value, type_)
            frame[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
        self.code = self._entry(frame.ctypes.data)
        return tuple(unpack(frame, offset, type_) for type_, offset in zip(self.frame.result_types, self.frame.results))

    def assembly(self) -> str:
        return target.assembly(self.artifact)

    def printed(self) -> str:
        from quadrants.targets.artifact import decode_prints

        return "".join(decode_prints(threads.drain_prints(), self.artifact.prints))

    def failure(self) -> str | None:
        found = threads.take_failure()
        return None if found is None else self.artifact.messages[found[0]].render(found[1])


def in_memory(value: Any, scalar: ScalarType) -> np.ndarray:
    if scalar.name == "bf16":
        return (ev.round_bf16(np.asarray(value, np.float32)).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(value, scalar.numpy)


def pack(value: Any, type_: Any) -> bytes:
    if isinstance(type_, ArrayType):
        return struct.pack(f"<Q{2 * value.ndim}q", value.ctypes.data, *value.shape, *value.strides)
    return in_memory(value, scalar_of(type_)).tobytes()


def unpack(frame: np.ndarray, offset: int, type_: Any) -> Any:
    scalar = scalar_of(type_)
    count = type_.count if isinstance(type_, MatrixType) else 1
    raw = frame[offset : offset + count * scalar.bytes].copy()
    if scalar.name == "bf16":
        values = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = raw.view(scalar.numpy)
    return values.reshape(type_.shape) if isinstance(type_, MatrixType) else values[0]


def module_of(text: str, stage: str = "lowered") -> Module:
    module = parse_module(f"quadrants-ir 1\nstage {stage}\n{text}")
    verify(module)
    return module


def assert_agree(compiled: Compiled, module: Module, arguments: list[Any], rtol: float = 1e-5) -> None:
    """The compiled module does to the arguments, and gives, what the interpreter does and gives."""
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    expected = interpret(module, copies)
    got = compiled(*arguments)
    assert compiled.code == 0
    for mine, theirs in zip([*got, *arguments], [*expected, *copies]):
        np.testing.assert_allclose(mine, theirs, rtol=rtol if np.asarray(mine).dtype.kind == "f" else 0)


class Emulated:
    """The same for Arm64, in a process beside."""

    def __init__(self, module: Module, level: int = 2) -> None:
        module = parse_module(print_module(module))
        expand_functions.run(module, PassContext(record=arm64.record()))
        self.types = frame_layout(module.kernel).parameter_types
        self.artifact = arm64.compile_module(module, arm64.Options(level=level, verify=True))
        self._program = Program(module, self.artifact, knobs.Options())
        self.code, self._failure, self._printed = 0, None, io.StringIO()

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        held = [
            value if isinstance(type_, ArrayType) else np.asarray(value, ev.held_dtype(scalar_of(type_)))
            for value, type_ in zip(arguments, self.types)
        ]
        self.code = 0
        try:
            with contextlib.redirect_stdout(self._printed):
                return self._program.run(held)
        except QuadrantsAssertionError as error:
            self.code, self._failure = 1, str(error)
            return ()

    def assembly(self) -> str:
        return arm64.assembly(self.artifact)

    def printed(self) -> str:
        text, self._printed = self._printed.getvalue(), io.StringIO()
        return text

    def failure(self) -> str | None:
        text, self._failure = self._failure, None
        return text


MACHINES = {"x64": Compiled, "arm64": Emulated}


@pytest.fixture(params=["x64", pytest.param("arm64", marks=pytest.mark.slow)])
def on_machines(request: pytest.FixtureRequest) -> Any:
    """What compiles and runs modules, for each kind of processor; Arm64 is skipped where an emulator is missing."""
    if request.param == "arm64" and (reason := table.missing(knobs.Arch.arm64)):
        pytest.skip(reason)
    return MACHINES[request.param]


@functools.lru_cache(maxsize=None)
def compiled_once(text: str, compile_for: Any) -> tuple[Module, Any, Any]:
    """A text's module and its machine code at levels 2 and 0."""
    module = module_of(text)
    return module, compile_for(module), compile_for(module, 0)


@pytest.fixture
def compiled() -> Callable[..., Compiled]:
    """Compiles the text of a lowered module."""
    return lambda text, level=2: Compiled(module_of(text), level)


@pytest.fixture
def agrees(on_machines: Any) -> Callable[..., None]:
    """Runs the text of a lowered module as machine code at levels 2 and 0 and by the interpreter: they must agree."""

    def check(text: str, *arguments: Any, rtol: float = 1e-5) -> None:
        module, *forms = compiled_once(text, on_machines)
        for form in forms:
            fresh = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
            assert_agree(form, module, fresh, rtol)

    return check


@pytest.fixture
def compile_built(on_machines: Any) -> Any:
    """Compiles a module object."""
    return on_machines
