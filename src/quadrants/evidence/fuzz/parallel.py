"""Random loops of the top level whose iterations meet in nothing but updates of one kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants.evidence.fuzz.expressions import Name, Scope
from quadrants.evidence.fuzz.statements import Place

if TYPE_CHECKING:
    from quadrants.evidence.fuzz.generate import Array, Generator

__all__ = ["ParallelLoop"]

DOMAINS = (
    *("range(n)", "range(n)", "range(len(c))", "range(d.shape[0])", "range(1, n)", "range(n - 1)"),
    *(
        "range(qd.i64(n))",
        "range(qd.i32(len(c)))",
        "range(qd.i32(1), n)",
        "range(n // 2)",
        "range(min(n, qd.i32(m) & 15))",
    ),
)
# Arrays that lie outside of what iterations count.
MATRICES = ("left", "right", "product")
STEPPED = ("range(0, n, 2)", "range(n - 1, -1, -1)", "range(n - 1, 0, -3)", "range(m & 7, n)")
# The same as range(n), and range(1, n), where products of 32 bits wrap.
WRAPPED = (
    "range(n * 65536 * 65536 + n)",
    "range(qd.i32(m) * 65536 * 65536 + 1, n)",
    "range(n * 65535 * 65537 + 2 * n)",
)
CONFIGURATIONS = ("vectorize=4", "vectorize=8", "vectorize=True", "serialize=True", "parallelize=1", "serialize=False")


class ParallelLoop:
    """Writes one loop, and takes back the generator's scope afterwards."""

    def __init__(self, generator: Generator) -> None:
        self.g = generator
        self.reads: list[Callable[[int], str]] = []
        self.float_reads: list[Callable[[int], str]] = []
        self.stores: list[Callable[[int], None]] = []
        self.readable: list[str] = []
        self.second = ""

    def write(self) -> None:
        g = self.g
        before = g.scope
        indent = self.head()
        self.give_roles()
        sums = self.choose_sums(before)
        g.scope = self.inner_scope(before, {name.text for name, _ in sums})
        g.place = Place(self.stores, sums, continues=not self.second)
        if g.chance(0.06):
            g.place.breaks = True
        g.declare(indent, g.random.randint(1, 3), 1, g.random.randint(0, 1))
        if g.chance(0.3):
            g.declare_vector(indent)
        g.block(indent, g.random.choice((1, 2, 2, 2, 3)), g.random.randint(1, 4))
        for store in self.stores[:2]:
            store(indent)
        g.place, g.scope = Place(), before

    def head(self) -> int:
        """The line or lines of the loop; gives the body's indentation."""
        g = self.g
        if g.chance(0.2):
            g.put(1, f"qd.loop_config({g.random.choice(CONFIGURATIONS)})")
        self.counter = g.fresh("i")
        kind = g.random.random()
        if kind < 0.12:
            self.second = g.fresh("j")
            g.put(1, f"for {self.counter}, {self.second} in qd.ndrange(n, {g.random.randint(2, 4)}):")
            return 2
        if kind < 0.24:
            self.second = g.fresh("j")
            g.put(1, f"for {self.counter} in {g.random.choice(DOMAINS)}:")
            g.put(2, f"for {self.second} in range({g.random.randint(2, 4)}):")
            return 3
        domain = g.random.choice(STEPPED) if kind < 0.4 else g.domain if kind < 0.8 else g.random.choice(DOMAINS)
        if not g.style.tame and g.chance(0.06):
            domain = g.random.choice(WRAPPED)
        g.put(1, f"for {self.counter} in {domain}:")
        return 2

    # Roles.

    def give_roles(self) -> None:
        for array in self.g.arrays:
            role = self.g.random.choice(("own", "own", "read", "update", "none"))
            if array.shape in MATRICES:
                continue
            if array.is_order:
                self.read(array, lambda depth: self.anywhere(depth))
            elif array.shape == "small":
                self.small(array, role)
            elif role == "own" and not (self.second and (not array.row or array.column)):
                self.own(array)
            elif role == "read":
                self.read(array, lambda depth: self.anywhere(depth))
            elif role == "update" and not (array.dtype == "u1" or array.is_half):
                index = self.own_index(array)
                self.update(array, lambda index=index: index)

    def small(self, array: Array, role: str) -> None:
        if role == "update" and not (array.dtype == "u1" or array.is_half):
            self.update(array, lambda: self.g.masked(8, 1).removesuffix(" - 8"))
        elif role != "none":
            self.read(array, lambda depth: self.g.index_of(array, depth))
            if not array.is_float and array.dtype != "u1":
                self.readable.append(array.name)

    def anywhere(self, depth: int) -> str:
        """An index of an array of n elements or more."""
        g = self.g
        kind = g.random.random()
        if kind < 0.4:
            return self.counter
        if kind < 0.5:
            return f"n - 1 - {self.counter}"
        if kind < 0.6:
            return f"max({self.counter} - {g.random.randint(1, 2)}, 0)"
        if kind < 0.7:
            return f"min({self.counter} + {g.random.randint(1, 2)}, n - 1)"
        if kind < 0.8 and not g.style.tame:
            return f"{g.scrambled()} % n"
        return f"({g.integer(depth)}) % n"

    def own_index(self, array: Array) -> str:
        """An index that no two iterations share."""
        g, i = self.g, self.counter
        texts = [i, i, i, f"n - 1 - {i}", f"o[{i}]"]
        if not g.style.tame:
            texts += [f"{i} + qd.i32({i}) * 65536 * 65536", f"qd.i32({i})"]
        if array.shape == "wide":
            texts += [f"2 * {i}", f"2 * {i} + 3", f"{i} + 2", f"n + {i}"]
        return g.random.choice(texts)

    def typed(self, array: Array, text: str) -> str:
        """A load as an expression of its kind takes it."""
        return f"qd.f32({text})" if array.is_half else f"qd.i32({text})" if array.dtype == "u1" else text

    def add_read(self, array: Array, read: Callable[[int], str]) -> None:
        if array.is_float:
            self.float_reads.append(lambda depth: self.typed(array, read(depth)))
        else:
            self.reads.append(lambda depth: self.typed(array, read(depth)))

    def read(self, array: Array, index: Callable[[int], str]) -> None:
        """Every element may be read, none is changed."""
        self.add_read(array, lambda depth: array.element(index(depth), self.component(array)))

    def component(self, array: Array) -> str:
        return self.g.part(array, 0)

    def own(self, array: Array) -> None:
        """Each iteration has an element, or a row, of its own."""
        index = self.own_index(array)

        def element() -> str:
            if self.second:
                return array.element(index, f"{self.second} % {array.row}" if array.row < 4 else self.second)
            return array.element(index, self.component(array))

        if self.second and array.row < 4:
            return  # two iterations of the inner loop could share a component
        self.add_read(array, lambda depth: element())
        self.stores.append(lambda indent: self.g.put(indent, self.g.store_text(array, element())))

    def update(self, array: Array, index: Callable[[], str]) -> None:
        """All iterations update elements in one way."""
        g = self.g
        if array.is_float:
            operators = ("+", "+", "min", "max")
        else:
            operators = ("+", "+", "^", "|", "&", "min", "max", *(() if g.style.tame else ("*",)))
        operator = g.random.choice(operators)

        def write(indent: int) -> None:
            target = array.element(index(), self.component(array))
            value = g.bound_float(array.dtype, 1) if array.is_float else g.cast(array.dtype, 1)
            if operator in ("min", "max"):
                g.put(indent, f"qd.atomic_{operator}({target}, {value})")
            else:
                sign = "-" if operator == "+" and g.chance(0.3) else operator
                g.put(indent, f"{target} {sign}= {value}")

        self.stores.append(write)

    # Names.

    def choose_sums(self, outer: Scope) -> list[tuple[Name, str]]:
        """Outer names that the loop only adds to, or the like."""
        g = self.g
        sums: list[tuple[Name, str]] = []
        for name in (*outer.integers[1:], *outer.floats[1:]):
            if g.chance(0.3):
                is_float = name.dtype.startswith("f")
                operators = ["+", "min", "max"] if is_float else ["+", "+", "-", "^", "|", "&", "min", "max"]
                if not (g.style.tame or is_float):
                    operators.append("*")
                sums.append((name, g.random.choice(operators)))
        return sums

    def inner_scope(self, outer: Scope, summed: set[str]) -> Scope:
        """Outer names are read only; elements as their arrays' roles allow."""
        g = self.g
        names = [self.outer_text(name) for name in outer.integers if name.text not in summed]
        floats = [name.text for name in outer.floats if name.text not in summed]
        counters = [self.counter, *([self.second] if self.second else [])]
        return Scope(
            fixed=["n", "m", *names, *(f"qd.i32({counter})" for counter in counters)],
            element_reads=self.reads,
            float_reads=[*self.float_reads, *((lambda depth, text=text: text) for text in floats)],
            helpers=[helper for helper in g.helpers if helper.kind != "writer"],
            free_arrays=self.readable,
        )

    def outer_text(self, name: Name) -> str:
        return f"({name.text} & 63)" if self.g.style.tame else name.text
