"""Access to one array in one LLVM function: its descriptor's fields, read once, and the addresses of its elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.types import ArrayType, ScalarType, array_type
from quadrants.targets.llvm.scalars import memory_type, register_type

if TYPE_CHECKING:
    from quadrants.targets.llvm.writer import AliasScope, Writer

__all__ = ["ArrayAccess"]


class ArrayAccess:
    """An array value: `pointer` is its descriptor, for a slot and memory of a block its memory.

    Descriptor fields do not change while the function runs: they are read in the prologue, marked invariant.
    `annotations` follow every access: alignment and alias scopes. `is_constant`: nobody writes the elements while the code runs.
    """

    __slots__ = (
        "_data",
        "_planes",
        "_sizes",
        "_strides",
        "_writer",
        "annotations",
        "is_constant",
        "pointer",
        "scope",
        "type",
    )

    def __init__(self, writer: Writer, type_: ArrayType, pointer: str, scope: AliasScope | None = None) -> None:
        self._writer = writer
        self.type = type_
        self.pointer = pointer
        self.scope = scope
        facts = writer.slot_scope() if scope is None else scope.annotations
        self.annotations = f", align {type_.scalar.bytes}{facts}"
        self.is_constant = False
        self._data = "" if type_.has_descriptor else pointer
        self._sizes: dict[int, str] = {}
        self._strides: dict[int, str] = {}
        self._planes: dict[int, ArrayAccess] = {}

    def data(self) -> str:
        """The pointer to element 0."""
        if not self._data:
            writer = self._writer
            align = writer.unit.shared_metadata(f"!{{i64 {self.type.scalar.bytes}}}")
            self._data = writer.early(
                f"load ptr, ptr {self.pointer}, align 8, !invariant.load !0, !nonnull !0, !noundef !0, !align !{align}"
            )
        return self._data

    def size(self, axis: int) -> str:
        """The size of an axis, an i64."""
        type_ = self.type
        static = axis - (type_.rank - len(type_.trailing))
        if static >= 0:
            return str(type_.trailing[static])
        found = self._sizes.get(axis)
        if found is None:
            found = self._sizes[axis] = self._field(1 + axis, ", !range !1")
        return found

    def know_sizes(self, sizes: list[str]) -> None:
        """The sizes of the axes, where they need not be read from the descriptor."""
        self._sizes.update(enumerate(sizes))

    def stride(self, axis: int) -> str:
        """The stride of an axis in elements, an i64; of an aligned array it is whole wherever it matters."""
        found = self._strides.get(axis)
        if found is None:
            found = self._field(1 + self.type.rank + axis, "")
            shift = self.type.scalar.bytes.bit_length() - 1
            if shift:
                found = self._writer.early(f"ashr i64 {found}, {shift}")
            self._strides[axis] = found
        return found

    def _field(self, word: int, facts: str) -> str:
        writer = self._writer
        address = writer.early(f"getelementptr inbounds i64, ptr {self.pointer}, i64 {word}")
        return writer.early(f"load i64, ptr {address}, align 8, !invariant.load !0, !noundef !0{facts}")

    def reach(self, indices: list[str]) -> tuple[ArrayAccess, int]:
        """The array through which an element is reached, and how many of the indices lead there: of an array of planes
        whose component the code names, the plane."""
        type_ = self.type
        batch = type_.rank - len(type_.trailing)
        if type_.layout != "S" or not all(map(str.isdecimal, indices[batch:])):
            return self, type_.rank
        component = 0
        for size, index in zip(type_.trailing, indices[batch:]):
            component = component * size + int(index)
        return self._plane(component), batch

    def _plane(self, component: int) -> ArrayAccess:
        found = self._planes.get(component)
        if found is None:
            writer, type_ = self._writer, self.type
            plane = array_type(type_.scalar, type_.rank - len(type_.trailing))
            scope = writer.alias_scope(self.scope)
            found = self._planes[component] = ArrayAccess(writer, plane, self.pointer, scope)
            found._data, found.is_constant = self.data(), self.is_constant
            if component:
                step = writer.early(f"mul nsw i64 {self.stride(type_.rank - 1)}, {component}")
                memory = memory_type(type_.scalar)
                found._data = writer.early(f"getelementptr inbounds {memory}, ptr {found._data}, i64 {step}")
        return found

    def step(self, axis: int) -> str:
        """How many elements apart neighbours along an axis are, for any layout; an i64."""
        type_ = self.type
        batch = type_.rank - len(type_.trailing)
        if type_.layout == "A" or (type_.layout == "S" and axis >= batch):
            return self.stride(axis)
        total, last = "1", batch if type_.layout == "S" else type_.rank
        for later in range(axis + 1, last):
            size = self.size(later)
            total = size if total == "1" else self._writer.early(f"mul nsw i64 {total}, {size}")
        return total

    def lines_aligned(self, size: int) -> str:
        """Whether neighbours along the last axis lie side by side, and their lines start at multiples of so many bytes."""
        writer, type_ = self._writer, self.type
        bits = writer.assign(f"ptrtoint ptr {self.data()} to i64")
        for axis in range(type_.rank - 1):
            step = writer.assign(f"mul i64 {self.step(axis)}, {type_.scalar.bytes}")
            bits = writer.assign(f"or i64 {bits}, {step}")
        found = writer.assign(f"icmp eq i64 {writer.assign(f'and i64 {bits}, {size - 1}')}, 0")
        side_by_side = writer.assign(f"icmp eq i64 {self.step(type_.rank - 1)}, 1")
        return writer.assign(f"and i1 {found}, {side_by_side}")

    def address(self, indices: list[str]) -> str:
        """The pointer to the element at the indices (i64, one an axis)."""
        writer, type_ = self._writer, self.type
        if len(indices) != type_.rank:
            raise QuadrantsInternalError(f"{len(indices)} indices into {type_} in a lowered module")
        data = self.data()
        if type_.layout in ("A", "S"):
            return self._strided(data, indices)
        if not indices:
            return data
        linear = indices[0]
        for axis in range(1, len(indices)):
            size = self.size(axis)
            row = linear if linear == "0" else writer.assign(f"mul nsw i64 {linear}, {size}")
            linear = indices[axis] if row == "0" else writer.assign(f"add nsw i64 {row}, {indices[axis]}")
        if linear == "0":
            return data
        return writer.assign(f"getelementptr inbounds {memory_type(type_.scalar)}, ptr {data}, i64 {linear}")

    def _strided(self, data: str, indices: list[str]) -> str:
        """Offsets in elements: LLVM's vectoriser tries a stride of one element of its own accord."""
        writer, address = self._writer, data
        for axis, index in enumerate(indices):
            if index != "0":
                step = self.step(axis)
                offset = index if step == "1" else writer.assign(f"mul nsw i64 {index}, {step}")
                memory = memory_type(self.type.scalar)
                address = writer.assign(f"getelementptr inbounds {memory}, ptr {address}, i64 {offset}")
        return address

    def load(self, indices: list[str], aligned: int = 0) -> str:
        """Reads an element; gives the value's name. `aligned`: the bytes that its address is a multiple of, if more than its
        own."""
        access, count = self.reach(indices)
        address = access.address(indices[:count])
        text = f"load {memory_type(self.type.scalar)}, ptr {address}{access.noted(aligned)}"
        if access.is_constant:
            text += ", !invariant.load !0"
        return from_memory(self._writer, self.type.scalar, self._writer.assign(text))

    def noted(self, aligned: int) -> str:
        """What follows an access whose address is a multiple of so many bytes, if of more than its own."""
        size = self.type.scalar.bytes
        return self.annotations.replace(f", align {size}", f", align {max(aligned, size)}", 1)

    def store(self, value: str, indices: list[str], aligned: int = 0) -> None:
        """Writes an element; `aligned` as for `load`."""
        access, count = self.reach(indices)
        address = access.address(indices[:count])
        stored = to_memory(self._writer, self.type.scalar, value)
        self._writer.line(f"store {memory_type(self.type.scalar)} {stored}, ptr {address}{access.noted(aligned)}")


