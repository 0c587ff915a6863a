"""One compilation of a kernel: what its functions share, what it captured, and the way from a Python function to IR."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsNameError, QuadrantsTypeError
from quadrants.frontend import displays, elements, expressions, functions, loops, parallel_blocks, protocol, statements
from quadrants.frontend.arguments import Argument, as_numpy, numpy_array_type
from quadrants.frontend.guards import (
    ABSENT,
    ContentGuard,
    Guard,
    LiveNumber,
    Observation,
    guards_of,
    live_type,
    place_of,
    shadows_of,
)
from quadrants.frontend.returns import Result, settle_returns
from quadrants.frontend.source import function_source, place
from quadrants.frontend.values import Array, Binding, Run, Sequence, Static
from quadrants.frontend.walker import Restart, Walker
from quadrants.ir.nodes import Function, Module, Value
from quadrants.ir.types import ScalarType, Type, scalar_of, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.calls import Arguments

__all__ = ["Compilation", "CompiledSource", "RestartKernel", "compile_source"]

# How large a trailing axis may be to become static.
STATIC_SIZE_LIMIT = 16


class RestartKernel(Exception):
    """The kernel has to be walked again: an array's trailing sizes have become static."""


class CompiledSource:
    """What the front end makes of a kernel. `captured`: for each IR parameter after the arguments' own the Python object
    (an array) or the LiveNumber that it is; `guards`: captured objects that must stay the same; `observations`: what was
    found out about captured objects, in that order; `written`: origins of the arrays that the kernel writes;
    `static_sizes`: by origin, how many trailing sizes are static; `reached`: the Python functions whose code this
    depends on."""

    __slots__ = ("captured", "guards", "module", "observations", "reached", "result", "static_sizes", "written")

    def __init__(self, module: Module, captured: list[Any], result: Result, compilation: Compilation) -> None:
        self.module = module
        self.captured = captured
        self.guards: list[Guard | ContentGuard] = list(compilation.guards.values())
        self.observations: list[Observation] = list(compilation.observations.values())
        self.result = result
        self.written: set[Any] = set(compilation.written)
        self.static_sizes: dict[Any, int] = compilation.static_sizes
        self.reached: list[types.FunctionType] = list(compilation.functions_reached)


