"""Simplify: folds constants, applies the laws of algebra, and resolves control flow that is decided.

One walk in program order. A known number is a constant, a matrix that holds one number everywhere, or a condition
inside the branches that it decides.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.threads import is_threads_loop, threads_loop_of
from quadrants.ir.types import ArrayType, MatrixType, Type, scalar_of, u1
from quadrants.passes import algebra, algebra_forms, algebra_logic
from quadrants.passes.context import PassContext
from quadrants.passes.fold import fold
from quadrants.passes.laws import LEFT, PLAIN, RIGHT
from quadrants.passes.structure import functions_to_do, loop_jumps

__all__ = ["LAWS", "run"]

LAWS = (algebra, algebra_logic, algebra_forms)
"""The modules whose laws are applied: importing them fills the tables of `laws`."""

_COMMUTATIVE = frozenset(row.name for row in OPS.values() if row.commutative)
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_FOLDABLE = frozenset(row.name for row in OPS.values() if row.elementwise)
_LAWFUL = _FOLDABLE | PLAIN.keys() | {"splat", "check"}

SPECULATED_OPS = 4
"""How many cheap operations of a branch that yields truth values are evaluated always, to be rid of the branch."""


def run(module: Module, context: PassContext) -> None:
    """Simplifies every function of the module in place; any stage."""
    for function in functions_to_do(module, context):
        simplifier = _Simplifier(context, module.stage == "lowered")
        function.body.ops = simplifier.walk(function.body.ops, [])
        if simplifier.narrow:
            context.narrow.add(function.name)


class _Simplifier:
    """The state of one walk. `replaced` maps values to what is taken instead, `numbers` values to what they are known
    to be, `out` is where operations go; `cut` is set when the rest of the current block is unreachable."""

    __slots__ = ("context", "cut", "lowered", "narrow", "numbers", "out", "replaced")

    def __init__(self, context: PassContext, lowered: bool) -> None:
        self.context = context
        self.lowered = lowered
        self.replaced: dict[Value, Value] = {}
        self.numbers: dict[Value, Any] = {}
        self.out: list[Op] = []
        self.cut = False
        self.narrow = False

    # What laws use.

    def may_narrow(self) -> bool:
        """Whether arithmetic may become bit operations; if not yet, the function is looked at again."""
        self.narrow = not self.lowered
        return self.lowered

    def emit(self, like: Op, kind: str, operands: tuple[Value, ...], type_: Type, attributes: Any = None) -> Value:
        """Appends an operation in `like`'s place."""
        op = Op(kind, operands, (type_,), attributes, (), like.location)
        self.out.append(op)
        return op.results[0]

    def constant(self, like: Op, type_: Type, number: Any) -> Value:
        """A constant in `like`'s place; for a matrix type one that holds the number everywhere."""
        scalar = scalar_of(type_)
        number = float(number) if scalar.kind == "f" else bool(number) if scalar is u1 else int(number)
        value = self.emit(like, "constant", (), scalar, {"type": scalar, "value": number})
        self.numbers[value] = number
        if type(type_) is MatrixType:
            value = self.emit(like, "splat", (value,), type_, {"type": type_})
            self.numbers[value] = number
        return value

    # The walk.

    def walk(self, ops: list[Op], out: list[Op]) -> list[Op]:
        """Appends the simplified `ops` to `out`, which it returns."""
        before, self.out = self.out, out
        replaced, numbers = self.replaced, self.numbers
        mapped, known = replaced.keys(), numbers.keys()
        plain, append = PLAIN.get, out.append
        self.cut = False
        for op in ops:
            kind, operands = op.kind, op.operands
            if kind == "constant":
                value: Any = op.attributes["value"]
                if not isinstance(value, tuple):
                    numbers[op.results[0]] = value
                append(op)
                continue
            if not mapped.isdisjoint(operands):
                op.operands = operands = tuple([replaced.get(operand, operand) for operand in operands])
            if op.regions:
                if not _CONTROL[kind](self, op):
                    append(op)
                if self.cut:
                    break
                continue
            if kind in _LAWFUL and not known.isdisjoint(operands):
                found = self._apply(op)
            else:
                law = plain(kind)
                found = law(self, op) if law is not None else None
            if found is None or not self.context.permit():
                append(op)
            elif op.results:
                self._take(op, found)
        self.out = before
        return out

    def _take(self, op: Op, found: Value | Op) -> None:
        """Has what a law found stand for an operation's result."""
        while isinstance(found, Op):
            better = self._apply(found)
            if better is None:
                self.out.append(found)
                better = found.results[0]
                better.name = op.results[0].name
            found = better
        self.replaced[op.results[0]] = found

    def _apply(self, op: Op) -> Value | Op | None:
        """What the first law that applies makes of an operation; of a check that holds, its condition."""
        kind, operands = op.kind, op.operands
        numbers = self.numbers
        if not numbers.keys().isdisjoint(operands):
            if kind in _FOLDABLE:
                found = self._with_numbers(op, kind, operands)
                if found is not None:
                    return found
            elif kind == "splat":
                numbers[op.results[0]] = numbers[operands[0]]
            elif kind == "check":
                return operands[0] if numbers.get(operands[0]) else None
        law = PLAIN.get(kind)
        return law(self, op) if law is not None else None

    def _with_numbers(self, op: Op, kind: str, operands: tuple[Value, ...]) -> Value | Op | None:
        known = tuple([self.numbers.get(operand) for operand in operands])
        if None not in known:
            folded = fold(op, known)
            if folded is not None:
                return self.constant(op, op.results[0].type, folded)
        if len(known) != 2:
            return None
        first, second = known
        if second is not None:
            law = RIGHT.get(kind)
            return law(self, op, operands[0], operands[1], second) if law is not None else None
        if kind in _COMMUTATIVE:
            op.operands = (operands[1], operands[0])  # numbers stand on the right: x + n
            law = RIGHT.get(kind)
            return law(self, op, operands[1], operands[0], first) if law is not None else None
        if kind in _MIRRORED:  # n < x is x > n
            return Op(_MIRRORED[kind], (operands[1], operands[0]), (op.results[0].type,), None, (), op.location)
        law = LEFT.get(kind)
        return law(self, op, operands[0], operands[1], first) if law is not None else None

    # Control flow: each gives whether the operation is gone (its results are mapped then).

    def _inline(self, block: Block) -> Op | None:
        """Appends a block's operations to the current ones and gives its terminator, mapped; None where the block does
        not reach it."""
        self.walk(block.ops[:-1], self.out)
        if self.cut:
            return None
        last = block.ops[-1]
        last.operands = tuple([self.replaced.get(operand, operand) for operand in last.operands])
        return last

    def _splice(self, op: Op, block: Block) -> bool:
        """Puts a region in place of its operation."""
        last = self._inline(block)
        if last is None:
            return True
        if last.kind == "yield":
            self.replaced.update(zip(op.results, last.operands))
        else:
            self.out.append(last)
            self.cut = True
        return True

    def visit_if(self, op: Op) -> bool:
        condition = op.operands[0]
        known = self.numbers.get(condition)
        yes, no = op.regions
        if known is not None and self.context.permit():
            return self._splice(op, yes if known else no)
        self._branch(yes, condition, True)
        self._branch(no, condition, False)
        self.cut = False
        if _mergeable(op, yes, no) and self.context.permit():
            self.out.extend(yes.ops[:-1])
            self.out.extend(no.ops[:-1])
            self._merge(op, yes.ops[-1], no.ops[-1])
            return True
        self._same_results(op, yes, no)
        return False

    def _branch(self, block: Block, condition: Value, truth: bool) -> None:
        """Simplifies a branch, in which the condition is known."""
        if self.numbers.get(condition) is not None:
            block.ops = self.walk(block.ops, [])
            return
        self.numbers[condition] = truth
        block.ops = self.walk(block.ops, [])
        del self.numbers[condition]

    def _merge(self, op: Op, yes: Op, no: Op) -> None:
        """An `if` of which nothing is left but what it yields: selections."""
        condition = op.operands[0]
        for result, one, other in zip(op.results, yes.operands, no.operands):
            if one is other:
                self.replaced[result] = one
                continue
            select = Op("select", (condition, one, other), (result.type,), None, (), op.location)
            select.results[0].name = result.name
            self._take(select, select)
            self.replaced[result] = self.replaced[select.results[0]]

    def _same_results(self, op: Op, yes: Block, no: Block) -> None:
        """Results that are one value whichever branch runs; a branch that jumps away has no say."""
        ends = [block.ops[-1] for block in (yes, no)]
        yields = [last for last in ends if last.kind == "yield"]
        if len(yields) == 2:
            for result, one, other in zip(op.results, yields[0].operands, yields[1].operands):
                if one is other:
                    self.replaced[result] = one
        elif len(yields) == 1:
            block = yes if yields[0] is ends[0] else no
            if len(block.ops) == 1:
                self.replaced.update(zip(op.results, yields[0].operands))

    def visit_for(self, op: Op) -> bool:
        attributes = op.attributes or {}
        rank = attributes["rank"]
        lows, highs, inits = op.operands[:rank], op.operands[rank : 2 * rank], op.operands[2 * rank :]
        trips = [self._trips(low, high) for low, high in zip(lows, highs)]
        if any(trip is not None and trip <= 0 for trip in trips) and self.context.permit():
            self.replaced.update(zip(op.results, inits))
            return True
        body = op.regions[0]
        stays = attributes.get("parallel") or is_threads_loop(op) or threads_loop_of(op) is not None
        once = all(trip == 1 for trip in trips) and not stays
        if once and body.ops[-1].kind == "yield" and not loop_jumps(body) and self.context.permit():
            self.replaced.update(zip(body.arguments, lows + inits))
            return self._splice(op, body)
        self._invariant(op, body.arguments[rank:], inits, body.ops[-1], (body,))
        body.ops = self.walk(body.ops, [])
        self.cut = False
        return False

    def _trips(self, low: Value, high: Value) -> int | None:
        """How often a loop runs, if that is known."""
        if low is high:
            return 0
        first, last = self.numbers.get(low), self.numbers.get(high)
        return None if first is None or last is None else last - first

    def visit_while(self, op: Op) -> bool:
        condition, body = op.regions
        last = body.ops[-1]
        self._invariant(op, condition.arguments, op.operands, last, (condition, body), body.arguments)
        condition.ops = self.walk(condition.ops, [])
        end = condition.ops[-1]
        if end.kind == "yield" and self.numbers.get(end.operands[0]) is False and self.context.permit():
            self.replaced.update(zip(condition.arguments, op.operands))
            self._inline(condition)
            self.replaced.update(zip(op.results, op.operands))
            return True
        body.ops = self.walk(body.ops, [])
        self.cut = False
        return False

    def _invariant(
        self,
        op: Op,
        arguments: list[Value],
        inits: tuple[Value, ...],
        last: Op,
        blocks: tuple[Block, ...],
        others: list[Value] | None = None,
    ) -> None:
        """Carried values that no iteration changes are their initial values, inside and after the loop."""
        seconds = others if others is not None else arguments
        ends = [last, *(jump for block in blocks for jump in loop_jumps(block))] if op.results else []
        ends = [end for end in ends if end.kind != "return"]
        for position, (argument, second, init) in enumerate(zip(arguments, seconds, inits)):
            unchanged = all(self._is_one_of(end.operands[position], argument, second, init) for end in ends)
            if unchanged and self.context.permit():
                self.replaced[argument] = self.replaced[second] = init
                self.replaced[op.results[position]] = init

    def _is_one_of(self, value: Value, *others: Value) -> bool:
        value = self.replaced.get(value, value)
        return any(value is other for other in others)


def _mergeable(op: Op, yes: Block, no: Block) -> bool:
    """Whether both branches just yield, or compute a few cheap truth values first, as `and`, `or` and `not` do."""
    if yes.ops[-1].kind != "yield" or no.ops[-1].kind != "yield":
        return False
    if any(type(result.type) is ArrayType for result in op.results):
        return False
    size = len(yes.ops) + len(no.ops) - 2
    if size == 0:
        return True
    if size > SPECULATED_OPS or not op.results or any(result.type is not u1 for result in op.results):
        return False
    return all(_is_cheap(inside) for inside in yes.ops[:-1] + no.ops[:-1])


def _is_cheap(op: Op) -> bool:
    row = OPS[op.kind]
    return row.effects == "pure" and row.cost <= 1 and type(op.results[0].type) is not MatrixType


_CONTROL = {"if": _Simplifier.visit_if, "for": _Simplifier.visit_for, "while": _Simplifier.visit_while}
