"""Runs threads of PTX: many at once, and where they part, those that are least far in the code go first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from quadrants.evidence.ptx.banks import BankCounter
from quadrants.evidence.ptx.copies import Copies
from quadrants.evidence.ptx.functions import maximum, minimum
from quadrants.evidence.ptx.memory import Constancy, Memory, MemoryFault, Piece, Window
from quadrants.evidence.ptx.parse import Function, Module, Variable, parse
from quadrants.evidence.ptx.translate import SPECIALS, Code, Step, translate
from quadrants.evidence.ptx.warpgroups import GROUP, AsyncShared
from quadrants.recursion import deep_recursion

__all__ = ["Loaded", "Machine", "Trap"]

_WAITS = 1 << 29
_ENDED = 1 << 30
_TOGETHER = 1 << 12
"""Threads that run at once, at most, where blocks need not be apart."""
_MOST_STEPS = 20_000_000
_UNWATCHED = AsyncShared([])
_MOST_ASKED = 227 << 10
"""Bytes of shared memory that a launch asks for, at most, on any GPU."""


class Trap(Exception):
    """The code stopped itself, or does not end."""


class _Codes(dict[str, Code]):
    """Functions, translated when first called."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self.loaded = loaded

    def __missing__(self, name: str) -> Code:
        function = self.loaded.module.functions[name]
        code = self[name] = translate(function, self.loaded.addresses, self, self.loaded.watched)
        return code


