"""The state of writing one WGSL function: names of values, arrays, lines; and of the shader around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Block, Function, Op, Value
from quadrants.ir.types import ArrayType, ScalarType, scalar_of
from quadrants.records import Record
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.webgpu.probe import Driver
from quadrants.targets.webgpu.scalars import bits_of, literal, register, zero
from quadrants.targets.webgpu.views import Views
from quadrants.targets.webgpu.windows import ONE, Range

__all__ = [
    "FAILED",
    "ONCE",
    "ArrayNames",
    "Loop",
    "Place",
    "Shader",
    "Stretches",
    "Writer",
    "expanded_parameters",
    "scalar",
]


FAILED = "failed"
"""The private variable that says whether a check of the invocation has failed."""

ONCE = "nothing_u32 == 0u"
"""A condition that holds, as drivers cannot know. Code that is left at many places stands in a loop that ends with it: of a loop that
surely runs once, or of a function, drivers make a nest as deep as there are such places, and Mesa's ends the process at 80."""


def scalar(value: Value) -> ScalarType:
    return scalar_of(value.type)


class ArrayNames(Record):
    """How code reaches an array: the name of its first byte's address, counted from its first window on, of sizes and strides in
    bytes; its windows. Of a slot, and of memory that a block shares, its name; `atomic`: the type of the words of shared memory that
    threads update."""

    base: str = ""
    shape: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    slot: str = ""
    windows: Range = ONE
    atomic: str = ""


Place = Range | ArrayNames
"""Where an array of a function is: its windows, or memory that the block shares."""


class Loop(Record):
    """The loop around: what it carries, and the flag that takes `break` out of several WGSL loops ('' for one). `ends`: it is
    that of a block's threads, which `continue` ends."""

    carried: tuple[str, ...]
    flag: str
    ends: bool = False


class Stretches(Protocol):
    """How the code of threads that meet is written: see `emit_blocks.py`."""

    def covers(self, block: Block) -> bool:
        """Whether threads meet in a region."""
        ...

    def write(self, block: Block) -> None:
        """Writes such a region."""
        ...

    def agreed(self, op: Op, value: Value, name: str) -> str:
        """What an operation in whose regions threads meet is decided by, for all invocations."""
        ...

    def end(self) -> None:
        """The thread ends."""
        ...

    def fail(self) -> None:
        """The thread ends; within a stretch, its code leaves the loop around."""
        ...

    in_stretch: bool
    """Whether what is written stands between two meetings."""


class Shader:
    """One shader module: what its functions ask for. `keeps_loops`: drivers are not to unroll loops. `symbols`: the name of each function that was asked for, with the places of
    its arrays: there is one copy for each set of them. `updated`: shared memory that threads update. `may_fail`: functions that checks may
    end; `notes`: how many words a failed check notes, at most."""

    def __init__(self, driver: Driver, views: Views) -> None:
        self.driver = driver
        self.views = views
        self.keeps_loops = False
        self.helpers: set[str] = {"param64", "opaque_f32"}
        self.tables: list[str] = []
        self.workgroup: dict[str, str] = {}
        self.shared_bytes = 0
        self.symbols: dict[tuple[str, tuple[Place, ...]], str] = {}
        self.updated: set[Value] = set()
        self.may_fail: set[str] = set()
        self.notes = 0
        self.messages: dict[int, Message] = {}
        self.prints: dict[int, PrintFormat] = {}

    def helper(self, name: str) -> str:
        self.helpers.add(name)
        return name

    def symbol(self, function: str, windows: tuple[Place, ...] = ()) -> str:
        """The name of a function whose arrays are in these places; whoever makes the shader writes it."""
        found = self.symbols.get((function, windows))
        if found is None:
            plain = "".join([c if c.isascii() and c.isalnum() else "_" for c in function])
            found = self.symbols[function, windows] = f"f{len(self.symbols)}_{plain}"
        return found

    def shared(self, held: str, size: int) -> str:
        """The name of new memory of the workgroup, of that many bytes."""
        self.shared_bytes += size
        name = f"shared_{len(self.workgroup)}"
        self.workgroup[name] = held
        return name

    def agreed(self, held: str) -> str:
        """Memory of the workgroup for what invocations are told."""
        self.workgroup[f"agreed_{held}"] = held
        return f"agreed_{held}"

    def note(self, number: int) -> str:
        """The private variable for a word that an invocation notes of its failed check."""
        self.notes = max(self.notes, number + 1)
        return f"note_{number}"

    def table(self, type_: ScalarType, entries: tuple[float, ...]) -> str:
        """The name of a constant table: the entries' bits, since not every float can be written down."""
        held, suffix = ("u64", "lu") if type_.bits == 64 else ("u32", "u")
        text = f"array<{held}, {len(entries)}>({', '.join([f'{bits_of(type_, entry)}{suffix}' for entry in entries])})"
        declared = f": array<{held}, {len(entries)}> = {text};"
        for number, known in enumerate(self.tables):
            if known == declared:
                return f"table_{number}"
        self.tables.append(declared)
        return f"table_{len(self.tables) - 1}"


