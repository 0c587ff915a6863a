"""Choices by timing: where the compiler cannot know, the first launches on the user's own data try variants.

What is tried: how many iterations run in lanes (forms that give the same bits: `passes/lane_choice.py`), how many
threads take part. Launches are watched, by the launcher's machine code, until a kernel has run long enough to be worth
it; then its launches take turns between variants (each launch is one that the user asked for: nothing runs twice); then the
winner is installed, and kept on disk with the kernel's manifest. Arrays of other sizes have winners of their own: a
bucket of sizes spans a factor of four. Nothing here changes what a kernel computes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from quadrants.frontend.arguments import Argument
from quadrants.ir.types import ArrayType
from quadrants.program import Program
from quadrants.records import Record
from quadrants.runtime import threads
from quadrants.runtime.contest import Contest
from quadrants.runtime.launch import Binding, Watch

__all__ = ["Tuner", "Turn", "Variant"]

# Runs that take less than this many seconds are not tuned: launching is a part of them.
SHORTEST_RUN = 50e-6
# Seconds that a kernel has to run before variants are tried; for variants to compile, a multiple of what that costs.
SHORTEST_WATCH = 0.05
# Fewer threads may have won because others used the machine: after so many seconds, and runs, all threads try again.
TRUST, TRUSTED_RUNS = 5.0, 200
WATCH_FOR_COMPILE = 10.0
# Of the time with all threads, what a run on fewer may take to win: on a machine that others use, too, fewer threads are a
# little faster for a while; where meeting costs threads more than they gain, fewer are much faster.
FEWER_THREADS_PART = 0.7
_MOST_BINDINGS = 4


class Variant(Record):
    """Lanes and threads of a variant; 0 is the compiler's choice, and all threads."""

    lanes: int = 0
    threads: int = 0

    def __str__(self) -> str:
        named = [f"{self.lanes} lanes" if self.lanes > 1 else "no lanes"] if self.lanes else []
        named += [f"{self.threads} thread{'s' * (self.threads > 1)}"] if self.threads else []
        return ", ".join(named) or "as compiled"


_USUAL = Variant()


