"""Whether threads of a block can come together where they meet: refuses, with the line, what they cannot.

A meeting of a whole block is one that all threads come to: control flow around it must be the same for all of them. Members of
subgroups may part on the way to a meeting of theirs. A thread may end early only where none waits for it later.
"""

from __future__ import annotations

from quadrants.errors import QuadrantsSyntaxError
from quadrants.ir.nodes import Block, Location, Op, Value, walk
from quadrants.ir.threads import MEETINGS, has_meetings, is_of_block
from quadrants.passes.nest import highs, lows
from quadrants.passes.places import shown
from quadrants.passes.structure import loop_jumps
from quadrants.passes.uniformity import Uniformity

__all__ = ["Together", "differences", "leaving", "meets"]


def differences(region: Block, thread: Value, location: Location | None) -> Uniformity:
    """What differs between the threads of a block whose code is the region."""
    bound = Value(thread.type)
    loop = Op("for", (bound, bound), (), {"rank": 1}, (region,), location)
    around = Block()
    around.ops += [loop, Op("yield")]
    return Uniformity(around, [thread])


def meets(op: Op) -> bool:
    """Whether threads meet there, or within."""
    return op.kind in MEETINGS or any(map(has_meetings, op.regions))


def leaving(op: Op) -> list[Op]:
    """The jumps in an operation that leave it."""
    return [jump for region in op.regions for jump in loop_jumps(region)] if op.kind == "if" else []


class Together:
    """What the control flow of a block's threads is: `apart` are the operations that threads meet within, or leave for where
    others wait for them; `parted`, the meetings that only some may come to. QuadrantsSyntaxError where that cannot be."""

    def __init__(self, region: Block, uniform: Uniformity) -> None:
        self.uniform = uniform
        self.apart: set[Op] = set()
        self.parted: set[Op] = set()
        self._block(region, True, False, False)

    def _block(self, block: Block, is_thread: bool, meets_later: bool, is_parted: bool) -> None:
        """`is_thread`: the block is all that threads do; `meets_later`: they meet behind it."""
        later = meets_later
        found: list[tuple[Op, bool]] = []
        for op in reversed(block.ops[:-1]):
            found.append((op, later))
            later = later or meets(op)
        for op, then in reversed(found):
            if op.kind in MEETINGS and is_parted:
                self.parted.add(op)
            if op.regions:
                self._control(op, is_thread, then, is_parted)

    def _control(self, op: Op, is_thread: bool, meets_later: bool, is_parted: bool) -> None:
        jumps = leaving(op)
        if not meets(op) and (not jumps or (is_thread and not meets_later)):
            return
        parts = self._parts(op)
        if parts:
            self._check(op, jumps)
        self.apart.add(op)
        for region in op.regions:
            if op.kind == "while" and region is op.regions[0]:
                self._block(region, is_thread, True, is_parted or parts)
            else:
                self._block(region, False, meets_later or op.kind != "if", is_parted or parts)

    def _parts(self, op: Op) -> bool:
        """Whether threads go different ways there."""
        varying = self.uniform.varying
        if op.kind == "if":
            return op.operands[0] in varying
        if op.kind == "for":
            return any(value in varying for value in (*lows(op), *highs(op)))
        return op.regions[0].ops[-1].operands[0] in varying

    def _check(self, op: Op, jumps: list[Op]) -> None:
        meetings = [inner for region in op.regions for inner in walk(region) if inner.kind in MEETINGS]
        ends = jumps or (op.kind != "if" and (loop_jumps(op.regions[-1]) or op.attribute("rank", 1) > 1))
        meeting = next((inner for inner in meetings if ends or is_of_block(inner)), None)
        if meeting is None and meetings:
            return
        what = "loop" if op.kind != "if" else "condition"
        place, around = shown((meeting or jumps[0]).location), shown(op.location)
        raise QuadrantsSyntaxError.at(
            place,
            f"not all threads of a block come here: the {what} around it differs between them"
            if meeting is not None
            else "some threads of a block would leave here while others wait for them at a barrier",
            notes=[(around, f"the {what}")] if around is not None else (),
            hint="make the condition the same for all threads of a block, or move the barrier out of it: all threads can "
            "come to it, and do their work under the condition before and behind",
        )
