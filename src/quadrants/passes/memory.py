"""Memory: which elements accesses reach, which arrays functions and regions read and write.

An element is named by its array's value and its key: the indices, constants as numbers. Array parameters of the kernel
do not overlap unless the function's attribute `may_alias` says so; slots are private and overlap nothing.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Module, Op, Value, walk
from quadrants.ir.threads import ORDERING
from quadrants.ir.types import ArrayType
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.structure import callee_of
from quadrants.records import MutableRecord, fresh

__all__ = [
    "ARRAY_POSITION",
    "MATRIX_INDICES",
    "Effects",
    "Key",
    "MemoryEffects",
    "element_key",
    "external_pointers",
    "may_meet",
    "memory_effects",
]

Key = tuple[Value | int, ...]

ARRAY_POSITION = {"load": 0, "store": 1, "update": 1, "update_loaded": 2, "compare_exchange": 2}
"""Where the array stands among the operands of a memory operation; the indices follow it."""

MATRIX_INDICES = {"extract": 1, "insert": 2}
"""Where the indices begin among the operands of an operation on one element of a matrix value; they may count from the
end."""

_OTHERS = frozenset(
    [
        "call",
        "external",
        "update",
        "update_loaded",
        "compare_exchange",
        "check",
        "print",
        "random",
        "slot",
        "temporary",
        "release",
        "tally",
        "return",
        "break",
        "continue",
        *ORDERING,
    ]
)


_CALLS = frozenset(["call", "external"])
_REACH_ALL = _CALLS | ORDERING
"""What may reach the arrays of the function around it, though it does not name them."""


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
    assert isinstance(index, Value)
    owner = index.owner
    if type(owner) is Op and owner.kind == "add":
        number = number_of(owner.operands[1])
        if number is not None:
            return owner.operands[0], number
    return index, 0


class Effects(MutableRecord):
    """What a piece of code does beyond its results: array values that it reads and writes (an update is both), whether
    it prints or checks, whether it returns, jumps to or out of a loop around it, and whether it has slots. `anything`: it may
    reach memory by ways of its own (`reads` and `writes` have all arrays of the function then)."""

    reads: set[Value] = fresh(set[Value])
    writes: set[Value] = fresh(set[Value])
    other: bool = False
    returns: bool = False
    jumps: bool = False
    slots: bool = False
    anything: bool = False

    def add(self, more: Effects) -> None:
        """Takes in what a part does, but for its jumps: a loop ends them."""
        self.reads |= more.reads
        self.writes |= more.writes
        self.other = self.other or more.other
        self.returns = self.returns or more.returns
        self.slots = self.slots or more.slots
        self.anything = self.anything or more.anything

    @property
    def none(self) -> bool:
        """Whether leaving the code out changes nothing but its results and the way that control takes."""
        return not self.writes and not self.other


class FunctionEffects:
    """Effects of a function on its parameters: positions of arrays that it reads and writes, whether it prints or checks,
    and whether it does `anything`. `uses` says what a call has for effects, but for arrays that it reaches otherwise."""

    __slots__ = ("anything", "other", "reads", "writes")

    def __init__(self, reads: frozenset[int], writes: frozenset[int], other: bool, anything: bool) -> None:
        self.reads = reads
        self.writes = writes
        self.other = other
        self.anything = anything

    def uses(self, call: Op) -> Effects:
        operands = call.operands
        reads, writes = {operands[p] for p in self.reads}, {operands[p] for p in self.writes}
        return Effects(reads, writes, self.other, anything=self.anything)


class MemoryEffects:
    """The effects of a module's functions and regions, found when asked for and kept.

    They stay true (as upper bounds) while code is dropped or moved outwards; not when accesses, calls or parameters are
    added. A recursive function is taken to read and write all its arrays, and to print; it does `anything` if a function of
    the module may.
    """

    __slots__ = ("_blocks", "_functions", "_in_reach", "_open", "module")

    def __init__(self, module: Module) -> None:
        self.module = module
        self._functions: dict[str, FunctionEffects] = {}
        self._blocks: dict[Block, Effects] = {}
        self._open: set[str] = set()
        self._in_reach: dict[Op, list[Value]] = {}

    def call(self, op: Op) -> Effects:
        """The effects of a call."""
        effects = external_effects(op) if op.kind == "external" else self._called(op)
        if effects.anything:
            arrays = self._arrays_around(op)
            effects.reads.update(arrays)
            effects.writes.update(arrays)
        return effects

    def ordering(self, op: Op) -> Effects:
        """The effects of what puts threads' accesses in order: other threads may have read and written everything."""
        arrays = self._arrays_around(op)
        return Effects(set(arrays), set(arrays), True, anything=True)

    def _arrays_around(self, op: Op) -> list[Value]:
        """The arrays of the function that an operation is in."""
        if op not in self._in_reach:
            for function in self.module.functions.values():
                ops = list(walk(function.body))
                made = [value for inner in ops for value in inner.results if _is_shared(value)]
                arrays = [value for value in function.parameters if _is_shared(value)] + made
                self._in_reach.update({inner: arrays for inner in ops if inner.kind in _REACH_ALL})
        return self._in_reach[op]

    def _called(self, op: Op) -> Effects:
        name = callee_of(op)
        known = self._functions.get(name)
        if known is None:
            if name in self._open:
                arrays = {operand for operand in op.operands if type(operand.type) is ArrayType}
                return Effects(arrays, set(arrays), True, anything=self.somebody_does_anything())
            known = self._function(self.module.functions[name])
        return known.uses(op)

    def _function(self, function: Function) -> FunctionEffects:
        self._open.add(function.name)
        effects = self.block(function.body)
        self._open.discard(function.name)
        parameters = enumerate(function.parameters)
        arrays = [(position, value) for position, value in parameters if type(value.type) is ArrayType]
        reads = frozenset([position for position, value in arrays if value in effects.reads])
        writes = frozenset([position for position, value in arrays if value in effects.writes])
        found = self._functions[function.name] = FunctionEffects(reads, writes, effects.other, effects.anything)
        return found

    def somebody_does_anything(self) -> bool:
        """Whether a function of C in the module may reach memory by ways of its own."""
        functions = self.module.functions.values()
        return any(op.kind == "external" and external_effects(op).anything for f in functions for op in walk(f.body))

    def join(self, block: Block, other: Block) -> None:
        """A block takes in all that another does."""
        self.block(block).add(self.block(other))
        del self._blocks[other]

    def block(self, block: Block) -> Effects:
        """The effects of a block with its regions."""
        effects = self._blocks.get(block)
        if effects is not None:
            return effects
        effects = Effects()
        reads, writes = effects.reads, effects.writes
        for op in block.ops:
            kind = op.kind
            if kind == "load":
                reads.add(op.operands[0])
            elif kind == "store":
                writes.add(op.operands[1])
            elif op.regions:
                for region in op.regions:
                    inner = self.block(region)
                    effects.add(inner)
                    effects.jumps = effects.jumps or (inner.jumps and kind == "if")
            elif kind in _OTHERS:
                if kind in _CALLS:
                    effects.add(self.call(op))
                elif kind in ORDERING:
                    effects.add(self.ordering(op))
                elif kind in ARRAY_POSITION:
                    array = op.operands[ARRAY_POSITION[kind]]
                    reads.add(array)
                    writes.add(array)
                elif kind == "slot":
                    effects.slots = True
                elif kind == "temporary" or kind == "release":
                    writes.add(op.results[0] if op.results else op.operands[0])
                elif kind == "return":
                    effects.returns = True
                elif kind == "break" or kind == "continue":
                    effects.jumps = True
                else:
                    effects.other = True
        self._blocks[block] = effects
        return effects


