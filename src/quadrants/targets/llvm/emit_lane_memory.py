"""Memory accesses by lanes: one vector access where the lanes' elements are neighbours, else one access a lane.

Lanes that are off read from a constant and write to scratch memory of their own: that takes no branch.
"""

from __future__ import annotations

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import LaneType, ScalarType, i64, lane_type, lanes_of, scalar_of
from quadrants.records import MutableRecord
from quadrants.targets.llvm.arrays import from_memory, to_memory
from quadrants.targets.llvm.emit_lanes import combine_lanes, extract, fenced, insert, splat
from quadrants.targets.llvm.emit_memory import HANDLERS as SCALAR
from quadrants.targets.llvm.scalars import is_narrow_float, literal, memory_type
from quadrants.targets.llvm.writer import Writer, value_type

__all__ = ["HANDLERS"]

# Layouts whose axes are reached by their strides.
_STRIDED = ("A", "S")


class _Places(MutableRecord):
    """Where the lanes' elements are: `base` for lane 0 and `stride` elements on for each lane after it (a number, or a
    name), or a vector of pointers."""

    base: str = ""
    stride: int | str = 0
    pointers: str = ""


class _Access:
    """One access by lanes, as the handlers need it."""

    def __init__(self, writer: Writer, op: Op, values: int) -> None:
        array, *indices, mask = op.operands[values:]
        self.writer = writer
        names = ["" if type(index.type) is LaneType else writer.name(index) for index in indices]
        self.access, count = writer.array(array).reach(names)
        self.indices = indices[:count]
        self.scalar: ScalarType = self.access.type.scalar
        self.type: LaneType = lane_type(self.scalar, lanes_of(mask.type))
        self.lanes = self.type.lanes
        self.steps: tuple[int, ...] = op.attribute("steps")[:count]
        self.mask_value = mask
        owner = mask.owner
        constant = owner.attribute("value") if isinstance(owner, Op) and owner.kind == "constant" else None
        self.full = bool(constant)
        self.mask = writer.name(mask)
        self.annotations = self.access.annotations
        self.scopes = "".join(self.annotations.partition(", !")[1:])
        self.plain = not is_narrow_float(self.scalar) and self.scalar.bits > 1

    def places(self) -> _Places:
        if any(type(index.type) is LaneType for index in self.indices):
            return _Places(pointers=self._pointers())
        names = [self.writer.name(index) for index in self.indices]
        return _Places(self._base(names), self._stride())

    def _base(self, names: list[str]) -> str:
        """The address of lane 0's element, which may be out of bounds where that lane is off."""
        writer, access = self.writer, self.access
        if self.full:
            return access.address(names)
        linear: int | str = 0
        for axis, name in enumerate(names):
            if access.type.layout in _STRIDED:
                linear = _plus(writer, linear, _times(writer, access.step(axis), _number(name)))
            else:
                linear = _plus(writer, _times(writer, access.size(axis), linear) if axis else 0, _number(name))
        return writer.assign(f"getelementptr {memory_type(self.scalar)}, ptr {access.data()}, i64 {linear}")

    def _stride(self) -> int | str:
        writer, access = self.writer, self.access
        total: int | str = 0
        for axis, step in enumerate(self.steps):
            if access.type.layout in _STRIDED:
                part = _times(writer, access.step(axis), step) if step else 0
                total = _plus(writer, total, part)
            else:
                total = _plus(writer, _times(writer, access.size(axis), total) if axis else 0, step)
        return total

    def _pointers(self) -> str:
        """Addresses in 64 bits, a lane each."""
        writer, access = self.writer, self.access
        wide = lane_type(i64, self.lanes)
        text = value_type(wide)
        linear = ""
        for axis, index in enumerate(self.indices):
            own = self._index(index, self.steps[axis])
            if access.type.layout in _STRIDED:
                own = writer.assign(f"mul nsw {text} {own}, {splat(writer, wide, access.step(axis))}")
            elif linear:
                linear = writer.assign(f"mul nsw {text} {linear}, {splat(writer, wide, access.size(axis))}")
            linear = writer.assign(f"add nsw {text} {linear}, {own}") if linear else own
        return writer.assign(f"getelementptr {memory_type(self.scalar)}, ptr {access.data()}, {text} {linear}")

    def _index(self, index: Value, step: int) -> str:
        writer = self.writer
        if type(index.type) is LaneType:
            return writer.name(index)
        wide = lane_type(i64, self.lanes)
        own = splat(writer, wide, writer.name(index))
        if not step:
            return own
        offsets = ", ".join([f"i64 {step * lane}" for lane in range(self.lanes)])
        return writer.assign(f"add nsw {value_type(wide)} {own}, <{offsets}>")

    def pointer(self, places: _Places, lane: int, off: str) -> str:
        """The address of a lane's element; `off` where the lane is off."""
        writer = self.writer
        if places.pointers:
            pointer = writer.assign(f"extractelement <{self.lanes} x ptr> {places.pointers}, i64 {lane}")
        elif lane == 0 or places.stride == 0:
            pointer = places.base
        else:
            offset = _times(writer, places.stride, lane)
            pointer = writer.assign(f"getelementptr {memory_type(self.scalar)}, ptr {places.base}, i64 {offset}")
        if self.full:
            return pointer
        on = writer.assign(f"extractelement <{self.lanes} x i1> {self.mask}, i64 {lane}")
        return writer.assign(f"select i1 {on}, ptr {pointer}, ptr {off}")

    def load(self, places: _Places) -> str:
        writer, wide = self.writer, value_type(self.type)
        if places.stride == 1 and self.plain and not places.pointers:
            if self.full:
                return writer.assign(f"load {wide}, ptr {places.base}{self.annotations}")
            pointer = f"ptr align {self.scalar.bytes} {places.base}"
            return self._masked("load", wide, f"{pointer}, <{self.lanes} x i1> {self.mask}, {wide} zeroinitializer")
        if writer.program.record.fast_gather and self._is_many():
            pointers = f"<{self.lanes} x ptr> align {self.scalar.bytes} {self._all_pointers(places)}"
            return self._by_pointers("gather", wide, f"{pointers}, {self._mask()}, {wide} zeroinitializer")
        memory, zeros = memory_type(self.scalar), _zeros(writer)
        found = "poison"
        for lane in range(self.lanes):
            pointer = self.pointer(places, lane, zeros)
            value = writer.assign(f"load {memory}, ptr {pointer}{self.annotations}")
            found = insert(writer, self.type, found, from_memory(writer, self.scalar, value), lane)
        return found

    def _is_many(self) -> bool:
        """Whether one instruction for all lanes is worth it."""
        return self.plain and self.scalar.bits >= 32 and self.lanes >= 4

    def _mask(self) -> str:
        return f"<{self.lanes} x i1> {'splat (i1 true)' if self.full else self.mask}"

    def _all_pointers(self, places: _Places) -> str:
        """The lanes' addresses as a vector."""
        if places.pointers:
            return places.pointers
        writer, wide, stride = self.writer, lane_type(i64, self.lanes), places.stride
        if isinstance(stride, int):
            offsets = f"<{', '.join([f'i64 {stride * lane}' for lane in range(self.lanes)])}>"
        else:
            lanes = f"<{', '.join([f'i64 {lane}' for lane in range(self.lanes)])}>"
            offsets = writer.assign(f"mul nsw {value_type(wide)} {splat(writer, wide, stride)}, {lanes}")
        return writer.assign(
            f"getelementptr {memory_type(self.scalar)}, ptr {places.base}, {value_type(wide)} {offsets}"
        )

    def _by_pointers(self, kind: str, result: str, arguments: str) -> str:
        """A hardware gather or scatter. Law: of lanes that write one element, the last one's number stays."""
        return self._intrinsic(kind, f"<{self.lanes} x ptr>", f".v{self.lanes}p0", result, arguments)

    def _masked(self, kind: str, result: str, arguments: str) -> str:
        return self._intrinsic(kind, "ptr", ".p0", result, arguments)

    def _intrinsic(self, kind: str, pointer: str, places: str, result: str, arguments: str) -> str:
        """A call of one of LLVM's accesses under a mask; those that give `void` take the number first."""
        writer, wide = self.writer, value_type(self.type)
        number = f"v{self.lanes}{'f' if self.scalar.is_float else 'i'}{self.scalar.bits}"
        symbol = f"llvm.masked.{kind}.{number}{places}"
        mask = f"<{self.lanes} x i1>"
        parameters = f"{wide}, {pointer}, {mask}" if result == "void" else f"{pointer}, {mask}, {wide}"
        writer.unit.declare(symbol, f"declare {result} @{symbol}({parameters})")
        text = f"call {result} @{symbol}({arguments}){self.scopes}"
        if result != "void":
            return writer.assign(text)
        writer.line(text)
        return ""

    def store(self, places: _Places, name: str) -> None:
        writer, wide = self.writer, value_type(self.type)
        if places.stride == 1 and self.plain and not places.pointers:
            if self.full:
                writer.line(f"store {wide} {name}, ptr {places.base}{self.annotations}")
            else:
                pointer = f"ptr align {self.scalar.bytes} {places.base}"
                self._masked("store", "void", f"{wide} {name}, {pointer}, <{self.lanes} x i1> {self.mask}")
            return
        if writer.program.record.native_scatter and self._is_many():
            pointers = f"<{self.lanes} x ptr> align {self.scalar.bytes} {self._all_pointers(places)}"
            self._by_pointers("scatter", "void", f"{wide} {name}, {pointers}, {self._mask()}")
            return
        memory = memory_type(self.scalar)
        scratch = "" if self.full else writer.early(f"alloca {memory}, align {self.scalar.bytes}")
        for lane in range(self.lanes):
            value = writer.assign(f"extractelement {wide} {name}, i64 {lane}")
            stored = to_memory(writer, self.scalar, value)
            writer.line(f"store {memory} {stored}, ptr {self.pointer(places, lane, scratch)}{self.annotations}")


