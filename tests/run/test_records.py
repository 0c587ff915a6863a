"""Objects of named tuples and dataclasses: made, changed, passed on, with the methods of their classes. The plain function is
the oracle."""

from __future__ import annotations

import dataclasses
import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor


@dataclass
class Vec:
    x: float
    y: float = 0.5

    zero = 0.0

    def dot(self, other: Vec) -> float:
        return self.x * other.x + self.y * other.y

    def __add__(self, other: Any) -> Vec:
        if isinstance(other, Vec):
            return Vec(self.x + other.x, self.y + other.y)
        return Vec(self.x + other, self.y + other)

    def __radd__(self, other: float) -> Vec:
        return self + other

    def __mul__(self, k: float) -> Vec:
        return Vec(k * self.x, k * self.y)

    def __neg__(self) -> Vec:
        return self * -1

    def __abs__(self) -> float:
        return self.length

    def __getitem__(self, axis: int) -> float:
        return self.x if axis == 0 else self.y

    def __call__(self, t: float) -> float:
        return self.x + t * self.y

    @property
    def length(self) -> float:
        return math.sqrt(self.dot(self))

    @staticmethod
    def unit(angle: float) -> Vec:
        return Vec(math.cos(angle), math.sin(angle))

    @classmethod
    def nothing(cls) -> Vec:
        return cls(cls.zero, y=cls.zero)

    def move(self, by: float) -> float:
        self.x += by
        return self.x


@dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 3

    def next(self) -> Version:
        return dataclasses.replace(self, minor=self.minor + 1)


@dataclass
class Body:
    y: Vec
    x: float
    history: Any = field(default_factory=lambda: [1.0, 2.0])

    def step(self, dt: float) -> None:
        self.y.x += dt * self.x
        self.y.move(dt)
        if self.y.x > 1.5:
            self.x = -self.x


class Ray(NamedTuple):
    origin: float
    direction: float = 2.0

    def at(self, t: float) -> float:
        return self.origin + t * self.direction

    def __add__(self, other: Any) -> Ray:
        return self._replace(origin=self.origin + other)


def agrees(executor: TargetExecutor, function: Callable[..., Any], *arguments: Any) -> None:
    """The kernel gives the results of the plain function, and leaves the arrays as it does."""
    plain = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    executor.initialise(qd, ("i64", "f32" if executor.arch == "metal" else "f64"))
    result = qd.kernel(function)(*arguments)
    expected = function(*plain)
    if expected is not None:
        np.testing.assert_allclose(np.array(result, float), np.array(expected, float), 1e-6)
    for ours, theirs in zip(arguments, plain):
        if isinstance(ours, np.ndarray):
            np.testing.assert_allclose(ours, theirs, 1e-6)


def methods(a, out):
    for i in range(len(a)):
        v = Vec.unit(a[i]) + Vec.nothing()
        w = (v + Vec(1.0)) * 2.0
        out[i] = w.dot(v) + w.length + v(0.5) + w[1] + (-w)[0] + abs(v) + (1.0 + v).x + Vec.zero


def changes(a, out):
    for i in range(len(a)):
        body = Body(Vec(a[i], y=2.0), 1.5)
        for _ in range(5):
            body.step(0.25)
            body.history[1] += body.y.x
        out[i] = body.y.x + 10 * body.x + 100 * body.y.move(1.0) + body.y.x + body.history[1]


def shifted(v, by):
    if by > 0.2:
        v.x = by
        return 1
    v.y -= by
    return 0


def by_functions(a, out):
    for i in range(len(a)):
        v = Vec(1.0, 2.0)
        out[i] = shifted(v, a[i]) + 10 * v.x + 100 * v.y


def chosen(a, out):
    for i in range(len(a)):
        v = Vec(0.0) if a[i] > 0.5 else Vec(a[i], 4.0)
        best = Version(0, 0)
        for k in range(3):
            found = Version(i % 2, k)
            if found > best and found != Version(1, 2):
                best = found.next()
        out[i] = v.x + v.y + best.major * 100 + best.minor + (best == Version(1)) * 1000


