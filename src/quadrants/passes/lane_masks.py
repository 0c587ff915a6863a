"""Which lanes are on while code runs side by side, and code that runs only where some lane is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Op, Value
from quadrants.passes.lane_values import LaneValues
from quadrants.passes.uniformity import Uniformity

__all__ = ["LaneMasks"]


class LaneMasks:
    """`mask` holds the lanes that are on (None: all); `some` says that at least one is for sure; `dead` that none is,
    since all have jumped."""

    def __init__(self, lanes: int, facts: Uniformity, builder: Builder) -> None:
        self.lanes = lanes
        self.facts = facts
        self.builder = builder
        self.values = LaneValues(lanes, facts.varying, builder)
        self.mask: Value | None = None
        self.some = True
        self.dead = False

    def both(self, left: Value | None, right: Value | None) -> Value | None:
        """The lanes that are on in both masks."""
        if left is None or right is None:
            return right if left is None else left
        return self.builder.bit_and(left, right)

    def either(self, masks: Sequence[Value | None]) -> Value | None:
        """The lanes that are on in one of several masks."""
        if any(mask is None for mask in masks):
            return None
        total = masks[0]
        for mask in masks[1:]:
            total = self.builder.bit_or(total, mask)
        return total

    @contextmanager
    def into(self, block: Block) -> Generator[None, None, None]:
        """Goes on in a block within the current one."""
        outer = self.builder.block
        self.builder.block = block
        self.values.enter()
        yield
        self.values.leave()
        self.builder.block = outer

    @contextmanager
    def under(self, mask: Value | None, some: bool) -> Generator[None, None, None]:
        """With other lanes on."""
        before = self.mask, self.some, self.dead
        self.mask, self.some, self.dead = mask, some, False
        yield
        self.mask, self.some, self.dead = before

    def guarded(
        self, build: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> Sequence[Value]:
        """What `build` gives, run only if some lane is on; else what `otherwise` gives."""
        if self.mask is None or self.some:
            return build()
        return self.branch(self.builder.any_lane(self.mask), build, otherwise)

    def branch(
        self,
        condition: Value,
        build: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
    ) -> Sequence[Value]:
        """An `if` on a condition that all lanes share."""
        regions = Block(), Block()
        with self.into(regions[0]), self.under(self.mask, True):
            found = build()
            self.builder.op("yield", *found)
        with self.into(regions[1]):
            self.builder.op("yield", *otherwise())
        op: Op = self.builder.op("if", condition, regions=regions, types=tuple([value.type for value in found]))
        return op.results
