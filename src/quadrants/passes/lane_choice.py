"""Whether iterations of a parallel loop run in lanes, and in how many."""

from __future__ import annotations

from dataclasses import dataclass

from quadrants.ir.nodes import Block, Location, Op, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, f32, scalar_of, u1
from quadrants.passes.context import PassContext
from quadrants.passes.lanes import SUPPORTED
from quadrants.passes.uniformity import Uniformity

__all__ = ["Choice", "choose"]

# Operations of a body from which on lanes cost more to compile than they give.
_LARGEST = 6000
# Straight lines from this length on are put in lanes where their accesses are apart.
_LONG = 24


@dataclass(frozen=True)
class Choice:
    """How many lanes, and why; `is_refusal` where lanes would have paid but are not possible."""

    lanes: int
    reason: str
    is_refusal: bool = False
    location: Location | None = None


def choose(loop: Op, facts: Uniformity, context: PassContext) -> Choice:
    """The choice for one parallel loop of stage `lowered`."""
    asked = (loop.attribute("config") or {}).get("vectorize", context.options.lanes)
    if asked is False or asked == 1:
        return Choice(1, "lanes are switched off")
    shape = _Shape(loop, facts)
    wanted = asked > 1 or shape.pays
    if shape.obstacle is not None:
        return Choice(1, shape.obstacle, is_refusal=wanted, location=shape.where)
    if asked > 1:
        lanes = int(asked)
    elif context.record is None or not context.record.vector_bits:
        return Choice(1, "the target has no vectors")
    elif not shape.pays:
        return Choice(1, "a straight line over neighbouring elements: left to the code generator")
    else:
        lanes = _width(context.record.vector_bits, shape)
    chunk = loop.attribute("chunk", 0)
    if loop.attribute("rank") == 1 and chunk % lanes:
        return Choice(1, f"its chunks of {chunk} iterations are no whole blocks of {lanes} lanes")
    return Choice(lanes, shape.why)


def _width(vector_bits: int, shape: _Shape) -> int:
    """One vector of the widest type; two where lanes part, which hides latency."""
    lanes = vector_bits // shape.bits
    return min(lanes * 2, 16) if shape.diverges else max(lanes, 2)


class _Shape:
    """What a loop's body looks like."""

    def __init__(self, loop: Op, facts: Uniformity) -> None:
        self.facts = facts
        self.obstacle: str | None = None
        self.where: Location | None = None
        self.diverges = bool(facts.masked or facts.divergent)
        self.loops = False
        self.apart = False
        self.bits = 32
        self.length = 0
        self._block(loop.regions[0])
        if self.length > _LARGEST:
            self.refuse(f"its body has {self.length} operations", loop)

    def refuse(self, reason: str, op: Op) -> None:
        if self.obstacle is None:
            self.obstacle, self.where = reason, op.location

    @property
    def pays(self) -> bool:
        return self.diverges or self.loops or (self.apart and self.length >= _LONG)

    @property
    def why(self) -> str:
        if self.diverges:
            return "its control flow differs from iteration to iteration"
        return "it has loops within" if self.loops else "its elements are apart"

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.length += 1
            if op.kind not in SUPPORTED and not OPS[op.kind].elementwise:
                self.refuse(f"{op.kind} has no form in lanes", op)
            if op.kind in ("for", "while"):
                self.loops = True
                if op in self.facts.divergent and op.attribute("rank", 1) > 1:
                    self.refuse("a loop of several dimensions within, whose iterations differ", op)
            if op.kind in ("load", "store", "update"):
                self._access(op)
            if op.results and op.results[0] in self.facts.varying and scalar_of(op.results[0].type).is_float:
                self.bits = max(self.bits, scalar_of(op.results[0].type).bits)
            for region in op.regions:
                self._block(region)

    def _access(self, op: Op) -> None:
        values = 0 if op.kind == "load" else 1
        array, *indices = op.operands[values:]
        varying = [index in self.facts.varying for index in indices]
        if array not in self.facts.slots and any(varying) and (not varying[-1] or any(varying[:-1])):
            self.apart = True
        if type(array.type) is ArrayType and array.type.is_slot and array not in self.facts.slots:
            self.refuse("private memory of several iterations", op)
