"""The walker: state of compiling one function, names, blocks, errors. What each syntax node means stands in
statements.py, loops.py and expressions.py."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsCompilationError, QuadrantsNameError, QuadrantsSyntaxError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.scan import annotate_liveness, assigned_names, memory_names
from quadrants.frontend.source import FunctionSource, place, source_location
from quadrants.frontend.values import Array, Binding, Broken, Identity, Nature, Run, Sequence, Slot, Static, nature_of
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Op, Value
from quadrants.ir.types import MatrixType, ScalarType, Type, element_type, i64, scalar_of

if TYPE_CHECKING:
    from quadrants.frontend.compilation import Compilation

__all__ = ["Exit", "Loop", "Restart", "Unknown", "Walker"]

Env = dict[str, Binding]


class Restart(Exception):
    """The function has to be walked again with what `apply` recorded."""


class Unknown(Exception):
    """The result type of a recursive call is not known yet: the path it stands on does not tell it either."""


class Exit:
    """An edge out of a loop's body: 'continue' or 'break', from a block, with the names as they were there."""

    __slots__ = ("block", "env", "kind", "location")

    def __init__(self, kind: str, block: Block, env: Env, location: Any) -> None:
        self.kind = kind
        self.block = block
        self.env = env
        self.location = location


class Loop:
    """A run-time loop being walked, or a static one (`is_static`), for `break` and `continue`. `before`: the names as
    they are in front of a run-time loop."""

    __slots__ = ("before", "early", "exits", "flag", "is_static", "node")

    def __init__(
        self, node: ast.For | ast.While, is_static: bool = False, flag: str = "", before: Env | None = None
    ) -> None:
        self.before: Env = before or {}
        self.node = node
        self.is_static = is_static
        self.exits: list[Exit] = []
        self.flag = flag
        # Names read before the body assigns them, with where: an earlier iteration may have.
        self.early: dict[str, ast.AST] = {}


class _Inside:
    """While it is entered, a builder appends to another block. A class, since that is a third of a generator's time."""

    __slots__ = ("before", "block", "builder")

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self.block = block
        self.before = block

    def __enter__(self) -> None:
        self.before = self.builder.block
        self.builder.block = self.block

    def __exit__(self, *error: object) -> None:
        self.builder.block = self.before


