"""Random programs of what devices do in ways of their own: reductions, scattered sums, products of matrices, stencils, rows.

What they mean is NumPy's own sums and products. Numbers are whole and so small that floats give them exactly in any order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from quadrants.evidence.fuzz.block_code import Part, Program, put
from quadrants.evidence.fuzz.block_worlds import COMBINE, held

__all__ = ["DeviceProgram"]

INTEGERS = ("i32", "i32", "i64", "u32", "u64")
TYPES = (*INTEGERS, "f32", "f32", "f32", "f64")
LENGTHS = (0, 1, 2, 31, 32, 33, 100, 255, 256, 257, 513, 700)
EXTENTS = (1, 3, 8, 15, 16, 17, 20, 31, 33)

Arrays = dict[str, np.ndarray]


def numbers(source: random.Random, dtype: str, shape: Sequence[int], most: int = 4) -> np.ndarray:
    """Whole numbers of small size; not below 0 where the type has none."""
    rng = np.random.default_rng(source.randrange(1 << 30))
    return rng.integers(0 if dtype[0] == "u" else -most, most + 1, tuple(shape)).astype(held(dtype))


class _Part:
    """`names`: of arrays that are this part's own."""

    def __init__(self, source: random.Random, number: int) -> None:
        self.source = source
        self.number = number
        self.memory: Arrays = {}
        self.block_dim = source.choice((0, 0, 0, 1, 32, 64, 100, 128))

    def name(self, letter: str, array: np.ndarray) -> str:
        name = f"{letter}{self.number}"
        self.memory[name] = array
        return name

    def config(self) -> list[str]:
        """What the user says about the loop, sometimes."""
        return [put(1, f"qd.loop_config(block_dim={self.block_dim})")] if self.block_dim else []

    def loops(self, counters: Sequence[str], bounds: Sequence[str], together: int) -> tuple[list[str], int]:
        """Nested loops, of which the first `together` are one over `ndrange`; and how deep their body stands."""
        lines, depth = [], 1
        if together > 1:
            lines.append(
                put(depth, f"for {', '.join(counters[:together])} in qd.ndrange({', '.join(bounds[:together])}):")
            )
        else:
            together = 0
        depth += bool(together)
        for counter, bound in zip(counters[together:], bounds[together:]):
            lines.append(put(depth, f"for {counter} in range({bound}):"))
            depth += 1
        return lines, depth


class Reduction(_Part):
    """Names that a loop adds up, or takes the least and largest of."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice((*TYPES, "i16", "u8"))
        rank = source.choice((1, 1, 1, 2, 3))
        shape = [source.choice(LENGTHS)] if rank == 1 else [source.choice(EXTENTS) for _ in range(rank)]
        self.x = self.name("x", numbers(source, self.dtype, shape))
        bys = ("add", "add", "min", "max") if self.dtype[0] == "f" else tuple(COMBINE)
        self.bys = source.sample(bys, source.choice((1, 1, 2))) if rank else []
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


class Scatter(_Part):
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


class Product(_Part):
    """A product of matrices, either of them transposed, in one of the forms that users write."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice((*TYPES, "f16"))
        self.result = "f32" if self.dtype == "f16" else self.dtype
        self.rows, self.columns, self.depth = [source.choice(EXTENTS) for _ in range(3)]
        self.turned = source.choice((False, False, True)), source.choice((False, False, True))
        shapes = (self.rows, self.depth), (self.depth, self.columns)
        self.a, self.b = [
            self.name(letter, numbers(source, self.dtype, shape[::-1] if turned else shape, 2))
            for letter, shape, turned in zip("ab", shapes, self.turned)
        ]
        self.c = self.name("c", numbers(source, self.result, (self.rows, self.columns)))
        self.bias = self.name("w", numbers(source, self.result, [self.columns]))
        self.form = source.choice(("sum", "sum", "in place", "in place", "ikj"))
        self.epilogue = source.choice(("", "", "+ bias", "max", "scaled"))
        self.together = source.choice((0, 2))

    def lines(self) -> list[str]:
        a = f"{self.a}[k, i]" if self.turned[0] else f"{self.a}[i, k]"
        b = f"{self.b}[j, k]" if self.turned[1] else f"{self.b}[k, j]"
        if self.dtype == "f16":
            a, b = f"qd.f32({a})", f"qd.f32({b})"
        order = ("i", "k", "j") if self.form == "ikj" else ("i", "j", "k")
        bounds = {"i": self.rows, "j": self.columns, "k": self.depth}
        if self.form != "sum":
            together = 0 if self.form == "ikj" else self.together
            loops, depth = self.loops(order, [str(bounds[counter]) for counter in order], together)
            return [*self.config(), *loops, put(depth, f"{self.c}[i, j] += {a} * {b}")]
        loops, depth = self.loops("ij", [str(self.rows), str(self.columns)], self.together)
        given = {"": "s", "+ bias": f"s + {self.bias}[j]", "max": "max(s, 0)", "scaled": f"s * 2 + {self.c}[i, j]"}
        return [
            *self.config(),
            *loops,
            put(depth, f"s = qd.{self.result}(0)"),
            put(depth, f"for k in range({self.depth}):"),
            put(depth + 1, f"s += {a} * {b}"),
            put(depth, f"{self.c}[i, j] = {given[self.epilogue]}"),
        ]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        a, b = [memory[name].astype(held(self.result)) for name in (self.a, self.b)]
        a, b = [factor.T if turned else factor for factor, turned in zip((a, b), self.turned)]
        c, product = memory[self.c], np.matmul(a, b).astype(held(self.result))
        if self.form != "sum":
            c += product
            return
        zero, two = held(self.result).type(0), held(self.result).type(2)
        given = {
            "": product,
            "+ bias": product + memory[self.bias],
            "max": np.maximum(product, zero),
            "scaled": product * two + c,
        }
        c[:] = given[self.epilogue]