def from_memory(writer: Writer, scalar: ScalarType, loaded: str) -> str:
    """The value whose form in memory is `loaded`."""
    name = scalar.name
    if name == "u1":
        return writer.assign(f"icmp ne i8 {loaded}, 0")
    if name == "f16":
        return writer.assign(f"fpext half {loaded} to float")
    if name == "bf16":
        wide = writer.assign(f"zext i16 {loaded} to i32")
        bits = writer.assign(f"shl nuw i32 {wide}, 16")
        return writer.assign(f"bitcast i32 {bits} to float")
    return loaded


def to_memory(writer: Writer, scalar: ScalarType, value: str) -> str:
    """The form of a value in memory."""
    name = scalar.name
    if name == "u1":
        return writer.assign(f"zext i1 {value} to i8")
    if name == "f16":
        return writer.assign(f"fptrunc float {value} to half")
    if name == "bf16":
        bits = writer.assign(f"bitcast float {value} to i32")
        high = writer.assign(f"lshr i32 {bits}, 16")
        return writer.assign(f"trunc i32 {high} to i16")
    return value


def to_word(writer: Writer, scalar: ScalarType, value: str) -> str:
    """A value as an i64: integers extended by their sign, floats as the bits of the f64 that equals them."""
    if scalar.is_float:
        wide = value if scalar.bits == 64 else writer.assign(f"fpext float {value} to double")
        return writer.assign(f"bitcast double {wide} to i64")
    if scalar.bits == 64:
        return value
    extend = "sext" if scalar.is_signed else "zext"
    return writer.assign(f"{extend} {register_type(scalar)} {value} to i64")


def store_word(writer: Writer, base: str, index: int, word: str, llvm_type: str = "i64") -> None:
    """Stores into the 64-bit word `index` of a block of words."""
    address = word_address(writer, base, index)
    writer.line(f"store {llvm_type} {word}, ptr {address}, align 8")


def word_address(writer: Writer, base: str, index: int) -> str:
    """The pointer to the 64-bit word `index` of a block of words."""
    return base if index == 0 else writer.assign(f"getelementptr inbounds i64, ptr {base}, i64 {index}")
