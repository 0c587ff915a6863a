"""Random nests over three matrices of sizes that the program names: products, walks down columns, stencils, rows.

Passes cut such nests into tiles, blocks and vectors, whose sizes these are a little above and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.evidence.fuzz.parallel import CONFIGURATIONS, MATRICES

if TYPE_CHECKING:
    from quadrants.evidence.fuzz.generate import Array, Generator

__all__ = ["ROLES", "MatrixNest", "matrix_sizes"]

ROLES = MATRICES  # the left factor, the right one, their product
_ROWS = (1, 3, 4, 5, 8, 11, 12, 13)
_COLUMNS = (1, 7, 8, 9, 15, 16, 17, 24, 25, 32, 33)
_DEPTHS = (1, 2, 3, 4, 5, 9, 16, 17)


def matrix_sizes(generator: Generator) -> dict[str, tuple[str, str]]:
    """The sizes of the three matrices; now and then one of them is known at run time only, or swapped."""
    source = generator.random
    rows, columns = str(source.choice(_ROWS)), str(source.choice(_COLUMNS))
    depth = "size" if source.random() < 0.3 else str(source.choice(_DEPTHS))
    return {"left": (rows, depth), "right": (depth, columns), "product": (rows, columns)}


class MatrixNest:
    """Writes one nest. `left` and `right` are read; each iteration writes elements of `product` of its own."""

    def __init__(self, generator: Generator) -> None:
        self.g = generator
        matrices = {array.shape: array for array in generator.arrays if array.shape in ROLES}
        self.left, self.right, self.product = (matrices[role] for role in ROLES)
        self.i, self.j, self.k = (generator.fresh(letter) for letter in "ijk")
        source = generator.random
        known = source.random() < 0.5
        sizes = generator.sizes

        def size(array: Array, axis: int) -> str:
            text = sizes[array.shape][axis]
            return text if known and text != "size" else f"{array.name}.shape[{axis}]"

        self.rows, self.columns, self.depth = size(self.product, 0), size(self.product, 1), size(self.left, 1)
        self.dtype = self.left.dtype if self.left.dtype == self.right.dtype else self.product.dtype

    def write(self) -> None:
        g = self.g
        if g.chance(0.1):
            g.put(1, f"qd.loop_config({g.random.choice(CONFIGURATIONS)})")
        kinds = [self.sums] * 4 + [self.steps] * 2 + [self.down, self.down, self.vector, self.stencil, self.rows_alike]
        g.random.choice(kinds)()

    # What stands in the nests.

    def over(self, indent: int, counter: str, extent: str) -> int:
        """A loop; gives the indentation of its body."""
        self.g.put(indent, f"for {counter} in range({extent}):")
        return indent + 1

    def pair(self, indent: int, first: tuple[str, str], second: tuple[str, str]) -> int:
        """Two loops, or one over both."""
        if self.g.chance(0.4):
            self.g.put(indent, f"for {first[0]}, {second[0]} in qd.ndrange({first[1]}, {second[1]}):")
            return indent + 1
        return self.over(self.over(indent, *first), *second)

    def zero(self) -> str:
        return f"qd.{self.dtype}({'0.0' if self.dtype[0] == 'f' else '0'})"

    def factor(self, array: Array, first: str, second: str) -> str:
        """An element as a factor: small, so that sums of products are exact."""
        text = f"{array.name}[{first}, {second}]"
        if self.g.style.tame and not array.is_float:
            text = f"({text} & 7)"
        return text if array.dtype == self.dtype else f"qd.{self.dtype}({text})"

    def term(self) -> str:
        g = self.g
        text = f"{self.factor(self.left, self.i, self.k)} * {self.factor(self.right, self.k, self.j)}"
        kind = g.random.random()
        if kind < 0.1:
            return f"{text} * {self.factor(self.right, self.k, self.j)}"
        if kind < 0.2:
            return f"{text} * {g.random.choice(('2', '-1', '3'))}"
        if kind < 0.25:
            return f"{text} + {self.factor(self.left, self.i, self.k)}"
        return text

    def kept(self, text: str) -> str:
        """What an element of the product takes."""
        if self.product.is_float:
            return text if self.product.dtype == self.dtype else f"qd.{self.product.dtype}({text})"
        return f"({text}) & 63" if self.g.style.tame else text

    def target(self, first: str = "", second: str = "") -> str:
        return f"{self.product.name}[{first or self.i}, {second or self.j}]"

    # Nests.

    def sums(self) -> None:
        """A sum for each element of the product."""
        g = self.g
        indent = self.pair(1, (self.i, self.rows), (self.j, self.columns))
        start = self.kept(self.target()) if g.chance(0.2) and self.product.dtype == self.dtype else self.zero()
        g.put(indent, f"s = {start}")
        inside = self.over(indent, self.k, self.depth)
        if g.chance(0.15):
            g.put(inside, f"if {self.factor(self.left, self.i, self.k)} > 0:")
            inside += 1
        g.put(inside, f"s {g.random.choice(('+=', '+=', '+=', '-='))} {self.term()}")
        if g.chance(0.2) and not g.style.tame:
            g.put(indent, f"{self.target()} {g.random.choice('+-')}= {self.kept('s')}")
        else:
            g.put(indent, f"{self.target()} = {self.kept('s')}")

    def steps(self) -> None:
        """The product is added up in place, by loops in any order."""
        g = self.g
        if g.style.tame and not self.product.is_float:
            return self.sums()
        loops = [(self.i, self.rows), (self.j, self.columns), (self.k, self.depth)]
        g.random.shuffle(loops)
        indent = 1
        for each in loops:
            indent = self.over(indent, *each)
        return g.put(indent, f"{self.target()} += {self.kept(self.term())}")

    def down(self) -> None:
        """Sums down the columns of the right factor, a column an iteration."""
        g = self.g
        indent = self.over(1, self.j, self.columns)
        g.put(indent, f"s = {self.zero()}")
        inside = self.over(indent, self.k, self.depth)
        value = self.factor(self.right, self.k, self.j)
        if g.chance(0.3):
            g.put(inside, f"s = {g.random.choice(('min', 'max'))}(s, {value})")
        else:
            g.put(inside, f"s += {value}{g.random.choice(('', ' * 2', f' * {value}'))}")
        g.put(indent, f"{self.target('0')} = {self.kept('s')}")

    def vector(self) -> None:
        """The left factor times a column of the right one."""
        g = self.g
        indent = self.over(1, self.i, self.rows)
        g.put(indent, f"s = {self.zero()}")
        inside = self.over(indent, self.k, self.depth)
        g.put(inside, f"s += {self.factor(self.left, self.i, self.k)} * {self.factor(self.right, self.k, '0')}")
        g.put(indent, f"{self.target(second='0')} = {self.kept('s')}")

    def stencil(self) -> None:
        """Each element of the product from neighbours in the left factor, its borders left out."""
        g = self.g
        i, j, left = self.i, self.j, self.left
        ends = f"min({self.rows}, {left.name}.shape[0])", f"min({self.columns}, {left.name}.shape[1])"
        if g.chance(0.5):
            g.put(1, f"for {i} in range(1, {ends[0]} - 1):")
            g.put(2, f"for {j} in range(1, {ends[1]} - 1):")
        else:
            g.put(1, f"for {i}, {j} in qd.ndrange((1, {ends[0]} - 1), (1, {ends[1]} - 1)):")
        around = [(i, j), (f"{i} - 1", j), (f"{i} + 1", j), (i, f"{j} - 1"), (i, f"{j} + 1"), (f"{i} - 1", f"{j} + 1")]
        chosen = g.random.sample(around, g.random.randint(2, 5))
        value = f" {g.random.choice('+-')} ".join(self.factor(left, *place) for place in chosen)
        indent = 2 if "ndrange" in g.lines[-1] else 3
        g.put(indent, f"{self.target()} = {self.kept(value)}")

    def rows_alike(self) -> None:
        """Elementwise over rows, with what a row shares computed in front of them."""
        g = self.g
        indent = self.over(1, self.i, self.rows)
        g.put(
            indent, f"s = {self.factor(self.left, self.i, f'{self.depth} - 1')} if {self.depth} > 0 else {self.zero()}"
        )
        inside = self.over(indent, self.j, self.columns)
        column = f"{self.j} % max({self.depth}, 1)"
        value = self.factor(self.left, self.i, column) if g.chance(0.3) else f"qd.{self.dtype}({self.j} & 3)"
        guard = f"{value} if {self.depth} > 0 else {self.zero()}"
        g.put(inside, f"x = {guard}")
        g.put(inside, f"{self.target()} = {self.kept('s * x - s')}")
