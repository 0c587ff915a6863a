"""Numbers that integer values of a loop's body lie between, as far as the code tells."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ScalarType
from quadrants.passes.fold import number_of

__all__ = ["Range", "Ranges"]

Range = tuple["int | None", "int | None"]
"""The least and the greatest number, None where nothing is known."""

_UNKNOWN: Range = (None, None)


class Ranges:
    """The ranges of values; the loops whose counters may be asked for are given with `enter`."""

    def __init__(self) -> None:
        self._loops: dict[Block, Op] = {}
        self._found: dict[Value, Range] = {}

    def enter(self, loop: Op) -> None:
        """Makes the counters of a `for` known."""
        self._loops[loop.regions[-1]] = loop

    def trips(self, loop: Op) -> int | None:
        """A number that a loop's iterations do not exceed."""
        if loop.kind == "while":
            return None
        rank, total = loop.attribute("rank"), 1
        for low, high in zip(loop.operands[:rank], loop.operands[rank : 2 * rank]):
            least, most = self.of(low)[0], self.of(high)[1]
            if least is None or most is None:
                return None
            total *= max(most - least, 0)
        return total

    def of(self, value: Value) -> Range:
        found = self._found.get(value)
        if found is None:
            found = self._found[value] = self._make(value)
        return found

    def _make(self, value: Value) -> Range:
        owner = value.owner
        if isinstance(owner, Block):
            return self._counter(owner, value)
        type_ = value.type
        if owner is None or type(type_) is not ScalarType or type_.is_float:
            return _UNKNOWN
        number = number_of(value)
        if number is not None:
            return number, number
        handler = _HANDLERS.get(owner.kind)
        return _held(handler(*map(self.of, owner.operands[-2:])), type_) if handler is not None else _UNKNOWN

    def _counter(self, block: Block, value: Value) -> Range:
        loop = self._loops.get(block)
        if loop is None or loop.kind != "for":
            return _UNKNOWN
        rank: int = loop.attribute("rank")
        position = block.arguments.index(value)
        if position >= rank:
            return _UNKNOWN
        least, most = self.of(loop.operands[position])[0], self.of(loop.operands[position + rank])[1]
        return least, None if most is None else most - 1


def _held(found: Range, type_: ScalarType) -> Range:
    """A range, if numbers of the type do not wrap around there. Law: what counts in 64 bits does not come near its ends; of
    numbers without a sign, 0 is one."""
    low, high = found
    if low is None or high is None:
        return found if type_.bits == 64 and type_.is_signed else _UNKNOWN
    least, most = (-(1 << type_.bits - 1), (1 << type_.bits - 1) - 1) if type_.is_signed else (0, (1 << type_.bits) - 1)
    return found if least <= low and high <= most else _UNKNOWN


def _plus(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _minus(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left - right


def _add(a: Range, b: Range) -> Range:
    return _plus(a[0], b[0]), _plus(a[1], b[1])


def _sub(a: Range, b: Range) -> Range:
    return _minus(a[0], b[1]), _minus(a[1], b[0])


def _neg(a: Range) -> Range:
    return _sub((0, 0), a)


def _mul(a: Range, b: Range) -> Range:
    (low, high), (least, most) = a, b
    if low is None or high is None or least is None or most is None:
        return _UNKNOWN
    products = [x * y for x in (low, high) for y in (least, most)]
    return min(products), max(products)


def _either(a: Range, b: Range) -> Range:
    """A value that is one of two."""
    (low, high), (least, most) = a, b
    return (
        None if low is None or least is None else min(low, least),
        None if high is None or most is None else max(high, most),
    )


def _smaller(a: Range, b: Range) -> Range:
    known = [bound for bound in (a[1], b[1]) if bound is not None]
    return _either(a, b)[0], min(known, default=None)


def _larger(a: Range, b: Range) -> Range:
    known = [bound for bound in (a[0], b[0]) if bound is not None]
    return max(known, default=None), _either(a, b)[1]


def _remainder(a: Range, b: Range) -> Range:
    """Law: a remainder has the divisor's sign and is smaller."""
    least, most = b
    return (0, most - 1) if least is not None and least > 0 and most is not None else _UNKNOWN


def _same(a: Range) -> Range:
    return a


_HANDLERS: dict[str, Callable[..., Range]] = {
    "add": _add,
    "sub": _sub,
    "neg": _neg,
    "mul": _mul,
    "min": _smaller,
    "max": _larger,
    "select": _either,
    "mod": _remainder,
    "cast": _same,
}