class Walker:
    """Compiles one Python function into one IR function."""

    __slots__ = (
        "builder",
        "captured",
        "changes",
        "compilation",
        "default_float",
        "default_int",
        "entry",
        "env",
        "file",
        "free",
        "function",
        "inlined",
        "is_kernel",
        "lent",
        "loop_config",
        "loops",
        "memory",
        "node",
        "outer",
        "python_function",
        "returns",
        "slot_types",
        "static_depth",
        "template_names",
    )

    def __init__(
        self, compilation: Compilation, python_function: types.FunctionType, source: FunctionSource, function: Function
    ) -> None:
        self.compilation = compilation
        self.default_int: ScalarType = compilation.default_int
        self.default_float: ScalarType = compilation.default_float
        self.python_function = python_function
        self.file = source.file
        self.node = source.node
        self.function = function
        self.builder = Builder(function.body)
        self.env: Env = {}
        # What the parameters are at first.
        self.entry: Env = {}
        self.loops: list[Loop] = []
        self.returns: list[tuple[Block, Binding, list[Binding], Any]] = []
        self.is_kernel = function.is_kernel
        self.memory = memory_names(source.node)
        self.slot_types: dict[str, tuple[ScalarType, bool]] = {}
        self.captured: list[tuple[Any, Any, Run | Array]] = []
        # Which lists and records have been changed so far.
        self.changes: list[Identity] = []
        self.loop_config: dict[str, Any] = {}
        self.static_depth = 0
        self.template_names: tuple[str, ...] = ()
        # Parameters whose changes cannot be given back to the caller.
        self.lent: frozenset[str] = frozenset()
        self.outer: Walker | None = None
        # The nested functions whose calls are being compiled here.
        self.inlined: tuple[ast.AST, ...] = ()
        code = python_function.__code__
        cells = python_function.__closure__ or ()
        self.free: dict[str, types.CellType] = dict(zip(code.co_freevars, cells))
        annotate_liveness(source.node)

    # Errors.

    def error(
        self,
        node: ast.AST,
        message: str,
        hint: str = "",
        *,
        found: str = "",
        expected: str = "",
        kind: type[QuadrantsCompilationError] = QuadrantsSyntaxError,
    ) -> QuadrantsCompilationError:
        """A compile error at a syntax node of this function."""
        location = source_location(place(self.file, node)) if hasattr(node, "lineno") else None
        return kind.at(location, message, self._missing_argument(node) or hint, found=found, expected=expected)

    def _missing_argument(self, node: ast.AST) -> str:
        """A word on a parameter in the expression that was given None."""
        parameters = {argument.arg for argument in self.node.args.args}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and child.id in parameters:
                binding = self.env.get(child.id)
                if type(binding) is Static and binding.value is None:
                    return f"argument '{child.id}' is None"
        return ""

    def at(self, node: ast.AST) -> None:
        """Operations emitted from here on come from this node."""
        self.builder.location = place(self.file, node)

    # Names.

    def lookup(self, name: str, node: ast.AST) -> Binding:
        """What a name stands for: a local, then a closure's, a global, a builtin."""
        found = self.env.get(name)
        if found is None:
            found = self.lookup_outside(name, node)
        if type(found) is Broken:
            raise found.explain(node)
        return found

    def visible(self, name: str) -> Binding | None:
        """What a local name of this function or of those around it stands for, None if it is none."""
        around: Walker | None = self
        while around is not None:
            if name in around.env:
                return around.env[name]
            around = around.outer
        return None

    def lookup_outside(self, name: str, node: ast.AST) -> Binding:
        around = self.outer
        while around is not None:
            if name in around.env:
                return around.lookup(name, node)
            around = around.outer
        cell = self.free.get(name)
        if cell is not None:
            return self.compilation.captured_cell(self, cell, name, node)
        namespace = self.python_function.__globals__
        if name in namespace:
            return self.compilation.captured_global(self, namespace, name)
        if hasattr(builtins, name):
            return self.compilation.builtin(self, name, getattr(builtins, name))
        if name in getattr(self.node, "_all_assigned", ()):
            self._ask_earlier_iterations(name, node)
            raise self.error(
                node,
                f'Name "{name}" may be used before it is assigned',
                kind=QuadrantsNameError,
                hint="assign it before the loop or on every path of the `if`",
            )
        raise self.error(node, f'Name "{name}" is not defined', kind=QuadrantsNameError, hint=self._similar(name))

    def _ask_earlier_iterations(self, name: str, node: ast.AST) -> None:
        """A name that a loop around assigns, read before that: the loop carries it, once its type is known."""
        for loop in self.loops:
            if not loop.is_static and name in assigned_names(loop.node.body, loop.node) and name not in loop.early:
                loop.early[name] = node
                raise Unknown

    def _similar(self, name: str) -> str:
        import difflib

        close = difflib.get_close_matches(name, [*self.env, *self.python_function.__globals__], 1)
        return f'did you mean "{close[0]}"?' if close else ""

    def bind(self, name: str, binding: Binding, node: ast.AST) -> None:
        """`name = binding`: values are copied, NumPy views stay views, matrices indexed at run time go to memory."""
        if type(binding) is Array and binding.is_element:
            binding = self.load(binding, node)
        elif type(binding) is Slot:
            run = numbers.to_run(self, binding, node)
            binding = Run(run.value, run.weak, binding.nature)
        elif type(binding) is Array and not binding.value.name:
            binding.value.name = name  # memory that a block shares
        if name in self.memory:
            binding = self._in_memory(name, binding, node)
        self.env[name] = binding

    def _in_memory(self, name: str, binding: Binding, node: ast.AST) -> Binding:
        if type(binding) is Sequence and not all(isinstance(item, (Static, Run)) for item in binding.items):
            return binding
        if type(binding) is Sequence and not binding.is_list:
            return binding
        if nature_of(binding) is Nature.COPY:
            return binding
        if type(binding) is Array or (type(binding) is Static and protocol.matrix_constant(binding.value) is None):
            return binding
        run = numbers.to_run(self, binding, node)
        if type(run.type) is not MatrixType:
            return binding
        facts = self.slot_types.get(name)
        value = run.value
        weak = run.weak
        if facts is not None and weak:
            value, weak = self.builder.cast(value, facts[0]), facts[1]
        known = self.env.get(name)
        type_ = value.type
        assert type(type_) is MatrixType
        nature = nature_of(binding)
        if type(known) is Slot and (known.element, known.weak, known.nature) == (type_, weak, nature):
            slot = known
        else:
            memory = self.builder.emit("slot", type=type_)
            memory.name = name
            slot = Slot(memory, type_, weak, nature)
        self.builder.op("store", value, slot.memory)
        return slot

    def widen_slot(self, name: str, scalar: ScalarType, weak: bool) -> None:
        """A local in memory takes values of a wider type: walk again with that."""
        self.slot_types[name] = (scalar, weak)
        raise Restart

    # Memory.

    def load(self, array: Binding, node: ast.AST) -> Run:
        """The value of an element, or of a partly indexed array whose axes left are static."""
        assert type(array) is Array
        left = array.type.rank - len(array.prefix)
        if left > len(array.type.trailing):
            array = self.compilation.with_static_sizes(self, array, left, node)
        return Run(self.builder.emit("load", array.value, *array.prefix, **self.access(array)))

    def access(self, array: Array) -> dict[str, Any]:
        """The attributes of an access through `array`."""
        wraps = array.kind != "field" and self.compilation.wraparound and array.prefix
        return {"wrap": True} if wraps else {}

    def as_index(self, binding: Binding, node: ast.AST) -> Value:
        """An index as i64; an error for anything but an integer."""
        run = numbers.to_run(self, binding, node)
        if type(run.type) is not ScalarType or run.type.is_float:
            raise self.error(
                node, "an index must be an integer", found=numbers.describe(binding), hint="convert with int(x)"
            )
        return self.index_value(run.value)

    def index_value(self, value: Value) -> Value:
        if value.type is i64:
            return value
        owner = value.owner
        if type(owner) is Op and owner.kind == "cast" and owner.attribute("exact") and owner.operands[0].type is i64:
            return owner.operands[0]
        return self.builder.cast(value, i64)

    # Blocks.

    def inside(self, block: Block) -> _Inside:
        """Emit into another block meanwhile."""
        return _Inside(self.builder, block)

    def trial(self, emit: Callable[[], Any]) -> tuple[Block, Any]:
        """Runs `emit` into a block of its own and gives both."""
        block = Block()
        with self.inside(block):
            result = emit()
        return block, result

    def splice(self, block: Block) -> None:
        """Appends the operations of a trial block here."""
        self.builder.block.ops.extend(block.ops)

    def value_type(self, array: Array) -> Type:
        return element_type(array.type)

    def scalar(self, binding: Binding, node: ast.AST) -> ScalarType:
        return scalar_of(numbers.to_run(self, binding, node).type)
