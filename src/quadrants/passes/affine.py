"""Integers as polynomials over loop counters and values that the compiler does not look into, with their bounds.

Law: index arithmetic in signed types of 32 bits or more is taken as not wrapping, as long as its factors are such that
an index is out of range of every array before it wraps; what has larger factors is not looked into (`i * 65536 * 65536`
of 32 bits is always 0). What is no index wraps, and so does what an index is divided from: where that matters,
`Forms.exact` tells whether a form is surely the value (`i * 1664525 + 1013904223` soon is negative).
"""

from __future__ import annotations

from collections.abc import Iterable

from quadrants.ir.nodes import Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, i64, scalar_of
from quadrants.passes.nest import Nest, counters, highs, lows

__all__ = ["ONE", "ZERO", "Form", "Forms"]

Monomial = tuple[Value, ...]
_MOST_TERMS = 12
_MOST_FACTORS = 3
_DEEPEST = 60
# Sums of coefficients, and offsets, up to which a form is taken as its value in 32 and in 64 bits; and factors of a product.
_TAME = {32: (16, 1 << 20, 1), 64: (1 << 20, 1 << 40, 2)}
# Sums of coefficients from which on arithmetic is not that of indices.
_WILD = {32: 1 << 20, 64: 1 << 48}


class Form:
    """A polynomial with whole coefficients: `terms` maps products of values (sorted; () is the constant term) to their
    nonzero coefficients. Immutable."""

    __slots__ = ("_key", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._key: frozenset[tuple[Monomial, int]] | None = None

    @staticmethod
    def number(value: int) -> Form:
        return Form({(): value}) if value else ZERO

    @staticmethod
    def of(value: Value) -> Form:
        return Form({(value,): 1})

    @property
    def key(self) -> frozenset[tuple[Monomial, int]]:
        if self._key is None:
            self._key = frozenset(self.terms.items())
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        parts = [f"{n}" + "".join(f"*{v.name or '?'}" for v in m) for m, n in self.terms.items()]
        return " + ".join(parts) or "0"

    @property
    def constant(self) -> int | None:
        """The value of a form without variables, else None."""
        terms = self.terms
        if not terms:
            return 0
        return terms.get(()) if len(terms) == 1 else None

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    @property
    def weight(self) -> int:
        """The sum of the coefficients of variables, without their signs."""
        return sum([abs(count) for monomial, count in self.terms.items() if monomial])

    def plus(self, other: Form, factor: int = 1) -> Form:
        """self + factor * other."""
        if not other.terms or not factor:
            return self
        terms = dict(self.terms)
        for monomial, count in other.terms.items():
            total = terms.get(monomial, 0) + factor * count
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return Form(terms)

    def shifted(self, amount: int) -> Form:
        return self.plus(ONE, amount)

    def scaled(self, factor: int) -> Form:
        return Form({m: n * factor for m, n in self.terms.items()}) if factor else ZERO

    def times(self, other: Form) -> Form:
        terms: dict[Monomial, int] = {}
        for left, count in self.terms.items():
            for right, factor in other.terms.items():
                product = tuple(sorted(left + right, key=id)) if left and right else left or right
                terms[product] = terms.get(product, 0) + count * factor
        return Form({m: n for m, n in terms.items() if n})

    def coefficient(self, value: Value) -> Form | None:
        """The factor of `value`, a form without it; None where `value` occurs squared."""
        terms: dict[Monomial, int] = {}
        for monomial, count in self.terms.items():
            if value in monomial:
                rest = tuple([factor for factor in monomial if factor is not value])
                if len(rest) + 1 != len(monomial):
                    return None
                terms[rest] = count
        return Form(terms) if terms else ZERO

    def without(self, value: Value) -> Form:
        """The terms in which `value` does not occur."""
        return Form({m: n for m, n in self.terms.items() if value not in m})

    def replaced(self, value: Value, by: Form) -> Form | None:
        """The form with `by` in the place of `value`; None where `value` occurs squared."""
        factor = self.coefficient(value)
        if factor is None:
            return None
        return self.without(value).plus(factor.times(by)) if factor.terms else self

    def atoms(self) -> set[Value]:
        return {value for monomial in self.terms for value in monomial}


ZERO = Form({})
ONE = Form({(): 1})


_LINEAR = frozenset({"cast", "add", "sub", "neg", "mul", "shl"})


def _transparent(scalar: object) -> bool:
    return type(scalar) is ScalarType and scalar.kind == "i" and scalar.bits >= 32


class Forms:
    """The forms of a function's values. Equal expressions get equal forms, wherever they stand."""

    __slots__ = ("_depth", "_exact", "_lowest", "_memo", "_numbered", "_places", "nest")

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self._memo: dict[Value, Form] = {}
        self._numbered: dict[object, Value] = {}
        self._lowest: dict[Value, int | None] = {}
        self._exact: dict[Value, bool] = {}
        self._places: dict[Value, bool] = {}
        self._depth = 0

    def of(self, value: Value) -> Form:
        """The form of an integer value."""
        found = self._memo.get(value)
        if found is None:
            found = self._memo[value] = self._compute(value)
        return found

    def _compute(self, value: Value) -> Form:
        op = value.owner
        if type(op) is not Op or self._depth > _DEEPEST:
            return Form.of(value)
        self._depth += 1
        try:
            form = self._linear(op) if _transparent(value.type) else None
            if form is not None and form.weight > _WILD[scalar_of(value.type).bits]:
                form = None
            return form if form is not None else Form.of(self._canonical(value, op))
        finally:
            self._depth -= 1

    def _linear(self, op: Op) -> Form | None:
        kind, operands = op.kind, op.operands
        if kind == "constant":
            return Form.number(op.attributes["value"])
        if kind == "cast":
            return self._cast(operands[0], scalar_of(op.results[0].type))
        if kind == "add":
            return self.of(operands[0]).plus(self.of(operands[1]))
        if kind == "sub":
            return self.of(operands[0]).plus(self.of(operands[1]), -1)
        if kind == "neg":
            return self.of(operands[0]).scaled(-1)
        if kind == "mul":
            return self._product(self.of(operands[0]), self.of(operands[1]))
        if kind == "shl":
            shift = self.of(operands[1]).constant
            return self.of(operands[0]).scaled(1 << shift) if shift is not None and 0 <= shift < 31 else None
        return None

    def _cast(self, value: Value, to: ScalarType) -> Form | None:
        """Law: a cast to fewer bits is nothing to counters and sizes, and to what had these bits before."""
        if not _transparent(value.type):
            return None
        form = self.of(value)
        if scalar_of(value.type).bits <= to.bits:
            return form
        return form if all(self._fits(atom, to) for atom in form.atoms()) else None

    def _fits(self, atom: Value, to: ScalarType) -> bool:
        if scalar_of(atom.type).bits <= to.bits:
            return True
        if atom in self.nest.counter:
            loop, dimension = self.nest.counter[atom]
            bounds = [self.of(bound).constant or 0 for bound in (lows(loop)[dimension], highs(loop)[dimension])]
            return to.minimum <= bounds[0] and bounds[1] - 1 <= to.maximum
        return self.is_place(atom)

    def is_place(self, atom: Value) -> bool:
        """Whether a variable of forms is a counter, a size or a parameter, or chosen from such: arithmetic with it is index
        arithmetic."""
        found = self._places.get(atom)
        if found is None:
            self._places[atom] = False
            found = self._places[atom] = self._find_place(atom)
        return found

    def _find_place(self, atom: Value) -> bool:
        op = atom.owner
        if type(op) is not Op:
            return atom in self.nest.counter or self.nest.home.get(atom, atom) is None
        if op.kind == "dim":
            return True
        parts = op.operands[1:] if op.kind in ("mod", "select") else op.operands
        chosen = op.kind in ("min", "max", "mod", "floordiv", "abs", "select")
        return chosen and all(_transparent(part.type) and self._are_places(part) for part in parts)

    def _are_places(self, value: Value) -> bool:
        return self.exact(value) and all(map(self.is_place, self.of(value).atoms()))

    def exact(self, value: Value) -> bool:
        """Whether the form of a value is the value, also where it is no index: whether its arithmetic surely does not
        wrap, or only next to the borders of its type."""
        found = self._exact.get(value)
        if found is None:
            self._exact[value] = False
            found = self._exact[value] = self._is_exact(value)
        return found

    def _is_exact(self, value: Value) -> bool:
        op, terms = value.owner, self.of(value).terms
        if type(op) is not Op or op.kind not in _LINEAR or not _transparent(value.type) or terms == {(value,): 1}:
            return True
        most, farthest, factors = _TAME[scalar_of(value.type).bits]
        if self.of(value).weight > most or self._depth > _DEEPEST:
            return False
        if abs(terms.get((), 0)) > farthest or any(len(monomial) > factors for monomial in terms):
            return False
        self._depth += 1
        try:
            return all(map(self.exact, op.operands))
        finally:
            self._depth -= 1

    def _product(self, left: Form, right: Form) -> Form | None:
        if len(left.terms) * len(right.terms) > _MOST_TERMS:
            return None
        product = left.times(right)
        return product if all(len(monomial) <= _MOST_FACTORS for monomial in product.terms) else None

    def _canonical(self, value: Value, op: Op) -> Value:
        """The first value met that is computed in the same way as `value`."""
        if OPS[op.kind].effects != "pure" or type(value.type) is not ScalarType:
            return value
        parts: list[object] = [op.kind, value.type]
        for operand in op.operands:
            numeric = type(operand.type) is ScalarType and not operand.type.is_float
            parts.append(self.of(operand).key if numeric else operand)
            if numeric and not self.exact(operand):
                parts.append(_arithmetic_of(operand))
        if op.attributes:
            parts.extend([entry for entry in op.attributes.items() if entry[0] != "exact"])
        try:
            return self._numbered.setdefault(tuple(parts), value)
        except TypeError:  # an attribute that cannot be hashed
            return value

    def size(self, array: Value, axis: int) -> Form:
        """The size of an array's axis."""
        return Form.of(self.size_of(array, axis))

    def size_of(self, array: Value, axis: int) -> Value:
        """The variable that stands for the size of an array's axis, whether the function asks for it or not."""
        op = Op("dim", (array,), (i64,), {"axis": axis})
        value = self._canonical(op.results[0], op)
        self.nest.home.setdefault(value, self.nest.home.get(array))
        return value

    def standing_for(self, form: Form | None, place: Op) -> Value:
        """A new value of a form (None: of which nothing is known), as if defined in place of an operation."""
        value = Value(i64)
        self.nest.home[value] = self.nest.parent[place]
        if form is not None:
            self._memo[value] = form
        return value

    def equate(self, value: Value, form: Form) -> None:
        """From now on, as far as nothing has asked for it yet, a variable is that form."""
        self._memo[value] = form

    def learn_loop(self, loop: Op) -> None:
        """Takes in a `for` that is new, or that has new bounds."""
        for dimension, counter in enumerate(counters(loop)):
            self.nest.counter[counter] = (loop, dimension)
            self._lowest.pop(counter, None)

    def invariant(self, value: Value, loop: Op) -> bool:
        """Whether a value is the same in all iterations of a loop."""
        if not self.nest.defined_in(value, loop):
            return True
        op = value.owner
        if type(op) is not Op or OPS[op.kind].effects != "pure":
            return False
        return all(self.invariant(operand, loop) for operand in op.operands)

    def lowest(self, value: Value) -> int | None:
        """A number that a variable of forms is never below, None if not known."""
        if value not in self._lowest:
            self._lowest[value] = None
            self._lowest[value] = self._lowest_of(value)
        return self._lowest[value]

    def _lowest_of(self, value: Value) -> int | None:
        if value in self.nest.counter:
            loop, dimension = self.nest.counter[value]
            return self._least(lows(loop)[dimension])
        op = value.owner
        if type(op) is not Op:
            return None
        if op.kind == "dim" or (op.kind == "cast" and _unsigned(op.operands[0]) and _is_wider(value, op.operands[0])):
            return 0
        if op.kind in ("min", "max", "floordiv", "mod", "abs"):
            return self._lowest_of_function(op)
        return None

    def _lowest_of_function(self, op: Op) -> int | None:
        first = self._least(op.operands[0])
        if op.kind == "abs":  # the smallest number of a type has none: what counts in 64 bits does not come near it
            return 0 if first is not None or scalar_of(op.results[0].type).bits == 64 else None
        second = self._least(op.operands[1])
        if op.kind == "max":
            known = [bound for bound in (first, second) if bound is not None]
            return max(known) if known else None
        if op.kind == "mod":
            return 0 if second is not None and second >= 0 else None
        if first is None or second is None:
            return None
        return min(first, second) if op.kind == "min" else (0 if first >= 0 and second >= 0 else None)

    def _least(self, value: Value) -> int | None:
        """A number that a value is never below."""
        return self.lower_bound(self.of(value)) if self.exact(value) else None

    def lower_bound(self, form: Form) -> int | None:
        """A number that a form is never below, by the bounds of its variables alone."""
        total = 0
        for monomial, count in form.terms.items():
            bound = count
            if monomial:
                if count < 0:
                    return None
                for value in monomial:
                    lowest = self.lowest(value)
                    if lowest is None or lowest < 0:
                        if len(monomial) > 1 or lowest is None:
                            return None
                    bound *= lowest
            total += bound
        return total

    def at_least(self, form: Form, number: int) -> bool:
        """Whether a form is surely >= `number`."""
        bound = self.lower_bound(form)
        return bound is not None and bound >= number

    def extreme(self, form: Form, loops: Iterable[Op], highest: bool) -> Form | None:
        """The largest (or smallest) value of a form over the iterations of loops given innermost first, as a form
        without their counters; None if it cannot be told. Loops without iterations are not looked at."""
        for loop in loops:
            bounds = (lows(loop), highs(loop))
            arguments = loop.regions[0].arguments
            for dimension in range(len(bounds[0]) - 1, -1, -1):
                counter = arguments[dimension]
                factor = form.coefficient(counter)
                if factor is None:
                    return None
                if not factor.terms:
                    continue
                sign = self._sign(factor)
                if sign == 0:
                    return None
                upper = (sign > 0) == highest
                bound = self.of(bounds[upper][dimension])
                form = form.without(counter).plus(factor.times(bound.shifted(-1) if upper else bound))
        return form

    def _sign(self, factor: Form) -> int:
        """1 if a form is surely never negative, -1 if never positive, 0 if that is not known."""
        if self.at_least(factor, 0):
            return 1
        return -1 if self.at_least(factor.scaled(-1), 0) else 0


def _arithmetic_of(value: Value) -> object:
    """The type in which a number was computed: what wraps differs with it."""
    op = value.owner
    while type(op) is Op and op.kind == "cast":
        value = op.operands[0]
        op = value.owner
    return value.type


def _unsigned(value: Value) -> bool:
    return type(value.type) is ScalarType and value.type.kind == "u" and value.type.bits < 64


def _is_wider(value: Value, other: Value) -> bool:
    """Whether a value holds all numbers of another one's type; what it does not hold wraps around to negative ones."""
    return scalar_of(value.type).bits > scalar_of(other.type).bits
