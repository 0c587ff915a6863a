"""Whether two accesses can meet in different iterations of a loop: never, surely, or nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.passes.accesses import Access, Dims
from quadrants.passes.affine import Form, Forms
from quadrants.passes.nest import counters, highs, lows
from quadrants.passes.sampling import Effort, surely_meet

__all__ = [
    "CERTAIN",
    "FINE",
    "UNDECIDED",
    "Space",
    "commute",
    "independent",
    "never_equal",
    "never_negative",
    "proper",
    "relation",
]

FINE, UNDECIDED, CERTAIN = "fine", "undecided", "certain"


class Space:
    """The iterations of one loop: its counters, and what bounds them. `answers`: what `independent` has found, by where
    the accesses are."""

    __slots__ = ("answers", "counters", "effort", "forms", "loop", "trips")

    def __init__(self, loop: Op, forms: Forms) -> None:
        self.loop = loop
        self.forms = forms
        self.counters = counters(loop)
        self.effort = Effort()
        self.answers: dict[object, bool] = {}
        self.trips: list[int | None] = [
            forms.of(high).plus(forms.of(low), -1).constant for low, high in zip(lows(loop), highs(loop))
        ]

    def positive(self, form: Form | None) -> bool:
        """Whether a form without counters of inner loops is surely above 0 in all iterations."""
        if form is None:
            return False
        if self.forms.at_least(form, 1):
            return True
        bound = self.forms.extreme(form, (self.loop,), False)
        return bound is not None and self.forms.at_least(bound, 1)


def commute(first: Access, second: Access) -> bool:
    """Whether the order of two accesses to one element does not matter: loads, and updates of one kind. Updates whose
    old value is used happen in whatever order the iterations meet."""
    if not first.writes and not second.writes:
        return True
    if not (first.is_update and second.is_update):
        return False
    return first.group == second.group or first.used or second.used


def relation(first: Access, second: Access, space: Space, strict: bool = False) -> str:
    """How two accesses to one array, in different iterations of a loop, depend on one another; `strict`: the loop runs in
    order in meaning, and only independence is asked for: what is CERTAIN may be UNDECIDED.

    Laws: what updates tell of the elements before them, and which exchange is the last one, shows the order. What data
    decide is certain where one of the two happens in any case: only if both are hidden may it be meant that they never meet
    (colours, masks)."""
    shows_order = strict and (first.used or second.used or first.group == "exchange")
    if (commute(first, second) and not shows_order) or independent(first, second, space):
        return FINE
    if strict or first.used or second.used or (first.hidden and second.hidden):
        return UNDECIDED
    return CERTAIN if surely_meet(first, second, space.loop, space.forms, space.effort) else UNDECIDED


def independent(first: Access, second: Access, space: Space) -> bool:
    """Whether the accesses surely reach no common element in two different iterations of the loop.

    One index after the other shows either that they are never equal, or that they are equal only if some counter is
    the same in both iterations; if that holds of all counters, it is one iteration.
    """
    key = (_where(first), _where(second))
    found = space.answers.get(key)
    if found is None:
        found = space.answers[key] = _independent(first, second, space)
    return found


def _where(access: Access) -> object:
    return (access.dims, access.loops, access.array if access.wraps else None)


def _independent(first: Access, second: Access, space: Space) -> bool:
    if math.prod([2 if trip is None else max(trip, 0) for trip in space.trips]) <= 1:
        return True
    left, right = proper(first, space), proper(second, space)
    pairs = [(f, g) for f, g in zip(left, right) if f is not None and g is not None]
    if _pinned(pairs, first, second, space):
        return True
    if any(never_equal(f, g, first.loops, second.loops, space) for f, g in pairs):
        return True
    same: set[Value] = set()
    progress = True
    while progress and len(same) < len(space.counters):
        progress = False
        for f, g in pairs:
            shown = _Equation(f, g, first.loops, second.loops, space, same).solve()
            if shown is _NEVER:
                return True
            if isinstance(shown, Value):
                same.add(shown)
                progress = True
    return len(same) == len(space.counters)


def _pinned(pairs: list[tuple[Form, Form]], first: Access, second: Access, space: Space) -> bool:
    """The common case: equal indices, each with one counter at most, together with all."""
    moving = set(_moving(first.loops, space)) | set(_moving(second.loops, space))
    pinned: set[Value] = set()
    for f, g in pairs:
        if f == g:
            varying = [monomial for monomial in f.terms if not moving.isdisjoint(monomial)]
            if len(varying) == 1 and len(varying[0]) == 1:
                pinned.add(varying[0][0])
    return pinned.issuperset(space.counters)


def proper(access: Access, space: Space) -> Dims:
    """The indices of an access, without those that might count from the end."""
    if not access.wraps:
        return access.dims
    around = (*reversed(access.loops), space.loop)
    return tuple(
        [
            dim
            if dim is None or never_negative(dim, space.forms.size_of(access.array, axis), around, space.forms)
            else None
            for axis, dim in enumerate(access.dims)
        ]
    )


def never_negative(index: Form, size: Value | None, around: Sequence[Op], forms: Forms) -> bool:
    """Whether a form is surely >= 0 in the loops around it, given that `size` is at least 1."""
    if forms.at_least(_at_least_one(index, size), 0):
        return True
    least = forms.extreme(index, around, False)
    return least is not None and forms.at_least(_at_least_one(least, size), 0)


def _at_least_one(form: Form, size: Value | None) -> Form:
    """A form that is below `form` only if size < 1."""
    if size is None:
        return form
    factor = form.coefficient(size)
    number = factor.constant if factor is not None else None
    return form.without(size).shifted(number) if number is not None and number > 0 else form


def never_equal(f: Form, g: Form, left: tuple[Op, ...], right: tuple[Op, ...], space: Space) -> bool:
    """Whether two indices differ whatever the iterations: their ranges are apart, or their remainders are."""
    difference = f.plus(g, -1)
    if not difference.terms:
        return False
    if difference.constant is not None and not _moves(f, left, space) and not _moves(g, right, space):
        return True
    return _remainders_differ(f, g, left, right, space) or _apart(f, g, left, right, space)


def _moving(loops: tuple[Op, ...], space: Space) -> list[Value]:
    return [counter for loop in loops for counter in counters(loop)] + space.counters


def _moves(form: Form, loops: tuple[Op, ...], space: Space) -> bool:
    atoms = form.atoms()
    return any(counter in atoms for counter in _moving(loops, space))


def _remainders_differ(f: Form, g: Form, left: tuple[Op, ...], right: tuple[Op, ...], space: Space) -> bool:
    """Law: a*x - b*y = c has no solution in whole numbers unless gcd(a, b) divides c."""
    divisor = 0
    rests: list[Form] = []
    for form, loops in ((f, left), (g, right)):
        for counter in _moving(loops, space):
            factor = form.coefficient(counter)
            number = factor.constant if factor is not None else None
            if number is None:
                return False
            divisor = math.gcd(divisor, number)
            form = form.without(counter)
        rests.append(form)
    rest = rests[0].plus(rests[1], -1).constant
    return rest is not None and divisor > 1 and rest % divisor != 0


def _apart(f: Form, g: Form, left: tuple[Op, ...], right: tuple[Op, ...], space: Space) -> bool:
    for one, other, inner, outer in ((f, g, left, right), (g, f, right, left)):
        highest = space.forms.extreme(one, (*reversed(inner), space.loop), True)
        lowest = space.forms.extreme(other, (*reversed(outer), space.loop), False)
        if highest is not None and lowest is not None and space.forms.at_least(lowest.plus(highest, -1), 1):
            return True
    return False


class _Never:
    pass


_NEVER = _Never()


class _Equation:
    """f(x, q) = g(y, r) for the loop's counters x and y, and inner counters q and r; those in `same` have x = y."""

    def __init__(
        self, f: Form, g: Form, left: tuple[Op, ...], right: tuple[Op, ...], space: Space, same: set[Value]
    ) -> None:
        self.space = space
        self.unknown: list[tuple[Value, Form]] = []
        self.usable = True
        rest_f, rest_g = f, g
        for counter in space.counters:
            factor, other = f.coefficient(counter), g.coefficient(counter)
            if factor is None or other is None or factor != other or _varies(factor, left, right, space):
                self.usable = False
                return
            if factor.terms:
                rest_f, rest_g = rest_f.without(counter), rest_g.without(counter)
                if counter not in same:
                    self.unknown.append((counter, factor))
        self.low, self.high = self._span(rest_f, rest_g, left, right)

    def _span(
        self, rest_f: Form, rest_g: Form, left: tuple[Op, ...], right: tuple[Op, ...]
    ) -> tuple[Form | None, Form | None]:
        """The bounds of rest_f - rest_g over all inner iterations."""
        extreme = self.space.forms.extreme
        inner, outer = tuple(reversed(left)), tuple(reversed(right))
        if not _uses_counters(rest_f, left) and not _uses_counters(rest_g, right):
            difference = rest_f.plus(rest_g, -1)
            return difference, difference
        bounds = [extreme(rest_f, inner, h) for h in (False, True)] + [extreme(rest_g, outer, h) for h in (False, True)]
        if any(bound is None or _uses_counters(bound, (self.space.loop,)) for bound in bounds):
            inner, outer = (*inner, self.space.loop), (*outer, self.space.loop)
            bounds = [extreme(rest_f, inner, h) for h in (False, True)]
            bounds += [extreme(rest_g, outer, h) for h in (False, True)]
        low_f, high_f, low_g, high_g = bounds
        low = low_f.plus(high_g, -1) if low_f is not None and high_g is not None else None
        high = high_f.plus(low_g, -1) if high_f is not None and low_g is not None else None
        return low, high

    def solve(self) -> Value | _Never | None:
        """A counter that must be the same on both sides; _NEVER if there is no solution; None if nothing is shown."""
        if not self.usable or self.low is None or self.high is None:
            return None
        if not self.unknown:
            apart = self.space.positive(self.low) or self.space.positive(self.high.scaled(-1))
            return _NEVER if apart else None
        if len(self.unknown) == 1 and self.low == self.high:
            return self._distance(*self.unknown[0])
        for counter, factor in self.unknown:
            low, high = self._widened(counter)
            if low is not None and high is not None and self._dominates(factor, low, high):
                return counter
        return None

    def _distance(self, counter: Value, factor: Form) -> Value | _Never | None:
        """Law: a * (x - y) + d = 0 has x = y if d = 0 and a != 0, else no solution unless a divides d."""
        distance, number = self.low.constant if self.low is not None else None, factor.constant
        if distance == 0:
            return counter if number is not None or self.space.positive(factor) else None
        if distance is None or number is None:
            return counter if self.low is not None and self._dominates(factor, self.low, self.low) else None
        if distance % number:
            return _NEVER
        trip = self.space.trips[self.space.counters.index(counter)]
        return _NEVER if trip is not None and abs(distance // number) >= trip else None

    def _widened(self, counter: Value) -> tuple[Form | None, Form | None]:
        """The bounds with the other unknown counters' differences added."""
        low, high = self.low, self.high
        for other, factor in self.unknown:
            if other is counter or low is None or high is None:
                continue
            term = factor.times(Form.of(other))
            most = self.space.forms.extreme(term, (self.space.loop,), True)
            least = self.space.forms.extreme(term, (self.space.loop,), False)
            if most is None or least is None:
                return None, None
            spread = most.plus(least, -1)
            low, high = low.plus(spread, -1), high.plus(spread)
        return low, high

    def _dominates(self, factor: Form, low: Form, high: Form) -> bool:
        """Law: a * (x - y) + d = 0 with -|a| < d < |a| has only x = y."""
        number = factor.constant
        size = Form.number(abs(number)) if number is not None else factor
        return self.space.positive(size.plus(high, -1)) and self.space.positive(size.plus(low))


def _varies(factor: Form, left: tuple[Op, ...], right: tuple[Op, ...], space: Space) -> bool:
    return len(factor.terms) > 0 and factor.constant is None and _uses_counters(factor, (*left, *right, space.loop))


def _uses_counters(form: Form, loops: Sequence[Op]) -> bool:
    atoms = form.atoms()
    return any(counter in atoms for loop in loops for counter in counters(loop))
