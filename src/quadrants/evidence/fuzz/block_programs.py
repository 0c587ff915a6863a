"""Random programs of block loops, free of races by construction, with what they mean in a `World`.

A program is a row of block loops with plain loops between. In a block loop threads set variables, write elements of their
own, meet, read others' elements, meet again; combine values in subgroups and blocks; go different ways where only
subgroups meet, and the same way where blocks do.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np

from quadrants.evidence.fuzz.block_code import (
    Branch,
    Code,
    Exchange,
    Expression,
    Jump,
    Loop,
    Program,
    Statement,
    lines_of,
    put,
    run_all,
)
from quadrants.evidence.fuzz.block_values import FLOATS, NARROW, WIDE, Values, cast
from quadrants.evidence.fuzz.block_worlds import COMBINE, Mask, World, held, team_reduce, team_shuffle

__all__ = ["BlockLoop", "BlockProgram", "PlainLoop"]

SIZES = (1, 7, 8, 32, 32, 33, 64, 64, 100, 128, 256)
HEADER = """import numpy as np

import quadrants as qd

block, subgroup, warp = qd.simt.block, qd.simt.subgroup, qd.simt.warp


@qd.func
def swapped(shared, value, at, other):
    shared[at] = value
    block.sync()
    found = shared[other]
    block.sync()
    return found


@qd.func
def twice(value, whole):
    if whole:
        return subgroup.reduce_add(value)
    return subgroup.shuffle_xor(value, 1) + value
