"""Numbers that loop counters and sizes tell: what an index or a condition is computed from, and its value for given ones.

Where `Form` sees polynomials, this sees every operation on whole numbers and truth values, so that it can be tried out
what an iteration does.
"""

from __future__ import annotations

from quadrants.ir.evaluate import wrap
from quadrants.ir.nodes import Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, scalar_of
from quadrants.passes.affine import Form, Forms
from quadrants.passes.fold import fold

__all__ = ["Computed", "Environment", "parts"]

Environment = dict[Value, int]
_DEEPEST = 24
_MOST_LEAVES = 16
_NOTHING: frozenset[Value] = frozenset()


class Computed:
    """What the values of a function are computed from: their leaves, which are counters, parameters, elements of
    arrays, and whatever else is no operation on whole numbers."""

    __slots__ = ("_depth", "_leaves", "forms")

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self._leaves: dict[Value, frozenset[Value]] = {}
        self._depth = 0

    def leaves_of(self, form: Form) -> frozenset[Value]:
        """The leaves of a form."""
        found = _NOTHING
        for monomial in form.terms:
            for atom in monomial:
                found |= self.leaves(atom)
        return found

    def leaves(self, atom: Value) -> frozenset[Value]:
        """The leaves of a variable of forms; itself where it is one."""
        found = self._leaves.get(atom)
        if found is None:
            found = self._leaves[atom] = self._find(atom)
        return found

    def is_leaf(self, atom: Value) -> bool:
        return atom in self.leaves(atom)

    def _find(self, atom: Value) -> frozenset[Value]:
        op = atom.owner
        if type(op) is not Op or op.kind == "dim" or self._depth > _DEEPEST:
            return frozenset((atom,))
        found_parts = parts(op, atom)
        if found_parts is None:
            return frozenset((atom,))
        self._depth += 1
        found = _NOTHING
        for part in found_parts:
            found |= self.leaves_of(self.forms.of(part))
        self._depth -= 1
        return found if len(found) <= _MOST_LEAVES else frozenset((atom,))

    def number(self, form: Form, environment: Environment) -> int:
        """The value of a form, given its leaves'."""
        total = 0
        for monomial, count in form.terms.items():
            for factor in monomial:
                known = environment.get(factor)
                count *= self._atom(factor, environment) if known is None else known
            total += count
        return total

    def _atom(self, atom: Value, environment: Environment) -> int:
        op = atom.owner
        assert type(op) is Op
        if op.kind == "constant":
            return int(op.attribute("value"))
        if op.kind in ("select", "if"):
            return self.number(self.forms.of(self._chosen(op, atom, environment)), environment)
        numbers = tuple([self._held(operand, environment) for operand in op.operands])
        return int(fold(op, numbers) or 0)  # what is not folded is a division by zero

    def _held(self, operand: Value, environment: Environment) -> int:
        """The number that an operand holds: its form is exact, its type wraps."""
        number, scalar = self.number(self.forms.of(operand), environment), scalar_of(operand.type)
        return number if scalar.is_float else wrap(scalar, number)

    def _chosen(self, op: Op, result: Value, environment: Environment) -> Value:
        condition = self.number(self.forms.of(op.operands[0]), environment)
        if op.kind == "select":
            return op.operands[1 if condition else 2]
        return op.regions[0 if condition else 1].ops[-1].operands[op.results.index(result)]


def parts(op: Op, result: Value) -> tuple[Value, ...] | None:
    """The values that a result is computed from, None where it is not computed from whole numbers and truth values."""
    found = op.operands
    if op.kind == "if":
        ends = [region.ops[-1] for region in op.regions]
        if any(end.kind != "yield" for end in ends):
            return None
        position = op.results.index(result)
        found = (op.operands[0], *[end.operands[position] for end in ends])
    elif op.kind not in ("select", "constant") and (
        OPS[op.kind].effects != "pure" or OPS[op.kind].exact not in ("integers", "both")
    ):
        return None
    return found if all(_is_whole(part) for part in (result, *found)) else None


def _is_whole(value: Value) -> bool:
    return type(value.type) is ScalarType and not value.type.is_float
