"""`wgmma`: the 128 threads of a warpgroup multiply matrices in shared memory while they go on, as NVIDIA's description of PTX says.

A descriptor is read here bit by bit, with nothing of what wrote it: bits 0-13 where the matrix starts, 16-29 the leading and
32-45 the stride dimension's offset, all in units of 16 bytes; 49-51 the base offset, 62-63 how bytes are swizzled. Matrices that are
not swizzled consist of core matrices, 8 lines of 16 bytes, one behind the other. Along the depth (K-major) a line holds what is at
one row and at neighbouring depths, the leading offset leads from a core matrix to the next one in the depth, and the stride offset to the next
8 rows; along the rows (MN-major, 16 bits only) a line holds one depth of neighbouring rows, and the offsets lead to the next 8 depths and to the next line's rows.

Laws. All 128 threads are at the instruction, with the same descriptors. What it reads was written by threads that passed
`fence.proxy.async` afterwards, and then a barrier. Until `wait_group` nobody writes it, and other warpgroups' threads not before the next
barrier. Products are exact, and their sum with what there was is rounded once. What becomes of registers is looked at in `in_flight.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.evidence.ptx.memory import Memory, MemoryFault, Piece

__all__ = ["GROUP", "WARPGROUPS", "AsyncShared", "WarpgroupError"]

Array = Any
GROUP = 128
ROWS = 64
_LINE = 16
_WIDTHS = {"f16": 2, "bf16": 2, "tf32": 4}


class WarpgroupError(MemoryFault):
    """A matrix that is not what the instruction asks for, or memory that is not ready to be read or written."""


_UNWRITTEN, _WRITTEN, _FENCED, _READY = range(4)


class AsyncShared:
    """What is known of each byte of a block's shared memory: whether it was written, and seen by all (`state`), by whom
    (`writer`), how many products in flight read it (`reading`), and which warpgroups read it since the last barrier (`readers`)."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces = sorted(pieces, key=lambda piece: piece.address)
        self._starts = np.array([piece.address for piece in pieces], np.int64)
        self._ends = np.array([piece.address + piece.size for piece in pieces], np.int64)
        self._offsets = np.cumsum([0, *[piece.size for piece in pieces]])[:-1]
        total = sum(piece.size for piece in pieces)
        self.state = np.zeros(total, np.uint8)
        self.writer = np.zeros(total, np.int32)
        self.reading = np.zeros(total, np.int32)
        self.readers = np.zeros(total, np.int64)
        self._open: dict[int, list[Array]] = {}
        self._committed: dict[int, list[list[Array]]] = {}

    def _bytes(self, addresses: Array, width: int) -> tuple[Array, Array]:
        """(which addresses are of shared memory, their bytes' places, a row for each)."""
        addresses = np.asarray(addresses).astype(np.int64)
        if not self.pieces:
            return np.zeros(addresses.shape, np.bool_), np.zeros((0, width), np.int64)
        number = np.searchsorted(self._starts, addresses, "right") - 1
        there = (number >= 0) & (addresses + width <= self._ends[number])
        first = addresses[there] - self._starts[number[there]] + self._offsets[number[there]]
        return there, first[:, None] + np.arange(width)

    def wrote(self, addresses: Array, width: int, threads: Array) -> None:
        """Threads write elements."""
        there, places = self._bytes(addresses, width)
        if not len(places):
            return
        owners = np.broadcast_to(threads, there.shape)[there].astype(np.int64)
        if self.reading[places].any():
            raise WarpgroupError("shared memory is written that products in flight read")
        if (self.readers[places] & ~(np.int64(1) << owners // GROUP)[:, None]).any():
            raise WarpgroupError("shared memory is written that another warpgroup read, with no barrier in between")
        self.state[places] = _WRITTEN
        self.writer[places] = owners[:, None]

    def fenced(self, threads: Array) -> None:
        """Threads make what they wrote known to products."""
        written = np.flatnonzero(self.state == _WRITTEN)
        self.state[written[np.isin(self.writer[written], threads)]] = _FENCED

    def met(self) -> None:
        """The block's threads have met at a barrier."""
        self.state[self.state == _FENCED] = _READY
        self.readers[self.reading == 0] = 0

    def reads(self, addresses: Array, group: int) -> None:
        """A product of a warpgroup reads lines."""
        there, places = self._bytes(addresses, _LINE)
        if not there.all():
            raise WarpgroupError("a matrix lies outside of shared memory")
        states = self.state[places]
        if (states != _READY).any():
            lacks = ("is not written", "is written without fence.proxy.async", "is fenced without a barrier")
            raise WarpgroupError(f"a product reads shared memory that {lacks[int(states[states != _READY].min())]}")
        places = np.unique(places)
        self.reading[places] += 1
        self.readers[places] |= 1 << group
        self._open.setdefault(group, []).append(places)

    def committed(self, groups: Array) -> None:
        for group in groups.tolist():
            self._committed.setdefault(group, []).append(self._open.pop(group, []))

    def waited(self, groups: Array, left: int) -> None:
        """All but the last `left` groups of products are done."""
        for group in groups.tolist():
            waiting = self._committed.get(group, [])
            done = waiting[: len(waiting) - left] if left else waiting
            self._committed[group] = waiting[len(done) :]
            for places in [places for one in done for places in one]:
                self.reading[places] -= 1


def groups_of(threads: Array) -> Array:
    """The warpgroups of threads, which are there as a whole."""
    groups, counts = np.unique(threads // GROUP, return_counts=True)
    if (counts != GROUP).any():
        raise WarpgroupError("threads of a warpgroup are not at the instruction")
    return groups


def _of_all(values: Array, threads: Array) -> int:
    found = np.unique(np.broadcast_to(values, threads.shape))
    if len(found) != 1:
        raise WarpgroupError("the threads of a warpgroup have different descriptors")
    return int(found[0])


def _start(shared: AsyncShared, bits: int) -> int:
    """The address whose bits 4 to 17 are these: shared memory is a part of all memory here."""
    found = []
    for piece in shared.pieces:
        at = piece.address + ((bits - piece.address) & 0x3FFFF)
        if at < piece.address + piece.size:
            found.append(at)
    if len(found) != 1:
        raise WarpgroupError(f"a matrix starts at {bits:#x}, where there is no shared memory")
    return found[0]


def _lines(shared: AsyncShared, bits: int, rows: int, width: int, across: bool) -> tuple[Array, Array]:
    """(addresses of lines of 16 bytes, by core matrix and line: where the elements of a matrix are, by row and depth)."""
    if bits >> 62 & 3:
        raise WarpgroupError(f"a matrix is swizzled (mode {bits >> 62 & 3}), which is not played")
    if bits & ~0xC00E3FFF3FFF3FFF:
        raise WarpgroupError(f"a descriptor has bits that are reserved: {bits:#018x}")
    start = _start(shared, (bits & 0x3FFF) << 4)
    leading, stride = (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4
    of_line = _LINE // width
    row, depth = np.meshgrid(np.arange(rows), np.arange(2 * of_line if width == 4 else 16), indexing="ij")
    if across:
        lines = row // of_line * stride + depth // 8 * leading + depth % 8 * _LINE
        within = row % of_line * width
    else:
        lines = row // 8 * stride + row % 8 * _LINE + depth // of_line * leading
        within = depth % of_line * width
    lines = lines + start
    return np.unique(lines), lines + within


def _numbers(memory: Memory, addresses: Array, kind: str) -> Array:
    bits = memory.load(addresses.ravel().astype(np.uint64), _WIDTHS[kind]).reshape(addresses.shape)
    if kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    words = bits.astype(np.uint32) << 16 if kind == "bf16" else bits & np.uint32(0xFFFFE000)
    return words.view(np.float32).astype(np.float64)


def multiply_shared(
    memory: Memory,
    shared: AsyncShared,
    form: tuple[str, int, bool, bool],
    sums: list[Array],
    operands: tuple[Array, Array, Array],
    threads: Array,
) -> list[Array]:
    """The sums of each thread, bits of f32. `form`: the kind of factors, columns, whether the left and the right one lie across;
    `operands`: two descriptors, and whether there are sums already."""
    kind, columns, *across = form
    before = np.array([np.broadcast_to(value, threads.shape) for value in sums], np.uint32)
    found = before.copy()
    for group in groups_of(threads).tolist():
        own = np.flatnonzero(threads // GROUP == group)
        own = own[np.argsort(threads[own])]
        left, right = (
            _matrix(memory, shared, _of_all(np.broadcast_to(bits, threads.shape)[own], own), rows, kind, turned, group)
            for bits, rows, turned in zip(operands, (ROWS, columns), across)
        )
        adds = bool(_of_all(np.broadcast_to(operands[2], threads.shape)[own], own))
        rows_of, columns_of = _places(columns)
        matrix = np.zeros((ROWS, columns))
        if adds:
            matrix[rows_of, columns_of] = before[:, own].view(np.float32)
        with np.errstate(all="ignore"):
            total = (left @ right.T + matrix).astype(np.float32)
        found[:, own] = total[rows_of, columns_of].view(np.uint32)
    return list(found)


def _matrix(
    memory: Memory, shared: AsyncShared, bits: int, rows: int, kind: str, across: bool, group: int
) -> np.ndarray[Any, Any]:
    if across and kind == "tf32":
        raise WarpgroupError("factors of tf32 lie along the depth")
    lines, elements = _lines(shared, bits, rows, _WIDTHS[kind], across)
    shared.reads(lines, group)
    return _numbers(memory, elements, kind)


def _places(columns: int) -> tuple[Array, Array]:
    """(row, column) of each register of sums, by register and thread."""
    thread, register = np.arange(GROUP), np.arange(columns // 2)[:, None]
    lane = thread % 32
    rows = thread // 32 * 16 + lane // 4 + register // 2 % 2 * 8
    return rows, register // 4 * 8 + lane % 4 * 2 + register % 2


WARPGROUPS = {"multiply_shared": multiply_shared, "groups_of": groups_of}
