"""A compiled kernel, ready to run on frames: what it needs of its arguments, its captured memory, its results."""

from __future__ import annotations

import ctypes
import struct
import sys
import time
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.blocks import busy
from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError, QuadrantsRuntimeTypeError
from quadrants.frontend import protocol
from quadrants.frontend.arguments import Argument, as_numpy, checked_number, numpy_array_type, protocol_elements
from quadrants.frontend.guards import ContentGuard, Guard, LiveNumber
from quadrants.ir.evaluate import held_dtype
from quadrants.ir.external import PREFIX, TALLY, linked_address
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type
from quadrants.records import dataclass_names
from quadrants.runtime import launch, threads
from quadrants.targets.frame import from_memory, memory_bytes

if TYPE_CHECKING:
    from quadrants.device_runs import DeviceRuns
    from quadrants.frontend.compilation import CompiledSource
    from quadrants.ir.nodes import Location, Module
    from quadrants.lang.tuning import Tuner
    from quadrants.passes.context import Notice
    from quadrants.runtime.loader import Library, LoadedObject
    from quadrants.targets.artifact import Artifact, Message, PrintFormat
    from quadrants.targets.device.interface import HostCode
    from quadrants.targets.frame import Frame

__all__ = ["ForeignCapture", "Program", "failure", "interpreter_value", "is_foreign_array", "is_loaded"]

_library: Library | None = None
_loaded: dict[str, LoadedObject] = {}
_tallies: dict[tuple[str, str], ctypes.c_int64] = {}


def is_loaded(name: str) -> bool:
    """Whether an object of that name is in the process already."""
    return name in _loaded


