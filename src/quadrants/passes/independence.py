"""Whether memory lets the iterations of a loop run in any order."""

from __future__ import annotations

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.accesses import Access, accesses_of, by_array
from quadrants.passes.affine import Forms
from quadrants.passes.dependence import CERTAIN, FINE, UNDECIDED, Space, relation
from quadrants.passes.nest import Nest
from quadrants.passes.summaries import Summaries
from quadrants.records import Record

__all__ = ["ORDERED", "Conflict", "Independence"]

ORDERED = "ordered"
_MOST_PAIRS = 20_000


class Conflict(Record):
    """Two accesses to an array that surely meet in different iterations."""

    array: Value
    first: Access
    second: Access


class Independence:
    """Verdicts on the loops of one function."""

    def __init__(self, nest: Nest, forms: Forms, summaries: Summaries) -> None:
        self.nest = nest
        self.forms = forms
        self.summaries = summaries
        self.may_alias = bool(nest.function.attributes.get("may_alias"))

    def of(self, loop: Op, strict: bool) -> str | Conflict:
        """FINE, UNDECIDED or a conflict; ORDERED where slots may be shared by iterations, which no user's promise covers.
        `strict`: whether only FINE matters to whom asks; all else may then be UNDECIDED."""
        space = Space(loop, self.forms)
        found = accesses_of(loop, self.nest, self.forms, self.summaries.of)
        undecided = False
        for array, accesses in by_array(found, self.may_alias).items():
            verdict = self._array(array, accesses, space, strict)
            if isinstance(verdict, Conflict):
                return verdict
            if verdict is not FINE:
                undecided = True
                if type(array.type) is ArrayType and array.type.is_slot:
                    return ORDERED
                if strict:
                    break
        return UNDECIDED if undecided else FINE

    def _array(self, array: Value, accesses: list[Access], space: Space, strict: bool) -> str | Conflict:
        writes = [access for access in accesses if access.writes]
        verdict, pairs = FINE, 0
        for position, first in enumerate(writes):
            for second in [access for access in accesses if not access.writes] + writes[position:]:
                pairs += 1
                if pairs > _MOST_PAIRS:
                    return UNDECIDED
                found = relation(first, second, space, strict)
                if found is FINE:
                    continue
                if strict:
                    return UNDECIDED
                if found is CERTAIN:
                    return Conflict(array, first, second)
                verdict = UNDECIDED
        return verdict
