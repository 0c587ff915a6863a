"""How large tasks are: the operations of a loop, with those of the functions that it calls, as drivers see them."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Location, Module, Op, Value
from quadrants.ir.ops import TERMINATORS
from quadrants.passes.context import PassContext

__all__ = ["TaskSizes", "constant_of", "tell_if_large"]

_UNROLLED = 32
_FREE = frozenset({"constant", "dim", *TERMINATORS})


class TaskSizes:
    """Sizes of operations and blocks of one module, in operations. `unrolled`: loops count as often as they surely run, as a
    compiler sees them that unrolls what it can."""

    def __init__(self, module: Module, unrolled: bool = False) -> None:
        self._functions = module.functions
        self._unrolled = unrolled
        self._known: dict[str, int] = {}

    def of(self, op: Op) -> int:
        """An operation with its regions, and the function that it calls."""
        size = 0 if op.kind in _FREE else 1
        times = _iterations(op) if self._unrolled else 1
        for region in op.regions:
            size += times * self.block(region)
        callee = op.attributes.get("callee")
        return size if callee is None else size + self._function(callee)

    def block(self, block: Block) -> int:
        return sum([self.of(op) for op in block.ops])

    def _function(self, name: str) -> int:
        found = self._known.get(name)
        if found is None:
            self._known[name] = 0  # a function that calls itself is counted once
            found = self._known[name] = self.block(self._functions[name].body)
        return found


def _iterations(op: Op) -> int:
    """How often a loop runs, where that is known and few; else 1."""
    if op.kind != "for":
        return 1
    count, rank = 1, op.attribute("rank")
    for low, high in zip(op.operands[:rank], op.operands[rank : 2 * rank]):
        ends = [constant for value in (low, high) if (constant := constant_of(value)) is not None]
        if len(ends) < 2:
            return 1
        count *= max(ends[1] - ends[0], 0)
    return count if count <= _UNROLLED else 1


def constant_of(value: Value) -> int | None:
    """A number that is known when the code is compiled."""
    owner = value.owner
    return int(owner.attribute("value")) if isinstance(owner, Op) and owner.kind == "constant" else None


def tell_if_large(context: PassContext, size: int, location: Location | None) -> None:
    """Tells the user of a task that stays far larger than tasks should be."""
    if size > 4 * context.record.task_operations:
        context.notice(
            "split_tasks",
            f"this code is large for the device's compiler ({size} operations in one piece), which may take minutes: a loop or"
            " a function in it cannot be split",
            location,
        )