class Program:
    """One compiled form of a kernel.

    `entry` is the address of `i32 entry(ptr frame)` (0 on the reference target, which runs `interpreter`); `device` runs it
    where it launches tasks on a device, and arrays in frames are the device's. `template` is
    the frame's initial content: the descriptors of captured arrays. A program holds for arguments that have its key, its
    `static_shapes` (trailing sizes by position among the run-time arguments), and while its `guards` hold.

    `result` is the tree of what the kernel gives: ('run',), ('sequence', parts, whether it is a list, the class of a
    record or None), ('static', object).
    `foreign`: those of the captured arrays whose memory is looked up anew.
    `captured`: for each parameter after the arguments' own the array or the LiveNumber that it is; `written`: origins of
    the arrays that the kernel writes, ('argument', position) or ('array', id of the captured object); `tasks`: where its
    parallel loops stand, and what was chosen for them. `source` and `module` are what it was compiled from, None where it
    came from the disk cache: then `disk_seconds` tells how long that took, and `compile_again` makes the same form with
    them. `not_cached`: why it is not kept on disk. `lane_options` and `threads_are_free` are what may be chosen by timing:
    other numbers of lanes, and whether results do not depend on the number of threads; `tuned` has what was found out in
    earlier processes (`remember` keeps it on disk), and `tuner` tries and chooses (`lang/tuning.py`; None where nothing is left to timing).
    `tallies`: what the machine code counts: by the words for it the counter and its value when this program was loaded.
    """

    def __init__(
        self,
        name: str,
        frame: Frame,
        result: Any,
        guards: list[Guard | ContentGuard],
        captured: list[Any],
        written: set[Any],
        notices: list[Notice],
        counters: dict[str, int],
        times: dict[str, float],
        may_alias: bool,
    ) -> None:
        self.name = name
        self.frame = frame
        self.result = result
        self.captured = captured
        self.written = written
        self.static_shapes: dict[int, tuple[int, ...]] = {}
        self.notices = notices
        self.counters = counters
        self.times = times
        self.may_alias = may_alias
        self.source: CompiledSource | None = None
        self.module: Module | None = None
        self.tasks: list[tuple[Location | None, str]] = []
        self.disk_seconds: float | None = None
        self.not_cached = ""
        self.compile_again: Callable[[], Program] | None = None
        self.entry = 0
        self.interpreter: Callable[[list[Any]], tuple[Any, ...]] | None = None
        self.device: DeviceRuns | None = None
        self._host_code: Callable[[], HostCode | None] | None = None
        self._patience = 0
        self.artifact: Artifact | None = None
        self.messages: dict[int, Message] = {}
        self.prints: dict[int, PrintFormat] = {}
        self.keep_alive: list[Any] = []
        self.tallies: dict[str, tuple[ctypes.c_int64, int]] = {}
        self.lane_options: tuple[int, ...] = ()
        self.threads_are_free = False
        self.tuned: dict[Any, Any] = {}
        self.tuner: Tuner | None = None
        self.remember: Callable[[dict[Any, Any]], None] | None = None
        self.template = b""
        self.binding: launch.Binding | None = None
        self.foreign: list[ForeignCapture] = []
        self.fill_template()
        self.guards = [*guards, *[ContentGuard(source) for source in captured if protocol.is_storage(source)]]

    def load(self, objects: Sequence[tuple[str, bytes]], entry: str, externals: Sequence[str]) -> None:
        """Loads objects (shared ones once a process) and takes the entry's address. `externals`: symbols that none of
        them defines."""
        global _library
        if _library is None:
            from quadrants.runtime.loader import Library

            _library = Library()
        symbols = threads.symbols()
        found = {name: symbols[name] for name in externals if name in symbols}
        found.update({name: linked_address(name) for name in externals if name.startswith(PREFIX)})
        for name in externals:
            if name.startswith(TALLY):
                counter = _tallies.setdefault((objects[-1][0], name), ctypes.c_int64())
                self.tallies[name[len(TALLY) :]] = counter, counter.value
                found[name] = ctypes.addressof(counter)
        self._load(_library, objects, found, _loaded)
        self.entry = found[entry]

    def have_host_code(self, make: Callable[[], HostCode | None], patience: int) -> None:
        """The host's part of a kernel that runs on a device is to be machine code, if there is any, once it was interpreted so often."""
        self._host_code, self._patience = make, patience
        if not patience:
            self._grow_native()

    def _grow_native(self) -> None:
        make, self._host_code = self._host_code, None
        code = make() if make is not None else None
        if code is not None:
            self.load_host_code(code)
            self.interpreter = None

    def load_host_code(self, code: HostCode) -> None:
        """Loads the host's part of a kernel that runs on a device; objects are the program's own, for they know its tasks."""
        from quadrants.device_runs import DeviceRuns
        from quadrants.runtime.loader import Library

        symbols = threads.symbols()
        found = {name: symbols[name] for name in code.externals if name in symbols}
        found.update(code.symbols)
        self._load(Library(), code.objects, found, {})
        self.entry, self.device = found[code.entry], DeviceRuns(self, code)
        self.messages, self.prints = code.tasks.code.messages, code.tasks.code.prints

    def _load(
        self,
        library: Library,
        objects: Sequence[tuple[str, bytes]],
        found: dict[str, int],
        known: dict[str, LoadedObject],
    ) -> None:
        for name, data in objects:
            loaded = known.get(name)
            if loaded is None:
                loaded = known[name] = library.load(data, found)
            found.update(loaded.symbols)
            self.keep_alive.append(loaded)

    # Frames.

    def fill_template(self) -> None:
        """The frame's initial content: captured arrays' descriptors, the rest zero."""
        frame = bytearray(self.frame.size)
        first = len(self.frame.parameters) - len(self.captured)
        places = zip(self.captured, self.frame.parameter_types[first:], self.frame.parameters[first:])
        for source, type_, offset in places:
            if isinstance(source, LiveNumber):
                continue
            write_array(frame, offset, source)
            if is_foreign_array(source):
                self.foreign.append(ForeignCapture(source, type_, offset))
        self.template = bytes(frame)

    def fits(self, leaves: list[Argument]) -> bool:
        """Whether arguments of the right key also have the static sizes, and nothing captured has changed."""
        for position, shape in self.static_shapes.items():
            actual = as_numpy(leaves[position].value).shape
            if tuple(actual[len(actual) - len(shape) :]) != shape:
                return False
        numbers = (source for source in self.captured if isinstance(source, LiveNumber))
        return (
            all(guard.holds() for guard in self.guards)
            and all(number.fits() for number in numbers)
            and all(captured.fits() for captured in self.foreign)
        )

    def remember_sizes(self, static_sizes: dict[Any, int], leaves: list[Argument]) -> None:
        """Notes the trailing sizes that the program was compiled for; `static_sizes`: by origin, how many they are."""
        for origin, count in static_sizes.items():
            if origin[0] == "argument":
                shape = as_numpy(leaves[origin[1]].value).shape
                self.static_shapes[origin[1]] = tuple(shape[len(shape) - count :])

    def run(self, values: list[tuple[Argument, Any]]) -> Any:
        """Runs the program on (leaf, Python object) pairs; gives the kernel's result."""
        if self._host_code is not None and self._patience <= 0:
            with busy():  # one thread makes it, while none of the others runs it
                self._grow_native()
        interpreter = self.interpreter  # once: another thread may put machine code in its place
        if interpreter is not None:
            return self._interpret(interpreter, values)
        if self.device is not None:
            return self.device.run(values)
        frame = self.filled(values)
        self.launch(frame)
        return self.unpack(frame)

    def filled(self, values: list[tuple[Argument, Any]]) -> bytearray:
        """A frame with these arguments."""
        frame = bytearray(self.template)
        for (leaf, value), type_, offset in zip(values, self.frame.parameter_types, self.frame.parameters):
            write_value(frame, offset, type_, leaf, value)
        for captured in self.foreign:
            write_array(frame, captured.offset, captured.source)
        self._write_live_numbers(frame)
        return frame

    def launch(self, frame: bytearray, most_threads: int = 0) -> float:
        """Runs the machine code on a frame; gives the seconds that it took. `most_threads`: 0 is no limit."""
        binding = self.binding_for_calls()
        start = time.perf_counter()
        status = launch.call(binding, frame, most_threads)
        seconds = time.perf_counter() - start
        self.after(status)
        return seconds

    def _write_live_numbers(self, frame: bytearray) -> None:
        first = len(self.frame.parameters) - len(self.captured)
        places = zip(self.captured, self.frame.parameter_types[first:], self.frame.parameters[first:])
        for source, type_, offset in places:
            if isinstance(source, LiveNumber):
                assert type(type_) is ScalarType
                data = memory_bytes(type_, held_dtype(type_).type(source.read()))
                frame[offset : offset + len(data)] = data

    def after(self, status: int) -> None:
        """Prints what the kernel printed; raises what a check found."""
        if self.prints:
            from quadrants.targets.artifact import decode_prints

            sys.stdout.write("".join(decode_prints(threads.drain_prints(), self.prints)))
        if status:
            raise failure(self.messages, self.name)

    def failed_check(self, error: QuadrantsAssertionError) -> QuadrantsAssertionError:
        """The error of a failed check, with the kernel's name and the line."""
        return _failed(type(error), str(error), self.name, error.location)

    def binding_for_calls(self) -> launch.Binding:
        if self.binding is None:
            self.binding = launch.Binding(self.entry, self.template, [], keep_alive=self)
        return self.binding

    # Results.

    def unpack(self, frame: bytes | bytearray) -> Any:
        """The kernel's result from a frame that it ran on."""
        values = [
            read_value(frame, offset, type_) for type_, offset in zip(self.frame.result_types, self.frame.results)
        ]
        return result_object(self.result, iter(values))

    def _interpret(self, interpreter: Callable[[list[Any]], Any], values: list[tuple[Argument, Any]]) -> Any:
        arguments = [
            interpreter_value(type_, leaf, value) for (leaf, value), type_ in zip(values, self.frame.parameter_types)
        ]
        for source, type_ in zip(self.captured, self.frame.parameter_types[len(values) :]):
            if isinstance(source, LiveNumber):
                assert type(type_) is ScalarType
                arguments.append(held_dtype(type_).type(source.read()))
            else:
                arguments.append(as_numpy(source))
        try:
            results = interpreter(arguments)
        except QuadrantsAssertionError as error:
            raise self.failed_check(error) from None
        self._patience -= 1
        return result_object(
            self.result, iter([_plain(value, type_) for value, type_ in zip(results, self.frame.result_types)])
        )


