"""Whether two accesses surely meet, decided by trying: sizes are given small values, the iterations at the borders of
each loop are run, and the elements reached are compared. What meets for all choices of the sizes is taken as certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.passes.accesses import Access
from quadrants.passes.affine import Form, Forms
from quadrants.passes.nest import counters, highs, lows

__all__ = ["surely_meet"]

_MOST_POINTS = 4000
Environment = dict[Value, int]
Point = tuple[int, ...]
Elements = dict[Point, set[Point]]


class _TooMany(Exception):
    pass


def surely_meet(first: Access, second: Access, loop: Op, forms: Forms) -> bool:
    """Whether two accesses reach a common element in different iterations of a loop, for every choice of sizes."""
    if None in first.dims or None in second.dims:
        return False
    sampler = _Sampler(first, second, loop, forms)
    tried = False
    for choice in range(3):
        outcome = sampler.meet(choice)
        if outcome is False:
            return False
        tried = tried or outcome is True
    return tried


class _Sampler:
    def __init__(self, first: Access, second: Access, loop: Op, forms: Forms) -> None:
        self.first = first
        self.second = second
        self.loop = loop
        self.forms = forms
        nested = {id(inner): inner for inner in (loop, *first.loops, *second.loops)}
        bounds = {id(inner): self._bounds(inner) for inner in nested.values()}
        self.bounds: dict[int, list[tuple[Value, Form, Form]]] = bounds
        used = [form for entries in bounds.values() for _, low, high in entries for form in (low, high)]
        used += [dim for access in (first, second) for dim in access.dims if dim is not None]
        moving = {counter for inner in nested.values() for counter in counters(inner)}
        self.symbols: list[Value] = []
        for form in used:
            for monomial in form.terms:
                self.symbols += [atom for atom in monomial if atom not in moving and atom not in self.symbols]
        self.offsets = sorted({abs(form.offset) for form in used if 3 < abs(form.offset) < 1 << 40})[:4]
        self.size = 8 + max([abs(form.offset) for form in used if abs(form.offset) < 1 << 40], default=0)
        depth = max(len(first.loops), len(second.loops)) + len(bounds[id(loop)])
        self.border = 3 if depth <= 2 else 2 if depth == 3 else 1

    def _bounds(self, loop: Op) -> list[tuple[Value, Form, Form]]:
        of = self.forms.of
        return [(c, of(low), of(high)) for c, low, high in zip(counters(loop), lows(loop), highs(loop))]

    def meet(self, choice: int) -> bool | None:
        """Whether the accesses meet with the sizes of a choice; None where one of them makes no access at all."""
        count = len(self.symbols)
        steps = (0, 1, -1)[choice]
        environment = {s: self.size + steps * k + (count if choice == 2 else 0) for k, s in enumerate(self.symbols)}
        length = min(len(self.first.dims), len(self.second.dims))
        try:
            left = self._elements(self.first, environment, length)
            right = left if self.second is self.first else self._elements(self.second, environment, length)
        except _TooMany:
            return False
        if not left or not right:
            return None
        for element, iterations in left.items():
            others = right.get(element)
            if others is not None and (len(others) > 1 or len(iterations) > 1 or others != iterations):
                return True
        return False

    def _elements(self, access: Access, environment: Environment, length: int) -> Elements:
        """The elements that an access reaches, with the iterations of the loop that reach them."""
        found: Elements = {}
        names = counters(self.loop)
        dims = [dim for dim in access.dims[:length] if dim is not None]
        for count, point in enumerate(self._points((self.loop, *access.loops), dict(environment))):
            if count >= _MOST_POINTS:
                raise _TooMany
            element = tuple([_value(dim, point) for dim in dims])
            found.setdefault(element, set()).add(tuple([point[name] for name in names]))
        return found

    def _points(self, loops: Sequence[Op], environment: Environment) -> Iterator[Environment]:
        dimensions = [entry for loop in loops for entry in self.bounds[id(loop)]]
        return self._expand(dimensions, 0, environment)

    def _expand(
        self, dimensions: list[tuple[Value, Form, Form]], depth: int, environment: Environment
    ) -> Iterator[Environment]:
        if depth == len(dimensions):
            yield environment
            return
        counter, low, high = dimensions[depth]
        for value in self._border(_value(low, environment), _value(high, environment)):
            environment[counter] = value
            yield from self._expand(dimensions, depth + 1, environment)

    def _border(self, low: int, high: int) -> list[int]:
        if high - low <= 2 * self.border + 2:
            return list(range(low, high))
        values = {low + k for k in range(self.border)} | {high - 1 - k for k in range(self.border)}
        values |= {low + offset for offset in self.offsets if low + offset < high}
        return sorted(values)


def _value(form: Form, environment: Environment) -> int:
    total = 0
    for monomial, count in form.terms.items():
        for factor in monomial:
            count *= environment[factor]
        total += count
    return total
