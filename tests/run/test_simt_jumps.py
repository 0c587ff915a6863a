"""Threads that leave loops one by one while members of their subgroups meet there, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsSyntaxError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]
block, subgroup = qd.simt.block, qd.simt.subgroup


def test_loops_left_by_break() -> None:
    """Whoever has left counts as absent in the votes and sums of those who go on."""

    @qd.kernel
    def rounds(x, y):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            left = x[i]
            n = 0
            for k in range(20):
                if left == 0:
                    break
                left -= 1
                if left % 3 == 1:
                    continue
                y[0, i] += qd.math.popcnt(subgroup.ballot(True))
                if k >= 6:
                    y[1, i] = k
                    break
                n += subgroup.reduce_add(k)
            y[2, i] = n
            y[3, i] = left
            if x[i] == 5:
                continue
            y[4, i] = qd.math.popcnt(subgroup.ballot(left == 0))

    x = np.random.default_rng(2).integers(0, 12, 80).astype(np.int32)
    y = np.zeros((5, 80), np.int32)
    rounds(x, y)
    want = np.zeros_like(y)
    for first in range(0, 80, 32):
        team = range(first, min(first + 32, 80))
        left, on = {i: int(x[i]) for i in team}, set(team)
        for k in range(20):
            on = {i for i in on if left[i] > 0}
            for i in on:
                left[i] -= 1
            here = [i for i in on if left[i] % 3 != 1]
            for i in here:
                want[0, i] += len(here)
            if k >= 6:
                for i in here:
                    want[1, i] = k
                on -= set(here)
                here = []
            for i in here:
                want[2, i] += k * len(here)
        there = [i for i in team if x[i] != 5]
        for i in team:
            want[3, i] = left[i]
        for i in there:
            want[4, i] = sum(left[j] == 0 for j in there)
    assert (y == want).all()


def test_while_loops_left_by_break() -> None:
    @qd.kernel
    def search(x, y):
        qd.loop_config(block_dim=96)
        for i in range(len(x)):
            v = x[i]
            steps = 0
            while True:
                if subgroup.all_true(v == 1):
                    break
                if v == 1:
                    break
                v = v // 2 if v % 2 == 0 else 3 * v + 1
                steps += 1
            y[0, i] = steps
            k = 0
            while subgroup.any_true(k < x[i] % 5):
                k += 1
                if k > x[i] % 4:
                    break
            y[1, i] = k
            y[2, i] = subgroup.reduce_max(k)

    x = np.random.default_rng(3).integers(1, 30, 120).astype(np.int32)
    y = np.zeros((3, 120), np.int32)
    search(x, y)

    def steps(v):
        n = 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            n += 1
        return n

    assert y[0].tolist() == [steps(int(v)) for v in x]
    for first in range(0, 120, 32):
        team = range(first, min(first + 32, 120))
        k, on = dict.fromkeys(team, 0), set(team)
        while on and any(k[i] < x[i] % 5 for i in on):
            for i in on:
                k[i] += 1
            on = {i for i in on if k[i] <= x[i] % 4}
        assert y[1, first : first + 32].tolist() == list(k.values())
        assert (y[2, first : first + 32] == max(k.values())).all()


def test_break_in_functions_and_inner_loops() -> None:
    @qd.func
    def first_above(x, start, limit):
        found = -1
        for k in range(start, start + 16):
            if subgroup.all_true(x[k % len(x)] < 0):
                return -2
            if x[k % len(x)] > limit:
                found = k
                break
        return found + subgroup.reduce_add(1)

    @qd.kernel
    def run(x, y):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            for q in range(3):
                for p in range(4):
                    if x[i] + q > p + 8:
                        continue
                    if p == 2:
                        break
                    y[1, i] += subgroup.reduce_add(p + 1)
                block.sync()
            y[0, i] = first_above(x, i, 8)

    x = np.random.default_rng(4).integers(0, 12, 64).astype(np.int32)
    y = np.zeros((2, 64), np.int32)
    run(x, y)
    want = np.zeros_like(y)
    for i in range(64):
        want[0, i] = next((k for k in range(i, i + 16) if x[k % 64] > 8), -1) + 32
    for first in (0, 32):
        team = range(first, first + 32)
        for q in range(3):
            on = set(team)
            for p in range(4):
                here = {i for i in on if x[i] + q <= p + 8}
                if p == 2:
                    on -= here
                    continue
                for i in here:
                    want[1, i] += (p + 1) * len(here)
    assert (y == want).all()


def test_loops_that_whole_blocks_meet_in_are_not_left_one_by_one() -> None:
    @qd.kernel
    def parted(x):
        for i in range(len(x)):
            for k in range(4):
                if x[i] == k:
                    break
                x[i] += subgroup.reduce_add(k)
                block.sync()

    with pytest.raises(QuadrantsSyntaxError, match=r"some threads of a block would leave here[\s\S]*if x\[i\] == k"):
        parted(np.zeros(3, np.int32))

    @qd.kernel
    def ended(x):
        for i in range(len(x)):
            if x[i] == 1:
                continue
            x[i] = subgroup.reduce_add(1)
            block.sync()

    with pytest.raises(QuadrantsSyntaxError, match=r"some threads of a block would leave here[\s\S]*if x\[i\] == 1"):
        ended(np.zeros(3, np.int32))

    @qd.kernel
    def nest(x):
        for i in range(len(x)):
            for k, q in qd.ndrange(4, 4):
                if x[i] == k:
                    break
                x[i] += subgroup.reduce_add(q)

    with pytest.raises(QuadrantsSyntaxError, match="some threads of a block would leave here"):
        nest(np.zeros(3, np.int32))
