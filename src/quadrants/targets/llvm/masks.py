"""Truth values of lanes where the processor has no registers for them: a mask is then a vector of numbers, its signs.

Law: LLVM carries `<8 x i1>` from block to block as 16-bit numbers, and packs and unpacks them on the way; what it finds
to be an extended `i1` it takes for one. So a mask that is used in other blocks than its own is carried as numbers behind
a fence, and in each block that uses it compared anew, behind a barrier that no pass sees through. Neither costs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import LaneType, Type, u1

if TYPE_CHECKING:
    from quadrants.targets.llvm.writer import Writer

__all__ = ["Masks", "is_mask"]

_ON_NUMBERS = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}
_WIDEST = 256  # bits that a barrier takes at once, where vectors are so wide


def is_mask(type_: Type) -> bool:
    """Whether values of a type are truth values of lanes."""
    return type(type_) is LaneType and type_.scalar is u1


class _Mask:
    """One mask: the names of its truth values by the block where they were made, and of its numbers once they are asked
    for; `place`: the line kept for these, `first`: the truth values there; `home`: the block that computed the numbers."""

    __slots__ = ("first", "home", "lanes", "numbers", "place", "tests")

    def __init__(self, lanes: int, first: str, place: int, numbers: str) -> None:
        self.lanes = lanes
        self.first = first
        self.place = place
        self.numbers = numbers
        self.home = ""
        self.tests: dict[str, str] = {}


class Masks:
    """The masks of one function."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._masks: dict[Value, _Mask] = {}

    def bits(self, lanes: int) -> int:
        """The width of a mask's numbers."""
        return 64 if lanes * 64 <= self._writer.program.record.vector_bits else 32

    @property
    def _most_bits(self) -> int:
        """Bits that a barrier takes at once: LLVM gives up on what fits in no register."""
        return min(_WIDEST, self._writer.program.record.maximum_vector_bits)

    def type(self, lanes: int) -> str:
        """The LLVM type of a mask's numbers."""
        return f"<{lanes} x i{self.bits(lanes)}>"

    def made(self, value: Value) -> None:
        """Notes that the last line has computed a mask."""
        if value not in self._masks:
            writer = self._writer
            mask = self._masks[value] = _Mask(_lanes(value), writer.names[value], writer.reserve(), "")
            mask.tests[writer.label] = mask.first

    def arrived(self, value: Value, numbers: str) -> None:
        """Notes that a mask has come along an edge as numbers."""
        self._masks[value] = _Mask(_lanes(value), "", -1, numbers)

    def combined(self, op: Op) -> bool:
        """Writes an operation on masks, or one that makes a mask of a truth value, on numbers, if there is a way."""
        writer, value = self._writer, op.results[0]
        wide = self.type(_lanes(value))
        if op.kind in _ON_NUMBERS:
            left, right = map(self.along, op.operands)
            numbers = writer.assign(f"{_ON_NUMBERS[op.kind]} {wide} {left}, {right}")
        elif op.kind == "bit_not":
            numbers = writer.assign(f"xor {wide} {self.along(op.operands[0])}, splat (i{self.bits(_lanes(value))} -1)")
        elif op.kind == "select":
            yes, no = map(self.along, op.operands[1:])
            numbers = writer.assign(f"select {writer.typed(op.operands[0])}, {wide} {yes}, {wide} {no}")
        elif op.kind == "broadcast":
            bits = self.bits(_lanes(value))
            number = writer.assign(f"sext i1 {writer.name(op.operands[0])} to i{bits}")
            first = writer.assign(f"insertelement {wide} poison, i{bits} {number}, i64 0")
            zeros = f"<{_lanes(value)} x i32> zeroinitializer"
            numbers = writer.assign(f"shufflevector {wide} {first}, {wide} poison, {zeros}")
        else:
            return False
        self.arrived(value, numbers)
        self._masks[value].home = writer.label
        return True

    def test(self, value: Value, kind: str) -> str:
        """Whether some lane of a mask is on (`or`), or all are (`and`)."""
        writer, numbers, lanes = self._writer, self.along(value), _lanes(value)
        bits = self.bits(lanes)
        numbers = self._behind_barrier(numbers, lanes)
        while lanes * bits > self._most_bits:
            halves = self._halves(numbers, lanes)
            lanes //= 2
            numbers = writer.assign(f"{kind} <{lanes} x i{bits}> {halves[0]}, {halves[1]}")
        on = writer.assign(f"icmp slt <{lanes} x i{bits}> {numbers}, zeroinitializer")
        word = writer.assign(f"bitcast <{lanes} x i1> {on} to i{lanes}")
        return writer.assign(f"icmp {'ne' if kind == 'or' else 'eq'} i{lanes} {word}, {0 if kind == 'or' else -1}")

    def _halves(self, numbers: str, lanes: int) -> list[str]:
        text, half = f"<{lanes} x i{self.bits(lanes)}>", lanes // 2
        return [
            self._writer.assign(f"shufflevector {text} {numbers}, {text} poison, {_places(start, half)}")
            for start in (0, half)
        ]

    def along(self, value: Value) -> str:
        """A mask as numbers."""
        mask = self._masks.get(value)
        if mask is not None:
            return self._numbers(mask)
        owner = value.owner
        if isinstance(owner, Op) and owner.kind == "constant":
            bits = self.bits(_lanes(value))
            return f"splat (i{bits} {-1 if owner.attribute('value') else 0})"
        lanes = _lanes(value)
        return self._writer.assign(f"sext <{lanes} x i1> {self._writer.names[value]} to {self.type(lanes)}")

    def _numbers(self, mask: _Mask) -> str:
        if not mask.numbers:
            writer, lanes, bits = self._writer, mask.lanes, self.bits(mask.lanes)
            integers, floats = f"<{lanes} x i{bits}>", f"<{lanes} x {'double' if bits == 64 else 'float'}>"
            symbol = f"llvm.arithmetic.fence.v{lanes}f{bits}"
            writer.unit.declare(symbol, f"declare {floats} @{symbol}({floats})")
            wide, turned, fenced, numbers = (writer.fresh() for _ in range(4))
            writer.lines[mask.place] = (
                f"  {wide} = sext <{lanes} x i1> {mask.first} to {integers}\n"
                f"  {turned} = bitcast {integers} {wide} to {floats}\n"
                f"  {fenced} = call {floats} @{symbol}({floats} {turned})\n"
                f"  {numbers} = bitcast {floats} {fenced} to {integers}"
            )
            mask.numbers = numbers
        return mask.numbers

    def name(self, value: Value) -> str | None:
        """The truth values of a mask in the current block; None for one that is a constant."""
        mask = self._masks.get(value)
        if mask is None:
            return None
        found = mask.tests.get(self._writer.label)
        if found is None:
            numbers = self._numbers(mask)
            behind = numbers if mask.home == self._writer.label else self._behind_barrier(numbers, mask.lanes)
            text = f"icmp slt {self.type(mask.lanes)} {behind}, zeroinitializer"
            found = mask.tests[self._writer.label] = self._writer.assign(text)
        return found

    def _behind_barrier(self, numbers: str, lanes: int) -> str:
        """Numbers that no pass knows anything of."""
        writer, bits = self._writer, self.bits(lanes)
        text = f"<{lanes} x i{bits}>"
        letter = writer.program.record.vector_constraint
        if lanes * bits <= self._most_bits:
            return writer.assign(
                f'call {text} asm sideeffect "", "={letter},0"({text} {numbers}) '
                "memory(inaccessiblemem: readwrite) nounwind"
            )
        half = lanes // 2
        low, high = [self._behind_barrier(part, half) for part in self._halves(numbers, lanes)]
        own = f"<{half} x i{bits}>"
        return writer.assign(f"shufflevector {own} {low}, {own} {high}, {_places(0, lanes)}")


def _places(start: int, count: int) -> str:
    return f"<{count} x i32> <{', '.join([f'i32 {start + k}' for k in range(count)])}>"


def _lanes(value: Value) -> int:
    assert type(value.type) is LaneType
    return value.type.lanes
