"""The writers of LLVM text: a `Unit` is one LLVM module in the making, a `Writer` one function of it.

A writer has two lists of lines: the prologue of the entry block, where descriptors are read and stack memory is
reserved as soon as something asks for it, and the body, where operations appear in program order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, LaneType, ScalarType, Type, scalar_of
from quadrants.records import MutableRecord, Record, fresh
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.llvm.arrays import ArrayAccess
from quadrants.targets.llvm.masks import Masks, is_mask
from quadrants.targets.llvm.scalars import literal, memory_type, register_type

__all__ = ["Loop", "Program", "Unit", "Writer", "value_type"]

EMPTY, SIZE_RANGE = 0, 1  # metadata that every unit has


class Program(MutableRecord):
    """Facts of the whole module that the functions' texts depend on.

    Pointers are of the address space that reaches all memory, 0; `stack_space` and `constant_space` are where stack memory
    and constant tables lie. atomic_scope: LLVM's words for the threads that atomic operations are atomic for;
    assembly_registers: LLVM's letters for the registers that types of operands of assembly lie in;
    sum_annotations: what is known of the memory that atomic operations on floats meet; subgroup: threads of one on a device;
    fences: LLVM's words for the scopes of fences.
    """

    record: CapabilityRecord
    define_attributes: str = ""
    symbols: dict[str, str] = fresh(dict[str, str])
    attributes: dict[str, str] = fresh(dict[str, str])
    effects: dict[str, str] = fresh(dict[str, str])
    conventions: dict[str, str] = fresh(dict[str, str])
    may_fail: set[str] = fresh(set[str])
    may_alias: set[str] = fresh(set[str])
    stack_space: int = 0
    constant_space: int = 0
    atomic_scope: str = ""
    assembly_registers: dict[str, str] = fresh(dict[str, str])
    sum_annotations: str = ""
    subgroup: int = 1
    fences: dict[str, str] = fresh(dict[str, str])

    def convention(self, name: str) -> str:
        """The word before the result type in `define`, `declare` and `call` of one of the program's functions."""
        word = self.conventions[name]
        return f"{word} " if word else ""


class Unit:
    """One LLVM module: its functions, declarations, constants, metadata, and what its ids stand for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.defined: set[str] = set()
        self.declarations: dict[str, str] = {}
        self.functions: list[str] = []
        self.constants: list[str] = []
        self.metadata: list[str] = ["!0 = !{}", "!1 = !{i64 0, i64 4611686018427387904}"]
        self.messages: dict[int, Message] = {}
        self.prints: dict[int, PrintFormat] = {}
        self._named: dict[str, int] = {}

    def add_metadata(self, text: str = "") -> int:
        """A new metadata node; its text may be set later through `metadata`. `{id}` in the text is its own number."""
        number = len(self.metadata)
        self.metadata.append(f"!{number} = {text.replace('{id}', str(number))}")
        return number

    def shared_metadata(self, text: str) -> int:
        """The node with that text, made at its first use."""
        found = self._named.get(text)
        if found is None:
            found = self._named[text] = self.add_metadata(text)
        return found

    def declare(self, symbol: str, text: str) -> None:
        if symbol not in self.defined:
            self.declarations.setdefault(symbol, text)

    def table(self, entries: str) -> str:
        """The pointer to a constant array, given as its type and value; equal ones are one."""
        found = self._named.get(entries)
        space = f"addrspace({self.program.constant_space}) " if self.program.constant_space else ""
        if found is None:
            found = self._named[entries] = len(self.constants)
            self.constants.append(f"@qd.table.{found} = private unnamed_addr {space}constant {entries}")
        return f"addrspacecast (ptr {space}@qd.table.{found} to ptr)" if space else f"@qd.table.{found}"

    def text(self) -> str:
        """The module's text."""
        return "\n".join([*self.constants, *self.declarations.values(), *self.functions, *self.metadata, ""])