class Loaded:
    """A module with its variables in memory. `apart`: its blocks run one after the other, for what their threads share;
    `copies`: whether threads copy into what they share; `reads_constants`: whether they load what nobody writes; `watched`: products read that while threads go on;
    `asked`: the shared memory that launches ask for, where the code has any."""

    def __init__(self, machine: Machine, text: str) -> None:
        self.module: Module = parse(text)
        self.machine = machine
        self.pieces: dict[str, Piece] = {}
        self.shared: list[Piece] = []
        self.asked: Window | None = None
        for variable in self.module.variables:
            self._place(variable)
        for function in self.module.functions.values():
            for variable in function.variables:
                if variable.space == "shared":
                    self._place(variable)
        self.addresses = {name: piece.address for name, piece in self.pieces.items()}
        for variable in self.module.variables:
            for offset, name, addend in variable.symbols:
                word = np.uint64(self.addresses[name] + addend).tobytes()
                self.pieces[variable.name].write(offset, word)
        self.codes = _Codes(self)
        endings = [block.ending for function in self.module.functions.values() for block in function.blocks]
        words = {op.words[0] for function in self.module.functions.values() for b in function.blocks for op in b.body}
        self.copies = "cp" in words
        self.reads_constants = ".nc." in text
        self.watched = "wgmma" in words
        self.apart = bool(self.shared) or any(end is not None and end.words[0].startswith("bar") for end in endings)

    def _place(self, variable: Variable) -> None:
        if variable.external and variable.space == "shared":
            if self.asked is None:  # of a module all such variables are one
                self.asked = Window(self.machine.memory, _MOST_ASKED)
                self.shared.append(self.asked)
            self.pieces[variable.name] = self.asked
            return
        piece = self.pieces[variable.name] = self.machine.memory.allocate(variable.size, variable.space == "shared")
        if variable.space == "shared":
            self.shared.append(piece)
        else:
            piece.write(0, (variable.content or b"").ljust(variable.size, b"\0"))

    def shared_of(self, name: str) -> list[Piece]:
        """What the blocks of an entry share: its own variables and the module's."""
        variables = [*self.module.variables, *self.module.functions[name].variables]
        return [self.pieces[variable.name] for variable in variables if variable.space == "shared"]

    def declared(self, name: str) -> int:
        """The bytes that the blocks of an entry share without asking for them."""
        end = 0
        for variable in [*self.module.variables, *self.module.functions[name].variables]:
            if variable.space == "shared" and not variable.external:
                end = -(-end // variable.align) * variable.align + variable.size
        return end

    def kernel(self, name: str) -> Code:
        """One of the entries, with the code that it runs."""
        return self.codes[name]

    def variable(self, name: str) -> int | None:
        """The address of a variable."""
        return self.addresses.get(name)

    def function(self, name: str) -> Function:
        return self.module.functions[name]


class Machine:
    """A GPU's multiprocessors. `steps` counts the blocks of code that ran, `threads` the threads of all launches, `loads` the
    elements that threads loaded, by the space of memory; `sectors`, if `counts_sectors`, the pieces of 32 bytes that warps' loads from
    global memory reach, one by one: threads side by side that run together are taken for a warp; `banks`, where there is a counter, how
    warps go to shared memory; `executed`, if `counts_instructions`, the instructions that threads ran, by kind (translate.Step). `copies`: those into shared memory of the block that runs, where the code has any."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.load = self.memory.load
        self.store = self.memory.store
        self.steps = 0
        self.threads = 0
        self.loads: Counter[str] = Counter()
        self.counts_sectors = False
        self.sectors = 0
        self.banks: BankCounter | None = None
        self.counts_instructions = False
        self.executed: Counter[str] = Counter()
        self.copies: Copies | None = None
        self.watches_constants = False
        self.constancy = Constancy(len(self.memory.bytes))
        self.watched = _UNWATCHED
        self.conditions: dict[int, int] = {}
        """The values that decide on rounds of the loops of the graph that runs, by their handles."""
        self._typed: dict[Any, np.ndarray[Any, Any]] = {}

    # Launches.

    def launch(self, loaded: Loaded, code: Code, blocks: int, threads: int, parameters: bytes, asked: int = 0) -> None:
        """Runs all threads of a launch, whose blocks share so many bytes beside what the kernel declares; MemoryFault and Trap for what
        goes wrong."""
        if loaded.asked is not None:
            loaded.asked.open(asked)
        frame = self.memory.allocate(len(parameters))
        frame.write(0, parameters)
        self.watches_constants = loaded.reads_constants
        if loaded.reads_constants:
            self.constancy.begin()
        together = 1 if loaded.apart else max(_TOGETHER // threads, 1)
        self.threads += blocks * threads
        with np.errstate(all="ignore"), deep_recursion():
            for first in range(0, blocks, together):
                count = min(together, blocks - first)
                for piece in loaded.shared:
                    piece.write(0, b"\xa5" * piece.size)
                self.copies = Copies(self.memory, loaded.shared, threads) if loaded.copies else None
                self.watched = AsyncShared(loaded.shared_of(code.name)) if loaded.watched else _UNWATCHED
                if self.copies is not None and loaded.watched:
                    self.copies.note = self.watched.wrote
                specials = _specials(first, count, blocks, threads)
                n = count * threads
                addresses = [np.full(n, frame.address, np.uint64)]
                self._run(code, n, specials, addresses)

    def call(
        self, code: Code, n: int, specials: list[np.ndarray[Any, Any]], arguments: list[np.ndarray[Any, Any]]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """A function for n threads, with a row of bytes for each argument and thread; gives the results' bytes."""
        slots = self._run(code, n, specials, arguments)
        return tuple([slots[slot] for slot, _ in code.results])

    def _run(self, code: Code, n: int, specials: list[Any], arguments: list[Any]) -> list[Any]:
        slots = list(specials)
        zeros = {kind: np.zeros(n, kind) for kind in set(code.zeros)}
        slots += [zeros[kind] for kind in code.zeros]
        pieces = []
        for _, size, align in code.locals:
            each = -(-size // align) * align
            pieces.append(self.memory.allocate(each * n))
            slots.append(np.uint64(pieces[-1].address) + np.arange(n, dtype=np.uint64) * np.uint64(each))
        slots += arguments
        slots += [np.zeros((n, size), np.uint8) for _, size in code.results]
        self._steps(code.steps, slots, n)
        return slots

    def _steps(self, steps: list[Step], slots: list[Any], n: int) -> None:
        """Until all threads are at the end. `places`: where each thread is, None while they are together at `at`."""
        at, places, warps = 0, None, _Warps(slots)
        while True:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise Trap(f"the code does not end within {_MOST_STEPS} blocks")
            if places is None:
                step = steps[at]
                if self.counts_instructions:
                    self._count(step, n)
                condition = step.run(slots, n, self)
                following = _following(step, condition, n)
                if type(following) is int:
                    if following >= _WAITS:
                        if following >= _ENDED:
                            return
                        following -= _WAITS
                        self._meet()
                    at = following
                else:
                    places = following
                continue
            at = int(places.min())
            if at >= _WAITS:
                if at >= _ENDED:
                    return
                waiting = places[places < _ENDED]
                if int(waiting.max()) != at:
                    raise Trap("threads of a block wait for one another at different barriers")
                self._meet()
                places = np.where(places < _ENDED, places - _WAITS, places)
                continue
            at, active = warps.next(steps, slots, places)
            step = steps[at]
            if len(active) == n:
                places = None
                continue
            following = _following(step, self._partly(step, slots, active), len(active))
            places[active] = following
            if int(places.min()) == int(places.max()):
                at, places = int(places[0]), None
                if at >= _ENDED:
                    return
                if at >= _WAITS:
                    at -= _WAITS
                    self._meet()

    def _count(self, step: Step, threads: int) -> None:
        for kind, count in step.instructions.items():
            self.executed[kind] += count * threads

    def _meet(self) -> None:
        """All threads are at a barrier."""
        if self.copies is not None:
            self.copies.met()
        self.watched.met()

    def _partly(self, step: Step, slots: list[Any], active: np.ndarray[Any, Any]) -> Any:
        """Runs a block for some of the threads."""
        if self.counts_instructions:
            self._count(step, len(active))
        some: list[Any] = [None] * len(slots)
        for slot in step.reads:
            some[slot] = slots[slot][active]
        condition = step.run(some, len(active), self)
        for slot in step.writes:
            whole = slots[slot].copy()
            whole[active] = some[slot]
            slots[slot] = whole
        return condition

    # What the code of blocks calls.

    def aligned(self, addresses: np.ndarray[Any, Any], size: int) -> None:
        """The law of accesses to several elements."""
        if (addresses & np.uint64(size - 1)).any():
            raise MemoryFault(f"an access of {size} bytes that is not aligned")

    def count_sectors(self, addresses: np.ndarray[Any, Any], size: int) -> None:
        """A load of `size` bytes by each thread."""
        for first in range(0, len(addresses), 32):
            warp = addresses[first : first + 32]
            ends = np.concatenate([warp, warp + np.uint64(size - 1)]) >> np.uint64(5)
            self.sectors += len(np.unique(ends))

    def reach_shared(
        self, kind: str, addresses: np.ndarray[Any, Any], size: int, threads: np.ndarray[Any, Any]
    ) -> None:
        """A load or a store of `size` bytes by each thread in shared memory, or somewhere."""
        if self.copies is not None:
            self.copies.reach(addresses, size, threads)
        if self.banks is not None and kind:
            self.banks.note(kind, addresses, size, threads)

    def reach_matrix(self, rows: np.ndarray[Any, Any], warps: np.ndarray[Any, Any]) -> None:
        """The eight rows of 16 bytes of a matrix, by warp, that its lanes read together."""
        if self.copies is not None:
            self.copies.reach_by_warps(rows.reshape(-1), 16)
        if self.banks is not None:
            lanes = (warps.astype(np.int64)[:, None] * 32 + np.arange(8)).reshape(-1)
            self.banks.note("matrix", rows.reshape(-1), 16, lanes)

    def begin_copies(self, targets: Any, sources: Any, size: int, lengths: Any, threads: Any) -> None:
        """`cp.async`."""
        assert self.copies is not None
        self.loads["copied"] += len(targets)
        if self.counts_sectors:
            self.count_sectors(sources[np.broadcast_to(lengths, sources.shape) > 0], size)
        if self.banks is not None:
            self.banks.note("copy", targets, size, threads)
        self.copies.begin(targets, sources, size, lengths, threads)

    def set_condition(self, handles: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        """One thread may do that; the handle is one of the graph that runs."""
        (handle,), (value,) = handles.tolist(), values.tolist()
        if handle not in self.conditions:
            raise MemoryFault(f"0x{handle:x} decides on no loop of the graph that runs")
        self.conditions[handle] = value

    def trap(self) -> None:
        raise Trap("the code stopped itself")

    def atomic(self, kind: str, dtype: Any, addresses: np.ndarray[Any, Any], *values: Any) -> np.ndarray[Any, Any]:
        """Updates memory thread by thread, in order; gives the old bits."""
        width = dtype.itemsize
        places = self.memory.places(addresses, width)
        if self.watches_constants:
            self.constancy.write(addresses, width)
        view = self._typed.get(dtype)
        if view is None:
            view = self._typed[dtype] = self.memory.bytes.view(dtype)
        update = _UPDATES[kind]
        if len(places) == 1 or len(np.unique(places)) == len(places):
            old = view[places]
            view[places] = update(old, *values)
        else:
            old = np.empty(len(places), dtype)
            for k in range(len(places)):
                place = places[k : k + 1]
                old[k] = view[place][0]
                view[place] = update(view[place], *[value[k : k + 1] for value in values])
        return old.view(f"u{width}")


_UPDATES: dict[str, Any] = {
    "add": lambda old, a: old + a,
    "min": lambda old, a: minimum(old, a) if old.dtype.kind == "f" else np.minimum(old, a),
    "max": lambda old, a: maximum(old, a) if old.dtype.kind == "f" else np.maximum(old, a),
    "and": lambda old, a: old & a,
    "or": lambda old, a: old | a,
    "xor": lambda old, a: old ^ a,
    "exch": lambda old, a: a,
    "cas": lambda old, wanted, a: np.where(old == wanted, a, old),
    "inc": lambda old, a: np.where(old >= a, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, a: np.where((old == 0) | (old > a), a, old - old.dtype.type(1)),
}


class _Warps:
    """Which threads can go on: at an instruction that waits for lanes of the warp, those whose lanes have all come, or ended."""

    def __init__(self, slots: list[Any]) -> None:
        blocks, lanes, warps = (slots[SPECIALS.index(name)] for name in ("%ctaid.x", "%laneid", "%warpid"))
        self._place = (blocks, lanes, warps)
        self._numbers: np.ndarray[Any, Any] | None = None

    def next(
        self, steps: list[Step], slots: list[Any], places: np.ndarray[Any, Any]
    ) -> tuple[int, np.ndarray[Any, Any]]:
        """The block of code that is least far with threads that can run it, and these; Trap where nobody can go on."""
        at = int(places.min())
        active = np.flatnonzero(places == at)
        if not _waits(steps[at]):
            return at, active
        for at in np.unique(places[places < _WAITS]).tolist():
            active = np.flatnonzero(places == at)
            if _waits(steps[at]):
                active = self._complete(steps[at], slots, places, active)
            if len(active):
                return at, active
        raise Trap("threads wait for lanes of their warp that do not come")

    def _complete(
        self, step: Step, slots: list[Any], places: np.ndarray[Any, Any], active: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        blocks, lanes, warps = self._place
        if step.of_warpgroup:
            own, living = (warps // 4)[active], (warps // 4)[places < _ENDED]  # such blocks run one after the other
            count, alive = (np.bincount(part, minlength=int(warps.max()) // 4 + 1) for part in (own, living))
            if (alive[own] != GROUP).any():
                raise Trap("a warpgroup that multiplies has not all its threads")
            return active[count[own] == GROUP]
        if self._numbers is None:
            _, self._numbers = np.unique(blocks.astype(np.int64) << 32 | warps, return_inverse=True)
        numbers, bits = self._numbers, np.int64(1) << lanes.astype(np.int64)
        masks = np.full(len(active), step.everybody, np.int64)
        if step.members is not None:
            masks = slots[step.members][active].astype(np.int64)
        there, alive = np.zeros((2, int(numbers.max()) + 1), np.int64)
        np.bitwise_or.at(there, numbers[active], bits[active])
        living = places < _ENDED
        np.bitwise_or.at(alive, numbers[living], bits[living])
        if not (masks & bits[active]).all():
            raise Trap("a thread is none of the lanes for which it waits")
        own = numbers[active]
        return active[(masks & alive[own] & ~there[own]) == 0]


def _waits(step: Step) -> bool:
    return step.members is not None or step.everybody != 0


def _following(step: Step, condition: Any, n: int) -> Any:
    """Where threads go next: one place for all, or an array of places. A wait adds `_WAITS` to the place behind it."""
    kind = step.kind
    if kind == "branch":
        count = int(np.count_nonzero(condition))
        yes, no = step.targets[::-1] if step.negated else step.targets
        if count == n:
            return yes
        return no if count == 0 else np.where(condition, yes, no)
    if kind in ("next", "jump"):
        return step.targets[0]
    if kind == "table":
        return np.array(step.targets)[condition]
    return _ENDED if kind == "end" else step.targets[0] + _WAITS


def _specials(first: int, count: int, blocks: int, threads: int) -> list[np.ndarray[Any, Any]]:
    """The special registers (translate.SPECIALS) of so many blocks from the first on."""
    n = count * threads
    thread = np.tile(np.arange(threads, dtype=np.uint32), count)
    block = np.repeat(np.arange(first, first + count, dtype=np.uint32), threads)
    zero, one = np.zeros(n, np.uint32), np.ones(n, np.uint32)
    sizes, grids = np.full(n, threads, np.uint32), np.full(n, blocks, np.uint32)
    lanes, warps = thread & np.uint32(31), thread >> np.uint32(5)
    return [thread, zero, zero, sizes, one, one, block, zero, zero, grids, one, one, lanes, warps]
