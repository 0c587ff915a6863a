"""Block loops and threads loops, as the interpreter runs them: the threads of a block in turn, each up to the next meeting.

Each is a thread of Python's of which one runs at a time. Where only some members of a subgroup come to a meeting, these
meet; a meeting of the block that others have not come to, or never will, fails. Law: those who are least far go first, by the
loops around and their iterations, as if each thread waited behind a branch or a loop for the others.
"""

# pyright: basic

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsAssertionError
from quadrants.ir import evaluate as ev
from quadrants.ir.fragments import THREADS, depth_of, loaded, multiplied
from quadrants.ir.interpret_copies import OwnCopies, copy_steps
from quadrants.ir.nodes import Op, Value, walk
from quadrants.ir.races import BlockRaces
from quadrants.ir.shared_fragments import TEAM, multiplied_in_teams, products_of
from quadrants.ir.threads import MEETINGS, block_size, is_of_block, neutral, threads_loop_of, uses_threads
from quadrants.ir.types import scalar_of
from quadrants.recursion import deep_recursion

__all__ = ["THREAD_STEPS", "block_loop", "counting", "going", "is_block_loop", "note_access", "threads_loop"]

Environment = dict[Value, Any]
_current = threading.local()


class _Abandoned(BaseException):
    """Ends a thread whose block has failed."""


class _Member:
    """A thread of a block: `position` in it, `at` the meeting that it has come to (None: it is done), with `value`; `met`: of each
    thread of the block, the stretch of its accesses up to which they are in front of this one's, and the number of its own (a vector
    clock); its `copies` into the block's memory."""

    def __init__(self, team: _Team, position: int, number: int) -> None:
        self.team = team
        self.position = position
        self.number = number
        self.turn = threading.Semaphore(0)
        self.at: Op | None = None
        self.value: Any = None
        self.met = {position: 1}
        self.path: list[int] = []
        self.copies = OwnCopies()
        self.error: BaseException | None = None

    def meet(self, op: Op, value: Any) -> dict[int, Any]:
        """Waits for the others of the block; what each has brought, by position."""
        self.at, self.value = op, value
        self.team.turn.release()
        self.turn.acquire()
        if self.team.failed:
            raise _Abandoned
        return self.team.brought