class _Bucket:
    """What is known of launches on arrays of about one size; `winner` is set when there is nothing left to find out."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.spent = 0.0
        self.runs = 0
        self.contest: Contest[Variant] | None = None
        self.is_about_threads = False
        self.winner: Variant | None = None
        self.times: dict[str, float] = {}
        self.bindings: list[Binding] = []  # several where arguments are known by identity

    @property
    def low(self) -> int:
        return 1 << (2 * self.number - 2) if self.number else 0

    @property
    def high(self) -> int:
        return 1 << (2 * self.number)

    def take_watched(self, seconds: float) -> None:
        """Takes over what the launcher counted. When so many seconds are reached, it asks Python each time, until other
        bindings are installed."""
        if seconds == math.inf:
            return
        blocks = [binding.block for binding in self.bindings if binding.block is not None]
        for block in blocks:
            self.spent, self.runs = self.spent + block.spent * 1e-9, self.runs + block.runs
            block.spent = block.runs = 0
        left = int((seconds - self.spent) * 1e9)
        for block in blocks:
            block.limit, block.spent = max(left, 1), int(left < 1)

    def installed(self, binding: Binding) -> None:
        """Notes who launches from now on."""
        self.bindings = [*self.bindings, binding][-_MOST_BINDINGS:]


class Turn:
    """One launch: the program to run, on how many threads at most (0: all)."""

    __slots__ = ("alone", "bucket", "program", "serial", "variant")

    def __init__(self, bucket: _Bucket, variant: Variant, program: Program, alone: bool, serial: int) -> None:
        self.bucket = bucket
        self.variant = variant
        self.program = program
        self.alone = alone
        self.serial = serial


class Tuner:
    """The choices of one compiled form. Not for several Python threads at once: the kernel's lock is around its methods.

    `variant_of(described, lanes, may_compile)` gives the form with so many lanes for the arguments at hand, None if it is
    not to be had. Winners go to `program.tuned`: (lanes, threads, times by name) by (bucket, threads of the pool), and
    `program.remember` keeps them on disk.
    """

    def __init__(
        self,
        program: Program,
        variant_of: Callable[[list[tuple[str, Argument]], int, bool], Program | None],
    ) -> None:
        self.program = program
        self.variant_of = variant_of
        self.buckets: dict[int, _Bucket] = {}
        self._programs: dict[int, Program] = {0: program}
        self._described: list[tuple[str, Argument]] = []
        self._running = 0
        self._serial = 0

    @property
    def variants(self) -> list[Variant]:
        """What to try, in this order: lanes, then half the threads (and if that wins, half of those…)."""
        return self._lanes() + self._fewer(_USUAL)

    def _lanes(self) -> list[Variant]:
        return [Variant(lanes) for lanes in self.program.lane_options]

    def _fewer(self, variant: Variant) -> list[Variant]:
        most = variant.threads or threads.count()
        return [Variant(variant.lanes, most // 2)] if self.program.threads_are_free and most > 1 else []

    def turn(self, frame: bytearray, described: list[tuple[str, Argument]]) -> Turn:
        """What the next launch runs, whose arguments are in that frame of the program."""
        self._described = described
        number = (elements(self.program, frame).bit_length() + 1) // 2
        bucket = self.buckets.get(number)
        if bucket is None:
            bucket = self.buckets[number] = self._begun(number)
        bucket.take_watched(self._limit(bucket))
        if bucket.contest is None and bucket.spent >= self._limit(bucket):
            self._begin_contest(bucket)
        variant = self._variant(bucket)
        self._described = []
        self._running += 1
        self._serial += 1
        return Turn(bucket, variant, self._programs[variant.lanes], self._running == 1, self._serial)

    def settle(self, turn: Turn, seconds: float) -> tuple[Program, Watch] | None:
        """After a launch that took so long: what later launches on such arrays run; None while turns are taken."""
        bucket = turn.bucket
        self._running -= 1
        if bucket.contest is None:
            bucket.spent, bucket.runs = bucket.spent + seconds, bucket.runs + 1
            if seconds < SHORTEST_RUN and bucket.runs == 1 and bucket.winner is None:
                bucket.winner = _USUAL
        elif turn.alone and turn.serial == self._serial:
            bucket.contest.note(turn.variant, seconds)
            self._advance(bucket)
        if bucket.contest is not None:
            return None
        winner, left = bucket.winner or _USUAL, self._limit(bucket) - bucket.spent
        if left == math.inf:
            return self._programs[winner.lanes], Watch(*self._span(bucket, winner), winner.threads)
        return self._programs[winner.lanes], Watch(
            bucket.low, bucket.high, winner.threads, limit=max(int(left * 1e9), 1)
        )

    def _span(self, bucket: _Bucket, winner: Variant) -> tuple[int, int]:
        """The sizes around a bucket's for which there is nothing left to find out, either, and the winner is the same: one
        binding is for all of them, so that kernels on arrays of many sizes stay in the launcher."""
        low, high = bucket, bucket
        while self._is_settled(low.number - 1, winner):
            low = self.buckets[low.number - 1]
        while self._is_settled(high.number + 1, winner):
            high = self.buckets[high.number + 1]
        return low.low, high.high

    def _is_settled(self, number: int, winner: Variant) -> bool:
        bucket = self.buckets.get(number)
        return bucket is not None and bucket.contest is None and bucket.winner == winner and not winner.threads

    def abandon(self, turn: Turn) -> None:
        """Instead of `settle`, after a launch that failed."""
        self._running -= 1

    def report(self) -> list[str]:
        """What is left to timing; what was tried and what won, a line for each bucket of sizes."""
        names = ", ".join(map(str, self._lanes()))
        lines = [f"tried once it has run for {self._watch_seconds():.2g} s: {names}"] if names else []
        for bucket in sorted(self.buckets.values(), key=lambda bucket: bucket.number):
            if bucket.times:
                tried = ", ".join(f"{name} {seconds * 1e3:.3f} ms" for name, seconds in bucket.times.items())
                state = f"kept: {bucket.winner}" if bucket.winner is not None else "not decided yet"
                lines.append(f"arrays of {bucket.low} to {bucket.high - 1} elements: {tried}; {state}")
        return lines

    def _begun(self, number: int) -> _Bucket:
        """A bucket with what an earlier process found out."""
        bucket = _Bucket(number)
        kept = self.program.tuned.get((number, threads.count()))
        if kept is not None:
            lanes, limit, times = kept
            if self._has(lanes, False):
                bucket.winner, bucket.times, bucket.is_about_threads = Variant(lanes, limit), dict(times), True
        return bucket

    def _has(self, lanes: int, may_compile: bool) -> bool:
        if lanes not in self._programs:
            program = self.variant_of(self._described, lanes, may_compile)
            if program is None:
                return False
            program.tuner = self
            self._programs[lanes] = program
        return True

    def _watch_seconds(self) -> float:
        compiling = sum(self.program.times.values()) * len(self.program.lane_options)
        return max(SHORTEST_WATCH, WATCH_FOR_COMPILE * compiling)

    def _limit(self, bucket: _Bucket) -> float:
        """Seconds of running after which a contest begins."""
        if bucket.winner is None:
            return self._watch_seconds()
        if not bucket.winner.threads:
            return math.inf
        return max(TRUST, TRUSTED_RUNS * bucket.times.get(str(bucket.winner), 0.0))

    def _begin_contest(self, bucket: _Bucket) -> None:
        if bucket.winner is not None:
            bucket.contest = Contest(bucket.winner, [Variant(bucket.winner.lanes)])
            return
        if bucket.spent < SHORTEST_RUN * bucket.runs or not self.variants:
            bucket.winner = _USUAL
            return
        bucket.contest = Contest(_USUAL, self._lanes())
        self._advance(bucket)

    def _variant(self, bucket: _Bucket) -> Variant:
        while bucket.contest is not None:
            variant = bucket.contest.turn()
            if self._has(variant.lanes, True):
                return variant
            bucket.contest.drop(variant)
            self._advance(bucket)
        return bucket.winner or _USUAL

    def _advance(self, bucket: _Bucket) -> None:
        """After the contest of lanes comes that of threads; when that is decided, the winner is kept."""
        contest = bucket.contest
        assert contest is not None
        bucket.times.update({str(variant): seconds for variant, seconds in contest.times.items()})
        if contest.is_over and not bucket.is_about_threads:
            bucket.is_about_threads = True
            contest = bucket.contest = Contest(
                contest.champion, self._fewer(contest.champion), self._fewer, FEWER_THREADS_PART
            )
        if contest.is_over:
            bucket.winner, bucket.contest = contest.champion, None
            bucket.spent, bucket.runs = 0.0, 0
            self.program.tuned[bucket.number, threads.count()] = (
                bucket.winner.lanes,
                bucket.winner.threads,
                list(bucket.times.items()),
            )
            if self.program.remember is not None:
                self.program.remember(self.program.tuned)


def elements(program: Program, frame: bytearray) -> int:
    """Elements of the arrays among the arguments, all together, as the launcher counts them."""
    total = 0
    count = len(program.frame.parameters) - len(program.captured)
    for type_, offset in zip(program.frame.parameter_types[:count], program.frame.parameters):
        if type(type_) is ArrayType:
            total += math.prod(struct.unpack_from(f"<{type_.rank}q", frame, offset + 8))
    return total
