"""What a kernel's compiled form expects of a call, and its packing into the tables that a launch walks.

A frame is a block of bytes, on 16 bytes at least, passed to `i32 entry(ptr frame)`. An array's descriptor in it is
{ ptr data; i64 shape[rank]; i64 strides_in_bytes[rank] }.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CellType
from typing import Any, TypeAlias

import numpy as np

from quadrants.records import Record
from quadrants.runtime.launch_probe import dtype_word, slot_offset
from quadrants.runtime.launch_records import (
    LARGEST_EXACT,
    ArgumentRecord,
    BlockRecord,
    GuardGroup,
    GuardRecord,
    MemberRecord,
    OrderRecord,
    WordGuard,
)

__all__ = [
    "ABSENT",
    "MEMORY",
    "ArgumentSpec",
    "ArrayArgument",
    "Binding",
    "BooleanArgument",
    "CellGuard",
    "ConvertedArgument",
    "FloatArgument",
    "ForeignArgument",
    "Guard",
    "IdentityArgument",
    "IntegerArgument",
    "Member",
    "Order",
    "ResultSpec",
    "ScalarArgument",
    "StorageArgument",
    "TupleArgument",
    "Watch",
    "WordsGuard",
]

_ALIGNED, _CONTIGUOUS, _WRITEABLE = 0x100, 0x1, 0x400  # NumPy's flags of arrays
_LARGEST_STACK_FRAME = 64 << 10
LONG_RUN_CYCLES = 2_400_000
"""Cycles from which on other Python threads are worth letting run: about a millisecond."""


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""As what a `Guard` expects: the name must not be in the dictionary."""


class ArrayArgument(Record):
    """A NumPy array (not of a subclass) of one native dtype and rank, aligned; its descriptor goes to `offset`.

    `sizes` are (axis, size) pairs that the shape must have; `contiguous` demands C order; a `written` array must be
    writeable and must not share memory with any other argument. One that is `copied` is put where the kernel reaches it by Python,
    which runs the entry then.
    """

    offset: int
    dtype: np.dtype
    rank: int
    contiguous: bool = False
    written: bool = False
    sizes: tuple[tuple[int, int], ...] = ()
    copied: bool = False


class FloatArgument(Record):
    """A Python float, stored as f64 or f32; a Python int of at most 53 bits too if `integers_too`."""

    offset: int
    bits: int = 64
    integers_too: bool = False


class IntegerArgument(Record):
    """A Python int (not a bool) within the range of its slot, or within `low` and `high` if these are given."""

    offset: int
    bits: int = 64
    signed: bool = True
    low: int | None = None
    high: int | None = None


class BooleanArgument(Record):
    """True or False, stored as a byte."""

    offset: int


class ScalarArgument(Record):
    """A NumPy scalar of exactly this type, such as `np.float32`, stored with its own width."""

    offset: int
    type: type[np.generic]


class ConvertedArgument(Record):
    """A NumPy scalar of exactly this type, a float of 32 or 64 bits or an integer, stored as a float of 32 or 64 bits, or, an integer
    that is in its range, as an integer. An integer that is to be a float is one of at most 53 bits."""

    offset: int
    type: type[np.generic]
    bits: int
    is_float: bool = False
    signed: bool = True


class StorageArgument(Record):
    """An object of exactly this class whose slot `_array_type` is `array_type`, with a descriptor in `_descriptor`; with
    `on_device`, in `_on_device`, followed by the address of a word that becomes 1 if the object is `written`."""

    offset: int
    type: type
    array_type: object
    rank: int
    element_bytes: int
    written: bool = False
    on_device: bool = False


class ForeignArgument(Record):
    """An array of another package, of exactly this class; its descriptor goes to `offset`.

    `read` and `ask` are addresses of functions in DLPack's table, which fill in a DLTensor and tell the package's stream (0 where
    another argument asks, or nobody has to); elements and device are then DLPack's words `elements` and `place`. With `read` 0
    the object is asked for `__cuda_array_interface__`, whose `typestr` is `text`. `inside`: (offset, offset, mask, word): at the second offset of what the object
    points to at the first stands that word, masked.
    """

    offset: int
    type: type
    rank: int
    element_bytes: int
    contiguous: bool = False
    written: bool = False
    sizes: tuple[tuple[int, int], ...] = ()
    read: int = 0
    ask: int = 0
    elements: int = 0
    place: int = 0
    inside: tuple[int, int, int, int] | None = None
    text: str = ""
    read_only: bool = False

    @property
    def has_stream(self) -> bool:
        """Whether each launch notes the stream of the owner."""
        return bool(self.ask or not self.read)