class _Team:
    """The threads of one block. `order`: meetings and what is around them, numbered as in the program;
    `matrices`: what has been brought to a product of a team or a `team_load`, and by team what that gives."""

    def __init__(self, order: dict[Op, int], races: BlockRaces | None) -> None:
        self.order = order
        self.races = races
        self.size = 0
        self.turn = threading.Semaphore(0)
        self.failed = False
        self.brought: dict[int, Any] = {}
        self.prefixes: dict[int, dict[int, Any]] = {}
        self.shared: dict[Op, Any] = {}
        self.matrices: tuple[Any, dict[int, Any]] = (None, {})

    def run(self, tasks: list[Callable[[], None]], first: int) -> None:
        self.size = len(tasks)
        members = [_Member(self, position, first + position) for position in range(len(tasks))]
        threads = [threading.Thread(target=_live, args=pair, daemon=True) for pair in zip(members, tasks)]
        for thread in threads:
            thread.start()
        left = going = members
        try:
            while left:
                for member in going:
                    member.turn.release()
                    self.turn.acquire()
                    if member.error is not None:
                        raise member.error
                left = [member for member in left if member.at is not None]
                going = self._met(left) if left else []
            if self.races is not None:
                self.races.met()
        except BaseException:  # an interrupt, too: the threads that wait must end before whoever called hears of it
            self.failed = True
            raise
        finally:
            for member in left:
                member.turn.release()
            for thread in threads:
                thread.join()

    def _met(self, members: list[_Member]) -> list[_Member]:
        """The threads that go on, behind a meeting: those who are least far."""
        places = [(*member.path, self.order[member.at]) for member in members if member.at is not None]
        least = min(places)
        met = [member for member, place in zip(members, places) if place == least]
        first = met[0].at
        assert first is not None
        if len(met) < self.size and is_of_block(first):
            error = QuadrantsAssertionError("threads of one block are at different meetings")
            error.location = first.location
            raise error
        if self.races is not None:
            self._note_meeting(first, met)
        self.brought = {member.position: member.value for member in met}
        self.prefixes = {}
        return met

    def _note_meeting(self, op: Op, met: list[_Member]) -> None:
        """Barriers put memory in order; other meetings hand on values, no more."""
        assert self.races is not None
        if op.kind == "barrier":
            self.races.met()
        elif op.kind == "team_barrier":
            width = op.attributes["width"]
            for _, team in itertools.groupby(met, lambda member: member.position // width):
                _put_in_order(list(team))


def _put_in_order(team: list[_Member]) -> None:
    """What each has done, and what was in front of that, is in front of what all of them do from here on."""
    joined: dict[int, int] = {}
    for member in team:
        for position, stretch in member.met.items():
            joined[position] = max(stretch, joined.get(position, 0))
    for member in team:
        member.met = {**joined, member.position: joined[member.position] + 1}


def note_access(op: Op, array: Value, place: tuple[Any, tuple[int, ...]], value: Any) -> None:
    """A thread of a block, if one runs, accesses an element."""
    member = getattr(_current, "member", None)
    if member is not None and member.team.races is not None:
        member.team.races.note(member.position, member.met, op, array, *place, value)


def _live(member: _Member, task: Callable[[], None]) -> None:
    member.turn.acquire()
    _current.member = member
    try:
        if not member.team.failed:
            with np.errstate(all="ignore"), deep_recursion():
                task()
    except _Abandoned:
        pass
    except BaseException as error:  # a thread's own would be lost: `run` raises it in the thread that waits
        member.error = error
    member.at = None
    member.team.turn.release()


def is_block_loop(program: Any, op: Op) -> bool:
    """Whether a `for` is a block loop as users write them: the outermost one around operations on threads."""
    if program.module.stage != "kernel" or program.in_block or getattr(_current, "member", None) is not None:
        return False
    return threads_loop_of(op) is None and uses_threads(op.regions[0], program.module)


def block_loop(program: Any, op: Op) -> Callable[[Environment], None]:
    """A closure that runs a block loop."""
    rank, size = op.attribute("rank"), block_size(op)
    lows, highs = op.operands[:rank], op.operands[rank : 2 * rank]
    arguments = op.regions[0].arguments
    run_body, order = _body(program, op), _order(program)

    def run(env: Environment) -> None:
        ranges = [range(int(env[low]), int(env[high])) for low, high in zip(lows, highs)]
        iterations = itertools.product(*ranges)
        first = 0
        while part := list(itertools.islice(iterations, size)):
            _Team(order, program.block_races()).run(
                [_task(run_body, env, arguments, counters) for counters in part], first
            )
            first += len(part)

    return run


def threads_loop(program: Any, op: Op) -> Callable[[Environment], None]:
    """A closure that runs the threads of one block."""
    high, size = op.operands[1], op.attribute("threads")
    arguments = op.regions[0].arguments
    run_body, order = _body(program, op), _order(program)

    def run(env: Environment) -> None:
        width = int(env[high])
        if width > size:
            raise QuadrantsAssertionError(f"{width} threads in a block of {size}")
        _Team(order, program.block_races()).run(
            [_task(run_body, env, arguments, (thread,)) for thread in range(width)], 0
        )

    return run


def _body(program: Any, op: Op) -> Any:
    program.in_block = True
    run_body = program.block(op.regions[0])
    program.in_block = False
    return run_body


def _order(program: Any) -> dict[Op, int]:
    """Meetings, loops and calls of a program, numbered."""
    functions = program.module.functions.values()
    everything = itertools.chain.from_iterable(walk(function.body) for function in functions)
    return {inner: number for number, inner in enumerate(everything) if inner.kind in _STEPS}


_STEPS = MEETINGS | {"for", "while", "call"}


def going(op: Op, run: Callable[[Environment], Any]) -> Callable[[Environment], Any]:
    """A loop or a call, of which a thread that is in it knows."""

    def noted(env: Environment) -> Any:
        member = getattr(_current, "member", None)
        if member is None:
            return run(env)
        depth = len(member.path)
        member.path += (member.team.order[op], 0)
        try:
            return run(env)
        finally:
            del member.path[depth:]

    return noted


def counting(run_body: Callable[[Environment], Any]) -> Callable[[Environment], Any]:
    """A loop's region that begins each of its iterations."""

    def counted(env: Environment) -> Any:
        member = getattr(_current, "member", None)
        if member is not None:
            member.path[-1] += 1
        return run_body(env)

    return counted


def _task(run_body: Any, env: Environment, arguments: list[Value], counters: tuple[int, ...]) -> Callable[[], None]:
    own = {**env, **dict(zip(arguments, map(np.int64, counters)))}
    return lambda: run_body(own)


def _shared(program: Any, op: Op) -> Callable[[Environment], None]:
    slot = program.special["slot"](program, op)

    def run(env: Environment) -> None:
        member = getattr(_current, "member", None)
        if member is None:  # in a grid loop's body the block has one place for it
            slot(env)
            return
        shared = member.team.shared
        if op not in shared:
            slot(env)
            shared[op] = env[op.results[0]]
        env[op.results[0]] = shared[op]

    return run


def _thread_index(program: Any, op: Op) -> Callable[[Environment], None]:
    result, in_block = op.results[0], op.attribute("of") == "block"

    def run(env: Environment) -> None:
        member = _current.member
        env[result] = np.int64(member.position if in_block else member.number)

    return run


def _barrier(program: Any, op: Op) -> Callable[[Environment], None]:
    def run(env: Environment) -> None:
        _current.member.meet(op, None)

    return run


def _team_barrier(program: Any, op: Op) -> Callable[[Environment], None]:
    return lambda env: _check_members(op, _current.member.meet(op, None), env)


def _fence(program: Any, op: Op) -> Callable[[Environment], None]:
    races = program.races if op.attribute("scope") == "grid" else None
    return lambda env: None if races is None else races.fenced()


def _team(op: Op, brought: dict[int, Any]) -> list[tuple[int, Any]]:
    """What the members of the current thread's team have brought, in order."""
    position, width = _current.member.position, op.attribute("width")
    if not width:
        return sorted(brought.items())
    first = position - position % width
    return [(place, brought[place]) for place in range(first, first + width) if place in brought]


_BROUGHT = {"team_barrier": 0, "ballot": 1, "shuffle": 2}
"""How many operands operations have that may have another one: who is there."""


def _check_members(op: Op, brought: dict[int, Any], env: Environment) -> None:
    """Law: where an operation says who is there, it says so rightly."""
    if op.attribute("subgroup") is None:
        return
    size: int = op.attributes["subgroup"]
    position = _current.member.position
    first = position - position % size
    there = sum(1 << place - first for place in brought if first <= place < first + size)
    named = op.operands[-1] if len(op.operands) > _BROUGHT[op.kind] else None
    said = int(env[named]) if named is not None else (1 << min(size, _current.member.team.size - first)) - 1
    if said != there:
        error = QuadrantsAssertionError(f"{op.kind} of the members {said:#x}, and {there:#x} are there")
        error.location = op.location
        raise error


def _shuffle(program: Any, op: Op) -> Callable[[Environment], None]:
    (value, source), result, width = op.operands[:2], op.results[0], op.attribute("width")

    def run(env: Environment) -> None:
        member = _current.member
        brought = member.meet(op, env[value])
        _check_members(op, brought, env)
        at = int(env[source])
        place = member.position - member.position % width + at if width else at
        env[result] = brought[place] if 0 <= at < (width or at + 1) and place in brought else env[value]

    return run


def _ballot(program: Any, op: Op) -> Callable[[Environment], None]:
    value, result, width = op.operands[0], op.results[0], op.attribute("width")

    def run(env: Environment) -> None:
        brought = _current.member.meet(op, bool(env[value]))
        _check_members(op, brought, env)
        env[result] = np.uint64(sum(1 << place % width for place, vote in _team(op, brought) if vote))

    return run


def _team_reduce(program: Any, op: Op) -> Callable[[Environment], None]:
    return _combining(program, op, lambda there, position: there[-1])


def _team_scan(program: Any, op: Op) -> Callable[[Environment], None]:
    if op.attribute("exclusive"):
        return _combining(program, op, lambda there, position: max([at for at in there if at < position], default=None))
    return _combining(program, op, lambda there, position: position)


def _combining(program: Any, op: Op, whose: Callable[[list[int], int], int | None]) -> Callable[[Environment], None]:
    """Gives each thread what comes up to one of the members that are there, or nothing."""
    value, result, width = op.operands[0], op.results[0], op.attribute("width")
    scalar, by = scalar_of(value.type), op.attribute("by")
    combine = program.combiner(by, scalar)
    nothing = ev.held_dtype(scalar).type(neutral(by, scalar))

    def run(env: Environment) -> None:
        member = _current.member
        brought = member.meet(op, env[value])
        first = member.position - member.position % width if width else 0
        found = member.team.prefixes.get(first)
        if found is None:
            size = width or 1 << (member.team.size - 1).bit_length()
            found = member.team.prefixes[first] = _prefixes(brought, first, size, combine)
        at = whose(list(found), member.position)
        env[result] = nothing if at is None else found[at]

    return run


def own_copies() -> OwnCopies:
    """Those of the thread that runs."""
    return _current.member.copies


def _of_matrices(op: Op, threads: int, brought: dict[int, Any], compute: Callable[[list[Any]], Any]) -> Any:
    """What the current thread gets of what its team makes of what they have brought, which the first who asks computes."""
    member = _current.member
    team, place = divmod(member.position, threads)
    if member.team.matrices[0] is not brought:
        member.team.matrices = (brought, {})
    done = member.team.matrices[1]
    if team not in done:
        held = [values for _, values in _team(op, brought)]
        if len(held) < threads:
            raise _told(op, f"{len(held)} threads hold small matrices, not {threads}")
        done[team] = compute(held)
    return done[team][place]


def _team_multiply(program: Any, op: Op) -> Callable[[Environment], None]:
    depth = depth_of(scalar_of(op.operands[0].type).bits)

    return _multiplying(op, THREADS, lambda held, env: multiplied(held, depth), op.operands)


def _team_multiply_shared(program: Any, op: Op) -> Callable[[Environment], None]:
    left, _, right, _ = op.operands[:4]
    factors = products_of([operand.type for operand in op.operands], op.attributes)

    def product(held: list[Any], env: Environment) -> Any:
        places = {(int(first), int(second)) for first, second, *_ in held}
        if len(places) > 1:
            raise _told(op, f"threads of a team multiply at different places: {sorted(places)}")
        return multiplied_in_teams((env[left], env[right]), places.pop(), factors, [values[2:] for values in held])

    return _multiplying(op, TEAM, product, (op.operands[1], *op.operands[3:]))


def _team_multiplied(program: Any, op: Op) -> Callable[[Environment], None]:
    """Products are done at once here."""

    def run(env: Environment) -> None:
        _current.member.meet(op, None)
        env.update(zip(op.results, [env[value] for value in op.operands]))

    return run


def _multiplying(
    op: Op, threads: int, product: Callable[[list[Any], Environment], Any], operands: Sequence[Value]
) -> Callable[[Environment], None]:
    def run(env: Environment) -> None:
        brought = _current.member.meet(op, [env[value] for value in operands])
        env.update(zip(op.results, _of_matrices(op, threads, brought, lambda held: product(held, env))))

    return run


def _told(op: Op, text: str) -> QuadrantsAssertionError:
    error = QuadrantsAssertionError(text)
    error.location = op.location
    return error


def _team_load(program: Any, op: Op) -> Callable[[Environment], None]:
    memory, place = op.operands
    count, transposed, bits = op.attribute("count"), op.attribute("transposed", False), scalar_of(memory.type).bits

    def run(env: Environment) -> None:
        brought, rows = _current.member.meet(op, int(env[place])), env[memory]
        found = _of_matrices(op, THREADS, brought, lambda starts: loaded(rows, starts, count, transposed, bits))
        env.update(zip(op.results, found))

    return run


def _prefixes(brought: dict[int, Any], first: int, size: int, combine: Callable[[Any, Any], Any]) -> dict[int, Any]:
    """By position what the members come to up to each: in halves, as the law of teams in `ir/threads.py` says."""
    if size == 1:
        return {first: brought[first]} if first in brought else {}
    half = size // 2
    lower = _prefixes(brought, first, half, combine)
    upper = _prefixes(brought, first + half, half, combine)
    if lower:
        total = lower[max(lower)]
        upper = {position: combine(total, found) for position, found in upper.items()}
    return {**lower, **upper}


THREAD_STEPS: dict[str, Callable[[Any, Op], Callable[[Environment], None]]] = {
    "shared": _shared,
    "thread_index": _thread_index,
    "barrier": _barrier,
    "team_barrier": _team_barrier,
    "fence": _fence,
    "shuffle": _shuffle,
    "ballot": _ballot,
    "team_reduce": _team_reduce,
    "team_scan": _team_scan,
    "team_multiply": _team_multiply,
    "team_multiply_shared": _team_multiply_shared,
    "team_multiplied": _team_multiplied,
    "team_load": _team_load,
    **copy_steps(own_copies, note_access),
}
