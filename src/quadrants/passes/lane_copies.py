"""Arrays of which each iteration of a loop has rows of its own: which of them lanes work on in private copies, where the
elements of all lanes lie side by side.

Law: an array that a loop reaches only at [… i …], i its innermost counter, belongs to iteration i there: nothing else
reads or writes those elements while it runs, and what it has not changed may be written back.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.dependence import never_negative
from quadrants.passes.nest import Nest
from quadrants.passes.ranges import Ranges
from quadrants.records import Record, replace

__all__ = ["CAPACITY", "Copy", "find_copies"]

# Rows of a copy whose size only the run tells; an iteration with more does without lanes.
CAPACITY = 1024
# Bytes that the copies of one loop may take in all: they shall stay in the caches.
_MOST_BYTES = 384 << 10
# Elements copied for each access beyond which a copy is not worth it.
_MOST_PER_ACCESS = 2
_UNKNOWN_TRIPS = 8
# What targets copy at a time.
_PIECE_BYTES = 16


class Copy(Record):
    """One array: lanes count its axis `axis`. Of each other axis the elements from `lows` on are copied, so many as
    `sizes` says (None: all that there are). `triangle`: of the last axis only those up to the diagonal ("lower") or from
    it on ("upper") are reached, for each element of the axis `triangle_axis`."""

    array: Value
    axis: int
    lows: tuple[Value | int, ...]
    sizes: tuple[int | None, ...]
    written: bool
    reused: bool
    triangle: str = ""
    triangle_axis: int = 0

    @property
    def rows(self) -> int:
        """Rows of the slot."""
        total = 1
        for size in self.sizes:
            if size is None:
                return CAPACITY
            total *= size
        return total

    @property
    def is_one_run(self) -> bool:
        """Whether an iteration's elements follow one another in memory: whole records of a static shape."""
        type_, axes = self.array.type, self.sizes[self.axis + 1 :]
        assert type(type_) is ArrayType
        return type_.layout == "C" and not self.triangle and axes == type_.trailing

    @property
    def known(self) -> bool:
        return None not in self.sizes


class _Access(Record):
    """An access within the loop: the indices, the loops around it, whether every iteration makes it."""

    op: Op
    indices: tuple[Value, ...]
    loops: tuple[Op, ...]
    certain: bool


