"""Argument bounds: numbers that the arguments of a function surely do not fall below, whoever calls it.

An index that a function gets need not count from the end if no caller passes a negative one: loops of the callers show
that. Recursive functions are taken to get anything.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op
from quadrants.ir.types import i64
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.facts import Facts
from quadrants.passes.nest import Nest
from quadrants.passes.structure import callee_of, calls

__all__ = ["learn_bounds", "run"]

# The bounds that are tried, as far as they hold.
_TRIED = (0, 1, 2, 4)

Bounds = dict[str, list[int | None]]


def run(module: Module, context: PassContext) -> None:
    """Stage `tasks`. Sets `lower_bounds`, (position, number) for each parameter with a bound, on the functions."""
    if len(module.functions) < 2:
        return
    bounds: Bounds = {}
    order, recursive = _callers_first(module)
    for function in order:
        found = bounds.get(function.name)
        if found is not None and function.name not in recursive:
            known = tuple([(position, bound) for position, bound in enumerate(found) if bound is not None])
            if known:
                function.attributes["lower_bounds"] = known
                context.count("functions whose arguments have bounds")
        if calls(function.body):
            _Looker(function, bounds).block(function.body)


def learn_bounds(facts: Facts, forms: Forms, function: Function) -> None:
    """Takes the bounds of a function's parameters to hold."""
    known: tuple[tuple[int, int], ...] = function.attributes.get("lower_bounds", ())
    for position, bound in known:
        facts.learn(forms.of(function.parameters[position]).shifted(-bound))


def _callers_first(module: Module) -> tuple[list[Function], set[str]]:
    """The functions that the kernel reaches, and which of them call themselves, over others or not."""
    order: list[Function] = []
    seen: set[str] = set()
    recursive: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            recursive.update(path[path.index(name) :])
        if name in seen:
            return
        seen.add(name)
        for call in calls(module.functions[name].body):
            visit(callee_of(call), [*path, name])
        order.append(module.functions[name])

    visit(module.entry, [])
    return order[::-1], recursive


class _Looker:
    """The walk through a caller, with what is known at the place it has reached."""

    def __init__(self, function: Function, bounds: Bounds) -> None:
        self.bounds = bounds
        self.forms = Forms(Nest(function))
        self.facts = Facts(self.forms)
        learn_bounds(self.facts, self.forms, function)

    def block(self, block: Block) -> None:
        mark = self.facts.mark()
        for op in block.ops:
            kind = op.kind
            if kind == "call":
                self._call(op)
            elif kind == "for":
                inner = self.facts.mark()
                self.facts.enter(op)
                self.block(op.regions[0])
                self.facts.forget(inner)
            elif kind == "if":
                self.facts.branch(op, self.block)
            else:
                for region in op.regions:
                    self.block(region)
        self.facts.forget(mark)

    def _call(self, op: Op) -> None:
        found = [self._bound(op, position) for position in range(len(op.operands))]
        known = self.bounds.get(callee_of(op))
        if known is not None:
            found = [None if a is None or b is None else min(a, b) for a, b in zip(known, found)]
        self.bounds[callee_of(op)] = found

    def _bound(self, op: Op, position: int) -> int | None:
        value = op.operands[position]
        if value.type is not i64:
            return None
        form = self.forms.of(value)
        if form.constant is not None:
            return form.constant if form.constant >= 0 else None
        if not self.forms.exact(value):
            return None
        best = None
        for bound in _TRIED:
            if not self.facts.holds(form.shifted(-bound)):
                break
            best = bound
        return best
