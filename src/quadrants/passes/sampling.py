"""Whether two accesses surely meet, decided by trying: sizes are given values, some iterations of the first access are
run, and it is worked out whether another iteration makes the second access to the same element. What meets for all
choices of the sizes, once they are large compared with the constants in the program, is taken as certain."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.passes.accesses import Access, Conditions
from quadrants.passes.affine import Form, Forms
from quadrants.passes.computed import Computed, Environment
from quadrants.passes.nest import counters, highs, lows
from quadrants.passes.sizes import Sizes

__all__ = ["Effort", "surely_meet"]

_MOST_STEPS = 6000
_MOST_STEPS_OF_A_LOOP = 30000
_EVERY = 48
Ranges = list[tuple[Value, Form, Form]]


class Effort:
    """How many more steps the questions about one loop may take, and the answers so far: many accesses of a loop differ
    in nothing that matters to them."""

    __slots__ = ("answers", "left")

    def __init__(self) -> None:
        self.left = _MOST_STEPS_OF_A_LOOP
        self.answers: dict[Hashable, bool] = {}


def surely_meet(first: Access, second: Access, loop: Op, forms: Forms, effort: Effort) -> bool:
    """Whether two accesses reach a common element in different iterations of a loop, for every choice of sizes, in some
    iteration of the loops around it; conditions that nobody can tell are taken to hold."""
    question = (_facts(first), _facts(second))
    answer = effort.answers.get(question)
    if answer is None:
        answer = effort.answers[question] = _surely_meet(first, second, loop, forms, effort)
    return answer


def _facts(access: Access) -> Hashable:
    """What tells where and when an access reaches elements."""
    return (access.array if access.wraps else None, access.places, access.loops, access.conditions)


def _surely_meet(first: Access, second: Access, loop: Op, forms: Forms, effort: Effort) -> bool:
    if None in first.places or None in second.places:
        return False
    computed = Computed(forms)
    sides = sorted([_Side(access, loop, computed) for access in (first, second)], key=_tried_first)
    outer = _ranges(_outer_loops(sides, loop, computed), forms)
    sizes = Sizes(computed)
    sizes.learn(outer, (), {counter for counter, _, _ in outer})
    for side in sides:
        sizes.learn(side.ranges, [*side.forms, *[size for size in side.sizes if size is not None]], side.counters)
    tried = False
    for environment in sizes.choices():
        outcome = _Attempt(sides[0], sides[1], outer, effort).run(environment)
        if outcome is False:
            return False
        tried = tried or outcome is True
    return tried


def _ranges(loops: Sequence[Op], forms: Forms) -> Ranges:
    return [
        (counter, forms.of(low), forms.of(high))
        for loop in loops
        for counter, low, high in zip(counters(loop), lows(loop), highs(loop))
    ]


def _outer_loops(sides: Sequence[_Side], loop: Op, computed: Computed) -> list[Op]:
    """The loops around a loop whose counters its bounds, indices and conditions use, outermost first."""
    forms = [form for side in sides for form in side.forms]
    forms += [bound for side in sides for _, low, high in side.ranges for bound in (low, high)]
    leaves = {leaf for form in forms for leaf in computed.leaves_of(form)}
    found: list[Op] = []
    for around in computed.forms.nest.around(loop):
        if around.kind == "for" and not leaves.isdisjoint(counters(around)):
            found.insert(0, around)
            for bound in (*lows(around), *highs(around)):
                leaves |= computed.leaves_of(computed.forms.of(bound))
    return found


def _tried_first(side: _Side) -> tuple[bool, int]:
    """Iterations are tried of the access whose index cannot be solved for them, or that reaches the fewest elements."""
    atoms = {atom for place in side.places for atom in place.atoms()}
    return not side.nonlinear, len(atoms & side.counters)


class _Side:
    """One access with the loops around it: `ranges` has the counters, outermost first, with their lows and highs; the
    first `own` of them are the ones of the loop whose iterations are compared. `sizes` are those of the axes whose indices
    may count from the end, None for others."""

    __slots__ = ("computed", "conditions", "counters", "nonlinear", "own", "places", "ranges", "sizes")

    def __init__(self, access: Access, loop: Op, computed: Computed) -> None:
        self.computed = computed
        self.ranges = _ranges((loop, *access.loops), computed.forms)
        self.own = counters(loop)
        self.counters = {counter for counter, _, _ in self.ranges}
        self.places: list[Form] = [place for place in access.places if place is not None]
        self.sizes = [
            computed.forms.size(access.array, axis) if access.wraps and not computed.forms.at_least(place, 0) else None
            for axis, place in enumerate(self.places)
        ]
        self.conditions: Conditions = access.conditions
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
        element: list[int] = []
        for place, size in zip(self.places[:length], self.sizes):
            index = self.computed.number(place, environment)
            if index < 0 and size is not None:
                index += self.computed.number(size, environment)
            if index < 0:
                return None
            element.append(index)
        return element

    def targets(self, element: list[int], environment: Environment) -> Iterator[list[int]]:
        """What the places may be in an iteration that reaches an element."""
        choices = [
            (index,) if size is None else (index, index - self.computed.number(size, environment))
            for index, size in zip(element, self.sizes)
        ]
        return map(list, itertools.product(*choices))


class _TooMany(Exception):
    pass


class _Attempt:
    """One choice of sizes. `outer`: the loops around, whose iterations are tried one after the other."""

    def __init__(self, left: _Side, right: _Side, outer: Ranges, effort: Effort) -> None:
        self.effort = effort
        self.left = left
        self.right = right
        self.outer = outer
        self.length = min(len(left.places), len(right.places))
        self.number = left.computed.number
        self.steps = 0

    def run(self, environment: Environment) -> bool | None:
        """Whether the accesses meet; None where no iteration makes the first one."""
        found: bool | None = None
        try:
            for around in self._points(self.outer, 0, dict(environment), _EVERY >> 1):
                outcome = self._meet(around)
                if outcome:
                    return True
                found = outcome if found is None else found
        except _TooMany:
            return False
        return found

    def _meet(self, around: Environment) -> bool | None:
        found: bool | None = None
        for point in self._points(self.left.ranges, 0, dict(around), _EVERY):
            self.step()
            element = self.left.element(point, self.length) if self.left.holds(point) else None
            if element is None:
                continue
            found = False
            iteration = [point[counter] for counter in self.left.own]
            for target in self.right.targets(element, around):
                if _Search(self, target, iteration).reached(around):
                    return True
        return found

    def step(self) -> None:
        self.steps += 1
        self.effort.left -= 1
        if self.steps > _MOST_STEPS or self.effort.left < 0:
            raise _TooMany

    def _points(self, ranges: Ranges, depth: int, point: Environment, most: int) -> Iterator[Environment]:
        """Some of the iterations of loops, borders included; `point` is changed on the way."""
        if depth == len(ranges):
            yield point
            return
        counter, low, high = ranges[depth]
        width = max(most >> 3 * (len(ranges) - 1), 3)
        values = spread(self.number(low, point), self.number(high, point), width)
        middle = len(values) // 2
        for value in values[middle:] + values[:middle]:
            point[counter] = value
            yield from self._points(ranges, depth + 1, point, most)


class _Search:
    """Looks for an iteration, not a given one, in which the second access reaches a given element."""

    def __init__(self, attempt: _Attempt, element: list[int], iteration: list[int]) -> None:
        self.attempt = attempt
        self.side = attempt.right
        self.number = attempt.number
        self.iteration = iteration
        self.equations = list(zip(self.side.places, element))

    def reached(self, around: Environment) -> bool:
        return self._search(dict(around), [counter for counter, _, _ in self.side.ranges])

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
    """Some whole numbers in low .. high: those at the borders, and about `count` in between."""
    border = 3 + count // 8
    if high - low <= count + 2 * border:
        return list(range(low, high))
    step = (high - low) / (count + 1)
    values = {*range(low, low + border), *range(high - border, high)}
    values.update([low + round(step * (k + 1)) + k % 3 for k in range(count)])
    return sorted(value for value in values if low <= value < high)
