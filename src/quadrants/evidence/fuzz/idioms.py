"""Random variants of loops that physics programs have: sums over neighbours, sparse rows, stencils, matrix products.

The compiler has passes for their shapes; statements drawn at random hardly ever hit them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.evidence.fuzz.expressions import Name, Scope
from quadrants.evidence.fuzz.parallel import CONFIGURATIONS

if TYPE_CHECKING:
    from quadrants.evidence.fuzz.generate import Array, Generator

__all__ = ["Idiom"]


class Idiom:
    """Writes one loop nest over the long arrays `c` and `d`, the order `o`, and arrays of rows."""

    def __init__(self, generator: Generator) -> None:
        self.g = generator
        self.target = generator.random.choice([array for array in generator.arrays if array.name in "cd"])
        self.i = generator.fresh("i")

    def write(self) -> None:
        g = self.g
        before = g.scope
        g.scope = Scope(
            fixed=["n", "m", f"qd.i32({self.i})"], helpers=[h for h in g.helpers if h.kind in ("integer", "float")]
        )
        configuration = g.random.choice(CONFIGURATIONS) if g.chance(0.15) else ""
        kinds = [self.neighbours, self.neighbours, self.pairs, self.stencil, self.scan, self.append, self.chain]
        if not g.style.tame:
            kinds += [self.collide, self.hashed]
        if self.matrices():
            kinds += [self.grid, self.product]
        if any(array.column for array in g.arrays):
            kinds += [self.factorise] * 3
        kind = g.random.choice(kinds)
        if configuration and not (kind == self.collide and configuration == "serialize=False"):  # that would be a race
            g.put(1, f"qd.loop_config({configuration})")
        kind()
        g.scope = before

    # Values.

    def accumulator(self, indent: int) -> Name:
        """A name that a loop within adds to."""
        g = self.g
        if self.target.is_float:
            name = Name(g.fresh("s"), "f64" if self.target.dtype == "f64" else "f32")
            g.put(indent, f"{name.text} = qd.{name.dtype}(0.0)")
        else:
            name = Name(g.fresh("s"), self.target.dtype if self.target.dtype != "u1" else "i32")
            g.put(indent, f"{name.text} = qd.{name.dtype}(0)")
        return name

    def add(self, indent: int, name: Name, elements: list[str]) -> None:
        """The accumulator takes one more term, made of elements, perhaps under a condition."""
        g = self.g
        scope = g.scope
        g.scope = Scope(**vars(scope))
        reads = [lambda depth, text=text: text for text in elements]
        if name.dtype.startswith("f"):
            g.scope.float_reads = [lambda depth, text=text: f"qd.{name.dtype}({text})" for text in elements]
            g.scope.floats = []
        else:
            g.scope.element_reads = reads
        if g.chance(0.35):
            g.put(indent, f"if {g.condition(1)}:")
            if g.chance(0.5):
                g.put(indent + 1, g.random.choice(("continue", "continue", "break")))
            else:
                indent += 1
        g.put(indent, self.term(name, elements))
        g.scope = scope

    def term(self, name: Name, elements: list[str]) -> str:
        g = self.g
        text = g.random.choice(elements)
        if name.dtype.startswith("f"):
            parts = [f"qd.{name.dtype}({g.random.choice(elements)} % 4.0)" for _ in range(g.random.choice((1, 2, 2)))]
            value = f"qd.{name.dtype}(qd.floor(({' * '.join(parts)}) % 16.0) * 0.25)"
            if g.style.loose:
                value = f"qd.{name.dtype}(np.sin({text} * 0.25) * 0.25)"
        else:
            value = g.cast(name.dtype, 1)
        if g.chance(0.2):
            return f"{name.text} = {g.random.choice(('min', 'max'))}({name.text}, {value})"
        return f"{name.text} += {value}"

    def keep(self, indent: int, index: str, name: Name) -> None:
        """The accumulator goes to an element of the iteration's own."""
        if self.target.dtype == "u1":
            self.g.put(indent, f"{self.target.name}[{index}] = {name.text} > 3")
        elif self.target.is_half:
            self.g.put(indent, f"{self.target.name}[{index}] = {name.text} % 16.0")
        else:
            sign = self.g.random.choice(("=", "=", "+="))
            self.g.put(indent, f"{self.target.name}[{index}] {sign} {name.text}")

    def numbers(self) -> list[Array]:
        """Arrays of one number an iteration that are not written here."""
        arrays = [array for array in self.g.arrays if array.shape == "long" and array is not self.target]
        floats = self.target.is_float
        fitting = [array for array in arrays if array.is_float == floats and array.dtype != "u1" and not array.is_order]
        if fitting:
            return fitting
        return [] if floats else [array for array in arrays if array.is_order]

    # Shapes.

    def neighbours(self) -> None:
        """Each iteration goes through elements that lie side by side, or are named by an order."""
        g = self.g
        arrays = self.numbers()
        j, k = g.fresh("j"), g.fresh("k")
        g.put(1, f"for {self.i} in range({g.random.choice(('n', 'len(c)', 'n - 1'))}):")
        name = self.accumulator(2)
        i = self.i
        bounds = ("n", "n", i, f"{i}, n", f"max({i} - 3, 0), min({i} + 4, n)", "len(d)", f"{i} // 2, {i} // 2 + 1")
        g.put(2, f"for {j} in range({g.random.choice(bounds)}):")
        index = j
        if g.chance(0.4):
            g.put(3, f"{k} = o[{j}]")
            index = k
        elif g.chance(0.2):
            index = f"n - 1 - {j}"
        elements = [f"{array.name}[{index}]" for array in arrays] or [f"qd.{name.dtype}({j} & 7)"]
        g.scope.fixed.append(f"qd.i32({j})")
        self.add(3, name, elements)
        self.keep(2, g.random.choice((i, i, f"o[{i}]")), name)

    def pairs(self) -> None:
        """A histogram of neighbours: updates at indices that data names."""
        g = self.g
        j = g.fresh("j")
        small = [array for array in g.arrays if array.shape == "small" and not array.is_float and array.dtype != "u1"]
        array = g.random.choice(small)
        g.put(1, f"for {self.i} in range(n):")
        g.put(2, f"for {j} in range({g.random.choice(('n', self.i, '3'))}):")
        g.scope.fixed.append(f"qd.i32({j})")
        g.scope.element_reads = [lambda depth: f"o[{g.random.choice((self.i, j if j != '3' else self.i))} % n]"]
        index = f"({g.integer(1)}) & 7"
        g.put(3, f"{array.name}[{index}] += {g.cast(array.dtype, 1)}")

    def collide(self) -> None:
        """An index that wraps: iterations meet, certainly, in a few elements, each of which needs the one before."""
        g = self.g
        array = g.random.choice([a for a in g.arrays if a.shape == "small" and not a.is_float and a.dtype != "u1"])
        shapes = (f"qd.i32({self.i}) * 65536 * 65536", f"((qd.i32({self.i}) << 30) << 2)", f"{self.i} * 2**62 * 4")
        index = g.random.choice((*shapes, f"(qd.i32({self.i}) * 65536 * 32768 >> 31) + 1"))
        offset = g.random.choice(("", " + 3", " + (m & 3)"))
        element = f"{array.name}[{index}{offset}]"
        g.put(1, f"if n > {g.random.choice(('-1000000', '2'))}:")
        g.put(2, f"for {self.i} in range({g.random.choice(('n', 'len(c)', '1, n'))}):")
        g.put(3, f"{element} = qd.{array.dtype}({element} * 3 + {g.cast('i32', 1)})")

    def hashed(self) -> None:
        """A table by hash: updates, and reads of another, at places that a scrambled counter names."""
        g = self.g
        arrays = self.numbers()
        small = [a for a in g.arrays if a.shape == "small" and not a.is_float and a.dtype != "u1"]
        array, h = g.random.choice(small), g.fresh("k")
        g.put(1, f"for {self.i} in range({g.random.choice(('n', 'len(c)', 'n // 2, n'))}):")
        g.put(2, f"{h} = {g.scrambled()}")
        if g.chance(0.5):
            g.put(2, f"if {h} {g.random.choice(('<', '>=', '>', '!='))} {g.random.choice(('0', '0', '5', '1000000'))}:")
            g.put(3, g.random.choice(("continue", f"{array.name}[0] += 1")))
        index = g.random.choice((f"{h} % 8", f"({h} // 65536) % 8", f"{h} & 7", f"({h} >> 5) % 8"))
        reads = [
            f"qd.{array.dtype}({a.name}[{g.random.choice((h, f'({h} // 3)'))} % n])" for a in arrays if not a.is_float
        ]
        g.put(2, f"{array.name}[{index}] += {g.random.choice(reads) if reads else g.cast(array.dtype, 1)}")

    def stencil(self) -> None:
        """Elements around each, within the borders or clamped to them."""
        g = self.g
        arrays = self.numbers()
        i = self.i
        inner = g.chance(0.5)
        g.put(1, f"for {i} in range({'1, n - 1' if inner else 'n'}):")
        name = self.accumulator(2)
        at = [i, f"{i} - 1", f"{i} + 1"] if inner else [i, f"max({i} - 1, 0)", f"min({i} + 1, n - 1)"]
        elements = [f"{array.name}[{index}]" for array in arrays for index in at] or [f"qd.{name.dtype}({i} & 7)"]
        for _ in range(g.random.randint(1, 4)):
            g.put(2, self.term(name, elements) if name.dtype.startswith("f") else self._term_of(name, elements))
        self.keep(2, i, name)

    def _term_of(self, name: Name, elements: list[str]) -> str:
        g = self.g
        g.scope.element_reads = [lambda depth, text=text: text for text in elements]
        return self.term(name, elements)

    def scan(self) -> None:
        """A sum that each iteration stores: in order."""
        g = self.g
        arrays = self.numbers()
        name = self.accumulator(1)
        g.put(1, f"for {self.i} in range(n):")
        elements = [f"{array.name}[{self.i}]" for array in arrays] or [f"qd.{name.dtype}({self.i} & 7)"]
        if not name.dtype.startswith("f"):
            g.scope.element_reads = [lambda depth, text=text: text for text in elements]
        g.put(2, self.term(name, elements))
        self.keep(2, self.i, name)

    def append(self) -> None:
        """What fits a condition moves to the front, in order."""
        g = self.g
        count = g.fresh("k")
        arrays = self.numbers()
        elements = [f"{array.name}[{self.i}]" for array in arrays]
        g.put(1, f"{count} = qd.i32(0)")
        g.put(1, f"for {self.i} in range(n):")
        name = self.accumulator(2)
        if not name.dtype.startswith("f"):
            g.scope.element_reads = [lambda depth, text=text: text for text in elements]
        if elements and g.chance(0.8):
            g.put(2, self.term(name, elements))
        g.put(2, f"if {g.condition(1)}:")
        self.keep(3, count, name)
        g.put(3, f"{count} += {g.random.choice(('1', '1', 'qd.i32(1)'))}")
        if g.chance(0.5):
            g.put(1, f"p[{count} & 7] = {count}")

    def chain(self) -> None:
        """Loops over one range, each of which reads what those before it wrote, at or near its own place."""
        g = self.g
        fitting = [a for a in g.arrays if a.shape == "long" and not a.is_order and a.is_float == self.target.is_float]
        fitting = [a for a in fitting if a.dtype != "u1" and not a.is_half]
        if len(fitting) < 2:
            return self.neighbours()
        domain = g.random.choice(("n", "n", "len(c)", "1, n", "n - 1"))
        written: list[Array] = []
        for _ in range(g.random.randint(2, 4)):
            array = g.random.choice(fitting)
            others = [a for a in fitting if a is not array]
            near = [self.i, self.i, self.i, f"max({self.i} - 1, 0)", f"min({self.i} + 1, n - 1)"]
            reads = [f"{a.name}[{g.random.choice(near)}]" for a in g.random.sample(others, min(2, len(others)))]
            reads += [f"{a.name}[{self.i}]" for a in written[-1:]]
            self.target = array
            dtype = array.dtype
            g.put(1, f"for {self.i} in range({domain}):")
            name = Name(f"s{self.i}", dtype)
            g.put(2, f"{name.text} = qd.{dtype}({array.name}[{self.i}]{' % 4.0' if array.is_float else ''})")
            g.put(2, self.term(name, reads) if array.is_float else self._term_of(name, reads))
            if g.style.tame and not array.is_float:
                g.put(2, f"{name.text} = {name.text} & 63")
            g.put(2, f"{array.name}[{self.i}] = {name.text}")
            written.append(array)
        return None

    def factorise(self) -> None:
        """Each iteration works on a matrix of its own, element by element, as a factorisation does."""
        g = self.g
        array = g.random.choice([array for array in g.arrays if array.column])
        a, b, k = g.fresh("i"), g.fresh("j"), g.fresh("k")
        size = min(array.row, array.column)

        def element(row: str, column: str) -> str:
            return array.element(self.i, f"{row}, {column}")

        g.put(1, f"for {self.i} in range(n):")
        g.put(2, f"for {a} in range({size}):")
        g.put(3, f"for {b} in range({g.random.choice((f'{a} + 1', str(size), f'{a}, {size}'))}):")
        g.put(4, f"s = {self._held(array, element(a, b))}")
        g.put(4, f"for {k} in range({g.random.choice((b, a, '2', f'min({a}, {b})'))}):")
        sign = g.random.choice("+-")
        g.put(5, f"s {sign}= {self._held(array, element(a, k))} * {self._held(array, element(b, k))}")
        if g.chance(0.4):
            g.put(4, f"if {a} == {b}:")
            g.put(5, f"{element(a, b)} = {self._kept(array, 's + s')}")
            g.put(4, "else:")
            g.put(5, f"{element(a, b)} = {self._kept(array, 's')}")
        else:
            g.put(4, f"{element(a, b)} = {self._kept(array, 's')}")

    def _held(self, array: Array, text: str) -> str:
        if array.is_float:
            return f"qd.{'f64' if array.dtype == 'f64' else 'f32'}({text} % 4.0)"
        return f"qd.i64({text} & 63)" if self.g.style.tame else f"qd.i32({text})"

    def _kept(self, array: Array, text: str) -> str:
        if array.dtype == "u1":
            return f"({text}) > 5"
        if array.is_float:
            return f"qd.floor(({text}) % 16.0) * 0.25"
        return f"({text}) & 63" if self.g.style.tame else text

    def matrices(self) -> list[Array]:
        return [array for array in self.g.arrays if array.row and not array.column and array.kind == "numpy"]

    def row_array(self) -> Array:
        return self.g.random.choice(self.matrices())

    def grid(self) -> None:
        """All elements of a matrix, from themselves and their neighbours in another."""
        g = self.g
        array = self.row_array()
        j = g.fresh("j")
        if g.chance(0.5):
            g.put(1, f"for {self.i}, {j} in qd.ndrange(n, {array.row}):")
            indent = 2
        else:
            g.put(1, f"for {self.i} in range(n):")
            g.put(2, f"for {j} in range({array.row}):")
            indent = 3
        element = f"{array.name}[{self.i}, {j}]"
        g.scope.fixed.append(f"qd.i32({j})")
        g.put(indent, g.store_text(array, element) if not array.is_float else self._float_store(array, element))

    def _float_store(self, array: Array, element: str) -> str:
        dtype = "f64" if array.dtype == "f64" else "f32"
        if self.g.style.loose:
            return f"{element} = qd.{dtype}(np.cos(qd.{dtype}({element})))"
        return f"{element} = qd.{dtype}(qd.floor((qd.{dtype}({element} % 4.0) * 1.5 + ({self.i} & 3)) % 16.0) * 0.25)"

    def product(self) -> None:
        """A matrix times its transpose, into the long target's first elements or a row."""
        g = self.g
        array = self.row_array()
        if array.dtype == "u1" or array.is_float != self.target.is_float:
            return self.grid()
        j, k = g.fresh("j"), g.fresh("k")
        g.put(1, f"for {self.i} in range(n):")
        name = self.accumulator(2)
        g.put(2, f"for {j} in range({array.row}):")
        g.put(3, f"for {k} in range({g.random.choice(('n', str(array.row)))}):")
        g.scope.fixed += [f"qd.i32({j})", f"qd.i32({k})"]
        right = f"{array.name}[{k} % n, {j}]"
        self.add(4, name, [f"{array.name}[{self.i}, {j}]", right])
        return self.keep(2, self.i, name)
