"""One compilation of a kernel: what its functions share, what it captured, and the way from a Python function to IR."""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsNameError, QuadrantsTypeError
from quadrants.frontend import functions, protocol
from quadrants.frontend.arguments import Argument, as_numpy, numpy_array_type
from quadrants.frontend.returns import Result, settle_returns
from quadrants.frontend.source import function_source, place
from quadrants.frontend.values import Array, Binding, Run, Sequence, Static, is_number
from quadrants.frontend.walker import Restart, Walker
from quadrants.ir.nodes import Function, Module, Value
from quadrants.ir.types import ScalarType, Type, f64, i64

if TYPE_CHECKING:
    from quadrants.frontend.calls import Arguments

__all__ = ["Compilation", "CompiledSource", "Guard", "RestartKernel", "compile_source"]

# How large a trailing axis may be to become static.
STATIC_SIZE_LIMIT = 16


class RestartKernel(Exception):
    """The kernel has to be walked again: an array's trailing sizes have become static."""


class Guard:
    """A captured object that must still be the same: `container` is a namespace (a dictionary) with `key`, or a closure's
    cell (key None)."""

    __slots__ = ("container", "key", "value")

    def __init__(self, container: Any, key: str | None, value: Any) -> None:
        self.container = container
        self.key = key
        self.value = value

    def holds(self) -> bool:
        if self.key is None:
            return self.container.cell_contents is self.value
        return self.container.get(self.key) is self.value


class LiveNumber:
    """A captured number that has changed before: a parameter of the kernel, read at each launch."""

    __slots__ = ("container", "key", "kind")

    def __init__(self, container: Any, key: str | None, kind: type) -> None:
        self.container = container
        self.key = key
        self.kind = kind

    def read(self) -> Any:
        return self.container.cell_contents if self.key is None else self.container[self.key]


class CompiledSource:
    """What the front end makes of a kernel. `captured`: for each IR parameter after the arguments' own the Python object
    (an array) or the LiveNumber that it is; `written`: origins of the arrays that the kernel writes; `static_sizes`: by
    origin, how many trailing sizes are static; `reached`: the Python functions whose code this depends on."""

    __slots__ = ("captured", "guards", "module", "reached", "result", "static_sizes", "written")

    def __init__(
        self,
        module: Module,
        captured: list[Any],
        guards: list[Guard],
        result: Result,
        written: set[Any],
        static_sizes: dict[Any, int],
        reached: list[Any],
    ) -> None:
        self.module = module
        self.captured = captured
        self.guards = guards
        self.result = result
        self.written = written
        self.static_sizes = static_sizes
        self.reached = reached


