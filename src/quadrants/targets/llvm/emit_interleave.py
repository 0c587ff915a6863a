"""Private copies for lanes: 16 bytes of each lane's elements at a time, transposed in registers.

A row of a slot is one vector, an element of each lane. What is left of a run is a block that overlaps the one before;
runs shorter than a block, and elements that are no neighbours in memory, go one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from quadrants.ir.nodes import Op
from quadrants.ir.types import lane_type
from quadrants.targets.llvm.arrays import ArrayAccess
from quadrants.targets.llvm.emit_control import counted_loop
from quadrants.targets.llvm.emit_lanes import fenced
from quadrants.targets.llvm.scalars import memory_type
from quadrants.targets.llvm.writer import Writer

__all__ = ["HANDLERS"]

# Elements up to which a run is written without loops.
_STRAIGHT = 64
_BLOCK_BYTES = 16


class _Run:
    """One `interleave` (`gathers`) or `deinterleave`."""

    def __init__(self, writer: Writer, op: Op) -> None:
        slot, place, array, *indices, count = op.operands
        self.writer = writer
        self.gathers = op.kind == "interleave"
        self.slot: ArrayAccess = writer.array(slot)
        self.access: ArrayAccess = writer.array(array)
        self.lanes: int = self.slot.type.trailing[1]
        self.memory = memory_type(self.slot.type.scalar)
        self.wide = f"<{self.lanes} x {self.memory}>"
        self.place = writer.name(place)
        self.count = writer.name(count)
        self.block = _BLOCK_BYTES // self.slot.type.scalar.bytes
        trailing = self.access.type.trailing
        self.is_packed = (
            self.access.type.layout == "C"
            and len(trailing) == self.access.type.rank - op.attribute("axis") - 1
            and self.count == str(prod(trailing))
            and prod(trailing) < self.block
        )
        self.bases = self.lane_bases([writer.name(index) for index in indices], op.attribute("axis"))

    def lane_bases(self, indices: list[str], axis: int) -> list[str]:
        """The address of each lane's first element. Law: each from the one before, which takes one register for all."""
        writer, access = self.writer, self.access
        if access.type.layout == "A":
            stride = access.stride(axis)
        else:
            stride = "1"
            for size in map(access.size, range(axis + 1, access.type.rank)):
                stride = size if stride == "1" else writer.early(f"mul nsw i64 {stride}, {size}")
        bases = [access.address(indices)]
        while len(bases) < self.lanes:
            bases.append(writer.assign(f"getelementptr inbounds {self.memory}, ptr {bases[-1]}, i64 {stride}"))
        return bases

    def write(self) -> None:
        if self.access.type.layout != "A":
            self.dense()
            return
        writer = self.writer
        stride = self.access.stride(self.access.type.rank - 1)
        dense, apart, done = writer.new_label(), writer.new_label(), writer.new_label()
        writer.branch(writer.assign(f"icmp eq i64 {stride}, 1"), dense, apart, likely=True)
        writer.begin(dense)
        self.dense()
        writer.jump(done)
        writer.begin(apart)
        self.loop("0", self.count, lambda at: self.element(at, stride))
        writer.jump(done)
        writer.begin(done)

    def loop(self, low: str, high: str, body: Callable[[str], None]) -> None:
        def inside(counter: str, _: list[str]) -> list[str]:
            body(counter)
            return []

        counted_loop(self.writer, low, high, [], [], inside, lanes=1)

    # Elements of which each lane's are neighbours.

    def dense(self) -> None:
        if self.is_packed:
            self.packed(int(self.count))
        elif self.lanes % self.block or self.block == 1:
            self.loop("0", self.count, lambda at: self.element(at, "1"))
        elif self.count.isdigit():
            self.known(int(self.count))
        else:
            self.unknown()

    def packed(self, count: int) -> None:
        """All lanes' elements at once, where the records of lanes follow one another."""
        writer, lanes = self.writer, self.lanes
        whole = f"<{lanes * count} x {self.memory}>"
        if self.gathers:
            found = writer.assign(f"load {whole}, ptr {self.bases[0]}{self.access.annotations}")
            for k in range(count):
                mask = _mask(range(k, lanes * count, count))
                self.store_row("0", k, writer.assign(f"shufflevector {whole} {found}, {whole} poison, {mask}"))
            return
        rows = [self.load_row("0", k) for k in range(count)]
        joined, width = rows[0], lanes
        for row in rows[1:]:
            text = f"<{width} x {self.memory}>"
            padded = _mask([min(lane, lanes - 1) for lane in range(width)])
            other = writer.assign(f"shufflevector {self.wide} {row}, {self.wide} poison, {padded}")
            mask = _mask([*range(width), *range(width, width + lanes)])
            joined = writer.assign(f"shufflevector {text} {joined}, {text} {other}, {mask}")
            width += lanes
        mask = _mask([k * lanes + lane for lane in range(lanes) for k in range(count)])
        turned = writer.assign(f"shufflevector {whole} {joined}, {whole} poison, {mask}")
        writer.line(f"store {whole} {turned}, ptr {self.bases[0]}{self.access.annotations}")

    def known(self, count: int) -> None:
        block = self.block
        if count > _STRAIGHT:
            self.blocks(str(count // block))
        else:
            for first in range(0, count - block + 1, block):
                self.one_block(str(first))
        if count < block:
            for at in range(count):
                self.element(str(at), "1")
        elif count % block:
            self.one_block(str(count - block))

    def unknown(self) -> None:
        """The same for a count that only the run tells."""
        writer, block = self.writer, self.block
        shift = block.bit_length() - 1
        self.blocks(writer.assign(f"lshr i64 {self.count}, {shift}"))
        rest = writer.assign(f"and i64 {self.count}, {block - 1}")
        some, short, long, done = (writer.new_label() for _ in range(4))
        writer.branch(writer.assign(f"icmp ne i64 {rest}, 0"), some, done)
        writer.begin(some)
        writer.branch(writer.assign(f"icmp slt i64 {self.count}, {block}"), short, long)
        writer.begin(long)
        self.one_block(writer.assign(f"sub nsw i64 {self.count}, {block}"))
        writer.jump(done)
        writer.begin(short)
        self.loop("0", self.count, lambda at: self.element(at, "1"))
        writer.jump(done)
        writer.begin(done)

    def blocks(self, count: str) -> None:
        self.loop("0", count, lambda k: self.one_block(self.writer.assign(f"mul nsw i64 {k}, {self.block}")))

    def one_block(self, first: str) -> None:
        """A block of elements of every lane, from element `first` of the run on."""
        writer, piece = self.writer, f"<{self.block} x {self.memory}>"
        if self.gathers:
            pieces: list[str] = []
            for lane in range(self.lanes):
                address = self.element_address(lane, first, "1")
                pieces.append(writer.assign(f"load {piece}, ptr {address}{self.access.annotations}"))
            for k, row in enumerate(self.transposed([self.joined(pieces[k :: self.block]) for k in range(self.block)])):
                self.store_row(first, k, row)
            return
        columns = [self.kept(row) for row in self.transposed([self.load_row(first, k) for k in range(self.block)])]
        for lane in range(self.lanes):
            start = lane // self.block * self.block
            mask = _mask(range(start, start + self.block))
            column = columns[lane % self.block]
            own = writer.assign(f"shufflevector {self.wide} {column}, {self.wide} poison, {mask}")
            writer.line(f"store {piece} {own}, ptr {self.element_address(lane, first, '1')}{self.access.annotations}")

    def joined(self, parts: list[str]) -> str:
        """The pieces of several lanes side by side."""
        writer, width = self.writer, self.block
        while len(parts) > 1:
            text = f"<{width} x {self.memory}>"
            mask = _mask(range(2 * width))
            parts = [
                writer.assign(f"shufflevector {text} {low}, {text} {high}, {mask}")
                for low, high in zip(parts[::2], parts[1::2])
            ]
            width *= 2
        return parts[0]

    def transposed(self, rows: list[str]) -> list[str]:
        """Element i of each 16 bytes of row k becomes element k of row i. Law: interleaving row i with row i + half, log2
        times, is a transposition."""
        writer, half, block = self.writer, len(rows) // 2, self.block
        low = [start + k // 2 + (k % 2) * self.lanes for start in range(0, self.lanes, block) for k in range(block)]
        high = [k + block // 2 for k in low]
        for _ in range(block.bit_length() - 1):
            pairs = [(rows[k], rows[k + half]) for k in range(half)]
            rows = [
                writer.assign(f"shufflevector {self.wide} {one}, {self.wide} {other}, {_mask(mask)}")
                for one, other in pairs
                for mask in (low, high)
            ]
        return rows

    def kept(self, row: str) -> str:
        """A row that the code generator shall not take apart before it is transposed: that takes twice the shuffles."""
        scalar = self.slot.type.scalar
        if self.lanes == self.block or scalar.bits not in (32, 64):
            return row
        return fenced(self.writer, lane_type(scalar, self.lanes), row)

    # Rows of the slot and elements of the array.

    def row_address(self, first: str, k: int) -> str:
        writer = self.writer
        row = writer.assign(f"add nsw i64 {self.place}, {first}")
        if k:
            row = writer.assign(f"add nsw i64 {row}, {k}")
        return writer.assign(f"getelementptr inbounds {self.wide}, ptr {self.slot.data()}, i64 {row}")

    def load_row(self, first: str, k: int) -> str:
        return self.writer.assign(f"load {self.wide}, ptr {self.row_address(first, k)}{self.slot.annotations}")

    def store_row(self, first: str, k: int, row: str) -> None:
        self.writer.line(f"store {self.wide} {row}, ptr {self.row_address(first, k)}{self.slot.annotations}")

    def element_address(self, lane: int, at: str, stride: str) -> str:
        writer = self.writer
        offset = at if stride == "1" else writer.assign(f"mul nsw i64 {at}, {stride}")
        return writer.assign(f"getelementptr inbounds {self.memory}, ptr {self.bases[lane]}, i64 {offset}")

    def element(self, at: str, stride: str) -> None:
        """Element `at` of the run, of every lane."""
        writer = self.writer
        if self.gathers:
            row = "poison"
            for lane in range(self.lanes):
                address = self.element_address(lane, at, stride)
                found = writer.assign(f"load {self.memory}, ptr {address}{self.access.annotations}")
                row = writer.assign(f"insertelement {self.wide} {row}, {self.memory} {found}, i64 {lane}")
            self.store_row(at, 0, row)
            return
        row = self.load_row(at, 0)
        for lane in range(self.lanes):
            found = writer.assign(f"extractelement {self.wide} {row}, i64 {lane}")
            address = self.element_address(lane, at, stride)
            writer.line(f"store {self.memory} {found}, ptr {address}{self.access.annotations}")


def _mask(lanes: Iterable[int]) -> str:
    numbers = [f"i32 {lane}" for lane in lanes]
    return f"<{len(numbers)} x i32> <{', '.join(numbers)}>"


def _interleave(writer: Writer, op: Op) -> None:
    _Run(writer, op).write()


HANDLERS = {"interleave": _interleave, "deinterleave": _interleave}
