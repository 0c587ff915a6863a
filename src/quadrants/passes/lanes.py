"""The body of a loop, rewritten so that several iterations run side by side, a lane each.

What all lanes share stays scalar: numbers, branches, loops. Where lanes part, both branches run, each under the mask of
the lanes that take it; loops that lanes leave one by one run while some lane is left. Jumps take lanes out of the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, lane_type, scalar_of, u1
from quadrants.passes.lane_calls import Forms, LaneCalls
from quadrants.passes.lane_loops import Frame
from quadrants.passes.ranges import Ranges
from quadrants.passes.uniformity import Uniformity

__all__ = ["SUPPORTED", "LaneWriter"]

# From this cost on (units of the op table) a masked branch is jumped over where no lane takes it.
_WORTH_A_BRANCH = 30.0


class LaneWriter(LaneCalls):
    """Writes the lanes' form of a region into a block. What its arguments become is set in `values` first."""

    def __init__(self, lanes: int, facts: Uniformity, block: Block, forms: Forms | None = None) -> None:
        super().__init__(lanes, facts, Builder(block))
        self.frames = []
        self.forms = forms
        self.scratches = {}
        self.ranges = Ranges()
        self.called = {}
        self._jumping: dict[Block, bool] = {}

    def body(self, region: Block, carried: Sequence[Value], inits: Sequence[Value]) -> list[Value]:
        """The whole region, whose carried arguments start as `inits` (lanes); gives the lanes carried on."""
        for argument, init in zip(carried, inits):
            self.values.set_wide(argument, init)
        frame = Frame(True, carried)
        self.frames.append(frame)
        last = self.region(region)
        self.frames.pop()
        return self.merged(self.edges(frame, last), inits)

    def region(self, block: Block) -> tuple[Value, ...] | None:
        for op in block.ops[:-1]:
            self.builder.location = op.location
            handler = _HANDLERS.get(op.kind)
            if handler is not None:
                handler(self, op)
            elif op.results[0] in self.facts.varying:
                self._each(op)
            else:
                self._same(op)
        last = block.ops[-1]
        if last.kind in ("yield", "return"):  # functions return at their end only
            return last.operands
        self.jump(last)
        return None

    def _same(self, op: Op) -> None:
        operands = [self.values.scalar(operand) for operand in op.operands]
        self.values.set_scalar(op.results[0], self.builder.emit(op.kind, *operands, **(op.attributes or {})))

    def size(self, op: Op) -> None:
        """The size of private memory is its own without the axis of the lanes, and the same in all."""
        type_ = op.operands[0].type
        if type(type_) is not ArrayType or not type_.is_slot:
            self._same(op)
            return
        axis: int = op.attribute("axis")
        self.values.set_scalar(op.results[0], self.builder.index(type_.trailing[axis]))

    def _each(self, op: Op) -> None:
        result = op.results[0]
        linear = self.values.derive(op)
        if linear is not None:
            self.values.set_linear(result, linear)
            return
        if op.kind == "select" and op.operands[0] not in self.facts.varying:
            operands = [self.values.scalar(op.operands[0]), *map(self.values.wide, op.operands[1:])]
        else:
            operands = [self.values.wide(operand) for operand in op.operands]
        attributes = dict(op.attributes or {})
        if "type" in attributes:
            attributes["type"] = lane_type(scalar_of(attributes["type"]), self.lanes)
        self.values.set_wide(result, self.builder.emit(op.kind, *operands, **attributes))

    def branches(self, op: Op) -> None:
        """An `if`."""
        if op in self.facts.masked:
            self._masked(op)
            return
        condition = self.values.scalar(op.operands[0])
        regions = Block(), Block()
        for region, new in zip(op.regions, regions):
            with self.into(new), self.under(self.mask, self.some):
                last = self.region(region)
                if last is not None:
                    self.builder.op("yield", *map(self.form, last, op.results))
        types = tuple(map(self.type_of, op.results))
        made = self.builder.op("if", condition, regions=regions, types=types)
        for result, new in zip(op.results, made.results):
            self.values.bind(result, new)

    def _masked(self, op: Op) -> None:
        condition = self.values.wide(op.operands[0])
        ends: list[Value | None] = []
        found: list[list[Value]] = []
        for region, chosen in zip(op.regions, (condition, self.builder.bit_not(condition))):
            with self.under(self.both(self.mask, chosen), False):
                values = self._masked_region(region, op.results)
                if not self.dead:
                    ends.append(self.mask)
                    found.append(values)
        if not found:
            self.dead, self.mask, self.some = True, self.values.constant(False, u1), False
            found = [[self.values.constant(0, scalar_of(result.type)) for result in op.results]]
        elif any(map(self._jumps, op.regions)):
            self.mask, self.some = self.either(ends), False
        for k, result in enumerate(op.results):
            value = found[0][k]
            if len(found) == 2:
                value = self.builder.select(condition, value, found[1][k])
            self.values.set_wide(result, value)

    def _masked_region(self, region: Block, results: Sequence[Value]) -> list[Value]:
        """A masked branch: in line, or jumped over where no lane takes it."""

        def build() -> list[Value]:
            last = self.region(region)
            return [] if last is None else [self.values.wide(value) for value in last]

        if self._jumps(region) or _least_cost(region, _WORTH_A_BRANCH) < _WORTH_A_BRANCH:
            return build()
        zeros = [scalar_of(result.type) for result in results]
        return list(self.guarded(build, lambda: [self.values.constant(0, scalar) for scalar in zeros]))

    def _jumps(self, region: Block) -> bool:
        """Whether a jump of the loop around ends the region, or a branch within it. Each branch is looked at once."""
        found = self._jumping.get(region)
        if found is None:
            branches = [inner for op in region.ops if op.kind == "if" for inner in op.regions]
            found = region.ops[-1].kind in ("break", "continue", "return") or any(map(self._jumps, branches))
            self._jumping[region] = found
        return found


def _least_cost(block: Block, enough: float) -> float:
    """Units of the op table, told as far as `enough`; a loop or a call is worth a branch whatever it holds."""
    total = 0.0
    for op in block.ops:
        dear = op.kind in ("for", "while", "update") or "callee" in op.attributes
        total += _WORTH_A_BRANCH if dear else OPS[op.kind].cost
        for region in op.regions:
            if total < enough:
                total += _least_cost(region, enough - total)
        if total >= enough:
            break
    return total


_HANDLERS: dict[str, Callable[[LaneWriter, Op], None]] = {
    "dim": LaneWriter.size,
    "if": LaneWriter.branches,
    "call": LaneWriter.call,
    "for": LaneWriter.loop,
    "while": LaneWriter.loop,
    "load": LaneWriter.load,
    "store": LaneWriter.store,
    "update": LaneWriter.update,
    "slot": LaneWriter.slot,
}
SUPPORTED = frozenset(_HANDLERS) | {"constant", "yield", "break", "continue", "return"}
