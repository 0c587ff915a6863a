"""What threads do where they meet, by what the hardware has: values of neighbours in a subgroup, votes there, and memory of
the block with barriers for larger teams.

Behind the pass the threads of grid loops meet in barriers, in shuffles of teams within a subgroup of the hardware, and in ballots and
barriers of whole ones; these three say which of the subgroup's threads are there (`members`: a bit for each), where not all may be. Control flow by
which members part on the way to a meeting counts them: who goes which way is a ballot of those who are there.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import u64
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.meeting_code import MEET, Members, Team
from quadrants.passes.native_blocks import scratch_of, subgroup_of
from quadrants.passes.rewrite import add_carried
from quadrants.passes.structure import loop_jumps
from quadrants.passes.thread_checks import differences, meets
from quadrants.passes.uniformity import Uniformity

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """In place; stage `lowered`."""
    if context.record is None or not context.record.block_threads:
        return
    grids = [op for op in walk(module.kernel.body) if op.kind == "for" and threads_loop_of(op) is not None]
    for op in grids:
        _Meetings(op, subgroup_of(context.record), context.record.team_barriers).run()


class _Meetings:
    def __init__(self, grid: Op, subgroup: int, has_barriers: bool) -> None:
        self.grid = grid
        loop = threads_loop_of(grid)
        assert loop is not None
        self.loop = loop
        self.subgroup = subgroup
        self.has_barriers = has_barriers
        self.uniform: Uniformity
        self.replaced: dict[Value, Value] = {}

    def run(self) -> None:
        loop, region = self.loop, self.loop.regions[0]
        if not meets(loop):
            return
        (thread,), width, size = region.arguments, loop.operands[1], loop.attributes["threads"]
        self.uniform = differences(region, thread, loop.location)
        front = Builder(Block(), loop.location)
        scratch = scratch_of(walk(region), size, self.subgroup)
        self.team = Team(front, self.grid.regions[0], thread, width, size, self.subgroup, scratch, self.has_barriers)
        everyone = self._everyone(front)
        region.ops = front.block.ops + self._block(region.ops, everyone)
        for op in walk(region):
            op.operands = tuple(map(self._standing, op.operands))

    def _standing(self, value: Value) -> Value:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _everyone(self, builder: Builder) -> Members:
        """The threads of a subgroup that the block has."""
        team = self.team
        size: int = self.loop.attributes["threads"]
        if number_of(self.loop.operands[1]) == size and size % self.subgroup == 0:
            return Members(None, None)
        first = builder.sub(team.thread, team.lane)
        count = builder.min(builder.sub(self.loop.operands[1], first), builder.index(self.subgroup))
        one = builder.constant(1, u64)
        mask = builder.sub(builder.shl(one, builder.cast(count, u64)), one)
        return Members(mask, count)

    def _block(self, ops: list[Op], members: Members) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            if op.kind in MEET:
                builder = Builder(Block(), op.location)
                found = MEET[op.kind](self.team, builder, op, members)
                if found is not None:
                    self.replaced[op.results[0]] = found
                out += builder.block.ops
            elif op.regions and meets(op):
                out += self._control(op, members)
            else:
                out.append(op)
        return out

    def _control(self, op: Op, members: Members) -> list[Op]:
        before = Builder(Block(), op.location)
        if self.subgroup == 1 or not _CONTROL[op.kind](self, op, members, before):
            for region in op.regions:
                region.ops = self._block(region.ops, members)
        return [*before.block.ops, op]

    def _votes(self, builder: Builder, vote: Value, members: Members) -> Value:
        return self.team.ballot(builder, vote, members)

    def branch(self, op: Op, members: Members, before: Builder) -> bool:
        """A condition: who takes the branch, and who does not."""
        if op.operands[0] not in self.uniform.varying:
            return False
        yes = self._votes(before, op.operands[0], members)
        no = before.bit_and(self.team.mask(before, members), before.bit_not(yes))
        for region, there in zip(op.regions, (yes, no)):
            region.ops = self._block(region.ops, Members(there, None))
        return True

    def counted(self, op: Op, members: Members, before: Builder) -> bool:
        """A loop that threads leave one by one: those who go on are carried."""
        if op not in self.uniform.divergent or op.attribute("rank") > 1 or loop_jumps(op.regions[0]):
            return False
        body = op.regions[0]
        low, high = op.operands[:2]
        start = self._votes(before, before.lt(low, high), members)
        there, _ = add_carried(op, start, u64, "members")
        body.ops = self._block(body.ops, Members(there, None))
        end = body.ops.pop()
        behind = Builder(body, end.location)
        more = behind.lt(behind.add(body.arguments[0], behind.index(1)), high)
        end.operands = (*end.operands, self._votes(behind, more, Members(there, None)))
        body.ops.append(end)
        return True

    def until(self, op: Op, members: Members, before: Builder) -> bool:
        """The same for a loop with a condition, which those who are in the loop test together. Who goes on is kept in private
        memory from the test to the body, and from there to the next test."""
        if op not in self.uniform.divergent or loop_jumps(op.regions[1]):
            return False
        slot = before.slot(type=u64)
        before.op("store", self.team.mask(before, members), slot)
        test, body = op.regions
        front = Builder(Block(), op.location)
        there = Members(front.load(slot), None)
        test.ops = front.block.ops + self._block(test.ops, there)
        end = test.ops.pop()
        behind = Builder(test, end.location)
        behind.op("store", self._votes(behind, end.operands[0], there), slot)
        test.ops.append(end)
        inside = Builder(Block(), op.location)
        going = Members(inside.load(slot), None)
        body.ops = inside.block.ops + self._block(body.ops, going)
        return True


_CONTROL = {"if": _Meetings.branch, "for": _Meetings.counted, "while": _Meetings.until}