def is_foreign_array(source: Any) -> bool:
    """Whether something captured is an array of another package than NumPy."""
    return not isinstance(source, (LiveNumber, np.ndarray)) and not protocol.is_storage(source)


class ForeignCapture:
    """A captured array of another package, at its place in the frame. It may come to have other memory, which is looked up at each
    launch; code was made for its type and its shape."""

    def __init__(self, source: Any, type_: Type, offset: int) -> None:
        self.source, self.type, self.offset = source, type_, offset
        self.shape = as_numpy(source).shape

    def fits(self) -> bool:
        array = as_numpy(self.source)
        if array.shape != self.shape or type(self.type) is not ArrayType:
            return False
        try:
            return numpy_array_type(array, len(self.type.trailing), QuadrantsRuntimeTypeError) is self.type
        except QuadrantsRuntimeTypeError:  # no type of ours any more: compiling anew says so, with kernel and name
            return False


def failure(messages: dict[int, Message], kernel: str) -> Exception:
    """The exception for the first check that failed."""
    found = threads.take_failure()
    if found is None or found[0] not in messages:
        return QuadrantsAssertionError(f"kernel {kernel} failed a check")
    message = messages[found[0]]
    kind = QuadrantsBoundsError if message.error == "index" else QuadrantsAssertionError
    return _failed(kind, message.render(found[1]), kernel, message.location)


