"""Loops within a loop whose iterations run side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import Type, i64, lane_type, lanes_of, scalar_of, u1
from quadrants.passes.lane_memory import LaneMemory
from quadrants.records import MutableRecord, fresh

__all__ = ["Frame", "LaneLoops"]

Edges = list[tuple["Value | None", list[Value]]]


class Frame(MutableRecord):
    """A loop around the code at hand. Of a diverging loop the jumps are noted, with the mask of the lanes that jump and
    the values that they take along; other loops keep their jumps."""

    diverges: bool
    arguments: Sequence[Value]
    continues: Edges = fresh(list[tuple["Value | None", list[Value]]])
    breaks: Edges = fresh(list[tuple["Value | None", list[Value]]])


class LaneLoops(LaneMemory, ABC):
    """Loops that all lanes leave together stay as they are; the others run while some lane is left in them."""

    frames: list[Frame]

    @abstractmethod
    def region(self, block: Block) -> tuple[Value, ...] | None:
        """Writes a region's operations. Gives the original values that it yields, None where it ends by jumping."""

    def form(self, value: Value, like: Value) -> Value:
        """A value in the form that another one has: a number that all lanes share, or lanes."""
        return self.values.wide(value) if like in self.facts.varying else self.values.scalar(value)

    def type_of(self, value: Value) -> Type:
        """The type of what a value becomes."""
        scalar = scalar_of(value.type)
        return lane_type(scalar, self.lanes) if value in self.facts.varying else scalar

    def jump(self, op: Op) -> None:
        """A `break` or `continue`."""
        frame = self.frames[-1]
        if not frame.diverges:
            self.builder.op(op.kind, *map(self.form, op.operands, frame.arguments))
        elif not self.dead and op.kind == "continue":
            frame.continues.append((self.mask, list(map(self.form, op.operands, frame.arguments))))
        elif not self.dead:
            frame.breaks.append((self.mask, list(map(self.values.wide, op.operands))))
        self.dead = True

    def loop(self, op: Op) -> None:
        """A `for` or `while`."""
        if op.kind == "for":
            self.ranges.enter(op)
        if op not in self.facts.divergent:
            self._shared(op)
        elif op.kind == "for":
            self._divergent_for(op)
        else:
            self._divergent_while(op)

    # Loops that all lanes leave together.

    def _shared(self, op: Op) -> None:
        rank = op.attribute("rank", 0)
        bounds = [self.values.scalar(operand) for operand in op.operands[: 2 * rank]]
        inits, arguments = op.operands[2 * rank :], op.regions[-1].arguments[rank:]

        def starts() -> list[Value]:
            return list(map(self.form, inits, arguments))

        def build() -> list[Value]:
            carried = starts()
            regions = tuple([self._shared_region(op, region, rank) for region in op.regions])
            return self.builder.op(op.kind, *bounds, *carried, regions=regions, **(op.attributes or {})).results

        for result, new in zip(op.results, self.guarded(build, starts)):
            self.values.bind(result, new)

    def _shared_region(self, op: Op, region: Block, rank: int) -> Block:
        new, body = Block(), op.regions[-1]
        own = [new.add_argument(self.type_of(argument), argument.name) for argument in region.arguments]
        with self.into(new), self.under(self.mask, self.some):
            for argument, value in zip(region.arguments, own):
                self.values.bind(argument, value)
            frame = Frame(op in self.facts.skipped, body.arguments[rank:])
            self.frames.append(frame)
            last = self.region(region)
            self.frames.pop()
            if region is not body:
                self.builder.op("yield", *map(self.values.scalar, last or ()))
            elif frame.diverges:
                self.builder.op("yield", *self.merged(self.edges(frame, last), own[rank:]))
            elif last is not None:
                self.builder.op("yield", *map(self.form, last, frame.arguments))
        return new

    def edges(self, frame: Frame, last: tuple[Value, ...] | None) -> Edges:
        """How lanes come to the next iteration: by the jumps noted, and by the end of the region."""
        edges = list(frame.continues)
        if last is not None and not self.dead:
            edges.append((self.mask, list(map(self.form, last, frame.arguments))))
        return edges

    # Loops that lanes leave one by one: the mask of those that go on is carried, and what the others left with.

    def _divergent_for(self, op: Op) -> None:
        low, high, *inits = op.operands
        counter, *arguments = op.regions[0].arguments

        def goes_on(counted: Value) -> Value:
            if lanes_of(counted.type) == 1 and high not in self.facts.varying:
                return self.values.broadcast(self.builder.lt(counted, self.values.scalar(high)))
            wide = counted if lanes_of(counted.type) > 1 else self.values.broadcast(counted)
            return self.builder.lt(wide, self.values.wide(high))

        def condition(following: list[Value]) -> Value:
            return goes_on(following[0])

        def step(carried: list[Value]) -> Value:
            is_wide = lanes_of(carried[0].type) > 1
            one = self.values.constant(1, i64) if is_wide else self.builder.index(1)
            return self.builder.add(carried[0], one, exact=True)

        self._divergent(op, [counter, *arguments], [low, *inits], condition, step)

    def _divergent_while(self, op: Op) -> None:
        region = op.regions[0]

        def condition(following: list[Value]) -> Value:
            for argument, value in zip(region.arguments, following):
                self.values.bind(argument, value)
            last = self.region(region)
            assert last is not None
            return self.values.wide(last[0])

        self._divergent(op, list(op.regions[1].arguments), list(op.operands), condition, None)

    def _divergent(
        self,
        op: Op,
        arguments: list[Value],
        inits: list[Value],
        condition: Callable[[list[Value]], Value],
        step: Callable[[list[Value]], Value] | None,
    ) -> None:
        """`arguments` and `inits` begin with the counter where there is a `step`; the results do not have it."""
        counted = 1 if step is not None else 0
        starts = list(map(self.form, inits, arguments))
        with self.under(self.mask, self.some):
            active = self.both(self.mask, condition(starts))
        kept = self._kept(op, arguments[counted:])
        latches = [self.values.wide(inits[counted + k]) for k in kept]
        head, body = Block(), Block()
        for block in (head, body):
            block.add_argument(lane_type(u1, self.lanes), "lanes")
            for argument in arguments:
                block.add_argument(self.type_of(argument), argument.name)
            for k in kept:
                block.add_argument(lane_type(scalar_of(op.results[k].type), self.lanes))
        with self.into(head):
            self.builder.op("yield", self.builder.any_lane(head.arguments[0]))
        with self.into(body), self.under(body.arguments[0], True):
            self.builder.op("yield", *self._iteration(op, body, arguments, condition, step, kept))
        assert active is not None
        made = self.builder.op("while", active, *starts, *latches, regions=(head, body))
        last = made.results[1 + counted : 1 + len(arguments)]
        for result, new in zip(op.results, last):
            if lanes_of(new.type) > 1:
                self.values.set_wide(result, new)
        for k, new in zip(kept, made.results[1 + len(arguments) :]):
            self.values.set_wide(op.results[k], new)

    def _kept(self, op: Op, arguments: list[Value]) -> list[int]:
        """The carried values that lanes share in the loop, and that differ after it."""
        facts = self.facts
        return [
            k
            for k, (argument, result) in enumerate(zip(arguments, op.results))
            if argument not in facts.varying and result in facts.used
        ]

    def _iteration(
        self,
        op: Op,
        body: Block,
        arguments: list[Value],
        condition: Callable[[list[Value]], Value],
        step: Callable[[list[Value]], Value] | None,
        kept: list[int],
    ) -> list[Value]:
        """What the next iteration starts with: its lanes, the carried values, and what lanes have left with."""
        counted = 1 if step is not None else 0
        carried = body.arguments[1 : 1 + len(arguments)]
        latches = body.arguments[1 + len(arguments) :]
        for argument, value in zip(arguments, carried):
            self.values.bind(argument, value)
        frame = Frame(True, arguments[counted:])
        self.frames.append(frame)
        last = self.region(op.regions[-1])
        self.frames.pop()
        edges = self.edges(frame, last)
        if edges:
            going = self.either([mask for mask, _ in edges])
            following = self.merged(edges, carried[counted:])
        else:
            going, following = self.values.constant(False, u1), list(carried[counted:])
        if step is not None:
            following.insert(0, step(carried))
        with self.under(going, False):
            active = self.both(going, condition(following))
        assert active is not None
        out = list(following)
        for k, result in enumerate(op.results):
            is_wide = lanes_of(following[counted + k].type) > 1
            if is_wide and result in self.facts.used:
                out[counted + k] = self._left(k, going, following[counted + k], carried[counted + k], frame)
        for k, latch in zip(kept, latches):
            spread = self.values.broadcast(following[counted + k])
            out.append(self._left(k, going, spread, latch, frame))
        return [active, *out]

    def _left(self, k: int, going: Value | None, following: Value, before: Value, frame: Frame) -> Value:
        """Carried value `k` as its lanes hold it: those that go on, those that break, those that have left before."""
        value = following if going is None else self.builder.select(going, following, before)
        for mask, values in frame.breaks:
            value = values[k] if mask is None else self.builder.select(mask, values[k], value)
        return value

    def merged(self, edges: Edges, like: Sequence[Value]) -> list[Value]:
        """The values of lanes that come along several edges."""
        values = list(edges[-1][1])
        for mask, others in edges[:-1]:
            for k, other in enumerate(others):
                if other is not values[k] and lanes_of(like[k].type) > 1:
                    values[k] = other if mask is None else self.builder.select(mask, other, values[k])
        return values