def named_tuples(a, out):
    for i in range(len(a)):
        ray = Ray(a[i])
        origin, direction = ray
        moved = ray._replace(direction=3.0) + 1.0
        out[i] = ray.at(2.0) + 10 * moved.at(1.0) + origin * direction + (ray == Ray(a[i], 2.0)) + (ray < moved)


def tuples(a, out):
    for i in range(len(a) - 1):
        pair = (a[i], a[i + 1])
        list_ = [a[i], 0.25]
        out[i] = (pair < (0.5, 0.5)) + 10 * (pair == (a[i], a[i + 1], 1.0)) + 100 * (list_ >= [a[i], 0.25])
        if pair != (0.0, 0.0) and (i, i % 2) in ((1, 1), (2, 0)):
            out[i] += 1000


@pytest.mark.parametrize(
    "function", [methods, changes, by_functions, chosen, named_tuples, tuples], ids=lambda f: f.__name__
)
def test_records(executor: TargetExecutor, function: Callable[..., Any]) -> None:
    agrees(executor, function, np.linspace(0.1, 0.9, 9), np.zeros(9))


@dataclass
class Probe:
    y: Vec
    x: float


def of_the_caller(body, ray, a):
    for i in range(len(a)):
        own = dataclasses.replace(body)
        own.x += a[i]
        a[i] = body.y.dot(Vec(1.0, 1.0)) + ray.at(own.x) + body.x


def test_records_as_arguments(executor: TargetExecutor) -> None:
    agrees(executor, of_the_caller, Probe(Vec(1.0, 2.0), 3.0), Ray(0.5), np.arange(3.0))


