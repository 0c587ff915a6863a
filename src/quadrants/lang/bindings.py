"""From a program and its arguments to what the launcher needs: argument tables, guards, results."""

from __future__ import annotations

import inspect
import linecache
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants import knobs
from quadrants.frontend import protocol
from quadrants.frontend.arguments import Argument, as_numpy
from quadrants.frontend.guards import ABSENT, ContentGuard, Guard, LiveNumber
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, u1
from quadrants.lang.foreign import foreign_argument
from quadrants.program import Program, is_foreign_array
from quadrants.runtime import launch
from quadrants.runtime.launch_probe import members_words
from quadrants.targets.device.views import DeviceView

if TYPE_CHECKING:
    from quadrants.lang.kernel import Kernel

__all__ = ["install", "show_notices"]

# A kernel that ran longer than this lets other Python threads run meanwhile (seconds), unless they could free its memory; after the first
# launch by machine code each says so for the next one.
LONG_RUN = 1e-3
# How many containers of arguments a form's launches are prepared for, one after the other: if each call comes with
# another, knowing them by identity gains nothing.
_MOST_CONTAINERS = 8
_INTEGERS = frozenset([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
_FLOATS = frozenset([np.float32, np.float64])


def install(
    kernel: Kernel,
    program: Program,
    described: list[tuple[str, Argument]],
    seconds: float,
    fresh: bool,
    watch: launch.Watch | None = None,
) -> launch.Binding | None:
    """Lets later calls with such arguments be launched directly, where the tables can say what they need: gives the
    binding then. The process's first call does not wait for the launcher to be loaded: the second does that. With the profiler on
    no call is launched past Python, which takes the time."""
    if knobs.current.kernel_profiler or (fresh and not launch.is_loaded()):
        return None
    speaks = program.prints or (program.device is not None and program.device.code.speaks)
    if not launch.is_native() or program.interpreter is not None or speaks:
        kernel._uninstall()
        return None
    if any(isinstance(guard, ContentGuard) and guard.words() is None for guard in program.guards):
        kernel._uninstall()
        return None
    plan = _Plan(program)
    if kernel._containers.get(program, 0) >= _MOST_CONTAINERS:
        kernel._uninstall()
        return None
    if not plan.take(described):
        return None  # calls of other kinds are launched as they were
    if plan.has_containers:
        kernel._containers[program] = kernel._containers.get(program, 0) + 1
    may_release = program.device is None and not plan.memory_may_go()
    binding = launch.Binding(
        program.entry,
        program.template,
        plan.specs,
        [*plan.guards, *[launched for guard in program.guards for launched in _guard(guard)]],
        _result(program),
        [name for name, _ in described],
        release_gil=may_release and seconds > LONG_RUN,
        may_release=may_release,
        keep_alive=program,
        defaults=_defaults(kernel, described),
        check_overlap=not program.may_alias,
        ranges=_ranges(program),
        watch=watch,
        members=plan.members,
        order=plan.order(),
    )
    from quadrants.lang.kernel import FAST_FORMS

    recent = [
        (known, old)
        for known, old in kernel._recent
        if not (_is_replaced(known, old.watch, program, watch) and _is_for_the_same(old, binding))
        and all(guard.holds() for guard in known.guards)
    ]
    kernel._recent = [(program, binding), *recent][:FAST_FORMS]
    kernel._install(*[entry for _, entry in kernel._recent])
    return binding


def _is_replaced(known: Program, old: launch.Watch | None, program: Program, watch: launch.Watch | None) -> bool:
    """Whether a binding of `program` stands for calls that one of `known` stood for: variants of one form do, for arrays
    of sizes that both take."""
    if known is not program and (known.tuner is None or known.tuner is not program.tuner):
        return False
    return old is None or watch is None or (old.low < watch.high and watch.low < old.high)


def _is_for_the_same(old: launch.Binding, new: launch.Binding) -> bool:
    """Whether two bindings of a form are for arguments of the same classes, and know the same ones by identity: one form takes
    NumPy's arrays and other packages'."""
    mine, other = (
        [(type(spec), getattr(spec, "type", None), id(getattr(spec, "value", None))) for spec in binding.specs()]
        for binding in (old, new)
    )
    return mine == other


class _Plan:
    """What the launcher has to fill in: by argument, and the members of tuples and dataclasses that are arguments, and
    captured numbers that change."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.specs: list[launch.ArgumentSpec] = []
        self.members: list[launch.Member] = []
        self.guards: list[launch.WordsGuard] = []
        self.has_containers = False
        self.position = 0
        self.asked: set[int] = set()

    def take(self, described: list[tuple[str, Argument]]) -> bool:
        """Plans for all parameters; False if the tables cannot say what one needs."""
        for _, argument in described:
            if argument.kind == "static":
                self.specs.append(launch.IdentityArgument(argument.value))
                continue
            if argument.kind == "sequence":
                if not (self._tuple(argument) if _is_flat(argument) else self._identity(argument)):
                    return False
                continue
            spec = self._leaf(argument)
            if spec is None:
                return False
            self.specs.append(spec)
        self._live_numbers()
        return self._captured_arrays()

    def order(self) -> launch.Order | None:
        """How streams wait for one another, where owners of arrays have some."""
        specs = [*self.specs, *[member.spec for member in self.members]]
        has_streams = any(isinstance(spec, launch.ForeignArgument) and spec.has_stream for spec in specs)
        return self.program.device.order_of_streams() if has_streams and self.program.device is not None else None

    def memory_may_go(self) -> bool:
        """Whether another thread of Python could free memory under a running kernel, which has bare addresses of it: it gives another
        package's array other memory. A reference to a torch tensor does not keep its memory: `resize_` of it, or of another tensor of
        its storage, frees that at once, and `set_` lets go of it."""
        specs = [*self.specs, *[member.spec for member in self.members]]
        return any(isinstance(spec, launch.ForeignArgument) for spec in specs)

    def _leaf(self, argument: Argument) -> launch.ArgumentSpec | None:
        position, self.position = self.position, self.position + 1
        if argument.kind != "array":
            return _number(self.program, argument, position)
        spec = _array(self.program, argument, position)
        if spec is None:
            written = ("argument", position) in self.program.written
            return foreign_argument(self.program, argument.value, position, written, self.asked)
        return spec

    def _tuple(self, argument: Argument) -> bool:
        """Any tuple with such items."""
        number = len(self.specs)
        self.specs.append(launch.TupleArgument(len(argument.children)))
        for key, child in enumerate(argument.children):
            spec = self._leaf(child)
            if spec is None:
                return False
            self.members.append(launch.Member(spec, number, key))
        return True

    def _identity(self, argument: Argument) -> bool:
        self.specs.append(launch.IdentityArgument(argument.value))
        self.has_containers = True
        return self._container(argument)

    def _container(self, argument: Argument) -> bool:
        """The parts of a container that is known by identity; those that may be assigned anew are looked up."""
        value = argument.value
        is_fixed = isinstance(value, tuple) or type(value).__dataclass_params__.frozen
        members = None if is_fixed else getattr(value, "__dict__", None)
        if not is_fixed and type(members) is not dict:
            return False
        if not is_fixed:
            self.guards.append(launch.WordsGuard(tuple(members_words(value)), value))
        names = argument.names or ("",) * len(argument.children)
        for name, child, part in zip(names, argument.children, _parts(argument)):
            if child.kind in ("static", "sequence"):
                if not is_fixed:
                    self.members.append(launch.Member(launch.IdentityArgument(part), members, name))
                if child.kind == "sequence" and not self._container(child):
                    return False
                continue
            spec = self._leaf(child)
            if spec is None:
                return False
            self.members.append(
                launch.Member(spec, part, None, True) if is_fixed else launch.Member(spec, members, name)
            )
        return True

    def _captured_arrays(self) -> bool:
        """Captured arrays are where the device has them at each launch, and those of other packages where these have them."""
        frame, captured = self.program.frame, self.program.captured
        first = len(frame.parameters) - len(captured)
        for k, source in enumerate(captured, first):
            written = ("array", id(source)) in self.program.written
            if is_foreign_array(source):
                spec = foreign_argument(self.program, source, k, written, self.asked, is_captured=True)
            elif isinstance(source, LiveNumber) or self.program.device is None:
                continue
            elif protocol.is_storage(source):
                spec = _storage(self.program, source, k, written)
            else:
                spec = _host_array(self.program, source, k, written, source.shape)
            if spec is None:
                return False
            self.members.append(launch.Member(spec, source, None, True))
        return True

    def _live_numbers(self) -> None:
        frame = self.program.frame
        first = len(frame.parameters) - len(self.program.captured)
        places = zip(self.program.captured, frame.parameter_types[first:], frame.parameters[first:])
        for source, type_, offset in places:
            if isinstance(source, LiveNumber):
                assert type(type_) is ScalarType
                spec = (
                    launch.FloatArgument(offset, type_.bits)
                    if type_.is_float
                    else launch.IntegerArgument(offset, type_.bits, type_.is_signed, *source.span())
                )
                self.members.append(launch.Member(spec, source.container, source.key))


def _is_flat(argument: Argument) -> bool:
    """Whether an argument is a plain tuple of what is a parameter each."""
    return type(argument.value) is tuple and all(child.kind in ("value", "array") for child in argument.children)


def _parts(argument: Argument) -> list[Any]:
    value = argument.value
    return [getattr(value, name) for name in argument.names] if argument.names else list(value)


def _array(program: Program, argument: Argument, position: int) -> launch.ArgumentSpec | None:
    type_ = program.frame.parameter_types[position]
    assert type(type_) is ArrayType
    written = ("argument", position) in program.written
    if protocol.is_storage(argument.value):
        return _storage(program, argument.value, position, written)
    array = as_numpy(argument.value)
    if type(argument.value) is not type(array) or isinstance(array, DeviceView):
        return None
    return _host_array(program, array, position, written, type_.trailing)


def _host_array(
    program: Program, array: np.ndarray, position: int, written: bool, static: tuple[int, ...]
) -> launch.ArrayArgument:
    """An array of NumPy's whose last sizes are known."""
    offset, type_ = program.frame.parameters[position], program.frame.parameter_types[position]
    assert type(type_) is ArrayType
    sizes = tuple((type_.rank - len(static) + axis, size) for axis, size in enumerate(static))
    there = program.device is not None
    return launch.ArrayArgument(offset, array.dtype, type_.rank, type_.layout == "C", written, sizes, there)


def _storage(program: Program, value: Any, position: int, written: bool) -> launch.StorageArgument:
    offset, type_ = program.frame.parameters[position], program.frame.parameter_types[position]
    assert type(type_) is ArrayType
    kind, there = type(value), program.device is not None
    return launch.StorageArgument(offset, kind, value._array_type, type_.rank, type_.scalar.bytes, written, there)


def _number(program: Program, argument: Argument, position: int) -> launch.ArgumentSpec | None:
    offset, type_ = program.frame.parameters[position], program.frame.parameter_types[position]
    if type(type_) is MatrixType:
        return None
    assert type(type_) is ScalarType
    if type_ is u1:
        return launch.BooleanArgument(offset)
    plain = type(argument.value)
    if plain is float and type_.bits >= 32:
        return launch.FloatArgument(offset, type_.bits, integers_too=not argument.weak)
    if plain is int and type_.is_float:
        return launch.FloatArgument(offset, type_.bits, integers_too=True) if type_.bits >= 32 else None
    if plain is int:
        return launch.IntegerArgument(offset, type_.bits, type_.is_signed)
    if hasattr(argument.value, "dtype") and type_.numpy is not None and plain is type_.numpy.type:
        return launch.ScalarArgument(offset, type_.numpy.type)
    if plain in _INTEGERS and not type_.is_float:
        return launch.ConvertedArgument(offset, plain, type_.bits, signed=type_.is_signed)
    if plain in _INTEGERS | _FLOATS and type_.is_float and type_.bits >= 32:
        return launch.ConvertedArgument(offset, plain, type_.bits, is_float=True)
    return None


def _guard(guard: Guard | ContentGuard) -> list[launch.Guard | launch.CellGuard | launch.WordsGuard]:
    if isinstance(guard, ContentGuard):
        return [launch.WordsGuard(tuple(guard.words() or ()), guard)]
    if guard.key is None:
        return [launch.CellGuard(guard.container, guard.value)]
    return [launch.Guard(guard.container, guard.key, launch.ABSENT if guard.value is ABSENT else guard.value)]


def _result(program: Program) -> launch.ResultSpec | None:
    if not program.frame.result_types:
        shape = program.result
        return None if shape[0] == "static" and shape[1] is None else launch.ResultSpec("python")
    only = program.frame.result_types[0]
    if program.result[0] == "run" and type(only) is ScalarType and only.name not in ("f16", "bf16"):
        return launch.ResultSpec(only.name, program.frame.results[0])
    return launch.ResultSpec("python")


def _defaults(kernel: Kernel, described: list[tuple[str, Argument]]) -> tuple[Any, ...]:
    parameters = [kernel._signature.parameters[name] for name, _ in described]
    return tuple(parameter.default for parameter in parameters if parameter.default is not inspect.Parameter.empty)


def _ranges(program: Program) -> list[tuple[int, int, bool]]:
    from quadrants.lang.kernel import _span

    ranges: list[tuple[int, int, bool]] = []
    if program.device is not None:
        return ranges  # captured arrays are members, which are looked at as arguments are
    for source in program.captured:
        if protocol.is_array(source) and not is_foreign_array(source):  # as on a device
            low, high = _span(source)
            ranges.append((low, high - low, ("array", id(source)) in program.written))
    return ranges


_shown: set[str] = set()


def show_notices(program: Program) -> None:
    """Tells once of a loop that runs in order although it stands at the top level, and of one that is too large."""
    for notice in program.notices:
        if notice.pass_name not in ("parallelise", "split_tasks"):
            continue
        lines = [f"[Quadrants] {notice.text}"]
        for location in notice.locations:
            if location is not None:
                lines.append(
                    f"  {location.file}:{location.line}: {linecache.getline(location.file, location.line).strip()}"
                )
        text = "\n".join(lines)
        if text not in _shown:
            _shown.add(text)
            print(text, file=sys.stderr)