class Compilation:
    """The state that all functions of one kernel's compilation share."""

    def __init__(self, options: Any, live_numbers: set[Any], static_sizes: dict[Any, int]) -> None:
        self.default_int: ScalarType = options.default_int
        self.default_float: ScalarType = options.default_float
        self.widest_float: ScalarType = options.widest_float
        self.debug: bool = options.debug
        self.wraparound: bool = options.wraparound
        self.subgroup_size: int = options.subgroup_size
        self.module = Module()
        self.reaches_anything = False  # whether a function of C may write to memory that it is not given
        self.functions: dict[Any, functions.Specialisation] = {}
        self.running: dict[Any, int] = {}
        self.guards: dict[Any, Guard | ContentGuard] = {}
        self.observations: dict[Any, Observation] = {}
        self.live_numbers = live_numbers
        self.static_sizes = static_sizes
        self.examples: dict[Any, Any] = {}
        self.array_names: dict[int, str] = {}
        self.written: set[Any] = set()
        self.functions_reached: dict[types.FunctionType, None] = {}
        self.incomplete = False
        self._names: dict[str, int] = {}

    def function_name(self, qualified: str) -> str:
        """A name of its own for a specialisation."""
        base = "".join(
            letter if letter.isalnum() or letter == "_" else "_" for letter in qualified.replace("<locals>.", "")
        )
        self._names[base] = count = self._names.get(base, 0) + 1
        return f"{base}.{count}"

    def reached(self, function: types.FunctionType) -> None:
        self.functions_reached[function] = None

    def call_function(
        self, walker: Walker, function: types.FunctionType, bound: Any, arguments: Arguments, node: ast.AST
    ) -> Binding:
        return functions.call_function(walker, function, bound, node)

    # Captured objects.

    def captured_global(self, walker: Walker, namespace: dict[str, Any], name: str) -> Binding:
        return self._captured(walker, "global", walker.python_function, name, namespace[name])

    def builtin(self, walker: Walker, name: str, value: Any) -> Binding:
        """A builtin: no global of the function hides it."""
        self._observe("global", walker.python_function, name, ABSENT)
        return Static(value)

    def captured_cell(self, walker: Walker, cell: types.CellType, name: str, node: ast.AST) -> Binding:
        try:
            value = cell.cell_contents
        except ValueError:
            raise walker.error(
                node, f'"{name}" has no value yet in the function around this one', kind=QuadrantsNameError
            ) from None
        return self._captured(walker, "cell", walker.python_function, name, value)

    def captured_attribute(self, walker: Walker, owner: Any, name: str, value: Any) -> Binding:
        """A member of a captured module, class or object."""
        if _is_fixed(owner):
            return Static(value)
        return self._captured(walker, "member", owner, name, value)

    def _captured(self, walker: Walker, way: str, owner: Any, name: str, value: Any) -> Binding:
        if self.live_numbers and not walker.static_depth and live_type(value, walker.default_int) is not None:
            place = place_of(way, owner, name, value)
            if place is not None and (id(place[0]), place[1]) in self.live_numbers:
                self._guard(shadows_of(way, owner, name, place))
                number = LiveNumber(*place, walker.default_int, Observation(way, owner, name))
                return self.capture(walker, ("number", id(place[0]), place[1], number.type), number, None)
        if isinstance(value, float) and way != "member" and knobs.current.raise_on_templated_floats:
            raise ValueError(f"{name} = {value!r} outside of the kernel: code would be made for it alone: pass it")
        self._depend(way, owner, name, value)
        if protocol.is_array(value):
            self.array_names.setdefault(id(value), name)
        return Static(value)

    def _depend(self, way: str, owner: Any, name: str, value: Any) -> None:
        self._observe(way, owner, name, value)
        self._guard(guards_of(way, owner, name, value))

    def _guard(self, guards: Iterable[Guard | ContentGuard]) -> None:
        for guard in guards:
            self.guards[id(guard.container), guard.key] = guard

    def _observe(self, way: str, owner: Any, name: str, value: Any) -> None:
        self.observations[way, id(owner), name] = Observation(way, owner, name, value)

    def evaluated(self, *values: Any) -> None:
        """Python has looked into static objects: compared them, asked for their length, truth, elements or text."""
        for value in values:
            if type(value) not in _PLAIN:
                self.observations["content", id(value)] = Observation("content", None, "", value)

    def called(self, function: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
        """Python has called a function on static objects."""
        if function in (builtins.getattr, builtins.hasattr):
            self._depend("member", positional[0], positional[1], getattr(positional[0], positional[1], ABSENT))
        elif function not in (builtins.isinstance, builtins.issubclass, builtins.type, builtins.callable):
            self.evaluated(*positional, *keywords.values())
            passed = (*positional, *keywords.values())
            self.observations["static call", len(self.observations)] = Observation("static call", function, "", passed)

    def annotated_local(self, walker: Walker) -> None:
        """The function being walked annotates a local name."""
        self._observe("annotated", walker.python_function, "", None)

    def printed(self) -> None:
        """Compiling this has printed something."""
        self._observe("output", None, "", None)

    def capture(self, walker: Walker, key: Any, source: Any, node: ast.AST | None) -> Run | Array:
        """A captured array or number as a parameter of the function being walked."""
        for known, _, binding in walker.captured:
            if known == key:
                return binding
        if isinstance(source, LiveNumber):
            binding: Run | Array = Run(
                walker.function.body.add_argument(self.given_as(source.type), source.observation.name), True
            )
        else:
            binding = self._array_binding(walker, key, source, node)
        walker.captured.append((key, source, binding))
        return binding

    def given_as(self, type_: Type) -> Type:
        """The type of a parameter for Python's numbers, or a vector of them, that have the type where the target has it."""
        scalar = scalar_of(type_)
        return with_scalar(type_, self.widest_float) if scalar.is_float else type_

    def array_of(self, walker: Walker, value: Any, node: ast.AST | None) -> Array:
        """A captured field, ndarray or NumPy array."""
        found = self.capture(walker, ("array", id(value)), value, node)
        assert type(found) is Array
        return found

    def _array_binding(self, walker: Walker, key: Any, value: Any, node: ast.AST | None) -> Array:
        self.examples[key] = value
        name = getattr(value, "_name", "") or self.array_names.get(id(value), "")
        if protocol.is_storage(value):
            value.place()
            type_ = value._array_type
            parameter = walker.function.body.add_argument(type_, name)
            return Array(
                parameter, value._kind, type_.rank - len(type_.trailing), (), tuple(value._offset or ()), key, value
            )
        array = as_numpy(value)
        type_ = numpy_array_type(
            array,
            self.static_sizes.get(key, 0),
            lambda text: walker.error(node or walker.node, text, kind=QuadrantsTypeError),
        )
        parameter = walker.function.body.add_argument(type_, name)
        return Array(parameter, "numpy", type_.rank, (), (), key, value)

    def with_static_sizes(self, walker: Walker, array: Array, left: int, node: ast.AST) -> Array:
        """Asks for `left` static trailing axes of an array; the kernel is walked again with them."""
        example = self.examples.get(array.origin)
        if not array.is_numpy or example is None:
            raise walker.error(
                node,
                "not all axes are indexed",
                found=f"{len(array.prefix)} indices of {array.type.rank}",
                kind=QuadrantsTypeError,
            )
        if not array.indexed:
            raise walker.error(
                node,
                "whole-array arithmetic is not computed in a kernel",
                found=f"an array of {array.type.rank} axes",
                hint="loop over the array and compute its elements: `for i in range(len(a)): …`",
                kind=QuadrantsTypeError,
            )
        sizes = tuple(as_numpy(example).shape[array.type.rank - left :])
        if any(not 0 < size <= STATIC_SIZE_LIMIT for size in sizes):
            raise walker.error(
                node,
                f"a part of shape {sizes} is too large for a vector or matrix value",
                expected=f"sizes of 1 to {STATIC_SIZE_LIMIT}",
                hint="loop over the elements",
                kind=QuadrantsTypeError,
            )
        self.static_sizes[array.origin] = left
        raise RestartKernel

    def note_write(self, walker: Walker, array: Array, node: ast.AST) -> None:
        """An array is written: read-only ones are refused."""
        example = self.examples.get(array.origin)
        if isinstance(example, np.ndarray) and not example.flags.writeable:
            raise walker.error(
                node,
                f"the kernel writes to the read-only array '{array.value.name}'",
                hint="pass a copy, or an array with flags.writeable",
                kind=QuadrantsTypeError,
            )
        if array.origin is not None:  # else it is memory of the kernel's own
            self.written.add(array.origin)


# The modules that give syntax its meaning, by entering themselves in the tables of `dispatch`.
MEANINGS = (displays, elements, expressions, loops, parallel_blocks, statements)
_FIXED_PACKAGES = ("quadrants", "numpy", "math", "builtins")
_PLAIN = frozenset({int, float, bool, str, type(None), range})


def _is_fixed(owner: Any) -> bool:
    """Whether a module or class belongs to a package whose members do not change."""
    if isinstance(owner, types.ModuleType):
        return owner.__name__.partition(".")[0] in _FIXED_PACKAGES
    return isinstance(owner, type) and owner.__module__.partition(".")[0] in _FIXED_PACKAGES


def compile_source(
    function: types.FunctionType,
    arguments: list[tuple[str, Argument]],
    options: Any,
    live_numbers: set[Any],
    wish: protocol.Annotation | None,
) -> CompiledSource:
    """A kernel's Python function, for these arguments, as IR at stage 'kernel'."""
    static_sizes: dict[Any, int] = {}
    slot_types: dict[str, Any] = {}
    while True:
        compilation = Compilation(options, live_numbers, static_sizes)
        try:
            return _walk_kernel(compilation, function, arguments, slot_types, wish)
        except (RestartKernel, Restart):
            continue


def _walk_kernel(
    compilation: Compilation,
    function: types.FunctionType,
    arguments: list[tuple[str, Argument]],
    slot_types: dict[str, Any],
    wish: protocol.Annotation | None,
) -> CompiledSource:
    source = function_source(function)
    compilation.reached(function)
    kernel = Function(function.__name__ if function.__name__.isidentifier() else "kernel", kind="kernel")
    kernel.location = place(source.file, source.node)
    walker = Walker(compilation, function, source, kernel)
    walker.slot_types = slot_types
    counter = [0]
    for name, argument in arguments:
        binding = _parameter(compilation, kernel, argument, name, counter)
        walker.env[name] = binding
        if type(binding) is Run and name in walker.memory:
            walker.bind(name, binding, source.node)
    if isinstance(source.node, ast.Lambda):
        raise walker.error(source.node, "a lambda cannot be a kernel", hint="define it with `def`")
    statements.function_body(walker, source.node.body)
    result = settle_returns(walker, wish, harden=True)
    kernel.result_types = result.types
    kernel.attributes["parameter_names"] = [parameter.name for parameter in kernel.parameters]
    module = compilation.module
    module.entry = kernel.name
    module.functions = {kernel.name: kernel, **module.functions}
    return CompiledSource(module, [entry[1] for entry in walker.captured], result, compilation)


def _parameter(
    compilation: Compilation, kernel: Function, argument: Argument, name: str, counter: list[int]
) -> Binding:
    """The binding of one argument: its run-time parts are parameters of the kernel, numbered in order."""
    if argument.kind == "static":
        return Static(argument.value)
    if argument.kind == "sequence":
        items = [_parameter(compilation, kernel, child, name, counter) for child in argument.children]
        return Sequence(items, names=argument.names, record=argument.record, given=True)
    origin = ("argument", counter[0])
    counter[0] += 1
    if argument.kind == "value":
        type_ = compilation.given_as(argument.type) if argument.weak else argument.type
        return Run(kernel.body.add_argument(type_, name), argument.weak)
    type_: Type = argument.array_type(compilation.static_sizes.get(origin, 0))
    compilation.examples[origin] = argument.value
    value: Value = kernel.body.add_argument(type_, name)
    domain = argument.domain if argument.domain is not None else argument.type.rank
    return Array(value, argument.array_kind, domain, (), argument.offset, origin, argument.value)