def test_records_as_results(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i64", "f32"))

    @qd.kernel
    def shot(body, x):
        if x > 1.0:
            return Body(Vec(x, 2.0), x, body.history), Ray(x)
        return body, Ray(0.0, x)

    body = Body(Vec(0.5), 1.0, (7.0,))
    for x in (3.0, 0.5):
        found, ray = shot(body, x)
        assert type(found) is Body and type(found.y) is Vec and type(ray) is Ray
        assert found.y == (Vec(3.0, 2.0) if x == 3.0 else body.y) and found.x == (3.0 if x == 3.0 else 1.0)
        assert ray.at(1.0) == (5.0 if x == 3.0 else 0.5)


@dataclass
class Overflow(ArithmeticError):
    """Objects of it are made by a built-in class."""

    size: float


def test_records_of_classes_that_derive_from_built_in_ones(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i64", "f32"))

    @qd.kernel
    def larger(overflow):
        return overflow, Overflow(overflow.size + 1.0)

    given, made = larger(Overflow(0.5))
    assert type(given) is Overflow and type(made) is Overflow and (given.size, made.size) == (0.5, 1.5)


@dataclass
class Particles:
    """Arrays, and numbers that functions change."""

    mass: np.ndarray
    out: np.ndarray
    count: int = 0

    def add(self, i: int, scale: float) -> None:
        self.out[i] = scale * self.mass[i]
        self.count += 1


def arrays_in_records(mass, out):
    particles = Particles(mass, out)
    for i in range(len(mass)):
        particles.add(i, 2.0)
    return particles.count


def test_records_that_hold_arrays(executor: TargetExecutor) -> None:
    agrees(executor, arrays_in_records, np.arange(4.0), np.zeros(4))


def test_classes_that_are_defined_anew(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i64", "f32"))
    kernels = []
    for factor in (2.0, 3.0):

        @dataclass
        class Scaled:
            x: float

            def value(self, factor: float = factor) -> float:
                return self.x * factor

        kernels.append((Scaled, factor))

    @qd.kernel
    def scaled(s) -> float:
        return s.value()

    for kind, factor in (*kernels, *kernels):
        assert scaled(kind(2.0)) == 2 * factor


def test_objects_in_nested_functions(executor: TargetExecutor) -> None:
    def sums(a, out):
        def total(v, *more, scale=1.0):
            s = v.dot(v)
            for x in more:
                s += x
            return s * scale

        for i in range(len(a)):
            out[i] = total(Vec(a[i]), 1.0, a[i], scale=2.0) + total(Vec(1.0))

    agrees(executor, sums, np.arange(4.0), np.zeros(4))


def dot_of(v, w):
    return v.dot(w)


def grown(v):
    v.x += 1.0
    return v


def with_a_counter(v):
    return v, Counter(v.x)


def test_objects_with_two_names_that_no_change_meets(executor: TargetExecutor) -> None:
    """A second name is fine where nothing changes once it is there, or where the first is not read any more."""

    def names(a, out):
        for i in range(len(a)):
            v = Vec(a[i])
            v.x += 1.0
            w = v
            out[i] = w.x + v.dot(w) + dot_of(v, v)
            first = Vec(a[i])
            last = first
            last.y = 3.0
            out[i] += last.y
            both = [v, Vec(2.0)]
            for each in both:
                out[i] += each.length
            both[1].x = 7.0
            out[i] += both[1].x
            same = grown(last)
            same.x += 1.0
            out[i] += same.x
            own = dataclasses.replace(v)
            own.x = 9.0
            out[i] += v.x + own.x
            best = Vec(100.0)
            for k in range(4):
                found = Vec(a[i])
                found.x += (k - 2) ** 2
                if found.x < best.x:
                    best = found
            out[i] += best.x
            again, counter = with_a_counter(v)
            counter.n += 1.0
            out[i] += again.x + v.x + counter.n
            one, other, total = Vec(a[i]), Vec(2.0), Vec(0.0)
            for k in range(3):
                total.x += one.x + other.x
                other = one
            out[i] += total.x

    agrees(executor, names, np.arange(4.0), np.zeros(4))


@dataclass
class Counter:
    """What Python asks objects for by name: truth, length, membership, elements, updates in place."""

    n: float
    name: float = field(default=0.0, compare=False)

    def __bool__(self) -> bool:
        return bool(self.n > 0)

    def __contains__(self, value: float) -> bool:
        return value == self.n + 1

    def __setitem__(self, position: int, value: float) -> None:
        self.n = value + position

    def __iadd__(self, other: float) -> Counter:
        self.n += 10 * other
        return self


@dataclass
class Sized:
    n: int

    def __len__(self) -> int:
        return self.n


@dataclass
class Both:
    """Of two methods that tell its truth Python asks the first."""

    n: int

    def __bool__(self) -> bool:
        return self.n == 0

    def __len__(self) -> int:
        return self.n


@dataclass(eq=False)
class Length:
    """Numbers know nothing of it; it is close to what differs by less than a half."""

    n: float

    def __gt__(self, other: float) -> bool:
        return self.n > other

    def __le__(self, other: float) -> bool:
        return self.n <= other

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Length):
            return abs(self.n - other.n) < 0.5
        return NotImplemented

    def __add__(self, other: Any) -> Any:
        return Length(self.n + other.n) if isinstance(other, Length) else NotImplemented


@dataclass
class Shift:
    by: float

    def __radd__(self, other: Length) -> float:
        return 100 * other.n + self.by


@dataclass
class Nothing:
    pass


@dataclass
class Holder:
    counter: Counter = field(default_factory=lambda: Counter(2.0))


class NothingNamed(NamedTuple):
    pass


def test_what_classes_say_of_their_objects(executor: TargetExecutor) -> None:
    def asks(a, out):
        for i in range(len(a)):
            c = Counter(a[i] - 1)
            out[i] = 1 if c else 2
            out[i] += 10 * (not c) + 100 * (a[i] in c) + 200 * (7.0 not in c)
            c += 2
            out[i] += 1000 * c.n
            c[1] = 4.0
            out[i] += 0.5 * c.n
            if Nothing():
                out[i] += 0.25
            if NothingNamed():
                out[i] += 0.125
            out[i] += 0.0625 if Sized(0) else 0.03125
            out[i] += (Counter(a[i], 1.0) == Counter(a[i], 2.0)) * 1e5
            holder, other = Holder(), Holder()
            holder.counter += 1
            holder.counter.n += 0.5
            out[i] += 1e6 * holder.counter.n - 1e6 * other.counter.n

    agrees(executor, asks, np.arange(4.0), np.zeros(4))


def test_operators_of_one_side_alone(executor: TargetExecutor) -> None:
    """A comparison asks the other operand in its mirrored form, `!=` asks `==`, and what the first one does not implement the second may."""

    def asks(a, out):
        for i in range(len(a)):
            length = Length(a[i])
            out[i] = (1.5 < length) + 2 * (1.5 >= length) + 4 * (length != Length(1.25)) + 8 * (length == Length(1.25))
            out[i] += 16 * (length + Length(1.0)).n + (length + Shift(0.25))
            out[i] += (1000 if Both(0) else 2000) + (4000 if Both(3) else 8000)

    agrees(executor, asks, np.arange(4.0), np.zeros(4))


def test_tuples_that_differ_late(executor: TargetExecutor) -> None:
    def compares(a, out):
        for i in range(len(a)):
            one, other = (a[i], 2.0, a[i]), (a[i], 1.0, 7.0)
            out[i] = (one <= other) + 2 * (other <= one) + 4 * (one >= other) + 8 * (other >= one)
            out[i] += 16 * (one[:2] <= one) + 32 * (one >= one[:2]) + 64 * (one <= one) + 128 * ((1, 2) <= (1, 1))

    agrees(executor, compares, np.arange(4.0), np.zeros(4))


def test_lists_of_objects_in_loops(executor: TargetExecutor) -> None:
    def moves(out):
        points = [Vec(1.0), Vec(2.0)]
        for k in range(3):
            points[0].x += 1.0
            points[1].y = points[0].x + k
        out[0] = points[0].x
        out[1] = points[1].y

    agrees(executor, moves, np.zeros(2))


def test_numbers_and_classes_of_numpy(executor: TargetExecutor) -> None:
    def classes(a, out):
        out[0] = isinstance(a[0], np.floating) + 2 * isinstance(a[1], np.float32) + 4 * isinstance(a[1], np.generic)
        out[0] += 8 * isinstance(a[1], (int, np.integer)) + 16 * isinstance(1.0, np.floating)

    for kind in (np.float32, np.int32):
        agrees(executor, classes, np.ones(2, kind), np.zeros(1))


def test_classes_in_tuples_of_tuples_and_unions(executor: TargetExecutor) -> None:
    def classes(a, out):
        for i in range(len(a)):
            point = Vec(a[i])
            out[i] = (
                isinstance(i, float | str) + 2 * isinstance(i, (str, (int, float))) + 4 * isinstance(a[i], int | float)
            )
            out[i] += 8 * isinstance(point, Vec | None) + 16 * isinstance(point, (int, (float, tuple)))

    agrees(executor, classes, np.ones(2), np.zeros(2))


CELL = """
@dataclass
class Rounded:
    x: float

    def __eq__(self, other):
        return abs(self.x - other.x) < 0.5
"""


def test_methods_that_are_typed_in_at_a_console(executor: TargetExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consoles give what is typed in a name like those that generated code has, and keep its lines."""
    name = "<console-input-1>"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(True), name))
    namespace: dict[str, Any] = {"dataclass": dataclass, "__name__": __name__}
    exec(compile(CELL, name, "exec"), namespace)
    kind = namespace["Rounded"]

    def alike(a, out):
        for i in range(len(a)):
            out[i] = kind(a[i]) == kind(1.25)

    agrees(executor, alike, np.arange(4.0), np.zeros(4))
