"""Nests over arrays, for programs of devices: products of matrices, stencils."""

from __future__ import annotations

import random

import numpy as np

from quadrants.evidence.fuzz.block_code import put
from quadrants.evidence.fuzz.block_worlds import held
from quadrants.evidence.fuzz.device_parts import EXTENTS, TYPES, Arrays, DevicePart, numbers

__all__ = ["Product", "Stencil"]


class Product(DevicePart):
    """A product of matrices, either of them transposed, some of rows or depths that an array of numbers tells, in one of the forms
    that users write."""

    def __init__(self, source: random.Random, number: int) -> None:
        super().__init__(source, number)
        self.dtype = source.choice((*TYPES, "f16"))
        self.result = "f32" if self.dtype == "f16" else self.dtype
        self.rows, self.columns, self.depth = [source.choice(EXTENTS) for _ in range(3)]
        self.turned = source.choice((False, False, True)), source.choice((False, False, True))
        self.twice = source.random() < 0.2  # both factors are of one array
        if self.twice:
            self.rows = self.columns = self.depth
        shapes = (self.rows, self.depth), (self.depth, self.columns)
        self.a, self.b = [
            self.name(letter, numbers(source, self.dtype, shape[::-1] if turned else shape, 2))
            for letter, shape, turned in zip("ab", shapes, self.turned)
        ]
        self.b = self.a if self.twice else self.b
        self.gathered = source.choice(("", "", "", "i", "k"))  # the counter that stands for a number in memory
        count = {"i": self.rows, "k": self.depth}.get(self.gathered, 0)
        self.order = self.name("p", numbers(source, "i32", [count], 1000) % max(count, 1)) if count else ""
        self.sign = source.choice(("+", "+", "-"))
        self.c = self.name("c", numbers(source, self.result, (self.rows, self.columns)))
        self.bias = self.name("w", numbers(source, self.result, [self.columns]))
        self.form = source.choice(("sum", "sum", "in place", "in place", "ikj"))
        self.epilogue = source.choice(("", "", "+ bias", "max", "scaled", "where", "counted"))
        self.counted = self.name("n", np.zeros(1, np.int64)) if self.epilogue == "counted" else ""
        self.together = source.choice((0, 2))

    def lines(self) -> list[str]:
        i = f"{self.order}[i]" if self.gathered == "i" else "i"
        k = f"{self.order}[k]" if self.gathered == "k" else "k"
        a = f"{self.a}[k, {i}]" if self.turned[0] else f"{self.a}[{i}, k]"
        b = f"{self.b}[j, {k}]" if self.turned[1] else f"{self.b}[{k}, j]"
        if self.dtype == "f16":
            a, b = f"qd.f32({a})", f"qd.f32({b})"
        order = ("i", "k", "j") if self.form == "ikj" else ("i", "j", "k")
        bounds = {"i": self.rows, "j": self.columns, "k": self.depth}
        if self.form != "sum":
            together = 0 if self.form == "ikj" else self.together
            loops, depth = self.loops(order, [str(bounds[counter]) for counter in order], together)
            return [*self.config(), *loops, put(depth, f"{self.c}[i, j] {self.sign}= {a} * {b}")]
        loops, depth = self.loops("ij", [str(self.rows), str(self.columns)], self.together)
        given = {"": "s", "+ bias": f"s + {self.bias}[j]", "max": "max(s, 0)", "scaled": f"s * 2 + {self.c}[i, j]"}
        return [
            *self.config(),
            *loops,
            put(depth, f"s = qd.{self.result}(0)"),
            put(depth, f"for k in range({self.depth}):"),
            put(depth + 1, f"s {self.sign}= {a} * {b}"),
            *[put(depth, line) for line in self._end(given.get(self.epilogue, "s"))],
        ]

    def _end(self, value: str) -> list[str]:
        """What is done with a sum."""
        lines = [f"{self.c}[i, j] = {value}"]
        if self.epilogue == "where":
            lines = ["if s > 0:", "    " + lines[0], "else:", f"    {self.c}[i, j] += {self.bias}[j]"]
        if self.epilogue == "counted":
            lines += ["if s > 1:", f"    {self.counted}[0] += 1"]
        return lines

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        a, b = [memory[name].astype(held(self.result)) for name in (self.a, self.b)]
        a, b = [factor.T if turned else factor for factor, turned in zip((a, b), self.turned)]
        a = a[memory[self.order]] if self.gathered == "i" else a
        b = b[memory[self.order]] if self.gathered == "k" else b
        c, product = memory[self.c], np.matmul(a, b).astype(held(self.result))
        product = np.negative(product) if self.sign == "-" else product
        if self.form != "sum":
            c += product
            return
        zero, two = held(self.result).type(0), held(self.result).type(2)
        given = {
            "": product,
            "+ bias": product + memory[self.bias],
            "max": np.maximum(product, zero),
            "scaled": product * two + c,
            "where": np.where(product > 0, product, c + memory[self.bias]),
            "counted": product,
        }
        c[:] = given[self.epilogue]
        if self.epilogue == "counted":
            memory[self.counted][0] += (product > 1).sum()


class Stencil(DevicePart):
    """Sums of neighbours: of an array that has a border, with indices that stay within it, that come back at the other end, or that
    count from the end."""

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
        self.ends = source.choice(("border", "border", "clamped", "wrapped", "periodic"))
        self.together = source.choice((0, self.rank))

    def _bounds(self, size: int) -> tuple[int, int]:
        """Where a counter begins and ends: `wrapped` indices count from the end where they are below 0."""
        low = self.border if self.ends == "border" else 0
        return low, size - (self.border if self.ends in ("border", "wrapped") else 0)

    def lines(self) -> list[str]:
        counters, shape = ["i", "j", "k"][: self.rank], self.memory[self.x].shape
        bounds = [f"{low}, {high}" for low, high in map(self._bounds, shape)]
        if self.together > 1:
            bounds = [f"({bound})" for bound in bounds]
        loops, depth = self.loops(counters, bounds, self.together)
        terms: list[str] = []
        for offset in self.offsets:
            places = [f"{counter} + {by}" if by >= 0 else f"{counter} - {-by}" for counter, by in zip(counters, offset)]
            if self.ends == "clamped":
                places = [f"min(max({place}, 0), {size - 1})" for place, size in zip(places, shape)]
            elif self.ends == "periodic":
                places = [f"({place}) % {self.x}.shape[{axis}]" for axis, place in enumerate(places)]
            terms.append(f"{self.x}[{', '.join(places)}]")
        own = ", ".join(counters)
        return [*self.config(), *loops, put(depth, f"{self.y}[{own}] = {' + '.join(terms)} - {self.y}[{own}]")]

    def run(self, memory: Arrays, numbers: dict[str, int]) -> None:
        x, y = memory[self.x], memory[self.y]
        inside = tuple(slice(*self._bounds(size)) for size in x.shape)
        grids = np.meshgrid(*[np.arange(*self._bounds(size)) for size in x.shape], indexing="ij")
        total = np.zeros_like(y[inside])
        for offset in self.offsets:
            places = [grid + by for grid, by in zip(grids, offset)]
            if self.ends == "clamped":
                places = [np.clip(place, 0, size - 1) for place, size in zip(places, x.shape)]
            elif self.ends == "periodic":
                places = [place % size for place, size in zip(places, x.shape)]
            total = total + x[tuple(places)]
        y[inside] = total - y[inside]
