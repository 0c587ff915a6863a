"""Loops that add up, for programs of devices: names, elements at places that numbers tell, rows."""

from __future__ import annotations

import random

import numpy as np

from quadrants.evidence.fuzz.block_code import put
from quadrants.evidence.fuzz.block_worlds import COMBINE, held
from quadrants.evidence.fuzz.device_parts import EXTENTS, LENGTHS, TYPES, Arrays, DevicePart, numbers

__all__ = ["Mixed", "Reduction", "Rows", "Scatter", "Seats"]


class Reduction(DevicePart):
    """Names that a loop adds up, or takes the least and largest of."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice((*TYPES, "i16", "u8"))
        rank = source.choice((1, 1, 1, 2, 3))
        shape = [source.choice(LENGTHS)] if rank == 1 else [source.choice(EXTENTS) for _ in range(rank)]
        self.x = self.name("x", numbers(source, self.dtype, shape))
        bys = ("add", "add", "min", "max") if self.dtype[0] == "f" else tuple(COMBINE)
        self.bys = source.sample(bys, source.choice((1, 1, 2)))
        self.starts = [source.randint(0, 5) for _ in self.bys]
        self.out = self.name("o", np.zeros(len(self.bys), held(self.dtype)))
        self.guard = source.choice((0, 0, 2, 3))
        self.scale = source.choice((1, 1, 3))
        self.together = source.choice((0, rank))

    def lines(self) -> list[str]:
        rank = self.memory[self.x].ndim
        counters = ["i", "j", "k"][:rank]
        lines = [put(1, f"r{self.number}{n} = qd.{self.dtype}({start})") for n, start in enumerate(self.starts)]
        loops, depth = self.loops(counters, [f"{self.x}.shape[{axis}]" for axis in range(rank)], self.together)
        lines += [*self.config(), *loops]
        if self.guard:
            lines.append(put(depth, f"if {counters[-1]} % {self.guard} == 1:"))
            depth += 1
        value = f"{self.x}[{', '.join(counters)}] * {self.scale}"
        signs = {"add": "+=", "mul": "*=", "and": "&=", "or": "|=", "xor": "^="}
        for n, by in enumerate(self.bys):
            name = f"r{self.number}{n}"
            lines.append(
                put(depth, f"{name} {signs[by]} {value}" if by in signs else f"{name} = {by}({name}, {value})")
            )
        return [*lines, *[put(1, f"{self.out}[{n}] = r{self.number}{n}") for n in range(len(self.bys))]]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        x = memory[self.x] * held(self.dtype).type(self.scale)
        if self.guard:
            x = x[..., np.arange(x.shape[-1]) % self.guard == 1]
        for n, (by, start) in enumerate(zip(self.bys, self.starts)):
            given = np.append(held(self.dtype).type(start), x.ravel())
            memory[self.out][n] = COMBINE[by].reduce(given, dtype=held(self.dtype))


class Mixed(DevicePart):
    """Names of several types that one loop combines, some under a condition, some with truth values, some by a comparison."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtypes = source.sample(("i8", "u8", "i16", "u16", "i32", "i64", "u64", "f16", "f32", "f64"), 2)
        self.count = source.choice(LENGTHS[1:])
        self.x, self.y = [
            self.name(letter, numbers(source, dtype, [self.count], 1 if dtype == "f16" else 4))
            for letter, dtype in zip("xy", self.dtypes)
        ]
        self.out = self.name("o", np.zeros(6, np.float64))
        self.at = source.randint(0, 2)
        self.guard = source.choice((0, 0, 2, 3))

    def lines(self) -> list[str]:
        names = [f"{letter}{self.number}_" for letter in "stchab"]
        total, largest, count, least, some, every = names
        first = self.dtypes[0]
        lines = [
            put(1, f"{total}, {largest} = qd.{first}(1), {self.y}[0]"),
            put(1, f"{count}, {least} = qd.i64(0), {self.x}[0]"),
            put(1, f"{some}, {every} = False, True"),
            *self.config(),
            put(1, f"for i in range({self.count}):"),
        ]
        if self.guard:
            lines += [put(2, f"if i % {self.guard} == 1:"), put(3, "continue")]
        lines += [
            put(2, f"{total} += {self.x}[i]"),
            put(2, f"{largest} = max({largest}, {self.y}[i])"),
            put(2, f"if {self.y}[i] == {self.at}:"),
            put(3, f"{count} += i"),
            put(2, f"if {self.x}[i] < {least}:"),
            put(3, f"{least} = {self.x}[i]"),
            put(2, f"{some} = {some} or {self.x}[i] == {self.at}"),
            put(2, f"{every} = {every} and {self.y}[i] != {self.at}"),
        ]
        return [*lines, *[put(1, f"{self.out}[{n}] = {name}") for n, name in enumerate(names)]]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        i = np.arange(self.count)
        i = i[i % self.guard != 1] if self.guard else i
        x, y = memory[self.x], memory[self.y]
        total = np.append(x.dtype.type(1), x[i]).sum(dtype=x.dtype)
        largest, least = np.append(y[0], y[i]).max(), np.append(x[0], x[i]).min()
        count = i[y[i] == self.at].sum()
        memory[self.out][:] = total, largest, count, least, (x[i] == self.at).any(), (y[i] != self.at).all()


