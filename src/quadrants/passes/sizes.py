"""Choices of values for sizes and other numbers that a program does not tell, to try out what its loops do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quadrants.ir.nodes import Op, Value
from quadrants.passes.affine import Form
from quadrants.passes.computed import Computed, Environment, parts

__all__ = ["Sizes"]

_CHOICES = 5
_LARGEST = 1 << 40
_DEEPEST = 6
_QUOTIENTS = frozenset({"floordiv", "truncdiv"})
_DIVISIONS = _QUOTIENTS | {"mod", "truncmod"}
# Operations that grow with their operands.
_MONOTONE = frozenset({"cast", "min", "max", "shl", "shr"})


class Sizes:
    """The numbers that loops and indices leave open. What makes a loop longer is given large values, what makes it shorter
    small ones, and what only moves an index both: a program does not promise how far it moves."""

    __slots__ = ("_computed", "_counters", "_divisors", "_offsets", "_signs")

    def __init__(self, computed: Computed) -> None:
        self._computed = computed
        self._counters: set[Value] = set()
        self._signs: dict[Value, set[int]] = {}
        self._offsets: set[int] = set()
        self._divisors = 1

    def learn(self, ranges: Iterable[tuple[Value, Form, Form]], forms: Iterable[Form], moving: Iterable[Value]) -> None:
        """Takes in loops by counter, low and high, and other forms; `moving` are the loops' counters."""
        self._counters.update(moving)
        for _, low, high in ranges:
            self._look(high, 1, 0)
            self._look(low, -1, 0)
        for form in forms:
            self._look(form, 0, 0)

    def _look(self, form: Form, sign: int, depth: int) -> None:
        for monomial, count in form.terms.items():
            if not monomial:
                self._note_constant(count)
            for atom in monomial:
                self._atom(atom, sign if count > 0 else -sign, depth)

    def _note_constant(self, number: int) -> None:
        if 3 < abs(number) < _LARGEST:
            self._offsets.add(abs(number))

    def _atom(self, atom: Value, sign: int, depth: int) -> None:
        if atom in self._counters:
            return
        op = atom.owner
        if self._computed.is_leaf(atom) or depth > _DEEPEST:
            signs = self._signs.setdefault(atom, set())
            if sign:
                signs.add(sign)
            return
        assert type(op) is Op
        operands = [self._computed.forms.of(part) for part in parts(op, atom) or ()]
        if op.kind in _DIVISIONS:
            divisor = operands[1].constant or 0
            self._look(operands[0], _sign(divisor) * sign * (op.kind in _QUOTIENTS), depth + 1)
            self._look(operands[1], 0, depth + 1)
            if 1 < abs(divisor) < 1 << 20:
                self._divisors = min(self._divisors * abs(divisor), _LARGEST)
            return
        for operand in operands:
            self._look(operand, sign if op.kind in _MONOTONE else 0, depth + 1)

    def choices(self) -> Iterator[Environment]:
        """Values for all of them, a few times."""
        large = (3 * sum(self._offsets) + 40) * self._divisors
        for choice in range(_CHOICES if self._signs else 1):
            yield {
                symbol: self._value(symbol, signs, position, choice, large)
                for position, (symbol, signs) in enumerate(self._signs.items())
            }

    def _value(self, symbol: Value, signs: set[int], position: int, choice: int, large: int) -> int:
        count = len(self._signs)
        if signs == {1}:
            ratio = (1, 1, 1, 1 + position, count - position)[choice]
            return large * ratio + (0, position, count + 1 - position, 1, 2)[choice]
        if signs == {-1}:
            value = (0, 1, 5, 2, 3)[choice]
        elif signs:
            value = large // 2 + choice
        elif type(symbol.owner) is Op and symbol.owner.kind == "dim":
            value = (large, 50 * large + position, large + 3, large + 1, 7 * large)[choice]
        else:
            value = (0, 50 * large + position, 3, 1, 7 * large)[choice]
        return value


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
