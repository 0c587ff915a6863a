"""Which launches of a graph wait for which."""

from __future__ import annotations

import random
import struct

from quadrants.targets.llvm import graph_order
from quadrants.targets.llvm.graph_order import LOOP_BEGINS, LOOP_ENDS, Reach, is_row, mask_of, reach_of, waits


def part(low: int, high: int, is_written: bool = True) -> tuple[int, int, bool]:
    return low, high, is_written


def test_launches_that_share_nothing_that_is_written_wait_for_nobody() -> None:
    assert waits([(part(0, 4),), (part(4, 8),), (part(8, 12), part(0, 4, False)), (part(0, 4, False),)]) == [
        (),
        (),
        (0,),
        (0,),
    ]


def test_what_is_waited_for_already_is_not_named() -> None:
    steps: list[Reach | str | None] = [(part(0, 4),), (part(0, 8),), (part(0, 4), part(4, 8)), (part(4, 8, False),)]
    assert waits(steps) == [(), (0,), (1,), (2,)]


def test_a_launch_without_a_reach_is_where_all_meet() -> None:
    assert waits([(part(0, 4),), (part(4, 8),), None, (part(8, 9),), (part(9, 10),), None, None]) == [
        (),
        (),
        (0, 1),
        (2,),
        (2,),
        (3, 4),
        (5,),
    ]


def test_loops_are_where_all_meet_and_have_an_order_of_their_own() -> None:
    steps = [
        (part(0, 4),),
        (part(4, 8),),
        LOOP_BEGINS,  # 2
        (part(0, 4),),
        (part(4, 8),),
        LOOP_BEGINS,  # 5
        LOOP_ENDS,
        (part(8, 9),),
        LOOP_ENDS,  # 8
        (part(0, 4),),
        LOOP_BEGINS,  # 10
        LOOP_ENDS,
    ]
    order = waits(steps)
    assert order == [(), (), (0, 1), (), (), (3, 4), (), (5,), (7,), (2,), (9,), ()]
    assert not is_row(steps, order)
    row = [
        (part(0, 4),),
        LOOP_BEGINS,
        (part(0, 4),),
        None,
        (part(0, 4),),
        LOOP_ENDS,
        (part(0, 1),),
        LOOP_BEGINS,
        LOOP_ENDS,
    ]
    assert is_row(row, waits(row))


def test_the_reach_of_arrays_with_any_strides() -> None:
    frame = struct.pack("<q2q2q", 1000, 3, 5, -40, 8) + struct.pack("<qqq", 5000, 0, 4) + struct.pack("<q", 7000)
    accesses = ((0, 2, 8, True), (40, 1, 4, False), (64, 0, 2, False))
    assert reach_of(accesses, frame) == ((920, 1040, True), (5000, 5004, False), (7000, 7002, False))


def test_where_a_frame_says_what_is_reached_is_known() -> None:
    """Address, sizes and strides: a launch in which others differ may have to wait for others."""
    mask = mask_of(((8, 2, 4, True), (64, 0, 8, False)), 80)
    assert mask.raw == b"\0" * 8 + b"\xff" * 40 + b"\0" * 16 + b"\xff" * 8 + b"\0" * 8


def test_of_many_launches_between_two_meetings_one_waits_for_all() -> None:
    """So the time that it takes to compare them grows with their number, not with its square."""
    count = graph_order._MOST
    order = waits([(part(number, number + 1),) for number in range(count + 3)])
    assert order[:count] == [()] * count
    assert order[count:] == [tuple(range(count)), (count,), (count,)]


def ancestors(order: list[tuple[int, ...]], number: int) -> set[int]:
    found = set(order[number])
    for other in order[number]:
        found |= ancestors(order, other)
    return found


def test_whatever_meets_is_in_order_and_nothing_else_is() -> None:
    """Random launches: two are in order if and only if launches that meet lead from one to the other."""
    source = random.Random(7)
    for _ in range(150):
        count = source.randint(1, 12)
        reaches = []
        for _ in range(count):
            starts = [source.randint(0, 30) for _ in range(source.randint(0, 3))]
            reaches.append(tuple([part(low, low + source.randint(1, 4), source.random() < 0.5) for low in starts]))
        order = waits(list(reaches))
        for late in range(count):
            meets = {
                early
                for early in range(late)
                if any(a[0] < b[1] and b[0] < a[1] and (a[2] or b[2]) for a in reaches[early] for b in reaches[late])
            }
            leads = set(meets)
            for early in meets:
                leads |= ancestors(order, early)
            assert ancestors(order, late) == leads