def _number(name: str) -> int | str:
    """A name, or the number that it spells."""
    return int(name) if name.lstrip("-").isdigit() else name


def _times(writer: Writer, left: int | str, right: int | str) -> int | str:
    left = _number(left) if isinstance(left, str) else left
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if left == 0 or right == 0:
        return 0
    return writer.assign(f"mul nsw i64 {left}, {right}") if left != 1 and right != 1 else (right if left == 1 else left)


def _plus(writer: Writer, left: int | str, right: int | str) -> int | str:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if left == 0 or right == 0:
        return right if left == 0 else left
    return writer.assign(f"add nsw i64 {left}, {right}")


def _zeros(writer: Writer) -> str:
    writer.unit.declare("qd.zeros", "@qd.zeros = private unnamed_addr constant [8 x i8] zeroinitializer, align 8")
    return "@qd.zeros"


def _load(writer: Writer, op: Op) -> None:
    access = _Access(writer, op, 0)
    writer.names[op.results[0]] = access.load(access.places())


def _store(writer: Writer, op: Op) -> None:
    access = _Access(writer, op, 1)
    value = op.operands[0]
    name = writer.name(value)
    if access.full and access.scalar.bits in (32, 64) and isinstance(value.owner, Op) and value.owner.kind == "select":
        name = fenced(
            writer, access.type, name
        )  # else blends become masked stores, which are slow, and hide from loads
    access.store(access.places(), name)


