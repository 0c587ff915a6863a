"""Loops and branches of a kernel's host part that the device can decide by itself, where the kernel is a graph (device_graphs.py).

A loop asks the device for one truth value in front of each round, a branch for one, and all else that the host does is the same
whatever the device says: it carries nothing along, and looks at nothing. So the launches are known before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.ops import is_pure
from quadrants.ir.types import ArrayType
from quadrants.passes.fold import number_of
from quadrants.records import Record

__all__ = ["DeviceBranch", "DeviceLoop", "HostLoops"]

_SAME = frozenset({"constant", "dim", "temporary", "release", "yield"})
"""Operations beside the pure ones that do the same in each round."""


class DeviceLoop(Record):
    """`flag`: an array without axes whose only number says whether there is another round; `asks`: the operations that compute it."""

    flag: Value
    asks: tuple[Op, ...]
    body: Block


class DeviceBranch(Record):
    """`flag`: an array without axes whose only number says which region runs."""

    flag: Value
    then: Block
    otherwise: Block


class HostLoops:
    """What the device can decide of one kernel."""

    def __init__(self, module: Module) -> None:
        self._kernel = module.kernel
        users: dict[Value, list[Op]] = {}
        for op in walk(module.kernel.body):
            for value in op.operands:
                users.setdefault(value, []).append(op)
        self._users = users
        self._asked: dict[Op, bool] = {}

    def is_graph(self, has_loops: bool) -> bool:
        """Whether the launches are made as a graph: that is meant to be, and the host looks at nothing in between. `has_loops`: the
        device decides on loops and branches by itself."""
        return bool(self._kernel.attributes.get("graph")) and not any(self._looks(self._kernel.body, has_loops))

    def _looks(self, block: Block, has_loops: bool) -> Iterator[bool]:
        """Whether operations of the host look at numbers of the device."""
        for op in block.ops:
            if has_loops and (self.is_asked(op) or self.loop(op) is not None or self.branch(op) is not None):
                continue  # nothing in them looks, but what is as they are
            yield op.kind == "load"
            for region in op.regions if not op.attribute("parallel") else ():
                yield from self._looks(region, has_loops)

    def is_asked(self, op: Op) -> bool:
        """Whether an operation looks at a number for branches alone that the device can decide on. The number lies in an array that
        the kernel makes for it, so it is the same when they are reached."""
        if op.kind != "load" or op.operands[1:]:
            return False
        known = self._asked.get(op)
        if known is None:
            owner, users = op.operands[0].owner, self._users.get(op.results[0], [])
            is_own = isinstance(owner, Op) and owner.kind == "temporary"
            known = is_own and bool(users) and all(self._may_branch(user) for user in users)
            self._asked[op] = known
        return known

    def _may_branch(self, op: Op) -> bool:
        return (
            op.kind == "if"
            and not op.results
            and not op.attribute("parallel")
            and all(self._repeats(region.ops) for region in op.regions)
        )

    def branch(self, op: Op) -> DeviceBranch | None:
        """A branch of the host's that the device can decide on; None for every other operation."""
        if op.kind != "if":
            return None
        owner = op.operands[0].owner
        if not isinstance(owner, Op) or not self.is_asked(owner):
            return None
        then, *others = op.regions
        return DeviceBranch(owner.operands[0], then, others[0] if others else Block())

    def loop(self, op: Op) -> DeviceLoop | None:
        """A loop of the host's that the device can repeat; None for every other operation."""
        if op.kind != "while" or op.operands or op.results:
            return None
        condition, body = op.regions
        *asks, load, end = condition.ops
        is_flag = load.kind == "load" and len(load.operands) == 1 and end.operands == tuple(load.results)
        if not is_flag or not self._repeats(asks) or not self._repeats(body.ops):
            return None
        flag = load.operands[0]
        direct = _asked_of(asks, flag)
        return DeviceLoop(flag, tuple(asks), body) if direct is None else DeviceLoop(direct, (), body)

    def _repeats(self, ops: Sequence[Op]) -> bool:
        """Whether operations launch the same in each round, and neither look at numbers nor leave the loop."""
        for op in ops:
            if op.attribute("parallel") or self.loop(op) is not None or self.is_asked(op):
                continue
            if op.kind in ("if", "for"):
                if not all(self._repeats(region.ops) for region in op.regions):
                    return False
            elif op.regions or not (op.kind in _SAME or is_pure(op.kind)):
                return False
        return True


def _asked_of(asks: list[Op], flag: Value) -> Value | None:
    """The array of 32-bit integers whose number is compared with 0, where that is all that is done to know the flag."""
    launched = [op for op in asks if op.regions]
    if len(launched) != 1 or flag.owner not in asks:
        return None
    done = [op for op in launched[0].regions[0].ops if op.kind not in ("constant", "yield")]
    if [op.kind for op in done] != ["load", "ne", "store"]:
        return None
    load, compare, store = done
    zeros = [value for value in compare.operands if number_of(value) == 0]
    if load.results[0] not in compare.operands or len(zeros) != 1 or store.operands != (compare.results[0], flag):
        return None
    array = load.operands[0]
    type_ = array.type
    assert type(type_) is ArrayType
    return array if not type_.rank and type_.scalar.is_integer and type_.scalar.bits == 32 else None
