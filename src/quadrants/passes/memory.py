"""Memory: which elements accesses reach, which arrays functions and regions read and write.

An element is named by its array's value and its key: the indices, constants as numbers. Array parameters of the kernel
do not overlap unless the function's attribute `may_alias` says so; slots are private and overlap nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.fold import number_of

__all__ = ["Effects", "Key", "effects_of_functions", "element_key", "may_meet", "region_effects"]

Key = tuple[Value | int, ...]

ARRAY_POSITION = {"load": 0, "store": 1, "update": 1, "compare_exchange": 2}
"""Where the array stands among the operands of a memory operation; the indices follow it."""


def element_key(indices: tuple[Value, ...]) -> Key:
    """The key of an element: its indices, constants as numbers."""
    return tuple([index if (number := number_of(index)) is None else number for index in indices])


def may_meet(first: Key, second: Key, wrap: bool) -> bool:
    """Whether two keys of one array may name overlapping elements; `wrap`: negative indices may count from the end.

    A shorter key names all elements that begin with it.
    """
    for one, other in zip(first, second):
        if one is other:
            continue
        if type(one) is int and type(other) is int:
            if one != other and (not wrap or (one < 0) == (other < 0)):
                return False
        elif not wrap:
            base, offset = _base_and_offset(one)
            other_base, other_offset = _base_and_offset(other)
            if base is other_base and offset != other_offset:
                return False
    return True


def _base_and_offset(index: Value | int) -> tuple[Value | None, int]:
    """An index as base + constant."""
    if type(index) is int:
        return None, index
    owner = index.owner  # type: ignore[union-attr]
    if type(owner) is Op and owner.kind == "add":
        number = number_of(owner.operands[1])
        if number is not None:
            return owner.operands[0], number
    return index, 0  # type: ignore[return-value]


@dataclass
class Effects:
    """What a piece of code does beyond its results: array values that it reads and writes (an update is both), and
    whether it prints or checks."""

    reads: set[Value] = field(default_factory=set)
    writes: set[Value] = field(default_factory=set)
    other: bool = False

    def add(self, more: Effects) -> None:
        self.reads |= more.reads
        self.writes |= more.writes
        self.other = self.other or more.other

    @property
    def none(self) -> bool:
        """Whether leaving the code out changes nothing but its results."""
        return not self.writes and not self.other


class FunctionEffects:
    """Effects of a function on its parameters: positions of arrays that it reads and writes, and whether it prints or
    checks. `uses` says what a call has for effects."""

    __slots__ = ("other", "reads", "writes")

    def __init__(self, reads: frozenset[int], writes: frozenset[int], other: bool) -> None:
        self.reads = reads
        self.writes = writes
        self.other = other

    def uses(self, call: Op) -> Effects:
        operands = call.operands
        return Effects({operands[p] for p in self.reads}, {operands[p] for p in self.writes}, self.other)


def effects_of_functions(module: Module) -> dict[str, FunctionEffects]:
    """The effects of every function; a recursive one is taken to read and write all its arrays, and to print."""
    found: dict[str, FunctionEffects] = {}
    open_: set[str] = set()

    def visit(function: Function) -> None:
        open_.add(function.name)
        for callee in callees(function.body):
            if callee not in found and callee not in open_ and callee in module.functions:
                visit(module.functions[callee])
        open_.discard(function.name)
        found[function.name] = _function_effects(function, found)

    for function in module.functions.values():
        if function.name not in found:
            visit(function)
    return found


def callees(block: Block) -> list[str]:
    """The names of the functions that a block calls, each call once, in program order."""
    names: list[str] = []
    _collect_callees(block, names)
    return names


def _collect_callees(block: Block, names: list[str]) -> None:
    for op in block.ops:
        if op.kind == "call":
            names.append(op.attributes["callee"])  # type: ignore[index]
        else:
            for region in op.regions:
                _collect_callees(region, names)


def _function_effects(function: Function, known: dict[str, FunctionEffects]) -> FunctionEffects:
    effects = region_effects(function.body, known, {})
    parameters = enumerate(function.parameters)
    arrays = [(position, value) for position, value in parameters if type(value.type) is ArrayType]
    reads = frozenset([position for position, value in arrays if value in effects.reads])
    writes = frozenset([position for position, value in arrays if value in effects.writes])
    return FunctionEffects(reads, writes, effects.other)


def call_effects(call: Op, known: dict[str, FunctionEffects]) -> Effects:
    """The effects of a call; of an unknown (recursive) callee everything is assumed."""
    function = known.get(call.attributes["callee"])  # type: ignore[index]
    if function is not None:
        return function.uses(call)
    arrays = {operand for operand in call.operands if type(operand.type) is ArrayType}
    return Effects(arrays, set(arrays), True)


def region_effects(block: Block, known: dict[str, FunctionEffects], memo: dict[Block, Effects]) -> Effects:
    """The effects of a block with its regions, kept in `memo` for these."""
    effects = memo.get(block)
    if effects is not None:
        return effects
    effects = memo[block] = Effects()
    for op in block.ops:
        kind = op.kind
        if kind in ARRAY_POSITION:
            array = op.operands[ARRAY_POSITION[kind]]
            if kind != "store":
                effects.reads.add(array)
            if kind != "load":
                effects.writes.add(array)
        elif op.regions:
            for region in op.regions:
                effects.add(region_effects(region, known, memo))
        elif kind == "call":
            effects.add(call_effects(op, known))
        elif kind == "check" or kind == "print":
            effects.other = True
    return effects