class IdentityArgument(Record):
    """This very object: a template value, a function, None. Nothing is stored."""

    value: object


class TupleArgument(Record):
    """A tuple (not of a subclass) of so many items, each of which is a `Member`."""

    length: int


ArgumentSpec: TypeAlias = (
    ArrayArgument
    | FloatArgument
    | IntegerArgument
    | BooleanArgument
    | ScalarArgument
    | ConvertedArgument
    | StorageArgument
    | ForeignArgument
    | IdentityArgument
    | TupleArgument
)
MEMORY = (ArrayArgument, StorageArgument, ForeignArgument)
"""The specs that put an address of memory into the frame."""


class Member(Record):
    """A parameter that is no argument itself: what `place[key]` of a dictionary, or a cell (`key` None), holds at each
    launch; the object `place` itself, if it `is_fixed`; item number `key` of the tuple that is argument number `place`."""

    spec: ArgumentSpec
    place: Any
    key: str | int | None = None
    is_fixed: bool = False


class Guard(Record):
    """A captured name: `dictionary[key]` must be this very object, or missing for `ABSENT`."""

    dictionary: dict[str, Any]
    key: str
    expected: Any


class CellGuard(Record):
    """A captured variable of an enclosing function: the cell must hold this very object."""

    cell: CellType
    expected: Any


class WordsGuard(Record):
    """Memory that must still hold what it held: (address, 64-bit word) pairs; `keep` owns that memory."""

    words: tuple[tuple[int, int], ...]
    keep: object


class ResultSpec(Record):
    """A scalar at `offset`: 'u1', 'i8'…'i64', 'u8'…'u64', 'f32', 'f64'; or 'python': `kernel._unpack(frame, binding)`."""

    kind: str
    offset: int = 0


class Watch(Record):
    """What a binding's launches are held to: arrays of `low` elements or more, of less than `high`; at most so many
    threads (0: all); where `limit` is not 0, launches are timed, and once they have taken so many nanoseconds the next
    one goes to Python."""

    low: int = 0
    high: int = 1 << 62
    threads: int = 0
    limit: int = 0


class Order(Record):
    """How streams of a device wait for one another: the addresses in an `OrderRecord`."""

    stream: int
    context: int
    event: int
    enter: int
    record: int
    wait: int
    failed: int
    noted: int