def _is_atomic(writer: Writer, op: Op, access: _Access) -> bool:
    by, array = op.attribute("by"), op.operands[1]
    if by == "add" and array in writer.plain_updates:
        return False
    return bool(writer.atomic_needed and op.attribute("atomic", True) and not access.access.type.is_slot)


def _update(writer: Writer, op: Op) -> None:
    """Lanes that reach different elements, which no thread shares, are one vector; others update in turn."""
    access = _Access(writer, op, 1)
    if access.plain and not _is_atomic(writer, op, access):
        apart = not any(type(index.type) is LaneType for index in access.indices)
        places = access.places() if apart else _Places()
        if isinstance(places.stride, int) and places.stride:
            name = writer.name(op.operands[0])
            old = writer.names[op.results[0]] = access.load(places)
            by = op.attribute("by")
            access.store(places, name if by == "exchange" else combine_lanes(writer, by, access.type, old, name))
            return
    writer.names[op.results[0]] = _in_turn(writer, op, access)


def _in_turn(writer: Writer, op: Op, access: _Access) -> str:
    value, array, *indices, _ = op.operands
    attributes = {key: found for key, found in (op.attributes or {}).items() if key != "steps"}
    olds, bits = "poison", ""
    if not access.full:
        bits = writer.assign(f"bitcast <{access.lanes} x i1> {access.mask} to i{access.lanes}")
    for lane in range(access.lanes):
        start, after = writer.label, ""
        if not access.full:
            inside, after = writer.new_label(), writer.new_label()
            bit = writer.assign(f"and i{access.lanes} {bits}, {1 << lane if lane + 1 < access.lanes else -(1 << lane)}")
            on = writer.assign(f"icmp ne i{access.lanes} {bit}, 0")
            writer.branch(on, inside, after)
            writer.begin(inside)
        operands = [_bound(writer, scalar_of(value.type), extract(writer, value, lane)), array]
        operands += [_lane_index(writer, index, step, lane) for index, step in zip(indices, op.attribute("steps"))]
        one = Op("update", tuple(operands), (access.scalar,), attributes, location=op.location)
        SCALAR["update"](writer, one)
        old = writer.names[one.results[0]]
        if after:
            end = writer.label
            writer.jump(after)
            writer.begin(after)
            zero = literal(access.scalar, 0)
            old = writer.phi(_register(access), [(old, end), (zero, start)])
        olds = insert(writer, access.type, olds, old, lane)
    return olds


def _register(access: _Access) -> str:
    return value_type(access.scalar)


def _bound(writer: Writer, scalar: ScalarType, name: str) -> Value:
    value = Value(scalar)
    writer.names[value] = name
    return value


def _lane_index(writer: Writer, index: Value, step: int, lane: int) -> Value:
    if type(index.type) is LaneType:
        return _bound(writer, i64, extract(writer, index, lane))
    if not step or not lane:
        return index
    return _bound(writer, i64, writer.assign(f"add nsw i64 {writer.name(index)}, {step * lane}"))


HANDLERS = {"lane_load": _load, "lane_store": _store, "lane_update": _update}
