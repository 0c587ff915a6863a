"""Which variant wins, by times that the tests make up."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.runtime.contest import ROUNDS, Contest


def held(contest: Contest[str], seconds: Callable[[str, int], float]) -> list[str]:
    """Runs a contest; gives the labels in the order in which they ran."""
    ran: list[str] = []
    while not contest.is_over:
        label = contest.turn()
        ran.append(label)
        contest.note(label, seconds(label, len(ran)))
        assert len(ran) < 1000
    return ran


def test_the_faster_one_wins_after_taking_turns() -> None:
    contest = Contest("old", ["new"])
    ran = held(contest, lambda label, _: {"old": 2.0, "new": 1.0}[label])
    assert ran == ["old", "new"] * (ROUNDS + 1)
    assert contest.champion == "new"
    assert contest.times == {"old": 2.0, "new": 1.0}


def test_a_tie_and_a_lucky_run_leave_the_champion() -> None:
    contest = Contest("old", ["new"])
    held(contest, lambda label, _: {"old": 1.0, "new": 0.98}[label])
    assert contest.champion == "old"
    contest = Contest("old", ["new"])
    held(contest, lambda label, run: 0.5 if (label, run) == ("new", 6) else 1.0)
    assert contest.champion == "old"


def test_the_first_run_of_each_side_only_warms_up() -> None:
    contest = Contest("old", ["new"])
    held(contest, lambda label, run: 9.0 if run == 1 else 1.0 if label == "old" else 0.5)
    assert contest.champion == "new"
    assert contest.times["old"] == 1.0


def test_a_hopeless_challenger_is_not_run_again() -> None:
    contest = Contest("old", ["slow", "slower"])
    ran = held(contest, lambda label, _: {"old": 1.0, "slow": 2.0, "slower": 100.0}[label])
    assert ran.count("slow") == 2
    assert ran.count("slower") == 1
    assert contest.champion == "old"
    assert contest.times["slower"] == 100.0


def test_a_winner_brings_further_challengers() -> None:
    contest = Contest(8, [4], lambda won: [won // 2] if won > 1 else [])
    while not contest.is_over:
        label = contest.turn()
        contest.note(label, {8: 4.0, 4: 3.0, 2: 2.0, 1: 2.5}[label])
    assert contest.champion == 2
    assert set(contest.times) == {8, 4, 2, 1}


def test_challengers_that_cannot_run_are_dropped_and_strangers_ignored() -> None:
    contest = Contest("old", ["missing"])
    contest.note("stranger", 0.0)
    contest.drop("missing")
    assert contest.is_over
    assert contest.champion == "old"
    assert Contest("alone", []).is_over


def test_the_part_that_a_challenger_has_to_save() -> None:
    contest = Contest("all", ["few"], part=0.7)
    held(contest, lambda label, run: {"all": 1.0, "few": 0.75}[label])
    assert contest.champion == "all"
    contest = Contest("all", ["few"], part=0.7)
    held(contest, lambda label, run: {"all": 1.0, "few": 0.6}[label])
    assert contest.champion == "few"
