"""Random programs: a module's text with functions, `program`, and `arguments(size)`, which makes what `program` takes.

No program has undefined behaviour, on purpose: indices are in range, whiles end, and iterations that may run in parallel
meet in nothing but updates of one kind. Each parallel loop gives every array one role: it is read anywhere, or each
iteration reads and writes elements of its own, or all iterations update it in one way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from quadrants.evidence.fuzz.expressions import Helper, Name, Scope, Style, Vector
from quadrants.evidence.fuzz.idioms import Idiom
from quadrants.evidence.fuzz.matrices import ROLES, MatrixNest, matrix_sizes
from quadrants.evidence.fuzz.parallel import DOMAINS, ParallelLoop
from quadrants.evidence.fuzz.statements import Place, Statements

__all__ = ["SIZES", "Case", "program_text"]

HALVES = ("f16", "bf16")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 9, 11, 13, 16, 17, 19)
HEADER = """from __future__ import annotations

import math

import numpy as np

import quadrants as qd
from quadrants.evidence.fuzz.data import Members, backwards, every_other, field, numbers, order, transposed
"""
# An order that no analysis can look through: what stands below runs as written.
RUN_TIME = "if n > -1000000:"


class Case(NamedTuple):
    """A program: its text, the sizes to run it with, what kind of numbers it computes with."""

    text: str
    sizes: tuple[int, ...]
    style: Style


def program_text(seed: int) -> Case:
    """The program of a seed."""
    source = random.Random(seed)
    style = Style(tame=source.random() < 0.35, loose=source.random() < 0.15)
    empty = source.random() < 0.3
    sizes = (source.choice(SIZES), 0 if empty else source.choice(SIZES[:5]))
    return Case(Generator(source, style, numpy_only=empty).module(), sizes, style)


@dataclass(frozen=True)
class Array:
    """A parameter that is an array. `shape`: 'small' (8 elements), 'long' (one an iteration), 'wide' (2 n + 4), 'rows'
    (n rows of `row` elements, or matrices of `row` by `column`), or a role in nests over matrices. `kind`: 'numpy',
    'field', 'ndarray' or 'planar' (a field as a structure of arrays); rows of all but the first are vectors. `group`: the
    parameter that it is a member of, if it is no parameter itself."""

    name: str
    dtype: str
    shape: str
    kind: str
    row: int = 0
    column: int = 0
    is_order: bool = False
    group: str = ""

    @property
    def is_float(self) -> bool:
        return self.dtype[0] in "fb"

    @property
    def is_half(self) -> bool:
        """Whether expressions take its elements as f32."""
        return self.dtype in HALVES

    @property
    def is_field(self) -> bool:
        """Whether negative indices mean nothing."""
        return self.kind in ("field", "planar")

    def element(self, index: str, component: str) -> str:
        """The text of one element."""
        if not self.row:
            return f"{self.name}[{index}]"
        return f"{self.name}[{index}, {component}]" if self.kind == "numpy" else f"{self.name}[{index}][{component}]"


class Generator(Statements):
    """One use writes one module. `numpy_only`: sizes may be 0, which fields have not."""

    def __init__(self, source: random.Random, style: Style, numpy_only: bool = False) -> None:
        super().__init__(source, style)
        self.kinds = ("numpy",) if numpy_only else ("numpy", "numpy", "numpy", "numpy", "ndarray", "field", "planar")
        self.sizes: dict[str, tuple[str, str]] = {}
        self.arrays: list[Array] = []
        self.helpers: list[Helper] = []
        self.results: list[Name] = []
        self.domain = source.choice(DOMAINS)
        self.alias = False

    def module(self) -> str:
        """The whole text."""
        self.lines = [HEADER]
        phases = self.chosen_phases()
        self.alias = not {"parallel", "idiom", "matrices"}.intersection(phases) and self.chance(0.3)
        self.make_arrays()
        if "matrices" in phases:
            self.make_matrices()
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            self.helper()
        self.lines += ["", f"def program({self.parameters_text()}, n: qd.i32, m: qd.i64):"]
        self.scope = Scope(fixed=["n", "m"])
        self.declare(1, self.random.randint(2, 3), self.random.randint(1, 2))
        self.results = [*self.scope.integers, *self.scope.floats]
        for phase in phases:
            getattr(self, f"phase_{phase}")()
        self.put(1, self.result())
        self.arguments()
        return "\n".join(self.lines) + "\n"

    def chosen_phases(self) -> list[str]:
        kinds = ("parallel",) * 5 + ("idiom",) * 3 + ("matrices",) + ("ordered",) * 3 + ("carried", "straight")
        return [self.random.choice(kinds) for _ in range(self.random.choice((1, 1, 1, 2, 2)))]

    def result(self) -> str:
        return f"return {', '.join(name.text for name in self.results)}"

    def leave_with(self) -> str:
        """An early return with other values of the same types."""
        values = [
            self.bound_float(name.dtype, 0) if name.dtype.startswith("f") else self.cast(name.dtype, 1)
            for name in self.results
        ]
        return f"return {', '.join(values)}"

    # Arrays.

    def make_arrays(self) -> None:
        for name, shape in (
            ("p", "small"),
            ("q", "small"),
            ("r", "small"),
            ("c", "long"),
            ("d", "long"),
            ("o", "order"),
        ):
            self.arrays.append(self.array(name, shape))
        grouped = self.chance(0.15)
        for name in ("e", "f", "g", "h"):
            if self.chance(0.5):
                group = "z" if grouped and self.chance(0.6) else ""
                shape = self.random.choice(("long", "wide", "rows", "rows", "blocks", "small"))
                self.arrays.append(replace(self.array(f"z.{name}" if group else name, shape), group=group))

    def make_matrices(self) -> None:
        """Three matrices: factors and product."""
        self.sizes = matrix_sizes(self)
        dtype = self.random.choice(("f32", "f32", "f64", "i32", "i64", "u32"))
        for name, role in zip(("u", "v", "w"), ROLES):
            other = self.random.choice(("f64",) if dtype[0] == "f" else ("i64",)) if self.chance(0.1) else dtype
            self.arrays.append(
                Array(name, other, role, "numpy" if self.chance(0.7) else self.random.choice(self.kinds))
            )

    def parameters_text(self) -> str:
        """The arrays as parameters, members by the parameter that they belong to."""
        return ", ".join(dict.fromkeys(array.group or array.name for array in self.arrays))

    def array(self, name: str, shape: str) -> Array:
        kind = self.random.choice(self.kinds)
        if shape == "order":
            return Array(name, self.random.choice(("i32", "i64", "u32")), "long", kind, is_order=True)
        if self.alias and shape == "small" and name in "pq":
            return Array(name, "i32", shape, "numpy")
        if name == "p" or not self.chance(0.35):
            dtype = self.some_type()
        else:
            dtype = self.random.choice(("f32", "f32", "f32", "f64", "f64", "f64", "f16", "bf16"))
        if self.chance(0.04) and name != "p":
            dtype = "u1"
        if dtype == "bf16" and kind == "numpy":  # which NumPy has not
            kind = self.random.choice(self.kinds)
            dtype = "f16" if kind == "numpy" else dtype
        if shape == "blocks":
            return Array(name, dtype, "rows", kind, self.random.choice((2, 3, 4)), self.random.choice((2, 3, 4)))
        row = self.random.choice((2, 3, 3, 4, 5)) if shape == "rows" else 0
        return Array(name, dtype, shape, kind, row)

    def part(self, array: Array, depth: int) -> str:
        """The indices of an element within a row or a matrix."""
        if not array.row:
            return ""
        parts = [self.component(size, depth) for size in (array.row, array.column) if size]
        return ", ".join(parts)

    def arguments(self) -> None:
        """The function that makes the arguments."""
        self.lines += ["", "def arguments(size):"]
        members = [array for array in self.arrays if array.group]
        for array in self.arrays:
            self.put(1, f"{array.name.removeprefix('z.')} = {self.data(array)}")
        if members:
            names = [array.name.removeprefix("z.") for array in members]
            self.put(1, f"z = Members({', '.join(f'{name}={name}' for name in names)})")
        if self.alias:
            same = ("q = p", "q = p[::-1]", "base = numbers('i32', 10, 3)\n    p, q = base[:8], base[2:]")
            self.put(1, self.random.choice(same))
        self.put(1, f"return {self.parameters_text()}, size, {self.random.randint(-3, 60)}")

    def data(self, array: Array) -> str:
        sizes = {role: f"({first}, {second})" for role, (first, second) in self.sizes.items()}
        sizes |= {"small": "8", "long": "size", "wide": "2 * size + 4", "rows": f"(size, {array.row})"}
        size = sizes[array.shape]
        if array.column:
            size = f"(size, {array.row}, {array.column})"
        if array.is_order:
            text = f'order("{array.dtype}", size, {self.random.randint(0, 99)})'
        else:
            wild = "" if self.style.tame or self.style.loose or self.chance(0.6) else ", wild=True"
            text = f'numbers("{array.dtype}", {size}, {self.random.randint(0, 9)}{wild})'
        if array.kind != "numpy":
            return f'field("{array.kind}", "{array.dtype}", {text}{f", {1 + bool(array.column)}" if array.row else ""})'
        views = ("every_other", "backwards", *(("transposed",) if array.row or array.shape in ROLES else ()))
        return f"{self.random.choice(views)}({text})" if self.chance(0.2) else text

    # Functions.

    def helper(self) -> None:
        kinds = ["integer", "integer", "float", "pair", "reader", "writer", "depth", "vector", "reference"]
        kind = self.random.choice(kinds)
        dtype = self.random.choice(("f32", "f64")) if kind == "float" else self.some_type()
        helper = Helper(f"helper_{len(self.helpers)}", kind, dtype)
        large = self.chance(0.15)
        self.lines += ["", f"def {helper.text}({', '.join(self.parameters(helper))}):"]
        self.helper_body(helper, self.random.randint(12, 16) if large else self.random.randint(1, 3), large)
        self.helpers.append(helper)

    def parameters(self, helper: Helper) -> tuple[str, ...]:
        names = {"reader": ("p", "a"), "writer": ("p", "a"), "depth": ("count", "a"), "float": ("x", "a")}
        names |= {"vector": ("v", "a"), "reference": ("b: qd.template()", "a")}
        return names.get(helper.kind, ("a", "b"))

    def helper_body(self, helper: Helper, length: int, large: bool) -> None:
        dtype = helper.dtype
        self.from_the_end = False  # the array may be a field
        integer = Name("a", "i32" if helper.kind == "float" else dtype)
        self.scope = Scope([integer], helpers=[h for h in self.helpers if h.kind in ("integer", "depth")])
        if helper.kind in ("integer", "pair", "reference"):
            self.scope.integers.append(Name("b", dtype))
        if helper.kind == "vector":
            self.scope.vectors = [Vector("v", dtype, 3)]
        if helper.kind == "float":
            self.scope.floats = [Name("x", dtype)]
        place = Place(leaves=lambda: f"return {self.given(helper)}".rstrip())
        if helper.kind in ("reader", "writer"):
            self.scope.element_reads = [lambda depth: f"p[{self.masked(8, depth)}]"]
        if helper.kind == "writer":
            place.stores = [self.store_to(Array("p", "i32", "small", "numpy"), lambda: self.masked(8, 1))]
        if helper.kind == "depth":
            self.put(1, "if count <= 0:")
            self.put(2, f"return {self.given(helper)}")
        self.place = place
        if self.chance(0.3):
            self.declare_vector(1)
        self.block(1, 1 if large else 2, length)
        if helper.kind == "depth":
            self.put(1, f"a = {helper.text}(count - 1, {self.cast(dtype, 1)})")
            self.block(1, 1, self.random.randint(0, 2))
        self.put(1, f"return {self.given(helper)}".rstrip())
        self.place = Place()
        self.from_the_end = True

    def given(self, helper: Helper) -> str:
        """What a function gives back."""
        if helper.kind == "float":
            return self.bound_float(helper.dtype, 1)
        if helper.kind == "reference":
            return ""
        if helper.kind == "vector":
            return self.random.choice(("v", self.display(Vector("", helper.dtype, 3))))
        if helper.kind == "pair":
            return f"{self.cast(helper.dtype, 1)}, {self.cast(helper.dtype, 1)}"
        return self.cast(helper.dtype, 2)

    # What runs in order.

    def free_scope(self) -> Scope:
        """All arrays may be read and written anywhere."""
        scope = Scope(**vars(self.scope))
        small = [array for array in self.arrays if array.shape == "small"]
        scope.element_reads = [self.read_masked(array) for array in small if not array.is_float]
        scope.float_reads = [self.read_masked(array) for array in small if array.is_float and array.dtype != "u1"]
        scope.helpers = list(self.helpers)
        scope.atomics = [Name(a.name, a.dtype) for a in small if not a.is_float and a.dtype != "u1"]
        scope.free_arrays = [name.text for name in scope.atomics]
        return scope

    def free_place(self) -> Place:
        small = [array for array in self.arrays if array.shape == "small"]
        return Place([self.store_to(array, lambda: self.masked(8, 1)) for array in small])

    def read_masked(self, array: Array) -> Callable[[int], str]:
        text = "qd.f32({})" if array.is_half else "qd.i32({})" if array.dtype == "u1" else "{}"
        return lambda depth: text.format(array.element(self.index_of(array, depth), ""))

    def index_of(self, array: Array, depth: int) -> str:
        """An index of a small array."""
        index = self.masked(8, depth)
        return index.removesuffix(" - 8") if array.is_field else index

    def phase_ordered(self) -> None:
        """Statements under a condition that only the run decides."""
        before, self.scope = self.scope, self.free_scope()
        self.place = self.free_place()
        if self.chance(0.5):
            self.place.leaves = self.leave_with
        self.put(1, RUN_TIME)
        if self.chance(0.5):
            self.declare_vector(2)
        self.declare(2, 0, 0, self.random.randint(0, 1))
        self.block(2, self.random.choice((2, 2, 3)), self.random.randint(2, 5))
        self.place, self.scope = Place(), before

    def phase_straight(self) -> None:
        """Statements of the top level, without loops."""
        before, self.scope = self.scope, self.free_scope()
        self.place = self.free_place()
        self.place.loops = False
        self.block(1, 1, self.random.randint(1, 4))
        self.place, self.scope = Place(), before

    def phase_carried(self) -> None:
        """A loop in which every iteration needs the one before."""
        before, self.scope = self.scope, self.free_scope()
        self.place = self.free_place()
        name = self.random.choice(self.scope.integers)
        counter = self.fresh("i")
        self.put(1, f"for {counter} in range({self.random.choice(('n', 'len(c)', '7'))}):")
        mask = " & 63" if self.style.tame else ""
        self.put(2, f"{name.text} = qd.{name.dtype}(({name.text} * 3 + p[({counter} + {name.text}) & 7]){mask})")
        self.put(2, f"p[({counter} + {name.text}) & 7] = {name.text}{mask}")
        self.place.breaks = self.place.continues = True
        self.place.loops = False
        self.block(2, 2, self.random.randint(0, 2))
        self.place.loops = True
        self.put(2, RUN_TIME)
        self.block(3, 2, self.random.randint(1, 3))
        self.place, self.scope = Place(), before

    # Stores.

    def store_to(self, array: Array, index: Callable[[], str]) -> Callable[[int], None]:
        """Writes a store to, or an update of, an element."""

        def write(indent: int) -> None:
            at = index()
            if array.is_field:
                at = at.removesuffix(" - 8")
            target = array.element(at, self.part(array, 1))
            self.put(indent, self.store_text(array, target))

        return write

    def store_text(self, array: Array, target: str) -> str:
        if array.dtype == "u1":
            return f"{target} = {self.condition(1)}"
        if array.is_float:
            dtype = "f32" if array.is_half else array.dtype
            if not array.is_half and self.chance(0.3):
                return f"{target} {self.random.choice('+-')}= {self.bound_float(dtype, 1)}"
            return f"{target} = {self.bound_float(dtype, 2)}"
        if self.style.tame:
            dtype = array.dtype
            if self.chance(0.3):
                return f"{target} {self.random.choice(('+', '-', '|', '^'))}= {self.cast(dtype, 1)}"
            return f"{target} = {self.cast(dtype, 2)}"
        kind = self.random.random()
        if kind < 0.5:
            return f"{target} = {self.integer(2)}"
        if kind < 0.9:
            return f"{target} {self.random.choice(('+', '-', '*', '^', '|', '&'))}= {self.integer(1)}"
        return f"{target} {self.random.choice(('//', '%', '<<', '>>'))}= {self.random.randint(1, 9)}"

    def phase_idiom(self) -> None:
        Idiom(self).write()

    def phase_matrices(self) -> None:
        MatrixNest(self).write()

    def phase_parallel(self) -> None:
        ParallelLoop(self).write()