class Compilation:
    """The state that all functions of one kernel's compilation share."""

    def __init__(self, options: Any, live_numbers: set[Any], static_sizes: dict[Any, int]) -> None:
        self.default_int: ScalarType = options.default_int
        self.default_float: ScalarType = options.default_float
        self.debug: bool = options.debug
        self.wraparound: bool = options.wraparound
        self.module = Module()
        self.functions: dict[Any, functions.Specialisation] = {}
        self.running: dict[Any, int] = {}
        self.guards: dict[Any, Guard] = {}
        self.live_numbers = live_numbers
        self.static_sizes = static_sizes
        self.examples: dict[Any, Any] = {}
        self.written: set[Any] = set()
        self.functions_reached: dict[Any, None] = {}
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
        return self._captured(walker, namespace, name, namespace[name])

    def captured_cell(self, walker: Walker, cell: types.CellType, name: str, node: ast.AST) -> Binding:
        try:
            value = cell.cell_contents
        except ValueError:
            raise walker.error(
                node, f'"{name}" has no value yet in the function around this one', kind=QuadrantsNameError
            ) from None
        return self._captured(walker, cell, None, value)

    def captured_attribute(self, walker: Walker, owner: Any, name: str, value: Any) -> Binding:
        """A member of a captured module or object."""
        if isinstance(owner, types.ModuleType):
            package = owner.__name__.partition(".")[0]
            if package in ("quadrants", "numpy", "math"):
                return Static(value)
        members = getattr(owner, "__dict__", None)
        if type(members) is dict and members.get(name, _MISSING) is value:
            return self._captured(walker, members, name, value)
        return Static(value)

    def _captured(self, walker: Walker, container: Any, key: str | None, value: Any) -> Binding:
        if isinstance(value, types.ModuleType):
            return Static(value)
        identity = (id(container), key)
        if is_number(value) and type(value) is not bool and identity in self.live_numbers and not walker.static_depth:
            number = LiveNumber(container, key, type(value))
            return self.capture(walker, ("number", *identity, number.kind), number, None)
        self.guards[identity] = Guard(container, key, value)
        return Static(value)

    def capture(self, walker: Walker, key: Any, source: Any, node: ast.AST | None) -> Binding:
        """A captured array or number as a parameter of the function being walked."""
        for known, _, binding in walker.captured:
            if known == key:
                return binding
        if isinstance(source, LiveNumber):
            binding: Binding = Run(
                walker.function.body.add_argument(f64 if source.kind is float else i64, str(source.key or "")), True
            )
        else:
            binding = self._array_binding(walker, key, source, node)
        walker.captured.append((key, source, binding))
        return binding

    def array_of(self, walker: Walker, value: Any, node: ast.AST | None) -> Array:
        """A captured field, ndarray or NumPy array."""
        return self.capture(walker, ("array", id(value)), value, node)  # type: ignore[return-value]

    def _array_binding(self, walker: Walker, key: Any, value: Any, node: ast.AST | None) -> Array:
        self.examples[key] = value
        name = getattr(value, "_name", "") or ""
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
        if array.kind != "numpy" or example is None:
            raise walker.error(
                node,
                "not all axes are indexed",
                found=f"{len(array.prefix)} indices of {array.type.rank}",
                kind=QuadrantsTypeError,
            )
        if not array.prefix:
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
                "the kernel writes to a read-only array",
                hint="pass a copy, or an array with flags.writeable",
                kind=QuadrantsTypeError,
            )
        self.written.add(array.origin)


_MISSING = object()


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
    from quadrants.frontend.statements import function_body

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
    function_body(walker, source.node.body)
    result = settle_returns(walker, wish, harden=True)
    kernel.result_types = result.types
    kernel.attributes["parameter_names"] = [parameter.name for parameter in kernel.parameters]
    module = compilation.module
    module.entry = kernel.name
    module.functions = {kernel.name: kernel, **module.functions}
    captured = [entry[1] for entry in walker.captured]
    written = set(compilation.written)
    return CompiledSource(
        module,
        captured,
        list(compilation.guards.values()),
        result,
        written,
        compilation.static_sizes,
        list(compilation.functions_reached),
    )


def _parameter(
    compilation: Compilation, kernel: Function, argument: Argument, name: str, counter: list[int]
) -> Binding:
    """The binding of one argument: its run-time parts are parameters of the kernel, numbered in order."""
    if argument.kind == "static":
        return Static(argument.value)
    if argument.kind == "sequence":
        items = [_parameter(compilation, kernel, child, name, counter) for child in argument.children]
        return Sequence(items, names=argument.names)
    origin = ("argument", counter[0])
    counter[0] += 1
    if argument.kind == "value":
        return Run(kernel.body.add_argument(argument.type, name), argument.weak)
    type_: Type = argument.array_type(compilation.static_sizes.get(origin, 0))
    compilation.examples[origin] = argument.value
    value: Value = kernel.body.add_argument(type_, name)
    domain = argument.domain if argument.domain is not None else argument.type.rank  # type: ignore[attr-defined]
    return Array(value, argument.array_kind, domain, (), argument.offset, origin, argument.value)
