"""What is surely not negative at a place in the program: from loop bounds, and from the conditions on the way there."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ScalarType, u1
from quadrants.passes.affine import ZERO, Form, Forms
from quadrants.passes.dependence import never_negative
from quadrants.passes.nest import highs, lows

__all__ = ["Facts"]

_MOST_FACTS = 40
_DEEPEST = 4
# The comparisons that hold where another does not.
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


class Facts:
    """A stack of forms that are >= 0, and of the loops around, innermost last."""

    __slots__ = ("_forms", "_shown_before", "known", "loops")

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._shown_before: dict[tuple[Form, Value | None], bool] = {}
        self.known: list[tuple[Form, set[Value]]] = []
        self.loops: list[Op] = []

    def enter(self, loop: Op) -> None:
        """Goes into a `for`: it has an iteration."""
        self.loops.append(loop)
        self._shown_before.clear()
        for low, high in zip(lows(loop), highs(loop)):
            self._compare("gt", high, low)

    def branch(self, op: Op, visit: Callable[[Block], None]) -> None:
        """Visits the regions of an `if`, each with what its condition says; what the ones that leave say stays known."""
        for region, holds in zip(op.regions, (True, False)):
            mark = self.mark()
            self.assume(op.operands[0], holds)
            visit(region)
            self.forget(mark)
        for region, holds in zip(op.regions, (True, False)):
            if region.ops[-1].kind != "yield":
                self.assume(op.operands[0], not holds)

    def assume(self, condition: Value, holds: bool) -> None:
        """Learns from a condition that holds, or does not."""
        op = condition.owner
        if type(op) is not Op:
            return
        kind = op.kind
        if kind in _NEGATED and _is_index(op.operands[0]):
            self._compare(kind if holds else _NEGATED[kind], *op.operands)
        elif kind == ("bit_and" if holds else "bit_or") and condition.type is u1:
            for part in op.operands:
                self.assume(part, holds)
        elif kind == "bit_not" and condition.type is u1:
            self.assume(op.operands[0], not holds)
        elif kind in ("select", "if") and condition.type is u1:
            self._choice(op, condition, holds)

    def _choice(self, op: Op, condition: Value, holds: bool) -> None:
        """Law: if `c ? x : false` holds, so do c and x; if `c ? true : x` does not hold, neither do c and x. A branch
        may give c itself, which is known there."""
        yes, no = _branches(op, condition)
        fixed, free = (no, yes) if holds else (yes, no)
        if fixed is op.operands[0] or _is_constant(fixed, not holds):
            self.assume(op.operands[0], holds)
            if free is not None:
                self.assume(free, holds)

    def _compare(self, kind: str, left: Value, right: Value) -> None:
        forms = self._forms
        if not (forms.exact(left) and forms.exact(right)):
            return
        difference = forms.of(left).plus(forms.of(right), -1)
        if kind in ("ge", "eq"):
            self.learn(difference)
        if kind in ("le", "eq"):
            self.learn(difference.scaled(-1))
        if kind == "gt":
            self.learn(difference.shifted(-1))
        if kind == "lt":
            self.learn(difference.scaled(-1).shifted(-1))

    def learn(self, form: Form) -> None:
        """Takes a form to be >= 0."""
        if form.constant is None and len(self.known) < _MOST_FACTS:
            self.known.append((form, form.atoms()))
            self._shown_before.clear()

    def mark(self) -> tuple[int, int]:
        """A place on the stack for `forget`."""
        return len(self.known), len(self.loops)

    def forget(self, mark: tuple[int, int]) -> None:
        """Forgets what was learned since a mark."""
        if self.mark() != mark:
            del self.known[mark[0] :]
            del self.loops[mark[1] :]
            self._shown_before.clear()

    def not_negative(self, index: Form, array: Value, axis: int) -> bool:
        """Whether an index of an array's axis surely does not count from the end."""
        return self.holds(index, self._forms.size_of(array, axis))

    def holds(self, form: Form, size: Value | None = None) -> bool:
        """Whether a form is surely >= 0, given that `size` is at least 1."""
        key = (form, size)
        found = self._shown_before.get(key)
        if found is None:
            found = self._shown_before[key] = self._shown(form, size, 0)
        return found

    def _shown(self, form: Form, size: Value | None, depth: int) -> bool:
        around = self.loops[::-1]
        if never_negative(form, size, around, self._forms):
            return True
        atoms = form.atoms()
        for fact, used in self.known:
            if not atoms.isdisjoint(used) and never_negative(form.plus(fact, -1), size, around, self._forms):
                return True
        if depth >= _DEEPEST:
            return False
        for atom in atoms:
            op = atom.owner
            if type(op) is Op and op.kind in _BOUNDS:
                factor = form.coefficient(atom)
                if factor is not None and (factor.constant or 0) > 0 and self._through(form, atom, op, size, depth):
                    return True
        return False

    def _through(self, form: Form, atom: Value, op: Op, size: Value | None, depth: int) -> bool:
        """Whether bounds of what an operation gives show it."""

        def shown(bound: Form) -> bool:
            replaced = form.replaced(atom, bound)
            return replaced is not None and self._shown(replaced, size, depth + 1)

        forms = self._forms
        operands = [
            forms.of(operand) if forms.exact(operand) else None for operand in op.operands if _is_index(operand)
        ]
        if op.kind in ("min", "select"):
            return len(operands) == 2 and all(part is not None and shown(part) for part in operands)
        if op.kind == "max":
            return any(part is not None and shown(part) for part in operands)
        if op.kind == "abs":
            return forms.lowest(op.results[0]) is not None and shown(ZERO)
        # Law: a mod b has b's sign; a // b is not negative if neither a nor b is.
        needed = operands[1:] if op.kind == "mod" else operands
        return all(part is not None and self._shown(part, size, depth + 1) for part in needed) and shown(ZERO)


_BOUNDS = frozenset({"min", "max", "select", "abs", "mod", "floordiv"})


def _is_index(value: Value) -> bool:
    type_ = value.type
    return type(type_) is ScalarType and type_.kind == "i" and type_.bits >= 32


def _branches(op: Op, result: Value) -> tuple[Value | None, Value | None]:
    if op.kind == "select":
        return op.operands[1], op.operands[2]
    position = op.results.index(result)
    ends = [region.ops[-1] for region in op.regions]
    yes, no = [end.operands[position] if end.kind == "yield" else None for end in ends]
    return yes, no


def _is_constant(value: Value | None, truth: bool) -> bool:
    owner = value.owner if value is not None else None
    return type(owner) is Op and owner.kind == "constant" and bool(owner.attribute("value")) is truth