class Stencil(_Part):
    """Sums of neighbours: of an array that has a border, or with indices that stay within it."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice(TYPES)
        self.rank = source.choice((1, 2, 2, 3))
        most = {1: (5, 33, 300, 600), 2: (5, 9, 17, 40), 3: (5, 6, 9, 18)}[self.rank]
        shape = [source.choice(most) for _ in range(self.rank)]
        self.x = self.name("x", numbers(source, self.dtype, shape))
        self.y = self.name("y", numbers(source, self.dtype, shape))
        reach = 2 if self.rank < 3 else 1
        count = source.choice((2, 3, 5, 9))
        self.offsets = [tuple(source.randint(-reach, reach) for _ in shape) for _ in range(count)]
        self.border = 2
        self.clamped = source.random() < 0.3
        self.together = source.choice((0, self.rank))

    def lines(self) -> list[str]:
        counters, shape = ["i", "j", "k"][: self.rank], self.memory[self.x].shape
        bounds = [str(size) if self.clamped else f"{self.border}, {size - self.border}" for size in shape]
        if self.together > 1 and not self.clamped:
            bounds = [f"({bound})" for bound in bounds]
        loops, depth = self.loops(counters, bounds, self.together)
        terms: list[str] = []
        for offset in self.offsets:
            places = [f"{counter} + {by}" if by >= 0 else f"{counter} - {-by}" for counter, by in zip(counters, offset)]
            if self.clamped:
                places = [f"min(max({place}, 0), {size - 1})" for place, size in zip(places, shape)]
            terms.append(f"{self.x}[{', '.join(places)}]")
        own = ", ".join(counters)
        return [*self.config(), *loops, put(depth, f"{self.y}[{own}] = {' + '.join(terms)} - {self.y}[{own}]")]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        x, y = memory[self.x], memory[self.y]
        border = 0 if self.clamped else self.border
        inside = tuple(slice(border, size - border) for size in x.shape)
        grids = np.meshgrid(*[np.arange(border, size - border) for size in x.shape], indexing="ij")
        total = np.zeros_like(y[inside])
        for offset in self.offsets:
            places = [np.clip(grid + by, 0, size - 1) for grid, by, size in zip(grids, offset, x.shape)]
            total = total + x[tuple(places)]
        y[inside] = total - y[inside]


class Rows(_Part):
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

    def lines(self) -> list[str]:
        value = f"{self.x}[i, j]" + (f" * {self.v}[j]" if self.weighted else "")
        start = f"{self.y}[i]" if self.from_y else f"qd.{self.dtype}(1)"
        step = f"s += {value}" if self.by == "+=" else f"s = {self.by}(s, {value})"
        return [
            *self.config(),
            put(1, f"for i in range({self.rows}):"),
            put(2, f"s = {start}"),
            put(2, f"for j in range({self.columns}):"),
            put(3, step),
            put(2, f"{self.y}[i] = s"),
        ]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        x, y = memory[self.x], memory[self.y]
        x = x * memory[self.v] if self.weighted else x
        start = y[:, None].copy() if self.from_y else np.ones((self.rows, 1), held(self.dtype))
        combine = {"+=": np.add, "min": np.minimum, "max": np.maximum}[self.by]
        y[:] = combine.reduce(np.concatenate([start, x], axis=1), axis=1, dtype=held(self.dtype))


KINDS = (Reduction, Reduction, Scatter, Product, Product, Stencil, Stencil, Rows)


class DeviceProgram(Program):
    """A seed's program."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        source = random.Random(f"{seed} devices")
        for number in range(source.choice((1, 1, 2))):
            part = source.choice(KINDS)(source, number)
            made: Part = part
            self.loops.append(made)
            self.memory.update(part.memory)