class Loop:
    """Where `continue` and `break` of the innermost loop lead; edges are (label, carried names)."""

    __slots__ = ("break_edges", "break_label", "continue_edges", "continue_label")

    def __init__(self, continue_label: str, break_label: str) -> None:
        self.continue_label = continue_label
        self.break_label = break_label
        self.continue_edges: list[tuple[str, list[str]]] = []
        self.break_edges: list[tuple[str, list[str]]] = []


class AliasScope(Record):
    """What the accesses through one array, or one part of the array `whole`, do not overlap; `annotations` say it."""

    annotations: str
    number: int = -1
    others: int = -1
    whole: AliasScope | None = None

    def meets(self, other: AliasScope) -> bool:
        """Whether accesses of the two scopes may overlap."""
        return other is self or other is self.whole or other.whole is self


_UNKNOWN = AliasScope("")


class Writer(ABC):
    """Writes one LLVM function. Subclasses say how parameters are reached and how the function is left. `handlers`: what
    writes each kind of operation, where that is not what all functions have."""

    def __init__(self, unit: Unit, may_alias: bool) -> None:
        self.unit = unit
        self.program = unit.program
        self.may_alias = may_alias
        self.prologue: list[str] = []
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.arrays: dict[Value, ArrayAccess] = {}
        self.loops: list[Loop] = []
        self.label = "%entry"
        self.plain_updates: frozenset[Value] = frozenset()
        self.constant_arrays: frozenset[Value] = frozenset()  # written by nobody while the code runs
        self.atomic_needed = True
        self.handlers: dict[str, Callable[[Writer, Op], None]] = {}
        record = unit.program.record
        self.masks = Masks(self) if record.vector_bits and not record.mask_registers else None
        self._count = 0
        self._domain = -1
        self._scopes: list[AliasScope] = []
        self._slot_scopes = -1
        self._reserved: dict[str, str] = {}

    # Lines, names and labels.

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def assign(self, text: str) -> str:
        """A line that computes a value; gives its name."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def early(self, text: str) -> str:
        """Like `assign`, in the prologue."""
        name = self.fresh()
        self.prologue.append(f"  {name} = {text}")
        return name

    def new_label(self) -> str:
        self._count += 1
        return f"%b{self._count}"

    def begin(self, label: str) -> None:
        """Starts the block of that label; the block before it has ended."""
        self.lines.append(label[1:] + ":")
        self.label = label

    def jump(self, label: str, metadata: str = "") -> None:
        self.lines.append(f"  br label {label}{metadata}")

    def vectors(self, lanes: int) -> str:
        """What the branch back of a loop carries that the code generator shall make vectors of, with so many lanes each, or
        none with 1; 0 leaves it to the code generator."""
        if lanes == 0:
            return ""
        wishes = [f'!{{!"llvm.loop.vectorize.enable", i1 {"true" if lanes > 1 else "false"}}}']
        if lanes > 1:
            wishes.append(f'!{{!"llvm.loop.vectorize.width", i32 {lanes}}}')
        listed = "".join([f", !{self.unit.shared_metadata(wish)}" for wish in wishes])
        return f", !llvm.loop !{self.unit.add_metadata(f'distinct !{{!{{id}}{listed}}}')}"

    def one_by_one(self) -> str:
        """What the branch back of a loop carries that runs few times: it is not unrolled."""
        wish = self.unit.shared_metadata('!{!"llvm.loop.unroll.disable"}')
        return f", !llvm.loop !{self.unit.add_metadata(f'distinct !{{!{{id}}, !{wish}}}')}"

    def branch(self, condition: str, yes: str, no: str, likely: bool = False) -> None:
        weights = ""
        if likely:
            node = self.unit.shared_metadata('!{!"branch_weights", i32 2000, i32 1}')
            weights = f", !prof !{node}"
        self.lines.append(f"  br i1 {condition}, label {yes}, label {no}{weights}")

    def reserve(self) -> int:
        """Keeps a place for a line (a phi whose sources are not known yet); gives its index in `lines`."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill_phi(self, at: int, name: str, llvm_type: str, edges: list[tuple[str, str]]) -> None:
        """Writes the phi of (value, label) edges at a reserved place."""
        sources = ", ".join([f"[ {value}, {label} ]" for value, label in edges])
        self.lines[at] = f"  {name} = phi {llvm_type} {sources}"

    def phi(self, llvm_type: str, edges: list[tuple[str, str]]) -> str:
        """A phi here; with one edge simply its value."""
        if len(edges) == 1:
            return edges[0][0]
        name = self.fresh()
        self.fill_phi(self.reserve(), name, llvm_type, edges)
        return name

    def call(
        self, result: str, symbol: str, arguments: str, parameters: str, attributes: str = "", convention: str = ""
    ) -> str:
        """A call of a declared symbol; gives the result's name, '' for void."""
        ending = f" {attributes}" if attributes else ""
        self.unit.declare(symbol, f"declare {convention}{result} @{symbol}({parameters}){ending}")
        text = f"call {convention}{result} @{symbol}({arguments})"
        if result == "void":
            self.line(text)
            return ""
        return self.assign(text)

    # Values.

    def name(self, value: Value) -> str:
        """The operand text of a scalar value, or of lanes."""
        if self.masks is not None and is_mask(value.type):
            mask = self.masks.name(value)
            if mask is not None:
                return mask
        found = self.names.get(value)
        if found is None:
            found = self.names[value] = self.resolve(value)
        return found

    # Values as they go from block to block, and from function to function.

    def along(self, value: Value) -> str:
        """A value on its way."""
        return self.masks.along(value) if self.masks is not None and is_mask(value.type) else self.name(value)

    def arrive(self, value: Value, name: str) -> None:
        """Binds a value to a name that is on its way."""
        if self.masks is not None and is_mask(value.type):
            self.masks.arrived(value, name)
        else:
            self.names[value] = name

    def types_along(self, values: Sequence[Value]) -> list[str]:
        """The LLVM types of values on their way."""
        return [self.type_along(value.type) for value in values]

    def type_along(self, type_: Type) -> str:
        if self.masks is not None and is_mask(type_):
            assert type(type_) is LaneType
            return self.masks.type(type_.lanes)
        return value_type(type_)

    def typed(self, value: Value) -> str:
        """The operand of a scalar value, or of lanes, with its LLVM type before it."""
        return f"{value_type(value.type)} {self.name(value)}"

    def resolve(self, value: Value) -> str:
        """A value that no line has defined: a constant, a size or a parameter; they are made where first asked for."""
        owner = value.owner
        if isinstance(owner, Op):
            if owner.kind == "constant":
                scalar = scalar_of(value.type)
                text = literal(scalar, owner.attributes["value"])
                return text if scalar is value.type else f"splat ({register_type(scalar)} {text})"
            if owner.kind == "dim":
                return self.array(owner.operands[0]).size(owner.attributes["axis"])
        return self.parameter(value)

    def parameter(self, value: Value) -> str:
        """The operand of a scalar parameter; overridden by each kind of function."""
        raise QuadrantsInternalError(f"a value is used where it is not defined: {value} of {value.owner}")

    def descriptor(self, value: Value) -> str:
        """The pointer to an array parameter's descriptor (a slot: to its memory), computed in the prologue."""
        raise QuadrantsInternalError(f"an array is used where it is not defined: {value} of {value.owner}")

    def array(self, value: Value) -> ArrayAccess:
        """The access to an array value."""
        found = self.arrays.get(value)
        if found is None:
            type_ = value.type
            assert type(type_) is ArrayType
            pointer = self.descriptor(value)
            found = self.arrays[value] = ArrayAccess(
                self, type_, pointer, None if type_.is_slot else self.alias_scope()
            )
            found.is_constant = value in self.constant_arrays
        return found

    def add_slot(self, value: Value) -> ArrayAccess:
        """Reserves the memory of a slot."""
        type_ = value.type
        assert isinstance(type_, ArrayType)
        count = 1
        for size in type_.trailing:
            count *= size
        size = count * type_.scalar.bytes
        alignment = 64 if size >= 64 else 16 if size >= 16 else type_.scalar.bytes
        pointer = self.stack(f"[{count} x {memory_type(type_.scalar)}]", alignment)
        access = self.arrays[value] = ArrayAccess(self, type_, pointer)
        return access

    def words(self, count: int) -> str:
        """Stack memory of so many 64-bit words."""
        return self.stack(f"[{count} x i64]", 8)

    def stack(self, llvm_type: str, alignment: int) -> str:
        """Reserves stack memory; gives the pointer to it."""
        space = self.program.stack_space
        if not space:
            return self.early(f"alloca {llvm_type}, align {alignment}")
        place = self.early(f"alloca {llvm_type}, align {alignment}, addrspace({space})")
        pointer = self.early(f"addrspacecast ptr addrspace({space}) {place} to ptr")
        self._reserved[pointer] = place
        return pointer

    def start_life(self, pointer: str) -> None:
        """From here on stack memory has no value, until it is written."""
        space = self.program.stack_space
        place, type_ = (self._reserved[pointer], f"ptr addrspace({space})") if space else (pointer, "ptr")
        self.call("void", f"llvm.lifetime.start.p{space}", f"{type_} {place}", type_)

    # Alias scopes: one an array; slots alias no array.

    def alias_scope(self, whole: AliasScope | None = None) -> AliasScope:
        """The scope of the accesses through one more array, or through one more part of the `whole` array. Parts do not
        overlap one another."""
        if self.may_alias:
            return _UNKNOWN
        unit = self.unit
        if self._domain < 0:
            self._domain = unit.add_metadata("distinct !{!{id}}")
        number = unit.add_metadata(f"distinct !{{!{{id}}, !{self._domain}}}")
        own, others = unit.add_metadata(f"!{{!{number}}}"), unit.add_metadata()
        scope = AliasScope(f", !alias.scope !{own}, !noalias !{others}", number, others, whole)
        self._scopes.append(scope)
        return scope

    def slot_scope(self) -> str:
        """Annotations for the accesses to slots."""
        if self.may_alias:
            return ""
        if self._slot_scopes < 0:
            self._slot_scopes = self.unit.add_metadata()
        return f", !noalias !{self._slot_scopes}"

    def _close_scopes(self) -> None:
        metadata = self.unit.metadata
        for scope in self._scopes:
            apart = [f"!{other.number}" for other in self._scopes if not scope.meets(other)]
            metadata[scope.others] += f"!{{{', '.join(apart)}}}"
        if self._slot_scopes >= 0:
            metadata[self._slot_scopes] += f"!{{{', '.join([f'!{scope.number}' for scope in self._scopes])}}}"

    # Leaving the function.

    @abstractmethod
    def leave(self, values: list[str], types: list[Type]) -> None:
        """Writes the end of a block that returns these results."""

    @abstractmethod
    def fail(self) -> None:
        """Writes the end of a block after a failed check."""

    def finish(self, header: str) -> None:
        """Adds the whole function to the unit."""
        self._close_scopes()
        self.unit.functions.append("\n".join([header + " {", "entry:", *self.prologue, *self.lines, "}"]))


def value_type(type_: Type) -> str:
    """The LLVM type of a scalar value or of lanes."""
    register = register_type(scalar_of(type_))
    return f"<{type_.lanes} x {register}>" if type(type_) is LaneType else register


def register_types(types: list[Type]) -> list[str]:
    """The LLVM types of scalar values and lanes."""
    return list(map(value_type, types))


def scalar(value: Value) -> ScalarType:
    """The type of a scalar value."""
    type_ = value.type
    if type(type_) is not ScalarType:
        raise QuadrantsInternalError(f"a {type_} where a lowered module has scalars only")
    return type_
