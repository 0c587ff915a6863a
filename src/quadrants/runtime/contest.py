"""Which of several variants is the fastest, by running them in turn: decisions only, without clocks or kernels.

A variant is any hashable label. The champion and one challenger run alternately, so that both see what the data and the
machine do meanwhile; the challenger takes over only if it is clearly faster by its best time and by its median.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["ROUNDS", "Contest"]

# Timed runs of each side of a duel, after one that only warms up.
ROUNDS = 5
# A challenger has to take at most such a part of the champion's best time, and of the median a little more.
_PART, _MORE = 0.95, 0.02
# A challenger whose time is that many times the champion's best is not run again; so for the run that warms up.
_HOPELESS, _HOPELESS_AT_FIRST = 1.5, 3.0

Label = TypeVar("Label", bound=Hashable)


class Contest(Generic[Label]):
    """A champion and those who challenge it, one after another.

    The caller runs `turn()` and tells `note` how long that took, until `is_over`; `champion` is then the winner. `follow`
    gives further challengers when one has won. `part`: of the champion's times, what a challenger may take at most to win.
    `times`: the best time of every label that ran.
    """

    def __init__(
        self,
        champion: Label,
        challengers: Iterable[Label],
        follow: Callable[[Label], Iterable[Label]] | None = None,
        part: float = _PART,
    ) -> None:
        self.champion = champion
        self._part = part
        self.times: dict[Label, float] = {}
        self._waiting = list(challengers)
        self._follow = follow
        self._sides: dict[Label, list[float]] = {}
        self._next_duel()

    @property
    def is_over(self) -> bool:
        return not self._sides

    def turn(self) -> Label:
        """The label to run now: the side of the duel with fewer runs, the champion first."""
        return min(self._sides, key=lambda label: len(self._sides[label])) if self._sides else self.champion

    def note(self, label: Label, seconds: float) -> None:
        """Takes the time of a run. Runs of labels that are not in the present duel count for nothing."""
        runs = self._sides.get(label)
        if runs is None:
            return
        runs.append(seconds)
        if len(runs) > 1:
            self.times[label] = min(seconds, self.times.get(label, seconds))
        if label != self.champion and self._is_hopeless(runs):
            self.times.setdefault(label, seconds)
            self._next_duel()
        elif all(len(side) > ROUNDS for side in self._sides.values()):
            self._decide()

    def drop(self, label: Label) -> None:
        """Takes a challenger out that cannot run."""
        if label in self._sides and label != self.champion:
            self._next_duel()

    def _is_hopeless(self, runs: list[float]) -> bool:
        old = self._sides[self.champion]
        if not old:
            return False
        return runs[-1] > min(old) * (_HOPELESS if len(runs) > 1 else _HOPELESS_AT_FIRST)

    def _decide(self) -> None:
        (challenger,) = [label for label in self._sides if label != self.champion]
        old, new = self._sides[self.champion][1:], self._sides[challenger][1:]
        is_faster = min(new) < self._part * min(old)
        if is_faster and _median(new) < (self._part + _MORE) * _median(old):
            self.champion = challenger
            following = self._follow(challenger) if self._follow is not None else ()
            self._waiting[:0] = [label for label in following if label not in self.times]
        self._next_duel()

    def _next_duel(self) -> None:
        self._sides = {self.champion: [], self._waiting.pop(0): []} if self._waiting else {}


def _median(times: list[float]) -> float:
    """The median, without the import of `statistics`, which takes a first compile 3 ms."""
    ordered = sorted(times)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
