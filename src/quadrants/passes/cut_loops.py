"""Cuts innermost loops at their borders, so that the long part in the middle needs no tests there.

What makes a border: an index that counts from the end at first (`u[i - 1]`), a remainder that goes round at the end
(`(i + 1) % n`), a comparison of the counter (`0 < i`). In the middle, the remainders and comparisons are gone, accesses
are plain streams of memory, and vector lanes run them; the few iterations at the ends keep them.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.threads import MEETINGS, is_threads_loop
from quadrants.ir.types import ScalarType, i64, u1
from quadrants.passes.affine import Form, Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cost import trip_count
from quadrants.passes.facts import Facts
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest, counters, highs, inits, lows
from quadrants.passes.rewrite import computed_from
from quadrants.passes.structure import count_ops, loop_jumps
from quadrants.records import MutableRecord, fresh

__all__ = ["run"]

# The largest body that is copied; how far from an end of the loop a border may be; the shortest loop worth a cut.
_LARGEST = 300
_FARTHEST = 8
_SHORTEST = 16
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_PARALLEL = ("parallel", "reductions", "chunk", "cost", "scatter")


def run(module: Module, context: PassContext) -> None:
    """Cuts loops of all functions and decides what the cuts decide; stage `tasks`. Short pieces have `short=True`."""
    for function in context.functions(module):
        if _has_work(function.body, False):
            _Cutter(function, context).block(function.body)


def _has_work(block: Block, in_loop: bool) -> bool:
    for op in block.ops:
        if op.regions:
            if any(_has_work(region, in_loop or op.kind == "for") for region in op.regions):
                return True
        elif in_loop and (op.kind in _COMPARISONS or op.kind == "mod" or op.attribute("wrap")):
            return True
    return False


class _Borders(MutableRecord):
    """Where the middle of a loop begins and ends: after `low` from zero and `later` from the loop's start, before
    `sooner` from the loop's end and before each value of `ends`."""

    low: int = 0
    later: int = 0
    sooner: int = 0
    ends: list[tuple[Value, int]] = fresh(list[tuple[Value, int]])

    def __bool__(self) -> bool:
        return bool(self.low or self.later or self.sooner or self.ends)