class _Finder:
    def __init__(self, loop: Op, function: Function) -> None:
        rank: int = loop.attribute("rank")
        self._function = function
        self._forms: Forms | None = None
        self.counters = loop.regions[0].arguments[:rank]
        self.ranges = Ranges()
        self.accesses: dict[Value, list[_Access]] = {}
        self.inside: set[Value] = set(loop.regions[0].arguments[rank:])
        self.inner_counters: set[Value] = set()
        self.refused: set[Value] = set()
        self._block(loop.regions[0], (), True)

    def _block(self, block: Block, loops: tuple[Op, ...], certain: bool) -> None:
        for op in block.ops:
            kind = op.kind
            self.inside.update(op.results)
            if kind in ("load", "store", "update"):
                array, *indices = op.operands[0 if kind == "load" else 1 :]
                self.accesses.setdefault(array, []).append(_Access(op, tuple(indices), loops, certain))
                continue
            if kind != "dim":
                self.refused.update([operand for operand in op.operands if type(operand.type) is ArrayType])
            if kind == "for":
                self.ranges.enter(op)
                self.inner_counters.update(op.regions[0].arguments[: op.attribute("rank")])
            for region in op.regions:
                self.inside.update(region.arguments)
                if kind in ("for", "while"):
                    self._block(region, (*loops, op), certain)
                else:
                    self._block(region, loops, False)

    def find(self) -> list[Copy]:
        found: list[Copy] = []
        left = _MOST_BYTES
        for array, accesses in self.accesses.items():
            copy = self._copy(array, accesses) if array not in self.refused else None
            if copy is None:
                continue
            size = copy.rows * 64 if array.type.scalar.bytes == 4 else copy.rows * 32 * array.type.scalar.bytes
            if size <= left:
                left -= size
                found.append(copy)
        return found

    def _copy(self, array: Value, accesses: list[_Access]) -> Copy | None:
        type_ = array.type
        assert type(type_) is ArrayType
        if type_.layout not in "CA" or type_.rank < 2 or type_.scalar.bytes not in (4, 8):
            return None
        if not any(access.certain for access in accesses):
            return None
        axis = self._axis(accesses)
        written = any(access.op.kind != "load" for access in accesses)
        if axis is None or (written and not self._is_own(accesses)):
            return None
        lows: list[Value | int] = []
        sizes: list[int | None] = []
        for k in range(type_.rank):
            low, size = (0, 1) if k == axis else self._extent(type_, k, [access.indices[k] for access in accesses])
            lows.append(low)
            sizes.append(size)
        copy = Copy(array, axis, tuple(lows), tuple(sizes), written, self._is_reused(accesses, sizes))
        return self._cut(copy, accesses) if self._pays(copy, accesses) else None

    def _cut(self, copy: Copy, accesses: list[_Access]) -> Copy:
        """The copy of half a matrix, where the other half is not reached."""
        last = len(copy.sizes) - 1
        axes = [k for k in range(last) if k != copy.axis and copy.sizes[k] != 1 and copy.lows[k] == 0]
        if not axes or copy.lows[last] != 0 or copy.sizes[last] == 1:
            return copy
        row = axes[-1]
        for kind, (low, high) in {"lower": (last, row), "upper": (row, last)}.items():
            if all(self._is_ordered(access, low, high) for access in accesses):
                return replace(copy, triangle=kind, triangle_axis=row)
        return copy

    def _is_ordered(self, access: _Access, low: int, high: int) -> bool:
        """Whether the index of one axis never exceeds that of another."""
        forms = self._forms
        if forms is None:
            forms = self._forms = Forms(Nest(self._function))
        difference = forms.of(access.indices[high]).plus(forms.of(access.indices[low]), -1)
        around = [loop for loop in reversed(access.loops) if loop.kind == "for"]
        return never_negative(difference, None, around, forms)

    def _axis(self, accesses: list[_Access]) -> int | None:
        """The axis that all accesses index by the innermost counter, unless neighbours along it lie side by side."""
        counter = self.counters[-1]
        for k in range(len(accesses[0].indices) - 1):
            if all(access.indices[k] is counter for access in accesses):
                return k
        return None

    def _is_own(self, accesses: list[_Access]) -> bool:
        """Whether no other iteration of any of the loop's dimensions reaches the same elements."""
        axes = range(len(accesses[0].indices))
        return all(
            any(all(access.indices[k] is counter for access in accesses) for k in axes) for counter in self.counters
        )

    def _extent(self, type_: ArrayType, axis: int, indices: list[Value]) -> tuple[Value | int, int | None]:
        """The first element along an axis, and how many."""
        first = indices[0]
        if first not in self.inside and first is not self.counters[-1] and all(index is first for index in indices):
            return first, 1
        static = axis - (type_.rank - len(type_.trailing))
        most = type_.trailing[static] if static >= 0 else None
        bounds = [self.ranges.of(index) for index in indices]
        highs = [high for _, high in bounds if high is not None]
        lows = [max(low, 0) for low, _ in bounds if low is not None]
        if len(highs) < len(bounds):
            return 0, most
        low = min(lows) if len(lows) == len(bounds) else 0
        high = max(highs) + 1
        return low, max(high if most is None else min(high, most), low + 1) - low

    def _is_reused(self, accesses: list[_Access], sizes: list[int | None]) -> bool:
        """Whether loops come by the same elements again, or run in order, so that nothing but lanes makes vectors of
        them."""
        axes = sum(size != 1 for size in sizes)
        return any(len(access.loops) > axes for access in accesses) or self._is_sequential(accesses)

    def _is_sequential(self, accesses: list[_Access]) -> bool:
        """Whether a loop within reads and writes different elements, or carries more than sums."""
        for loop in {access.loops[-1] for access in accesses if access.loops}:
            if any(map(_is_chain, loop.regions[-1].ops[-1].operands)):
                return True
            own = [access for access in accesses if access.loops and access.loops[-1] is loop]
            loads = {access.indices for access in own if access.op.kind == "load"}
            writes = {access.indices for access in own if access.op.kind != "load"}
            if writes and loads - writes:
                return True
        return False

    def _pays(self, copy: Copy, accesses: list[_Access]) -> bool:
        if copy.known:
            times = sum(map(self._times, accesses))
            run = (copy.sizes[-1] or 0) * scalar_of(copy.array.type).bytes
            if run < _PIECE_BYTES and not copy.is_one_run:
                return 2 * copy.rows <= times  # copied one by one
            return copy.rows <= _MOST_PER_ACCESS * times and copy.rows <= 4 * CAPACITY
        # All elements are copied: loops have to come by them.
        axes = [k for k, size in enumerate(copy.sizes) if size is None]
        return all(any(self._sweeps(access.indices[k]) for access in accesses if access.certain) for k in axes)

    def _times(self, access: _Access) -> int:
        total = 1
        for loop in access.loops:
            trips = self.ranges.trips(loop)
            total *= _UNKNOWN_TRIPS if trips is None else trips
        return total

    def _sweeps(self, index: Value) -> bool:
        """Whether an index follows the counter of a loop within."""
        if index in self.inner_counters:
            return True
        owner = index.owner
        if type(owner) is not Op or owner.kind not in ("add", "sub") or index not in self.inside:
            return False
        return any(map(self._sweeps, owner.operands))


def _is_chain(value: Value) -> bool:
    """Whether a value that a loop carries on is no sum that may be added up in any order, and no counter."""
    owner = value.owner
    if not isinstance(owner, Op) or not scalar_of(value.type).is_float:
        return False
    return OPS[owner.kind].elementwise and owner.kind not in ("min", "max") and not owner.attribute("reassociate")


def find_copies(loop: Op, function: Function, context: PassContext) -> list[Copy]:
    """The arrays of a parallel loop of stage `lowered` in a function that are worth a copy. None where arrays may overlap,
    and where every access is checked."""
    options = context.options
    if options.debug or options.check_out_of_bound or function.attributes.get("may_alias"):
        return []
    return _Finder(loop, function).find()