class Binding:
    """One compiled form of a kernel together with what a call must look like to run it.

    `frame_template` is the initial content of every frame; `keywords` are the parameters' names and `defaults` (aligned
    to the last parameters) stand in for those that a call leaves out. `keep_alive` holds what compiled code refers to. With `release_gil` other
    Python threads run meanwhile; with `may_release` they do where the launch before took longer than `LONG_RUN_CYCLES`.
    With `check_overlap`, arguments that are written may share memory neither with another argument nor with `ranges`
    ((address, bytes, written) of captured memory). `watch` holds launches to sizes, threads and a time. `order` is needed where
    an argument has a stream. `held`: the specs of objects that a launch keeps, in the order in which Python is given these where it runs the
    entry: those that are copied, and members of dictionaries that have memory, since such may be assigned anew meanwhile. `copied`: which
    of these are copied; `places_of_copied`: where their addresses go, `written_copied`: which of them are written. Raises ValueError for a
    spec that cannot be launched.
    """

    __slots__ = (
        "__weakref__",
        "arguments",
        "block",
        "copied",
        "defaults",
        "entry",
        "frame_template",
        "guards",
        "held",
        "keep_alive",
        "keywords",
        "may_release",
        "members",
        "order",
        "places_of_copied",
        "ranges",
        "release_gil",
        "result",
        "tables",
        "watch",
        "written_copied",
    )

    def __init__(
        self,
        entry: int,
        frame_template: bytes,
        arguments: Sequence[ArgumentSpec],
        guards: Sequence[Guard | CellGuard | WordsGuard] = (),
        result: ResultSpec | None = None,
        keywords: Sequence[str] = (),
        release_gil: bool = False,
        may_release: bool = False,
        keep_alive: Any = None,
        defaults: Sequence[object] = (),
        check_overlap: bool = True,
        ranges: Sequence[tuple[int, int, bool]] = (),
        watch: Watch | None = None,
        members: Sequence[Member] = (),
        order: Order | None = None,
    ) -> None:
        if len(keywords) != len(arguments):
            raise ValueError(f"{len(arguments)} arguments need as many names, got {len(keywords)}")
        self.entry = entry
        self.frame_template = bytes(frame_template)
        self.arguments = tuple(arguments)
        self.guards = tuple(guards)
        self.result = result
        self.keywords = tuple(map(sys.intern, keywords))
        self.defaults = tuple(defaults)
        self.release_gil = release_gil
        self.may_release = may_release
        self.keep_alive = keep_alive
        self.members = tuple(members)
        self.ranges = tuple(ranges) if check_overlap and any(map(_is_written, self.specs())) else ()
        self.watch = watch
        self.order = order
        self.held = (
            *filter(_is_copied, self.arguments),
            *[member.spec for member in self.members if _is_copied(member.spec) or _may_be_dropped(member)],
        )
        copied = [(k, spec) for k, spec in enumerate(self.held) if isinstance(spec, ArrayArgument) and spec.copied]
        self.copied = [k for k, _ in copied]
        self.places_of_copied = [spec.offset for _, spec in copied]
        self.written_copied = [k for k, (_, spec) in enumerate(copied) if spec.written]
        self.block: BlockRecord | None = None
        self.tables: list[Any] = [check_overlap]

    def specs(self) -> list[ArgumentSpec]:
        """What goes into the frame, in the order in which it is filled in."""
        return [*self.arguments, *[member.spec for member in self.members]]

    def has_foreign(self) -> bool:
        """Whether an argument is another package's: the handlers of those are loaded for the first."""
        return any(isinstance(spec, ForeignArgument) for spec in self.specs())

    def pack(self, symbols: Mapping[str, int], cell_content: int) -> int:
        """Build the tables, once, and give the address of the block; `symbols` are those of the launcher."""
        if self.block is None:
            self.block = _Packer(self, symbols, cell_content).block()
        return ctypes.addressof(self.block)


def _range(bits: int, signed: bool) -> tuple[int, int]:
    """The least and the greatest integer of so many bits."""
    return (-(1 << (bits - 1)) if signed else 0), (1 << (bits - signed)) - 1


def _is_copied(spec: ArgumentSpec) -> bool:
    """Whether Python puts an array where the kernel reaches it."""
    return isinstance(spec, ArrayArgument) and spec.copied


def _may_be_dropped(member: Member) -> bool:
    """Whether nothing but a dictionary may hold what has a member's memory."""
    return type(member.place) is dict and not member.is_fixed and isinstance(member.spec, MEMORY)


def _is_written(spec: ArgumentSpec) -> bool:
    return isinstance(spec, MEMORY) and spec.written