class _Cutter:
    """The walk through a function, with what is known at the place it has reached."""

    def __init__(self, function: Function, context: PassContext) -> None:
        self.context = context
        self.nest = Nest(function)
        self.forms = Forms(self.nest)
        self.facts = Facts(self.forms)

    def block(self, block: Block) -> None:
        mark = self.facts.mark()
        out: list[Op] = []
        for op in block.ops:
            if op.kind == "for":
                out += self._loop(op)
                continue
            if op.kind == "if":
                self.facts.branch(op, self.block)
            else:
                for region in op.regions:
                    self.block(region)
            out.append(op)
        block.ops = out
        self.facts.forget(mark)

    def _loop(self, loop: Op) -> list[Op]:
        """Treats a loop; gives what stands in its place."""
        if not _is_innermost(loop):
            mark = self.facts.mark()
            self.facts.enter(loop)
            self.block(loop.regions[0])
            self.facts.forget(mark)
            return [loop]
        borders = self._borders(loop)
        if not borders or not self.context.permit():
            self._decide(loop, [])
            return [loop]
        self.context.count("loops cut at a border")
        return self._cut(loop, borders)

    # Finding the borders.

    def _borders(self, loop: Op) -> _Borders:
        borders = _Borders()
        trips = trip_count(loop, self.forms)
        body = loop.regions[0]
        breaks = any(jump.kind == "break" for jump in loop_jumps(body))
        if loop.attribute("rank") > 1 and not loop.attribute("parallel"):
            return borders  # the pieces would run in another order
        if breaks or count_ops(body) > _LARGEST or (trips is not None and trips < _SHORTEST):
            return borders
        mark = self.facts.mark()
        self.facts.enter(loop)
        self._search(body, loop, borders)
        self.facts.forget(mark)
        return borders

    def _search(self, block: Block, loop: Op, borders: _Borders) -> None:
        mark = self.facts.mark()
        for op in block.ops:
            if op.kind == "if":
                self.facts.branch(op, lambda region: self._search(region, loop, borders))
            elif op.kind in ARRAY_POSITION and op.attribute("wrap"):
                self._search_access(op, loop, borders)
            elif op.kind == "mod" and _is_index(op.operands[0]):
                self._search_remainder(op, loop, borders)
            elif op.kind in _COMPARISONS and _is_index(op.operands[0]):
                self._search_comparison(op, loop, borders)
        self.facts.forget(mark)

    def _search_access(self, op: Op, loop: Op, borders: _Borders) -> None:
        position = ARRAY_POSITION[op.kind]
        for axis, index in enumerate(op.operands[position + 1 :]):
            form = self.forms.of(index)
            rest = self._beside(form, loop)
            bound = self.forms.lower_bound(rest) if rest is not None else None
            if bound is not None and -_FARTHEST <= bound < 0:
                if not self.facts.not_negative(form, op.operands[position], axis):
                    borders.low = max(borders.low, -bound)

    def _search_remainder(self, op: Op, loop: Op, borders: _Borders) -> None:
        """Law: x mod n is x where 0 <= x < n."""
        form, size = map(self.forms.of, op.operands)
        rest = self._beside(form, loop)
        if rest is None or rest.constant is None or not self._is_outside(op.operands[1], loop):
            return
        if not all(map(self._is_told, op.operands)):
            return
        if -_FARTHEST <= rest.constant < 0 and not self.facts.holds(form):
            borders.low = max(borders.low, -rest.constant)
        if not self.facts.holds(size.plus(form, -1).shifted(-1)):
            self._end(op.operands[1], -rest.constant, loop, borders)

    def _search_comparison(self, op: Op, loop: Op, borders: _Borders) -> None:
        """Finds where a comparison of the counter changes its outcome."""
        left, right = map(self.forms.of, op.operands)
        difference = left.plus(right, -1)
        factor = difference.coefficient(counters(loop)[-1])
        sign = factor.constant if factor is not None else None
        if sign not in (1, -1) or not all(map(self._is_told, op.operands)) or self._outcome(op) is not None:
            return
        # counter < threshold is what the comparison tells, or the opposite.
        rest = difference.without(counters(loop)[-1])
        equal = rest.scaled(-sign)
        over = (op.kind in ("le", "gt")) == (sign == 1)
        both = op.kind in ("eq", "ne")
        if not both and not over:
            self._threshold(equal, op, loop, borders)
        elif not both:
            self._threshold(equal.shifted(1), op, loop, borders)
        elif not self._near_start(equal.shifted(1), loop, borders):
            self._near_end(equal, loop, borders)

    def _threshold(self, place: Form, op: Op, loop: Op, borders: _Borders) -> None:
        if self._near_start(place, loop, borders) or self._near_end(place, loop, borders):
            return
        for value in op.operands:
            distance = place.plus(self.forms.of(value), -1).constant
            if distance is not None and self._is_outside(value, loop) and not borders.ends:
                borders.ends.append((value, distance))

    def _near_start(self, place: Form, loop: Op, borders: _Borders) -> bool:
        low = self.forms.of(lows(loop)[-1])
        distance = place.plus(low, -1).constant
        if distance is not None and 0 < distance <= _FARTHEST:
            borders.later = max(borders.later, distance)
            return True
        number = place.constant
        if number is not None and low.constant is None and 0 < number <= _FARTHEST:
            borders.low = max(borders.low, number)
            return True
        return False

    def _near_end(self, place: Form, loop: Op, borders: _Borders) -> bool:
        distance = self.forms.of(highs(loop)[-1]).plus(place, -1).constant
        if distance is None or not 0 < distance <= _FARTHEST:
            return False
        borders.sooner = max(borders.sooner, distance)
        return True

    def _end(self, value: Value, distance: int, loop: Op, borders: _Borders) -> None:
        """The middle ends before value + distance."""
        if not self._near_end(self.forms.of(value).shifted(distance), loop, borders):
            if (value, distance) not in borders.ends:
                borders.ends.append((value, distance))

    def _beside(self, form: Form, loop: Op) -> Form | None:
        """What is added to the last counter, None where the form is no such sum."""
        factor = form.coefficient(counters(loop)[-1])
        return form.without(counters(loop)[-1]) if factor is not None and factor.constant == 1 else None

    def _is_outside(self, value: Value, loop: Op) -> bool:
        return computed_from(value, loop, self.nest) is not None

    # Cutting.

    def _cut(self, loop: Op, borders: _Borders) -> list[Op]:
        """Makes up to three loops of one: `loop` becomes the middle."""
        before = Block()
        builder = Builder(before, loop.location)
        low, high = lows(loop)[-1], highs(loop)[-1]
        start, stop = low, high
        if borders.low or borders.later:
            if borders.later:
                start = builder.add(low, builder.index(borders.later))
            if borders.low:
                start = builder.max(start, builder.index(borders.low))
        ends = self._ends(loop, borders, builder)
        for end in ends:
            stop = builder.min(stop, end)
        if ends:
            stop = builder.max(stop, start)
        pieces: list[Op] = []
        first = _copy(loop, low, builder.min(start, high)) if start is not low else None
        last = _copy(loop, stop, high) if ends else None
        learned = self._learn(loop, start, ends)
        if first is not None:
            _shorten(first, loop)
            pieces.append(first)
        _set_range(loop, start, stop)
        pieces.append(loop)
        if last is not None:
            if not borders.ends:
                _shorten(last, loop)
            pieces.append(last)
        _chain(pieces, loop.results)
        for piece in pieces:
            self.forms.learn_loop(piece)
            self._decide(piece, learned if piece is loop else self._beyond(piece, ends, last))
        return [*before.ops, *pieces]

    def _ends(self, loop: Op, borders: _Borders, builder: Builder) -> list[Value]:
        ends: list[Value] = []
        if borders.sooner:
            ends.append(builder.sub(highs(loop)[-1], builder.index(borders.sooner)))
        for value, distance in borders.ends:
            values: dict[Value, Value] = {}
            builder.block.ops += clone_ops(computed_from(value, loop, self.nest) or [], values)
            wide = builder.cast(values.get(value, value), i64)
            ends.append(builder.add(wide, builder.index(distance)))
        return ends

    def _learn(self, loop: Op, start: Value, ends: list[Value]) -> list[Form]:
        """What is known of the counter in the middle."""
        counter = Form.of(counters(loop)[-1])
        known = [self.forms.of(end).plus(counter, -1).shifted(-1) for end in ends]
        bounds: tuple[Value, ...] = (start,)
        if type(start.owner) is Op and start.owner.kind == "max":
            bounds = start.owner.operands
        return known + [counter.plus(self.forms.of(bound), -1) for bound in bounds]

    def _beyond(self, piece: Op, ends: list[Value], last: Op | None) -> list[Form]:
        """What is known of the counter behind the middle, where one value alone ends that."""
        if piece is not last or len(ends) != 1:
            return []
        return [Form.of(counters(piece)[-1]).plus(self.forms.of(ends[0]), -1)]

    # Deciding.

    def _decide(self, loop: Op, learned: list[Form]) -> None:
        """Puts constants for comparisons and operands for remainders, in a loop's body, where facts decide them."""
        mark = self.facts.mark()
        self.facts.enter(loop)
        for form in learned:
            self.facts.learn(form)
        self._decide_block(loop.regions[0], {})
        self.facts.forget(mark)

    def _decide_block(self, block: Block, values: dict[Value, Value]) -> None:
        mark = self.facts.mark()
        out: list[Op] = []
        for op in block.ops:
            if values:
                op.operands = tuple([values.get(operand, operand) for operand in op.operands])
            if op.kind == "if":
                self.facts.branch(op, lambda region: self._decide_block(region, values))
            elif op.kind == "mod" and _is_index(op.operands[0]) and self._is_identity(op):
                values[op.results[0]] = op.operands[0]
                continue
            elif op.kind in _COMPARISONS and _is_index(op.operands[0]):
                outcome = self._outcome(op)
                if outcome is not None:
                    op.kind, op.operands, op.attributes = "constant", (), {"type": u1, "value": outcome}
            out.append(op)
        block.ops = out
        self.facts.forget(mark)

    def _is_identity(self, op: Op) -> bool:
        if not all(map(self._is_told, op.operands)):
            return False
        form, size = map(self.forms.of, op.operands)
        return self.facts.holds(form) and self.facts.holds(size.plus(form, -1).shifted(-1))

    def _outcome(self, op: Op) -> bool | None:
        """What a comparison gives, if the facts tell."""
        if not all(map(self._is_told, op.operands)):
            return None
        left, right = map(self.forms.of, op.operands)
        difference = left.plus(right, -1)
        kind, holds = op.kind, self.facts.holds
        if kind in ("eq", "ne"):
            if not difference.terms:
                return kind == "eq"
            apart = holds(difference.shifted(-1)) or holds(difference.scaled(-1).shifted(-1))
            return kind == "ne" if apart else None
        if kind in ("gt", "le"):
            difference = difference.scaled(-1)
        # Now the question is whether difference < 0 (lt, gt) or difference >= 0 (ge, le).
        if holds(difference):
            return kind in ("ge", "le")
        if holds(difference.scaled(-1).shifted(-1)):
            return kind in ("lt", "gt")
        return None

    def _is_told(self, value: Value) -> bool:
        """Whether facts about a value's form are facts about the value: other arithmetic than with indices may wrap."""
        form = self.forms.of(value)
        if sum(form.terms.values()) == 1 and len(form.terms) == 1:
            return self.forms.exact(value)
        return self.forms.exact(value) and all(map(self.forms.is_place, form.atoms()))