"""


class Place(NamedTuple):
    """Where a statement stands. `together`: all threads of the block that have not ended are there; `meets`: threads may
    meet; `jumps`: the loop around may be left, `parted` ones by some threads alone."""

    together: bool = True
    meets: bool = True
    jumps: bool = False
    parted: bool = False
    depth: int = 3


class Shared(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]
    row: int

    @property
    def cells(self) -> int:
        return int(np.prod(self.shape))

    def element(self, cell: str) -> str:
        if len(self.shape) == 1:
            return f"{self.name}[{cell}]"
        return f"{self.name}[{cell} // {self.shape[1]}, {cell} % {self.shape[1]}]"


class BlockLoop(Values):
    """Writes one block loop. `number`: which of the program's."""

    def __init__(self, source: random.Random, subgroup: int, number: int, inputs: dict[str, str]) -> None:
        super().__init__(source, subgroup)
        self.number = number
        self.size = source.choice(SIZES)
        most = max(1, 300 // self.size)
        self.count = max(
            0, source.randint(1, most) * self.size - source.choice((0, 0, 0, 1, 3, self.size // 2, self.size - 1))
        )
        self.inputs = inputs
        self.fresh = 0
        self.shared: list[Shared] = []
        self.memory: dict[str, np.ndarray] = {}
        self.updated: dict[str, str] = {}
        self.columns = source.choice((0, 0, 0, 0, 3, self.size))
        if self.columns and self.count % self.columns:
            self.columns = 0
        self.low = 0 if self.columns else source.choice((0, 0, 0, 5, 64))
        self.length = f"n{number}" if source.random() < 0.5 else str(self.count)
        self.prologue: list[str] = []
        self.body: list[Code] = []
        self.tail: list[Code] = []
        self._write()

    # The loop as text, and at work.

    @property
    def bodies(self) -> tuple[list[Code], ...]:
        return self.body, self.tail

    def lines(self) -> list[str]:
        outputs = [f"y{self.number}[{row}, i] = {name}" for row, name in enumerate(self.names)]
        head = [put(1, f"qd.loop_config(block_dim={self.size})"), *[put(1, line) for line in self._head()]]
        body = [*lines_of(self.body, 2), *lines_of(self.tail, 2), *[put(2, line) for line in outputs]]
        return [*head, *[put(2, line) for line in self.prologue], *body]

    def _head(self) -> list[str]:
        if self.low:
            return [f"for i0 in range({self.low}, {self.low} + {self.length}):", f"    i = i0 - {self.low}"]
        if not self.columns:
            return [f"for i in range({self.length}):"]
        sizes = f"{self.count // self.columns}, {self.columns}"
        return [f"for i0, i1 in qd.ndrange({sizes}):", f"    i = i0 * {self.columns} + i1"]

    def run(self, memory: dict[str, np.ndarray], numbers: dict[str, int]) -> None:
        world = World(self.count, self.size, memory, numbers)
        if not self.count:
            return
        for start in self.starts:
            start.run(world, world.there)
        run_all([*self.body, *self.tail], world, world.there)
        left = world.there & ~world.away
        for row, name in enumerate(self.names):
            memory[f"y{self.number}"][row, world.flat[left]] = world.variables[name][left]

    def _write(self) -> None:
        self.starts: list[Statement] = []
        self.prologue += ["t = qd.i32(block.thread_idx())"]
        width = f"qd.i32(min({self.size}, {self.length} - {self.block_text()} * {self.size}))"
        if self.chance(0.3):
            width = "block.sync_count_nonzero(True)"
        self.prologue.append(f"w = {width}")
        self.reads = [self._input, self._input]
        for k in range(self.random.randint(1, 2)):
            self._start(f"u{k}", self.random.choice(WIDE), True)
        dtypes = [self.random.choice(WIDE), self.some_type(), self.some_type()]
        for k, dtype in enumerate(dtypes):
            self._start(f"a{k}", dtype, False)
        for k in range(self.random.randint(0, 2)):
            self._shared(k)
        if self.chance(0.4):
            self._own_vector()
        if self.chance(0.5):
            dtype = self.random.choice(("i32", "i32", "i64", "u32", "u64"))
            self.memory[f"h{self.number}"] = np.zeros(self.random.choice((1, 5, 16)), held(dtype))
            self.updated[f"h{self.number}"] = self.random.choice(("add", "min", "max", "or", "xor"))
        if self.chance(0.4):
            dtype = self.random.choice((*WIDE, *FLOATS, *NARROW))
            self.memory[f"g{self.number}"] = np.zeros(max(self.count, 1), held(dtype))
        self.memory[f"y{self.number}"] = np.zeros((len(self.names), max(self.count, 1)), np.int64)
        self.body = self.block(Place(), self.random.randint(3, 7))
        if self.chance(0.3):
            leaves: list[Code] = [Jump("continue")]
            self.tail = [Branch(self.condition(1), leaves, [])]
            self.tail += self.block(Place(together=False, meets=self.chance(0.5), depth=2), 2)

    def _start(self, name: str, dtype: str, uniform: bool) -> None:
        value = self.value(dtype, 1, uniform) if self.names or uniform else self.integer(dtype, 0, True)
        self.prologue.append(f"{name} = {cast(value, dtype).text}")
        self.starts.append(Statement("", lambda w, m: w.assign(name, value.run(w, m), m)))
        (self.together if uniform else self.names)[name] = dtype

    # Memory.

    def _input(self, uniform: bool) -> Expression | None:
        """An element of what no thread of this loop writes."""
        name = self.random.choice(list(self.inputs))
        shape = self.inputs[name]
        dtype, length = shape.split()
        if uniform or self.chance(0.5):
            index = self.small(int(length), uniform)
        elif int(length) >= self.count:
            index = Expression("i", "i64", lambda w, m: np.where(w.there, w.flat, 0))
        else:
            return None
        text = f"{name}[{index.text}]"
        return Expression(text, dtype, lambda w, m: w.memory[name][index.run(w, m)], index.uniform)

    def _shared(self, k: int) -> None:
        """Memory of the block: all of it is written first, by the threads in turn, or each thread writes its own element."""
        dtype = self.random.choice((*WIDE, *NARROW, *FLOATS, "f16", "u1"))
        columns = self.random.choice((0, 0, 3, 8))
        row = self.random.choice((0, 0, 0, 2, 3)) if dtype != "u1" else 0
        more = self.random.choice((0, 0, 1, 5))
        shape = (-(-(self.size + more) // columns), columns) if columns else (self.size + more,)
        shared = Shared(f"s{k}", dtype, shape, row)
        self.shared.append(shared)
        sizes = ", ".join(map(str, shape))
        kind = f"{dtype}_{row}" if row else f"qd.{dtype}"
        self.prologue.append(f"{shared.name} = block.SharedArray(({sizes},), {kind})")
        value = "False" if dtype == "u1" else "1"
        value = f"qd.Vector([qd.{dtype}(1)] * {row})" if row else value
        self.prologue += [
            f"for c in range(t, {shared.cells}, w):",
            f"    {shared.element('c')} = {value}",
            "block.sync()",
        ]
        full = (shared.cells, row) if row else (shared.cells,)

        def start(world: World, mask: Mask) -> None:
            world.shared[shared.name] = np.full((len(world.flat), *full), int(value != "False"), held(dtype))

        self.starts.append(Statement("", start))

    def _own_vector(self) -> None:
        """Private memory that is indexed at run time."""
        self.prologue.append("own = qd.Vector([qd.i32(1), qd.i32(2), qd.i32(3)])")

        def start(world: World, mask: Mask) -> None:
            world.variables["own"] = np.stack([world.full(k, "i32") for k in (1, 2, 3)], axis=2)

        self.starts.append(Statement("", start))
        self.reads.append(self._own_read)

    def _own_read(self, uniform: bool) -> Expression | None:
        if uniform:
            return None
        index = self.small(3)

        def run(world: World, mask: Mask) -> np.ndarray:
            return np.take_along_axis(world.variables["own"], index.run(world, mask)[:, :, None], 2)[:, :, 0]

        return Expression(f"own[{index.text}]", "i32", run)

    def _own_store(self) -> Statement:
        index, value = self.small(3), self.integer("i32", 2)

        def run(world: World, mask: Mask) -> None:
            b, t = np.nonzero(mask)
            world.variables["own"][b, t, index.run(world, mask)[b, t]] = value.run(world, mask)[b, t]

        return Statement(f"own[{index.text}] = {value.text}", run)

    # Statements.

    def block(self, place: Place, count: int) -> list[Code]:
        found = [self.statement(place) for _ in range(count)]
        if place.jumps and self.chance(0.5):
            condition = self.condition(1, uniform=not place.parted)
            jump: list[Code] = [Jump(self.random.choice(("break", "continue")))]
            found.insert(self.random.randint(0, len(found)), Branch(condition, jump, []))
        return found

    def statement(self, place: Place) -> Code:
        kinds = ["set", "set", "set"]
        if self.updated:
            kinds.append("update")
        if "own" in " ".join(self.prologue):
            kinds.append("own")
        if place.meets:
            kinds += ["met", "met", "call", "team barrier"]
        if place.together and place.meets:
            kinds += ["together", "barrier", "met of block", "met of block"] + ["exchange"] * (2 * bool(self.shared))
            kinds += ["global exchange"] * (f"g{self.number}" in self.memory) + ["swap"] * bool(self.shared)
        if place.depth > 0:
            kinds += ["if", "if", "loop", "loop"]
        kind = self.random.choice(kinds)
        return getattr(self, "_" + kind.replace(" ", "_"))(place)

    def _assigned(self, value: Expression | None = None) -> Statement:
        name = self.random.choice(list(self.names))
        dtype = self.names[name]
        given = self._fitting(value if value is not None else self.value(dtype, 2), dtype)
        return Statement(f"{name} = {given.text}", lambda w, m: w.assign(name, given.run(w, m), m))

    def _fitting(self, value: Expression, dtype: str) -> Expression:
        """The value as this type; integers of any size become small ones on the way to floats, and so do they from there."""
        if dtype[0] == "f" and value.dtype[0] != "f":
            wide = cast(value, "i32")
            value = Expression(f"({wide.text} & 31)", "i32", lambda w, m: wide.run(w, m) & 31, wide.uniform)
        return cast(value, dtype)

    def _set(self, place: Place) -> Code:
        return self._assigned()

    def _own(self, place: Place) -> Code:
        return self._own_store()

    def _met(self, place: Place) -> Code:
        return self._assigned(self.met(False))

    def _met_of_block(self, place: Place) -> Code:
        value = self.met(True)
        if value.uniform and self.chance(0.5):
            return self._set_together(value)
        return self._assigned(value)

    def _together(self, place: Place) -> Code:
        name = self.random.choice(list(self.together))
        return self._set_together(self.value(self.together[name], 2, uniform=True))

    def _set_together(self, value: Expression) -> Statement:
        name = self.random.choice(list(self.together))
        given = cast(value, self.together[name])
        return Statement(f"{name} = {given.text}", lambda w, m: w.assign(name, given.run(w, m), m))

    def _barrier(self, place: Place) -> Code:
        text = self.random.choice(("block.sync()", "subgroup.sync()", "block.mem_fence()", "subgroup.mem_fence()"))
        return Statement(text, lambda w, m: None)

    def _team_barrier(self, place: Place) -> Code:
        return Statement("subgroup.sync()", lambda w, m: None)

    def _call(self, place: Place) -> Code:
        dtype = self.random.choice(WIDE)
        value = self.value(dtype, 1)
        uniform = self.chance(0.5)
        whole = self.condition(1, uniform)

        def run(world: World, mask: Mask) -> np.ndarray:
            given, holds = value.run(world, mask), whole.run(world, mask).astype(bool)
            total = team_reduce(world, given, mask & holds, "add", self.subgroup)
            member = world.thread % self.subgroup
            other = team_shuffle(world, given, mask & ~holds, member ^ 1, self.subgroup) + given
            return np.where(holds, total, other)

        return self._assigned(Expression(f"twice({value.text}, {whole.text})", dtype, run))

    def _update(self, place: Place) -> Code:
        name = f"h{self.number}"
        cells, dtype, by = len(self.memory[name]), str(self.memory[name].dtype), self.updated[name]
        short = {"int32": "i32", "int64": "i64", "uint32": "u32", "uint64": "u64"}[dtype]
        index, value = self.small(cells), self.integer(short, 2)

        def run(world: World, mask: Mask) -> None:
            COMBINE[by].at(world.memory[name], index.run(world, mask)[mask], value.run(world, mask)[mask])

        sign = {"add": "+", "or": "|", "xor": "^"}.get(by)
        if sign and self.chance(0.5):
            return Statement(f"{name}[{index.text}] {sign}= {value.text}", run)
        return Statement(f"qd.atomic_{by}({name}[{index.text}], {value.text})", run)

    # Control flow.

    def _if(self, place: Place) -> Code:
        uniform = place.together and self.chance(0.5)
        inner = place._replace(together=uniform, depth=place.depth - 1)
        if not place.parted and not uniform:
            inner = inner._replace(jumps=False)
        condition = self.condition(2, uniform)
        yes = self.block(inner, self.random.randint(1, 3))
        no = self.block(inner, self.random.randint(1, 2)) if self.chance(0.5) else []
        return Branch(condition, yes, no)

    def _loop(self, place: Place) -> Code:
        uniform = place.together and self.chance(0.6)
        meets = place.meets and self.chance(0.7)
        trips = self.small(4, uniform)
        counter = f"k{self.number}_{self.fresh}"
        self.fresh += 1
        inner = Place(uniform, meets, True, not uniform or not meets or self.chance(0.3), place.depth - 1)
        self.counters.append(
            Expression(f"qd.i32({counter})", "i32", lambda w, m: w.variables[counter], uniform and not inner.parted)
        )
        if inner.parted:
            inner = inner._replace(together=False)
        body = self.block(inner, self.random.randint(1, 4))
        self.counters.pop()
        return Loop(counter, trips, body, self.chance(0.3))

    # Exchanges.

    def _own_cell(self, cells: int) -> Expression:
        """A cell for each thread alone."""
        shift = self.random.randint(0, 9)
        text, cell = self.random.choice(
            (
                ("t", lambda w: w.thread),
                ("(w - 1 - t)", lambda w: w.width - 1 - w.thread),
                (f"((t + {shift}) % w)", lambda w: (w.thread + shift) % w.width),
            )
        )
        return Expression(text, "i32", lambda w, m: np.where(w.there, cell(w), 0))

    def _any_cell(self, cells: int, uniform: bool) -> Expression:
        if not uniform and self.chance(0.5):
            shift = self.random.choice((1, -1, 2, 5, 31, 32))
            return Expression(f"((t + {shift}) % w)", "i32", lambda w, m: (w.thread + shift) % w.width)
        return self.small(cells, uniform)

    def _cell_read(self, shared: Shared, uniform: bool) -> Expression:
        cell = self._any_cell(shared.cells, uniform)
        text, part = shared.element(cell.text), self.random.randrange(shared.row) if shared.row else 0

        def run(world: World, mask: Mask) -> np.ndarray:
            found = world.shared[shared.name][world.block, cell.run(world, mask)]
            return found[:, :, part] if shared.row else found

        whole = Expression(f"{text}[{part}]" if shared.row else text, shared.dtype, run, cell.uniform)
        return cast(whole, "i32") if shared.dtype in ("u1", "f16") else whole

    def _cell_write(self, shared: Shared, cell: Expression) -> Statement:
        dtype = "f32" if shared.dtype == "f16" else shared.dtype
        values = [self.value(dtype, 2) for _ in range(max(shared.row, 1))]
        text = f"qd.Vector([{', '.join(value.text for value in values)}])" if shared.row else values[0].text
        if shared.dtype == "f16":
            text = f"qd.Vector([{', '.join(f'qd.f16({v.text})' for v in values)}])" if shared.row else f"qd.f16({text})"

        def run(world: World, mask: Mask) -> None:
            given = [value.run(world, mask)[mask] for value in values]
            place = world.block[mask], cell.run(world, mask)[mask]
            world.shared[shared.name][place] = np.stack(given, axis=1) if shared.row else given[0]

        return Statement(f"{shared.element(cell.text)} = {text}", run)

    def _cell_update(self, shared: Shared, by: str) -> Statement:
        cell, value = self.small(shared.cells), self.integer(shared.dtype, 2)

        def run(world: World, mask: Mask) -> None:
            place = world.block[mask], cell.run(world, mask)[mask]
            COMBINE[by].at(world.shared[shared.name], place, value.run(world, mask)[mask])

        return Statement(f"qd.atomic_{by}({shared.element(cell.text)}, {value.text})", run)

    def _barriers(self) -> tuple[str, str]:
        kinds = ("block.sync()", "block.sync()", "block.sync(); subgroup.sync()")
        return self.random.choice(kinds), self.random.choice(kinds)

    def _exchange(self, place: Place) -> Code:
        shared = self.random.choice(self.shared)
        inner = place._replace(jumps=False, depth=place.depth - 1)
        rest, self.shared = self.shared, [other for other in self.shared if other is not shared]
        writes = self.block(inner._replace(depth=min(inner.depth, 1)), self.random.randint(0, 2))
        updates = shared.dtype in ("i32", "i64", "u32", "u64") and not shared.row and self.chance(0.4)
        cell, by = self._own_cell(shared.cells), self.random.choice(("add", "min", "max", "and", "or", "xor"))
        for _ in range(self.random.randint(1, 2)):
            access = self._cell_update(shared, by) if updates else self._cell_write(shared, cell)
            guarded = self.chance(0.3)
            writes.insert(
                self.random.randint(0, len(writes)), Branch(self.condition(1), [access], []) if guarded else access
            )
        self.reads.append(lambda uniform: self._cell_read(shared, uniform))
        reads: list[Code] = [self._assigned(cast(self._cell_read(shared, False), "i32"))]
        reads += self.block(inner, self.random.randint(0, 3))
        self.reads.pop()
        self.shared = rest
        return Exchange(writes, reads, self._barriers())

    def _swap(self, place: Place) -> Code:
        found = [shared for shared in self.shared if not shared.row and shared.dtype not in ("f16", "u1")]
        if not found:
            return self._assigned()
        shared = self.random.choice(found)
        value = self.value(shared.dtype, 1)
        own, other = self._own_cell(shared.cells), self._any_cell(shared.cells, False)

        def run(world: World, mask: Mask) -> np.ndarray:
            memory = world.shared[shared.name]
            memory[world.block[mask], own.run(world, mask)[mask]] = value.run(world, mask)[mask]
            return memory[world.block, other.run(world, mask)]

        if len(shared.shape) > 1:
            return self._assigned()
        text = f"swapped({shared.name}, {value.text}, {own.text}, {other.text})"
        return self._assigned(Expression(text, shared.dtype, run))

    def _global_exchange(self, place: Place) -> Code:
        """The same through memory that all blocks reach: each block has elements of its own."""
        name = f"g{self.number}"
        dtype = next(key for key in (*WIDE, *FLOATS, *NARROW) if held(key) == self.memory[name].dtype)
        value, other = self.value(dtype, 2), self._any_cell(1, False)
        if self.chance(0.5):
            other = Expression("(w - 1 - t)", "i32", lambda w, m: np.where(w.there, w.width - 1 - w.thread, 0))
        elif "% w" not in other.text:
            other = Expression("(t // 2)", "i32", lambda w, m: w.thread // 2)

        def write(world: World, mask: Mask) -> None:
            world.memory[name][world.flat[mask]] = value.run(world, mask)[mask]

        def read(world: World, mask: Mask) -> np.ndarray:
            place = world.block * self.size + other.run(world, mask)
            return world.memory[name][np.where(mask, place, 0)]

        writes: list[Code] = [Statement(f"{name}[i] = {value.text}", write)]
        found = Expression(f"{name}[i - t + {other.text}]", dtype, read)
        return Exchange(writes, [self._assigned(found)], ("block.sync()", "block.sync()"))


class PlainLoop:
    """A parallel loop without meetings: what a block loop gave is changed in place."""

    def __init__(self, source: random.Random, number: int, count: int) -> None:
        self.number = number
        self.count = count
        self.by = source.randint(2, 9)

    def lines(self) -> list[str]:
        name = f"y{self.number}"
        return [
            put(1, f"for j in range({self.count}):"),
            put(2, f"{name}[0, j] = {name}[0, j] * {self.by} + {name}[1, j] - j"),
        ]

    def run(self, memory: dict[str, np.ndarray], numbers: dict[str, int]) -> None:
        found, count = memory[f"y{self.number}"], self.count
        found[0, :count] = found[0, :count] * self.by + found[1, :count] - np.arange(count)


class BlockProgram(Program):
    """A seed's program."""

    header = HEADER

    def __init__(self, seed: int) -> None:
        super().__init__()
        source = random.Random(f"{seed} blocks")
        self.subgroup = source.choice((8, 16, 32, 32, 32, 64))
        self.numbers = {"p": source.randint(-3, 60), "q": source.randint(0, 5)}
        rng = np.random.default_rng(seed)
        self.memory = {
            "x": rng.integers(-100, 100, 300).astype(np.int32),
            "z": rng.integers(0, 1 << 40, 17).astype(np.int64),
        }
        inputs = {"x": "i32 300", "z": "i64 17"}
        for number in range(source.choice((1, 1, 2))):
            loop = BlockLoop(source, self.subgroup, number, dict(inputs))
            self.loops.append(loop)
            self.memory.update(loop.memory)
            if not loop.length.isdigit():
                self.numbers[loop.length] = loop.count
            if f"h{number}" in loop.memory:
                cells = loop.memory[f"h{number}"]
                inputs[f"h{number}"] = f"{cells.dtype.kind}{cells.dtype.itemsize * 8} {len(cells)}"
            if source.random() < 0.3:
                self.loops.append(PlainLoop(source, number, loop.count))

    def declarations(self) -> list[str]:
        """The types of shared vectors."""
        shared = [s for loop in self.loops if isinstance(loop, BlockLoop) for s in loop.shared if s.row]
        return list(dict.fromkeys(f"{s.dtype}_{s.row} = qd.types.vector({s.row}, qd.{s.dtype})" for s in shared))
