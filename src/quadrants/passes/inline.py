"""Inline: puts small functions in place of their calls, and at a kernel's top level functions with loops, so that their
loops become the kernel's.

Callees come before callers, so that a body is final when it is copied. A caller grows by at most a budget, and what
has grown large is not copied any more: the work is linear in the code written, whatever the call tree. Recursive
functions and those that return early stay calls. Functions that nothing calls any more are dropped.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.places import is_own, tell_at
from quadrants.passes.structure import callee_of, calls, count_ops, returns

__all__ = ["run"]

SMALL = 40
"""A function of at most so many operations is copied to every call."""
SMALL_ONCE = 200
"""The same for a function that is called at one place only."""
GROWTH = 2000
"""By how many operations any caller may grow; large ones by GROWTH_FACTOR times their size."""
GROWTH_FACTOR = 4


def run(module: Module, context: PassContext) -> None:
    """Inlines in every function that the kernel reaches; stage `kernel`."""
    inliner = _Inliner(module, context)
    for function in inliner.order:
        inliner.inline_into(function)
    reached = _reached(module)
    for name in [name for name in module.functions if name not in reached]:
        del module.functions[name]


def _reached(module: Module) -> set[str]:
    reached = {module.entry}
    pending = [module.kernel]
    while pending:
        for call in calls(pending.pop().body):
            name = callee_of(call)
            if name not in reached:
                reached.add(name)
                pending.append(module.functions[name])
    return reached


class _Inliner:
    """The state of one run: facts of the functions (those of callees first), and how far the current caller may grow."""

    def __init__(self, module: Module, context: PassContext) -> None:
        self.functions = module.functions
        self.context = context
        self.order: list[Function] = []
        self.recursive: set[str] = set()
        self.counts: dict[str, int] = {}
        self.calls: dict[str, list[Op]] = {}
        self.sizes: dict[str, int] = {}
        self.loops: dict[str, bool] = {}
        self.early: dict[str, bool] = {}
        self.budget = 0
        self._visit(module.kernel, [])

    def _visit(self, function: Function, path: list[str]) -> None:
        """Puts the functions in order, callees first, and finds which are recursive and how often each is called."""
        path.append(function.name)
        found = self.calls[function.name] = calls(function.body)
        for call in found:
            name = callee_of(call)
            self.counts[name] = self.counts.get(name, 0) + 1
            if name in path:
                self.recursive.update(path[path.index(name) :])
            elif name not in self.calls:
                self._visit(self.functions[name], path)
        path.pop()
        self.order.append(function)

    def inline_into(self, function: Function) -> None:
        """Inlines calls of a function whose callees are done."""
        size = count_ops(function.body)
        name, found = function.name, self.calls[function.name]
        self.early[name] = _returns_early(function.body)
        self.loops[name] = self._has_loop(function.body)
        if found and (function.is_kernel or any(map(self._is_small, found))):
            self.budget = max(GROWTH, GROWTH_FACTOR * size)
            self._block(function.body, {}, function.is_kernel)
            size = count_ops(function.body)
            self.calls[name] = calls(function.body)
        self.sizes[name] = size

    def _is_small(self, call: Op) -> bool:
        """Whether a callee is small enough for every call, or for its only one."""
        name = callee_of(call)
        if name in self.recursive or self.early[name]:
            return False
        size = self.sizes[name]
        return size <= SMALL or (size < SMALL_ONCE and self.counts[name] == 1)

    def _has_loop(self, block: Block) -> bool:
        for op in block.ops:
            if op.kind == "for" or any(self._has_loop(region) for region in op.regions):
                return True
            if op.kind == "call" and self.loops.get(callee_of(op)):
                return True
        return False

    def _block(self, block: Block, replaced: dict[Value, Value], top: bool, inside: set[Value] | None = None) -> None:
        """Inlines within a block. `top`: its loops would be loops of the kernel's top level; `inside`: the values that
        depend on the iteration of the loop around, where that matters."""
        out: list[Op] = []
        pending = list(reversed(block.ops))
        while pending:
            op = pending.pop()
            if replaced and not replaced.keys().isdisjoint(op.operands):
                op.operands = tuple([_resolve(operand, replaced) for operand in op.operands])
            if op.kind == "call" and self._wanted(op, top, inside):
                copied, results = self._copy(op)
                replaced.update(zip(op.results, results))
                if top:
                    pending.extend(reversed(copied))  # calls in there are at the top level, too
                else:
                    out.extend(copied)
                continue
            if op.regions:
                self._regions(op, replaced, top, inside)
            if inside is not None and not inside.isdisjoint(op.operands):
                inside.update(op.results)
            out.append(op)
        block.ops = out

    def _regions(self, op: Op, replaced: dict[Value, Value], top: bool, inside: set[Value] | None) -> None:
        for region in op.regions:
            within = inside
            if top and op.kind == "for":
                within = set(region.arguments) if inside is None else inside | set(region.arguments)
            self._block(region, replaced, top, within)

    def _wanted(self, call: Op, top: bool, inside: set[Value] | None) -> bool:
        name = callee_of(call)
        loops = top and self.loops.get(name, False) and (inside is None or inside.isdisjoint(call.operands))
        if name in self.recursive or self.early[name]:
            if loops:
                reason = "is recursive" if name in self.recursive else "returns early"
                self._tell(call, name, reason)
            return False
        if not (loops or self._is_small(call)):
            return False
        if self.sizes[name] > self.budget:
            if loops:
                self._tell(call, name, "is too large to be copied once more")
            return False
        return self.context.permit()

    def _tell(self, call: Op, name: str, reason: str) -> None:
        text = f"the loops of {name} run in order: it {reason}, so it stays a call"
        self.context.notice("inline", text, call.location)

    def _copy(self, call: Op) -> tuple[list[Op], tuple[Value, ...]]:
        """A copy of the callee's body for a call, and its results."""
        callee = self.functions[callee_of(call)]
        self.budget -= self.sizes[callee.name]
        values = dict(zip(callee.parameters, call.operands))
        copied = clone_ops(callee.body.ops, values)
        if is_own(callee.location):
            tell_at(copied, call.location)
        for inner in self.calls[callee.name]:
            self.counts[callee_of(inner)] += 1
        self.context.count("inlined calls")
        return copied[:-1], copied[-1].operands


def _resolve(value: Value, replaced: dict[Value, Value]) -> Value:
    """What stands for a value in the end: a call's result may be that of a call in the copied body."""
    while value in replaced:
        value = replaced[value]
    return value


def _returns_early(block: Block) -> bool:
    """Whether a `return` stands anywhere but at the end of the function."""
    return any(op.regions and any(map(returns, op.regions)) for op in block.ops)