def _copy(loop: Op, low: Value, high: Value) -> Op:
    (copy,) = clone_ops([loop], {})
    _set_range(copy, low, high)
    return copy


def _set_range(loop: Op, low: Value, high: Value) -> None:
    """Sets the range of the last counter."""
    loop.operands = (*lows(loop)[:-1], low, *highs(loop)[:-1], high, *inits(loop))


def _shorten(piece: Op, loop: Op) -> None:
    """A piece of a few iterations (along the last dimension) is not worth lanes, nor tasks if it has no other."""
    attributes = {**(piece.attributes or {}), "short": True}
    if loop.attribute("rank") == 1:
        for name in _PARALLEL:
            attributes.pop(name, None)
    piece.attributes = attributes


def _chain(pieces: list[Op], results: list[Value]) -> None:
    """Each piece starts with what the one before leaves; the last one gives the `results` that others use."""
    last = pieces[-1]
    for piece in pieces:
        if piece is not last and piece.results and piece.results[0] in results:
            piece.results, last.results = last.results, piece.results
            for owner in (piece, last):
                for result in owner.results:
                    result.owner = owner
    for piece, before in zip(pieces[1:], pieces):
        rank: int = piece.attribute("rank")
        piece.operands = (*piece.operands[: 2 * rank], *before.results)


def _is_index(value: Value) -> bool:
    type_ = value.type
    return type(type_) is ScalarType and type_.kind == "i" and type_.bits >= 32


def _is_innermost(loop: Op) -> bool:
    """Whether a loop may be cut: threads would be in different pieces of one where they meet."""
    if is_threads_loop(loop):
        return False
    pending = list(loop.regions)
    while pending:
        for op in pending.pop().ops:
            if op.kind in ("for", "while", "call") or op.kind in MEETINGS:
                return False
            pending += op.regions
    return True