def _is_shared(value: Value) -> bool:
    return type(value.type) is ArrayType and not value.type.is_slot


def external_pointers(op: Op) -> list[tuple[Value, bool, bool]]:
    """The arrays that a function of C gets pointers to, and whether it reads and writes there."""
    reads, writes = op.attribute("reads"), op.attribute("writes")
    found: list[tuple[Value, bool, bool]] = []
    position = 0
    for number, parameter in enumerate(op.attributes["parameters"]):
        operand = op.operands[position]
        position += 1
        if type(operand.type) is ArrayType:
            found.append((operand, reads is None or number in reads, writes is None or number in writes))
            position += operand.type.rank
        else:
            assert not parameter.startswith("*")
    return found


def external_effects(op: Op) -> Effects:
    """What a function of C does; anything, unless it is declared."""
    unknown = op.attribute("writes") is None
    found = Effects(other=unknown, anything=unknown)
    for array, reads, writes in external_pointers(op):
        if reads:
            found.reads.add(array)
        if writes:
            found.writes.add(array)
    return found


def memory_effects(module: Module, context: PassContext) -> MemoryEffects:
    """The effects in a module, kept in the context as long as the driver knows them to hold."""
    kept = context.memory_effects
    if kept is None or kept.module is not module:
        kept = context.memory_effects = MemoryEffects(module)
    return kept