class Writer(ABC):
    """Writes one function. `unsettled`: a check of the invocation may have failed on the way to where the next line stands."""

    def __init__(self, shader: Shader, function: Function) -> None:
        self.shader = shader
        self.function = function
        self.lines: list[str] = []
        self.front: list[str] = []
        self.depth = 1
        self.names: dict[Value, str] = {}
        self.arrays: dict[Value, ArrayNames] = {}
        self.loops: list[Loop] = []
        self.stretches: Stretches | None = None
        self.unsettled = False
        self.targets: list[tuple[str, ...]] = []
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}_{self._count}"  # apart from WGSL's words: `i32` would be the 32nd counter

    def let(self, held: str, text: str) -> str:
        """A new name for an expression."""
        name = self.fresh()
        self.line(f"let {name}: {held} = {text};")
        return name

    def variable(self, held: str, text: str = "") -> str:
        name = self.fresh("m")
        self.line(f"var {name}: {held}{' = ' + text if text else ''};")
        return name

    def define(self, value: Value, text: str) -> None:
        self.names[value] = self.let(register(scalar(value)), text)

    def name(self, value: Value) -> str:
        found = self.names.get(value)
        if found is not None:
            return found
        owner = value.owner
        if not isinstance(owner, Op) or owner.kind not in ("constant", "dim"):
            raise QuadrantsInternalError(f"{value!r} has no name in the shader of {self.function.name}")
        if owner.kind == "dim":
            array, axis = owner.operands[0], owner.attribute("axis")
            if type(array.type) is ArrayType and array.type.is_slot:
                return f"{array.type.trailing[axis]}li"
            return self.array(array).shape[axis]
        return self._constant(value, owner)

    def _constant(self, value: Value, owner: Op) -> str:
        """Constants are named at the function's start: an expression of names is computed at run time, where it wraps."""
        type_ = scalar(value)
        text = literal(type_, owner.attribute("value"))
        if type_.is_float and self.shader.driver.opaque:
            text = f"{self.shader.helper('opaque_' + register(type_))}({text})"
        name = self.names[value] = self.fresh("c")
        self.front.append(f"  let {name}: {register(type_)} = {text};")
        return name

    def array(self, value: Value) -> ArrayNames:
        found = self.arrays.get(value)
        if found is None:
            raise QuadrantsInternalError(f"{value!r} is no array of the shader of {self.function.name}")
        return found

    def rounded(self, type_: ScalarType, text: str) -> str:
        """The result of a float operation in its own precision, and not to be seen through where drivers would."""
        if type_.name in ("f16", "bf16"):
            text = f"{self.shader.helper('round_' + type_.name)}({text})"
        return self.hidden(type_, text)

    def hidden(self, type_: ScalarType, text: str) -> str:
        if not self.shader.driver.opaque:
            return text
        return f"{self.shader.helper('opaque_' + register(type_))}({text})"

    def agreed(self, op: Op, value: Value, name: str = "") -> str:
        """The name of what decides where an operation goes: those who do not know it are told, where threads meet."""
        name = name or self.name(value)
        return name if self.stretches is None else self.stretches.agreed(op, value, name)

    @abstractmethod
    def leave(self, values: list[str]) -> None:
        """Returns from the function."""

    def settle(self) -> None:
        """An invocation with a failed check does nothing of what follows."""
        if not self.unsettled:
            return
        self.unsettled = False
        self.line(f"if ({FAILED}) {{")
        self.depth += 1
        if self.stretches is None:
            self.leave_failed()
        else:
            self.stretches.fail()
        self.depth -= 1
        self.line("}")

    def leave_failed(self) -> None:
        """Returns from the function behind a failed check."""
        self.leave([zero(scalar_of(type_)) for type_ in self.function.result_types])

    def may_fail(self, ops: Iterable[Op]) -> bool:
        """Whether a check in operations, or in what they call, may fail."""
        return any(op.kind == "check" or op.attributes.get("callee") in self.shader.may_fail for op in ops)


def expanded_parameters(position: int, type_: ArrayType) -> list[str]:
    """The names of the numbers by which an array goes to a function."""
    stem = f"p{position}"
    axes = range(type_.rank)
    return [stem, *[f"{stem}_n{k}" for k in axes], *[f"{stem}_s{k}" for k in axes]]