class Seats(DevicePart):
    """Old values of updates: who comes to a place gets the next seat there, in whatever order."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.count = source.choice(LENGTHS)
        self.places = source.choice((1, 3, 16))
        self.x = self.name("x", numbers(source, "i32", [self.count], 1000))
        self.taken = self.name("h", np.zeros(self.places, held(source.choice(("i32", "i64", "u32")))))
        self.seats = self.name("o", np.zeros((self.places, self.count + 1), held(source.choice(("i32", "u8", "f32")))))

    def lines(self) -> list[str]:
        return [
            *self.config(),
            put(1, f"for i in range({self.count}):"),
            put(2, f"p = {self.x}[i] % {self.places}"),
            put(2, f"{self.seats}[p, qd.atomic_add({self.taken}[p], 1)] = 1"),
        ]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        taken = np.bincount(memory[self.x] % self.places, minlength=self.places)
        memory[self.taken][:] = taken
        memory[self.seats][:] = np.arange(self.count + 1) < taken[:, None]


class Scatter(DevicePart):
    """Sums and other updates at places that numbers tell."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice(TYPES)
        self.count = source.choice((1, 33, 256, 700, 1500, 3000))
        self.rank = source.choice((1, 1, 2))
        shape = (
            [source.choice((1, 2, 7, 16, 50, 300))]
            if self.rank == 1
            else [source.choice((2, 5)), source.choice((3, 8))]
        )
        self.x = self.name("x", numbers(source, "i32", [self.count], 1000))
        self.v = self.name("v", numbers(source, self.dtype, [self.count]))
        self.h = self.name("h", numbers(source, self.dtype, shape))
        self.g = self.name("g", numbers(source, self.dtype, shape[:1])) if source.random() < 0.3 else ""
        self.by = source.choice(
            ("+=", "+=", "+=", "-=", "min", "max", "^=") if self.dtype[0] != "f" else ("+=", "+=", "-=", "max")
        )
        self.guard = source.choice((0, 0, 3))

    def lines(self) -> list[str]:
        lines = [*self.config(), put(1, f"for i in range({self.count}):")]
        depth = 2
        if self.guard:
            lines.append(put(depth, f"if i % {self.guard} != 1:"))
            depth += 1
        bins = self.memory[self.h].shape
        place = f"{self.x}[i] % {bins[0]}" + (f", {self.x}[i] // 8 % {bins[1]}" if self.rank == 2 else "")
        target, value = f"{self.h}[{place}]", f"{self.v}[i]"
        if self.by in ("min", "max"):
            lines.append(put(depth, f"qd.atomic_{self.by}({target}, {value})"))
        else:
            lines.append(put(depth, f"{target} {self.by} {value}"))
        if self.g:
            lines.append(put(depth, f"{self.g}[i % {bins[0]}] += {value}"))
        return lines

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        i = np.arange(self.count)
        i = i[i % self.guard != 1] if self.guard else i
        x, v, h = memory[self.x][i], memory[self.v][i], memory[self.h]
        bins = h.shape
        place = (x % bins[0], x // 8 % bins[1]) if self.rank == 2 else (x % bins[0],)
        combine = {"+=": np.add, "-=": np.subtract, "^=": np.bitwise_xor, "min": np.minimum, "max": np.maximum}[self.by]
        combine.at(h, place, v)
        if self.g:
            np.add.at(memory[self.g], i % bins[0], v)


class Rows(DevicePart):
    """What each row of an array comes to."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice(TYPES)
        self.rows, self.columns = source.choice(EXTENTS), source.choice((1, 31, 32, 33, 64, 100, 200))
        self.x = self.name("x", numbers(source, self.dtype, [self.rows, self.columns]))
        self.v = self.name("v", numbers(source, self.dtype, [self.columns]))
        self.y = self.name("y", numbers(source, self.dtype, [self.rows]))
        self.by = source.choice(("+=", "+=", "min", "max"))
        self.weighted = source.random() < 0.5
        self.from_y = source.random() < 0.3
        self.leaves = source.choice(("", "", "", "if", "continue", "break"))
        self.spread = self.name("z", self.memory[self.x].copy()) if source.random() < 0.3 else ""

    def lines(self) -> list[str]:
        value = f"{self.x}[i, j]" + (f" * {self.v}[j]" if self.weighted else "")
        start = f"{self.y}[i]" if self.from_y else f"qd.{self.dtype}(1)"
        step = f"s += {value}" if self.by == "+=" else f"s = {self.by}(s, {value})"
        return [
            *self.config(),
            put(1, f"for i in range({self.rows}):"),
            put(2, f"s = {start}"),
            put(2, f"for j in range({self.columns}):"),
            *[put(3, line) for line in self._guarded(step)],
            *self._behind(),
            put(2, f"{self.y}[i] = s"),
        ]

    def _guarded(self, step: str) -> list[str]:
        """What is summed up: all, not what is 2, or what stands in front of it."""
        if self.leaves == "if":
            return [f"if {self.x}[i, j] != 2:", "    " + step]
        return [f"if {self.x}[i, j] == 2:", f"    {self.leaves}", step] if self.leaves else [step]

    def _behind(self) -> list[str]:
        """What a row is given that depends on its sum."""
        place = f"{self.spread}[i, j]"
        text = f"{place} = {place} * 2 - s"
        return [put(2, f"for j in range({self.columns}):"), put(3, text)] if self.spread else []

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        x, y = memory[self.x], memory[self.y]
        x = x * memory[self.v] if self.weighted else x
        start = y[:, None].copy() if self.from_y else np.ones((self.rows, 1), held(self.dtype))
        combine = {"+=": np.add, "min": np.minimum, "max": np.maximum}[self.by]
        there = memory[self.x] != 2 if self.leaves else np.ones(x.shape, bool)
        there = np.logical_and.accumulate(there, axis=1) if self.leaves == "break" else there
        nothing = 0 if self.by == "+=" else start
        y[:] = combine.reduce(np.concatenate([start, np.where(there, x, nothing)], axis=1), axis=1, dtype=y.dtype)
        if self.spread:
            z = memory[self.spread]
            z[:] = z * z.dtype.type(2) - y[:, None]