def _failed(
    kind: type[QuadrantsAssertionError], text: str, kernel: str, location: Location | None
) -> QuadrantsAssertionError:
    where = f" ({location.file}:{location.line})" if location is not None else ""
    error = kind(f"{text}\n  in kernel {kernel}{where}")
    error.location = location
    return error


def write_array(frame: bytearray, offset: int, value: Any) -> None:
    """An array's descriptor at an offset of a frame."""
    if protocol.is_storage(value):
        value.place()
        frame[offset : offset + len(value._descriptor)] = value._descriptor
        return
    array = as_numpy(value)
    struct.pack_into(
        f"<Q{2 * array.ndim}q", frame, offset, array.__array_interface__["data"][0], *array.shape, *array.strides
    )


def write_value(frame: bytearray, offset: int, type_: Type, leaf: Argument, value: Any) -> None:
    """An argument at an offset of a frame."""
    if type(type_) is ArrayType:
        write_array(frame, offset, value)
        return
    if type(type_) is MatrixType:
        data = memory_bytes(type_.scalar, np.asarray(protocol_elements(value)).astype(held_dtype(type_.scalar)))
    else:
        assert type(type_) is ScalarType
        data = memory_bytes(type_, _scalar_value(type_, value, leaf))
    frame[offset : offset + len(data)] = data


def _scalar_value(scalar: ScalarType, value: Any, leaf: Argument) -> Any:
    """A number as a NumPy scalar of a type: integers wrap, as everywhere."""
    if hasattr(value, "item"):
        value = value.item()
    value = checked_number("", value, scalar)
    if scalar.is_float or scalar.bits == 1:
        return held_dtype(scalar).type(value)
    from quadrants.ir.evaluate import wrap

    return held_dtype(scalar).type(wrap(scalar, int(value)))


def interpreter_value(type_: Type, leaf: Argument, value: Any) -> Any:
    """An argument as the interpreter takes it: arrays in place, vectors and numbers in their types."""
    if type(type_) is ArrayType:
        return as_numpy(value)
    if type(type_) is MatrixType:
        return np.asarray(protocol_elements(value)).astype(held_dtype(type_.scalar))
    assert type(type_) is ScalarType
    return _scalar_value(type_, value, leaf)


def read_value(frame: bytes | bytearray, offset: int, type_: Type) -> Any:
    if type(type_) is MatrixType:
        array = from_memory(type_.scalar, frame, offset, type_.count)
        return _plain(array.reshape(type_.shape).copy(), type_)
    assert type(type_) is ScalarType
    return _plain(from_memory(type_, frame, offset, 1)[0], type_)


def _plain(value: Any, type_: Type) -> Any:
    """A result as Python has it: numbers as int, float or bool, vectors as host vectors."""
    if type(type_) is MatrixType:
        return protocol.host_matrix(np.asarray(value), type_.scalar)
    return value.item() if hasattr(value, "item") else value


def _record(kind: type, items: list[Any]) -> Any:
    """An object of a named tuple or dataclass with these members, which are complete: nothing of its class runs."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, items)
    made = kind.__new__(kind) if isinstance(kind.__new__, BuiltinFunctionType) else object.__new__(kind)
    for name, item in zip(dataclass_names(kind) or (), items):
        object.__setattr__(made, name, item)
    return made


def result_object(shape: Any, values: Any) -> Any:
    if shape[0] == "run":
        return next(values)
    if shape[0] == "sequence":
        items = [result_object(part, values) for part in shape[1]]
        if shape[3] is not None:
            return _record(shape[3], items)
        return items if shape[2] else tuple(items)
    return shape[1]
