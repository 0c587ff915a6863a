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
from quadrants.passes.structure import calls, count_ops, returns

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
    reached = {function.name for function in _Graph(module).order}
    for name in [name for name in module.functions if name not in reached]:
        del module.functions[name]


class _Graph:
    """The functions that the kernel reaches, callees first, and which of them are recursive."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.order: list[Function] = []
        self.recursive: set[str] = set()
        self.counts: dict[str, int] = {}
        self._path: list[str] = []
        self._done: set[str] = set()
        self._visit(module.kernel)

    def _visit(self, function: Function) -> None:
        self._path.append(function.name)
        for call in calls(function.body):
            name = call.attributes["callee"]  # type: ignore[index]
            self.counts[name] = self.counts.get(name, 0) + 1
            if name in self._path:
                self.recursive.update(self._path[self._path.index(name) :])
            elif name not in self._done:
                self._visit(self.module.functions[name])
        self._path.pop()
        self._done.add(function.name)
        self.order.append(function)


class _Inliner:
    """The state of one run: sizes and facts of the functions done so far, and how far the current caller may grow."""

    def __init__(self, module: Module, context: PassContext) -> None:
        graph = _Graph(module)
        self.functions = module.functions
        self.context = context
        self.order = graph.order
        self.recursive = graph.recursive
        self.counts = graph.counts
        self.sizes: dict[str, int] = {}
        self.loops: dict[str, bool] = {}
        self.early: dict[str, bool] = {}
        self.budget = 0

    def inline_into(self, function: Function) -> None:
        """Inlines calls of a function whose callees are done."""
        own = count_ops(function.body)
        name = function.name
        self.early[name] = _returns_early(function.body)
        self.loops[name] = self._has_loop(function.body)
        if calls(function.body):
            self.budget = max(GROWTH, GROWTH_FACTOR * own)
            self._block(function.body, {}, function.is_kernel)
            own = count_ops(function.body)
        self.sizes[name] = own

    def _has_loop(self, block: Block) -> bool:
        for op in block.ops:
            if op.kind == "for" or any(self._has_loop(region) for region in op.regions):
                return True
            if op.kind == "call" and self.loops.get(op.attributes["callee"]):  # type: ignore[index]
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
        name = call.attributes["callee"]  # type: ignore[index]
        loops = top and self.loops.get(name, False) and (inside is None or inside.isdisjoint(call.operands))
        if name in self.recursive or self.early[name]:
            if loops:
                reason = "is recursive" if name in self.recursive else "returns early"
                self._tell(call, name, reason)
            return False
        size = self.sizes[name]
        small = size <= SMALL or (size < SMALL_ONCE and self.counts[name] == 1)
        if not (small or loops):
            return False
        if size > self.budget:
            if loops:
                self._tell(call, name, "is too large to be copied once more")
            return False
        return self.context.permit()

    def _tell(self, call: Op, name: str, reason: str) -> None:
        text = f"the loops of {name} run in order: it {reason}, so it stays a call"
        self.context.notice("inline", text, call.location)

    def _copy(self, call: Op) -> tuple[list[Op], tuple[Value, ...]]:
        """A copy of the callee's body for a call, and its results."""
        callee = self.functions[call.attributes["callee"]]  # type: ignore[index]
        self.budget -= self.sizes[callee.name]
        values = dict(zip(callee.parameters, call.operands))
        copied = clone_ops(callee.body.ops, values)
        for inner in calls(callee.body):
            self.counts[inner.attributes["callee"]] += 1  # type: ignore[index]
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
