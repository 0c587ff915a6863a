"""Questions about the structure of blocks that several passes ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.passes.context import PassContext

__all__ = [
    "callee_of",
    "calls",
    "count_ops",
    "free_values",
    "functions_to_do",
    "host_knows",
    "loop_jumps",
    "returns",
    "settle",
    "with_inner",
]


def loop_jumps(block: Block) -> list[Op]:
    """The `break` and `continue` operations in a loop's region that refer to that loop, and those at any depth that
    return: wherever an iteration ends before the region does."""
    found: list[Op] = []
    _collect_jumps(block, True, found)
    return found


def _collect_jumps(block: Block, direct: bool, found: list[Op]) -> None:
    for op in block.ops:
        if op.regions:
            inside = direct and op.kind == "if"
            for region in op.regions:
                _collect_jumps(region, inside, found)
    last = block.ops[-1] if block.ops else None
    if last is not None and (last.kind == "return" or (direct and last.kind in ("break", "continue"))):
        found.append(last)


def with_inner(op: Op) -> list[Op]:
    """An operation and all in its regions."""
    return [op, *[inner for region in op.regions for inner in walk(region)]]


def callee_of(call: Op) -> str:
    """The name of the function that is called."""
    return call.attributes["callee"]


def count_ops(block: Block) -> int:
    """How many operations a block and its regions have."""
    total = len(block.ops)
    for op in block.ops:
        for region in op.regions:
            total += count_ops(region)
    return total


def host_knows(value: Value, inside: Callable[[Value], bool] = lambda value: False) -> bool:
    """Whether the host of a device can tell a number without the device: it is computed from constants, sizes, and what it
    has itself. `inside`: whether a value is an argument of a region that the device runs."""
    op = value.owner
    if type(op) is not Op:
        return not inside(value)
    if op.kind in ("constant", "dim"):
        return True
    return OPS[op.kind].effects == "pure" and not op.regions and all(host_knows(part, inside) for part in op.operands)


def calls(block: Block) -> list[Op]:
    """The calls in a block and its regions, in program order."""
    found: list[Op] = []
    _collect_calls(block, found)
    return found


def _collect_calls(block: Block, found: list[Op]) -> None:
    for op in block.ops:
        if op.regions:
            for region in op.regions:
                _collect_calls(region, found)
        elif op.kind == "call":
            found.append(op)


def returns(block: Block) -> bool:
    """Whether a block or one of its regions has a `return`."""
    return any(op.kind == "return" or any(map(returns, op.regions)) for op in block.ops)


def settle(function: Function, context: PassContext) -> None:
    """Notes that a function is simplified as far as it goes for now."""
    context.settled[function.name] = _shape(function.body)


def _shape(block: Block) -> Counter[str]:
    """How many operations of each kind there are: moving them in front of loops leaves nothing to simplify."""
    kinds: list[str] = []
    _collect_kinds(block, kinds)
    return Counter(kinds)


def _collect_kinds(block: Block, kinds: list[str]) -> None:
    kinds += [op.kind for op in block.ops]
    for op in block.ops:
        for region in op.regions:
            _collect_kinds(region, kinds)


def functions_to_do(module: Module, context: PassContext) -> Iterable[Function]:
    """The functions that are worth simplifying: at the lowered stage those whose operations have changed since `settle`."""
    functions = context.functions(module)
    if module.stage != "lowered" or not context.settled:
        return functions
    return [function for function in functions if _is_unsettled(function, context)]


def _is_unsettled(function: Function, context: PassContext) -> bool:
    name = function.name
    found = context.unsettled.get(name)
    if found is None:
        changed = name in context.narrow or context.settled.get(name) != _shape(function.body)
        found = context.unsettled[name] = changed
    return found


def free_values(op: Op) -> list[Value]:
    """The values that an operation's regions use and that are defined outside it, but constants and array sizes."""
    defined: set[Value] = set()
    free: dict[Value, None] = {}

    def scan(block: Block) -> None:
        defined.update(block.arguments)
        for inner in block.ops:
            for operand in inner.operands:
                if operand not in defined:
                    free[operand] = None
            for region in inner.regions:
                scan(region)
            defined.update(inner.results)

    for region in op.regions:
        scan(region)
    return list(free)