class _Packer:
    """Builds the tables of one binding; everything that the block points to is kept in the binding's `tables`."""

    def __init__(self, binding: Binding, symbols: Mapping[str, int], cell_content: int) -> None:
        self.binding = binding
        self.symbols = symbols
        self.cell_content = cell_content
        self.keep = binding.tables
        kernel_bytes = len(binding.frame_template)
        self.intervals_at = -(-max(kernel_bytes, 1) // 16) * 16  # never 0, which stands for no interval
        self.covered: list[tuple[int, int]] = []
        memory = [spec for spec in binding.specs() if isinstance(spec, MEMORY)]
        checked = bool(self.keep[0]) and any(spec.written for spec in memory)
        self.fixed_count = len(binding.ranges) if checked else 0
        self.interval_count = self.fixed_count + len(memory) if checked else 0
        self.next_interval = self.fixed_count
        self.checked = checked
        self.held_at = self.intervals_at + 16 * max(self.interval_count, 1)
        self.held_count = 0
        self.streams_at = self.held_at + 8 * len(binding.held)
        self.stream_count = 0

    def block(self) -> BlockRecord:
        binding = self.binding
        records = self.array(ArgumentRecord, [self.argument(spec, _is_copied(spec)) for spec in binding.arguments])
        members = [self.member(member) for member in binding.members]
        groups, words = self.guards()
        block = BlockRecord()
        block.member_count, block.members = len(members), self.array(MemberRecord, members)
        block.owner = id(binding)
        block.entry = binding.entry
        block.argument_count = len(binding.arguments)
        block.arguments = records
        block.keywords = self.pointers([id(name) for name in binding.keywords])
        missing = len(binding.arguments) - len(binding.defaults)
        block.defaults = self.pointers([0] * missing + [id(default) for default in binding.defaults])
        block.kernel_bytes = len(binding.frame_template)
        frame_bytes = self.streams_at + 8 * self.stream_count
        block.frame_bytes = -(-frame_bytes // 64) * 64
        block.on_heap = block.frame_bytes > _LARGEST_STACK_FRAME
        self.pack_template(block)
        block.guarded = bool(groups or words)
        block.group_count, block.groups = len(groups), self.array(GuardGroup, groups)
        block.word_count, block.words = len(words), self.array(WordGuard, words)
        self.pack_intervals(block)
        kind = binding.result.kind if binding.result else "none"
        if f"qd_result_{kind}" not in self.symbols:
            raise ValueError(f"a launch cannot give results of kind {kind!r}")
        block.result = self.symbols[f"qd_result_{kind}"]
        block.result_offset = binding.result.offset if binding.result else 0
        block.release = binding.release_gil
        block.long_run = LONG_RUN_CYCLES if binding.may_release else 0
        block.held_count, block.held = len(binding.held), self.held_at
        block.by_python = bool(binding.copied)
        if block.by_python and binding.watch is not None:
            raise ValueError("launches that Python runs are not watched")
        self.pack_watch(block)
        self.pack_order(block)
        return block

    def array(self, kind: type[ctypes.Structure], records: list[Any]) -> int:
        table = (kind * max(len(records), 1))(*records)
        self.keep.append(table)
        return ctypes.addressof(table)

    def pointers(self, values: list[int]) -> int:
        table = (ctypes.c_uint64 * max(len(values), 1))(*values)
        self.keep.append(table)
        return ctypes.addressof(table)

    def pack_template(self, block: BlockRecord) -> None:
        """Leave out what arguments overwrite at both ends of the frame."""
        template = self.binding.frame_template
        start, end = 0, len(template)
        for first, last in sorted(self.covered):
            start = last if first <= start < last else start
        for first, last in sorted(self.covered, reverse=True):
            end = first if first < end <= last else end
        content = ctypes.create_string_buffer(template, max(len(template), 1))
        self.keep.append(content)
        block.template = ctypes.addressof(content) + start
        block.template_offset, block.template_bytes = start, max(end - start, 0)

    def pack_intervals(self, block: BlockRecord) -> None:
        block.interval_count, block.intervals = self.interval_count, self.intervals_at
        block.fixed_count = self.fixed_count
        if not self.checked:
            return
        ranges = self.binding.ranges
        block.fixed = self.pointers([word for start, size, _ in ranges for word in (start, start + size)])
        memory = [spec for spec in self.binding.specs() if isinstance(spec, MEMORY)]
        written = [written for _, _, written in ranges] + [spec.written for spec in memory]
        block.written = self.pointers([int(flag) for flag in written])
        block.order = self.pointers(list(range(self.interval_count)))

    def pack_watch(self, block: BlockRecord) -> None:
        watch = self.binding.watch
        if watch is None:
            return
        memory = [spec for spec in self.binding.specs() if isinstance(spec, MEMORY)]
        block.watched, block.threads, block.limit = 1, watch.threads, watch.limit
        block.size_low, block.size_high = watch.low, watch.high
        block.size_count = len(memory)
        block.sizes = self.pointers([word for spec in memory for word in (spec.offset, spec.rank)])

    def pack_order(self, block: BlockRecord) -> None:
        order = self.binding.order
        if not self.stream_count:
            return
        if order is None:
            raise ValueError("a launch cannot wait for the streams of its arguments' owners")
        record = OrderRecord(
            order.stream, order.context, order.event, order.enter, order.record, order.wait, order.failed, order.noted
        )
        self.keep.append(record)
        block.stream_count, block.streams = self.stream_count, self.streams_at
        block.order_of_streams = ctypes.addressof(record)

    def guards(self) -> tuple[list[GuardGroup], list[WordGuard]]:
        groups: dict[int, list[GuardRecord]] = {}
        words: list[WordGuard] = []
        for guard in self.binding.guards:
            if isinstance(guard, WordsGuard):
                words.extend(WordGuard(address, word) for address, word in guard.words)
                continue
            expected = None if guard.expected is ABSENT else id(guard.expected)
            if isinstance(guard, CellGuard):
                words.append(WordGuard(id(guard.cell) + self.cell_content, expected))
            else:
                key = sys.intern(guard.key)
                self.keep.append(key)
                groups.setdefault(id(guard.dictionary), []).append(GuardRecord(id(key), expected))
        packed = [GuardGroup(at, 0, len(found), self.array(GuardRecord, found)) for at, found in groups.items()]
        return packed, words

    # -- arguments

    def argument(self, spec: ArgumentSpec, is_held: bool) -> ArgumentRecord:
        record = ArgumentRecord()
        if is_held:
            record.held = self.held_at + 8 * self.held_count
            self.held_count += 1
        name = _PACKERS[type(spec)](self, spec, record)
        record.handler = self.symbols[f"qd_bind_{name}"]
        return record

    def member(self, member: Member) -> MemberRecord:
        record = MemberRecord()
        record.argument = self.argument(member.spec, _is_copied(member.spec) or _may_be_dropped(member))
        self.keep.append(member.place)
        if member.is_fixed:
            record.way, record.source = 0, id(member.place)
        elif member.key is None:
            record.way, record.source = 2, id(member.place) + self.cell_content
        elif isinstance(member.key, int):
            record.way, record.source, record.key = 3, member.place, member.key
        else:
            key = sys.intern(member.key)
            self.keep.append(key)
            record.way, record.source, record.key = 1, id(member.place), id(key)
        return record

    def slot(self, record: ArgumentRecord, offset: int, size: int) -> None:
        if not 0 <= offset <= offset + size <= len(self.binding.frame_template):
            raise ValueError(f"an argument's {size} bytes at {offset} lie outside the frame")
        record.offset = offset
        self.covered.append((offset, offset + size))

    def memory(self, record: ArgumentRecord, offset: int, rank: int, element_bytes: int) -> None:
        self.slot(record, offset, 8 + 16 * rank)
        record.rank, record.bytes = rank, element_bytes
        if self.checked:
            record.interval = self.intervals_at + 16 * self.next_interval
            self.next_interval += 1

    def static_sizes(self, record: ArgumentRecord, sizes: tuple[tuple[int, int], ...]) -> None:
        record.size_count = len(sizes)
        record.sizes = self.pointers([word for pair in sizes for word in pair])

    def array_argument(self, spec: ArrayArgument, record: ArgumentRecord) -> str:
        dtype = spec.dtype
        if not dtype.isnative or dtype.kind not in "biuf":
            raise ValueError(f"a launch cannot bind arrays of {dtype}")
        self.memory(record, spec.offset, spec.rank, dtype.itemsize)
        words = [dtype_word(other) for other in map(np.dtype, "?bBhHiIlLqQefd") if other == dtype]
        record.word, record.other_word = words[0], words[-1]
        record.flags = _ALIGNED | _CONTIGUOUS * spec.contiguous | _WRITEABLE * spec.written
        self.static_sizes(record, spec.sizes)
        record.type = id(dtype)
        self.keep.append(dtype)
        return "array"

    def float_argument(self, spec: FloatArgument, record: ArgumentRecord) -> str:
        record.bytes, record.integers_too = spec.bits // 8, spec.integers_too
        self.slot(record, spec.offset, record.bytes)
        if spec.bits not in (32, 64):
            raise ValueError(f"a launch cannot store floats of {spec.bits} bits")
        return "float"

    def integer_argument(self, spec: IntegerArgument, record: ArgumentRecord) -> str:
        if spec.bits not in (8, 16, 32, 64):
            raise ValueError(f"a launch cannot store integers of {spec.bits} bits")
        record.bytes = spec.bits // 8
        self.slot(record, spec.offset, record.bytes)
        low, high = _range(spec.bits, spec.signed)
        record.low = max(low if spec.low is None else spec.low, -(1 << 63))
        record.high = min(high if spec.high is None else spec.high, (1 << 63) - 1)
        return "integer"

    def converted_argument(self, spec: ConvertedArgument, record: ArgumentRecord) -> str:
        held = np.dtype(spec.type)
        if (
            held.kind not in "iuf"
            or held.itemsize > 8
            or held == np.float16
            or (held.kind == "f" and not spec.is_float)
        ):
            raise ValueError(f"a launch cannot convert scalars of type {spec.type.__name__}")
        if spec.bits not in ((32, 64) if spec.is_float else (8, 16, 32, 64)):
            raise ValueError(f"a launch cannot store numbers of {spec.bits} bits")
        record.type, record.bytes, record.flags = id(spec.type), spec.bits // 8, spec.is_float
        self.slot(record, spec.offset, record.bytes)
        record.word, record.other_word = held.itemsize, "iuf".index(held.kind)
        low, high = (-LARGEST_EXACT, LARGEST_EXACT) if spec.is_float else _range(spec.bits, spec.signed)
        record.low, record.high = low, min(high, (1 << 63) - 1)
        return "converted"

    def boolean_argument(self, spec: BooleanArgument, record: ArgumentRecord) -> str:
        self.slot(record, spec.offset, 1)
        return "boolean"

    def scalar_argument(self, spec: ScalarArgument, record: ArgumentRecord) -> str:
        sample = spec.type(0)
        if sample.dtype.kind not in "biuf" or sample.itemsize > 8:
            raise ValueError(f"a launch cannot bind scalars of type {spec.type.__name__}")
        record.type, record.bytes = id(spec.type), sample.itemsize
        self.slot(record, spec.offset, record.bytes)
        return "scalar"

    def storage_argument(self, spec: StorageArgument, record: ArgumentRecord) -> str:
        self.memory(record, spec.offset, spec.rank, spec.element_bytes)
        record.type, record.identity = id(spec.type), id(spec.array_type)
        record.first_slot = slot_offset(spec.type, "_array_type")
        record.second_slot = slot_offset(spec.type, "_on_device" if spec.on_device else "_descriptor")
        record.flags = spec.written
        return "resident" if spec.on_device else "storage"

    def foreign_argument(self, spec: ForeignArgument, record: ArgumentRecord) -> str:
        self.memory(record, spec.offset, spec.rank, spec.element_bytes)
        self.static_sizes(record, spec.sizes)
        record.type, record.flags = id(spec.type), spec.contiguous
        if spec.has_stream:
            record.stream = self.streams_at + 8 * self.stream_count
            self.stream_count += 1
        if not spec.read:
            text = ctypes.create_string_buffer(spec.text.encode())
            self.keep.append(text)
            record.read, record.identity = ctypes.addressof(text), id(spec.read_only)
            return "interface"
        record.read, record.ask = spec.read, spec.ask
        record.word, record.other_word = spec.place, spec.elements
        if spec.inside is not None:
            record.first_slot, record.second_slot, record.low, record.high = spec.inside
        return "exchanged"

    def identity_argument(self, spec: IdentityArgument, record: ArgumentRecord) -> str:
        record.identity = id(spec.value)
        return "identity"

    def tuple_argument(self, spec: TupleArgument, record: ArgumentRecord) -> str:
        record.bytes = spec.length
        return "tuple"


_PACKERS: dict[type, Callable[[_Packer, Any, ArgumentRecord], str]] = {
    ArrayArgument: _Packer.array_argument,
    FloatArgument: _Packer.float_argument,
    IntegerArgument: _Packer.integer_argument,
    BooleanArgument: _Packer.boolean_argument,
    ScalarArgument: _Packer.scalar_argument,
    ConvertedArgument: _Packer.converted_argument,
    StorageArgument: _Packer.storage_argument,
    ForeignArgument: _Packer.foreign_argument,
    IdentityArgument: _Packer.identity_argument,
    TupleArgument: _Packer.tuple_argument,
}
