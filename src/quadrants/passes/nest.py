"""Where things stand in a function: the region around each operation and value, and who uses a value.

A snapshot: a pass that moves operations makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Block, Function, Op, Value

__all__ = ["Nest", "carried_arguments", "counters", "highs", "inits", "lows"]


def counters(loop: Op) -> list[Value]:
    """The counters of a `for`, outermost first."""
    return loop.regions[0].arguments[: loop.attribute("rank")]


def carried_arguments(loop: Op) -> list[Value]:
    """The arguments of a `for` that hold carried values."""
    return loop.regions[0].arguments[loop.attribute("rank") :]


def lows(loop: Op) -> tuple[Value, ...]:
    return loop.operands[: loop.attribute("rank")]


def highs(loop: Op) -> tuple[Value, ...]:
    rank: int = loop.attribute("rank")
    return loop.operands[rank : 2 * rank]


def inits(loop: Op) -> tuple[Value, ...]:
    return loop.operands[2 * loop.attribute("rank") :]


class Nest:
    """The structure of one function.

    `parent`: the innermost operation with regions around an operation (None: it stands in the function's body).
    `home`: the same for the place where a value is defined. `counter`: the loop and dimension of each loop counter.
    `users`: (operation, operand position) for each use of a value; found when first asked for.
    """

    __slots__ = ("_before_updates", "_users", "counter", "function", "home", "parent")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.parent: dict[Op, Op | None] = {}
        self.home: dict[Value, Op | None] = dict.fromkeys(function.parameters)
        self.counter: dict[Value, tuple[Op, int]] = {}
        self._before_updates: set[Value] | None = None
        self._users: dict[Value, list[tuple[Op, int]]] | None = None
        self._walk(function.body, None)

    def _walk(self, block: Block, around: Op | None) -> None:
        parent, home = self.parent, self.home
        for op in block.ops:
            parent[op] = around
            results = op.results
            if len(results) == 1:
                home[results[0]] = around
            elif results:
                home.update(dict.fromkeys(results, around))
            if op.regions:
                self._enter(op)

    def _enter(self, op: Op) -> None:
        for region in op.regions:
            self.home.update(dict.fromkeys(region.arguments, op))
            if op.kind == "for":
                for dimension, value in enumerate(counters(op)):
                    self.counter[value] = (op, dimension)
            self._walk(region, op)

    @property
    def users(self) -> dict[Value, list[tuple[Op, int]]]:
        found = self._users
        if found is None:
            found = self._users = {}
            for op in self.parent:
                for position, operand in enumerate(op.operands):
                    users = found.get(operand)
                    if users is None:
                        found[operand] = [(op, position)]
                    else:
                        users.append((op, position))
        return found

    def only_before_updates(self, load: Op) -> bool:
        """Whether a load serves only as what updates find before their values are computed."""
        if self._before_updates is None:
            self._before_updates = {op.operands[1] for op in self.parent if op.kind == "update_loaded"}
        if load.results[0] not in self._before_updates:
            return False
        return all(op.kind == "update_loaded" and position == 1 for op, position in self.users[load.results[0]])

    def adopt(self, ops: list[Op], around: Op | None) -> None:
        """Takes in new operations without regions."""
        users = self.users
        for op in ops:
            self.parent[op] = around
            for position, operand in enumerate(op.operands):
                users.setdefault(operand, []).append((op, position))
            for result in op.results:
                self.home[result] = around

    def join(self, loop: Op, other: Op) -> None:
        """Before a loop takes in all of another one of its rank, which is no more then: the operations of its body, and
        what it carries, behind its own. Nothing uses the other one's counters any more."""
        users, rank = self.users, loop.attribute("rank")
        end, last = loop.regions[0].ops[-1], other.regions[0].ops[-1]
        for op in other.regions[0].ops:
            self.parent[op] = loop
            self.home.update(dict.fromkeys(op.results, loop))
        self.home.update(dict.fromkeys(other.regions[0].arguments, loop))
        for old, new, shift in ((other, loop, len(loop.operands) - 2 * rank), (last, end, len(end.operands))):
            del self.parent[old]
            for position, operand in enumerate(old.operands):
                users[operand].remove((old, position))
                if old is last or position >= 2 * rank:
                    users[operand].append((new, position + shift))

    def adopt_loop(self, loop: Op, place: Op) -> None:
        """Takes in a `for` that stands nowhere in the function, as if it stood in place of an operation."""
        self.parent[loop] = self.parent[place]
        for dimension, counter in enumerate(counters(loop)):
            self.home[counter] = loop
            self.counter[counter] = (loop, dimension)

    def around(self, op: Op) -> Iterator[Op]:
        """The operations with regions around an operation, innermost first."""
        outer = self.parent[op]
        while outer is not None:
            yield outer
            outer = self.parent[outer]

    def defined_in(self, value: Value, loop: Op) -> bool:
        """Whether a value is defined within an operation's regions."""
        place = self.home[value]
        while place is not None and place is not loop:
            place = self.parent[place]
        return place is loop

    def loop_of(self, terminator: Op) -> Op | None:
        """The loop that a `break`, `continue` or loop body's `yield` belongs to; for the `yield` of an `if`, the `if`."""
        owner = self.parent[terminator]
        if terminator.kind in ("break", "continue"):
            while owner is not None and owner.kind == "if":
                owner = self.parent[owner]
        return owner
