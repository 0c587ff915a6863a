"""Whether two accesses surely meet, decided by trying: sizes are given values, some iterations of the first access are
run, and it is worked out whether another iteration makes the second access to the same element. What meets for all
choices of the sizes, once they are large compared with the constants in the program, is taken as certain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.passes.accesses import Access, Conditions
from quadrants.passes.affine import Form, Forms
from quadrants.passes.computed import Computed, Environment
from quadrants.passes.nest import counters, highs, lows
from quadrants.passes.sizes import Sizes

__all__ = ["surely_meet"]

_MOST_STEPS = 6000
_EVERY = 48


def surely_meet(first: Access, second: Access, loop: Op, forms: Forms) -> bool:
    """Whether two accesses reach a common element in different iterations of a loop, for every choice of sizes."""
    if None in first.places or None in second.places or first.conditions is None or second.conditions is None:
        return False
    computed = Computed(forms)
    sides = sorted([_Side(access, loop, computed) for access in (first, second)], key=_tried_first)
    sizes = Sizes(computed)
    for side in sides:
        sizes.learn([(low, high) for _, low, high in side.ranges], side.forms, side.counters)
    tried = False
    for environment in sizes.choices():
        outcome = _Attempt(sides[0], sides[1], environment).run()
        if outcome is False:
            return False
        tried = tried or outcome is True
    return tried


def _tried_first(side: _Side) -> tuple[bool, int]:
    """Iterations are tried of the access whose index cannot be solved for them, or that reaches the fewest elements."""
    atoms = {atom for place in side.places for atom in place.atoms()}
    return not side.nonlinear, len(atoms & side.counters)


class _Side:
    """One access with the loops around it: `ranges` has the counters, outermost first, with their lows and highs; the
    first `own` of them are the ones of the loop whose iterations are compared."""

    __slots__ = ("computed", "conditions", "counters", "nonlinear", "own", "places", "ranges")

    def __init__(self, access: Access, loop: Op, computed: Computed) -> None:
        of = computed.forms.of
        self.computed = computed
        self.ranges = [
            (counter, of(low), of(high))
            for around in (loop, *access.loops)
            for counter, low, high in zip(counters(around), lows(around), highs(around))
        ]
        self.own = counters(loop)
        self.counters = {counter for counter, _, _ in self.ranges}
        self.places: list[Form] = [place for place in access.places if place is not None]
        self.conditions: Conditions = access.conditions or ()
        self.nonlinear = not all(self._is_linear(monomial) for place in self.places for monomial in place.terms)

    def _is_linear(self, monomial: Sequence[Value]) -> bool:
        """Whether a product has one counter at most, and nothing else that depends on counters."""
        moving = [factor for factor in monomial if not self.counters.isdisjoint(self.computed.leaves(factor))]
        return not moving or (len(moving) == 1 and moving[0] in self.counters)

    @property
    def forms(self) -> list[Form]:
        return self.places + [condition for condition, _ in self.conditions]

    def holds(self, environment: Environment) -> bool:
        return all(bool(self.computed.number(form, environment)) is wanted for form, wanted in self.conditions)

    def element(self, environment: Environment, length: int) -> list[int] | None:
        """The first indices of the element that an iteration reaches; None where one of them is below 0."""
        element = [self.computed.number(place, environment) for place in self.places[:length]]
        return element if min(element, default=0) >= 0 else None


class _TooMany(Exception):
    pass


class _Attempt:
    """One choice of sizes."""

    def __init__(self, left: _Side, right: _Side, environment: Environment) -> None:
        self.left = left
        self.right = right
        self.environment = environment
        self.length = min(len(left.places), len(right.places))
        self.number = left.computed.number
        self.steps = 0

    def run(self) -> bool | None:
        """Whether the accesses meet; None where no iteration makes the first one."""
        found: bool | None = None
        try:
            for point in self._points(self.left.ranges, 0, dict(self.environment)):
                element = self.left.element(point, self.length) if self.left.holds(point) else None
                if element is None:
                    continue
                found = False
                iteration = [point[counter] for counter in self.left.own]
                if _Search(self, element, iteration).reached():
                    return True
        except _TooMany:
            return False
        return found

    def step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _TooMany

    def _points(self, ranges: list[tuple[Value, Form, Form]], depth: int, point: Environment) -> Iterator[Environment]:
        if depth == len(ranges):
            self.step()
            yield point
            return
        counter, low, high = ranges[depth]
        width = max(_EVERY >> 3 * (len(ranges) - 1), 4)
        for value in spread(self.number(low, point), self.number(high, point), width):
            point[counter] = value
            yield from self._points(ranges, depth + 1, point)


class _Search:
    """Looks for an iteration, not a given one, in which the second access reaches a given element."""

    def __init__(self, attempt: _Attempt, element: list[int], iteration: list[int]) -> None:
        self.attempt = attempt
        self.side = attempt.right
        self.number = attempt.number
        self.iteration = iteration
        self.equations = list(zip(self.side.places, element))

    def reached(self) -> bool:
        return self._search(dict(self.attempt.environment), [counter for counter, _, _ in self.side.ranges])

    def _search(self, point: Environment, unknown: list[Value]) -> bool:
        self.attempt.step()
        if not unknown:
            return self._fits(point)
        for place, wanted in self.equations:
            solved = self._solve(place, wanted, point, unknown)
            if solved is None:
                continue
            if isinstance(solved, bool):
                return False
            counter, value = solved
            return self._search({**point, counter: value}, [other for other in unknown if other is not counter])
        counter, rest = unknown[0], unknown[1:]
        return any(self._search({**point, counter: value}, rest) for value in self._tries(counter, point, unknown))

    def _solve(
        self, place: Form, wanted: int, point: Environment, unknown: list[Value]
    ) -> tuple[Value, int] | bool | None:
        """The only unknown counter of an equation with its value; False where there is no solution; None where there
        are several unknowns, or none."""
        total, factor, found = 0, 0, None
        for monomial, count in place.terms.items():
            open_factors = [value for value in monomial if self._is_open(value, point)]
            if not open_factors:
                total += self.number(Form({monomial: count}), point)
                continue
            if len(open_factors) > 1 or open_factors[0] not in unknown or found not in (None, open_factors[0]):
                return None
            found = open_factors[0]
            rest = tuple([value for value in monomial if value is not found])
            factor += self.number(Form({rest: count}), point)
        if found is None:
            return None if total == wanted else False
        if factor == 0:
            return None
        return (found, (wanted - total) // factor) if (wanted - total) % factor == 0 else False

    def _is_open(self, value: Value, point: Environment) -> bool:
        """Whether a variable is, or is computed from, a counter without a value."""
        return value not in point and any(leaf not in point for leaf in self.side.computed.leaves(value))

    def _tries(self, counter: Value, point: Environment, unknown: list[Value]) -> list[int]:
        """Values worth trying: those next to the given iteration, and some of all."""
        low, high = next([low, high] for value, low, high in self.side.ranges if value is counter)
        if any(self._is_open(atom, point) for form in (low, high) for atom in form.atoms()):
            return []
        first, last = self.number(low, point), self.number(high, point)
        values = spread(first, last, 8 if len(unknown) < 3 else 4)
        if counter in self.side.own:
            here = self.iteration[self.side.own.index(counter)]
            near = [value for value in (here + 1, here - 1, here) if first <= value < last]
            values = near + [value for value in values if value not in near]
        return values

    def _fits(self, point: Environment) -> bool:
        for counter, low, high in self.side.ranges:
            if not self.number(low, point) <= point[counter] < self.number(high, point):
                return False
        if [point[counter] for counter in self.side.own] == self.iteration or not self.side.holds(point):
            return False
        return all(self.number(place, point) == wanted for place, wanted in self.equations)


def spread(low: int, high: int, count: int) -> list[int]:
    """Some whole numbers in low .. high: the borders, and up to about `count` in between."""
    if high - low <= count + 6:
        return list(range(low, high))
    step = (high - low) / (count + 1)
    values = {low, low + 1, low + 2, high - 1, high - 2, high - 3}
    values.update([low + round(step * (k + 1)) + k % 3 for k in range(count)])
    return sorted(value for value in values if low <= value < high)
